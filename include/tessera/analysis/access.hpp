// One representation of loads, stores and atomic updates for analyses and passes, whichever IR operation it is.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

enum class AccessKind : std::uint8_t { Load, Store, Atomic };

struct Access {
  const ir::Operation* op = nullptr;
  AccessKind kind = AccessKind::Load;
  ir::Type tile;                 ///< the tile that is loaded, stored or combined with memory
  ir::Value view;                ///< null for pointers
  std::vector<ir::Value> index;  ///< into the view; empty for pointers
  ir::Value pointers;            ///< null for views
  ir::Value mask, padding;       ///< of pointers; null: none
  ir::Value value;               ///< what is stored or combined; null for loads
  ir::Value token, token_out;    ///< the token it waits for (null: none), and the token it makes

  bool loads() const { return kind == AccessKind::Load; }
  bool stores() const { return kind == AccessKind::Store; }
  /// True for a load or store through a view, which may be `inbounds`.
  bool through_view() const { return view && kind != AccessKind::Atomic; }
  /// True for a load without token dependences.
  bool unordered_load() const { return loads() && !token && !token_out.has_uses(); }
  /// The view or the pointers.
  ir::Value reached_through() const { return view ? view : pointers; }
};
/// nullopt for operations that are not accesses.
std::optional<Access> access_of(const ir::Operation&);
/// The same, of kind Load or Store through a view; nullopt for anything else.
std::optional<Access> view_access_of(const ir::Operation&);

bool is_access(const ir::Operation&);
bool is_load(const ir::Operation&);
/// A load or a store through a view.
bool is_view_access(const ir::Operation&);
/// A load without a token operand whose token is unused.
bool is_unordered_load(const ir::Operation&);

/// A number of a tensor view: static, or a value.
struct ViewNumber {
  std::int64_t fixed = ir::kDynamic;
  ir::Value value;
  bool is_fixed() const { return !value; }
};
struct TensorAxis {
  ViewNumber extent, stride;
};
/// The axes of a tensor view. `make` is a make_tensor_view.
std::vector<TensorAxis> axes_of(const ir::Operation& make);

/// The make_tensor_view of a partition view; null for other views, and where it is unknown.
const ir::Operation* tensor_behind(ir::Value view);

/// Which axes of a partition view's access are known to stay inside the tensor: those marked `inbounds`, and those
/// where a legal tile index is enough (tiles of extent 1, static extents that the tile divides). Empty for other views.
std::vector<bool> axes_in_bounds(const ir::Operation& access);

/// True if two partition views cut their tensors into equal tiles along the same axes.
bool same_tiles(ir::Type view, ir::Type other);

}  // namespace tessera::analysis
