// References to tensors and pieces of a recording. A kernel's objects (In, Mut, ...) hold them. A reference gives the
// right to read or write its tensor, so a kernel can neither create one nor take it out of an object.
//
// Recording is one kernel while it is being recorded: its tensors, its block number, its requirements. Parameter
// objects (In, Mut,
// ...) are thin handles to it; everything that needs no template is in the functions of access.hpp.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/base/element.hpp"
#include "tessera/base/source_location.hpp"
#include "tessera/ir/value.hpp"

namespace tessera {

/// As the element type of an Acc: sums of T that are exact until they are rounded, once (acc.hpp).
template <class T>
struct reproducible {
  static_assert(!std::is_integral_v<T>,
                "sums of integers have the same bits in every run as they are: write Acc<i64, ...> or Acc<i32, ...>");
  static_assert(
      std::is_same_v<T, f32> || std::is_integral_v<T>,
      "reproducible sums are of f32: write Acc<reproducible<f32>, ...> and add cast<f32>(value), which rounds "
      "values of f64");
  /// Numbers of i64 for each sum, as the first axis of the tensor.
  static constexpr int bins = 10;
};

namespace detail {
template <class T>
inline constexpr bool is_reproducible = false;
template <class T>
inline constexpr bool is_reproducible<reproducible<T>> = true;
}  // namespace detail

/// What an Acc has as its element type.
template <class T>
concept Accumulated = Element<T> || detail::is_reproducible<T>;

// The classes that hold references.
template <Element T, int... E>
class In;
template <Element T, int... D>
class TileGrid;
template <Element T, int... D>
class Piece;
template <Element T, int... D>
class JointPiece;
template <Element T, class PieceShape, int... S>
class SubTiles;
template <Element T, int... D>
class Mut;
template <Element T, int... D>
class MutTiles;
template <Accumulated T, int... E>
class Acc;
template <Accumulated T, int... D>
class AccTiles;
namespace detail {
template <Element T, int... D>
class ScheduledTiles;
}
namespace unsafe_ {
template <Element T, int... D>
class Mut;
namespace detail {
class Promise;
}
}  // namespace unsafe_

namespace lang {

class Recording;
enum class ParamKind : std::uint8_t;
namespace detail {
template <class P, ParamKind Kind, class T, int... E>
struct TensorParam;
}

/// A reference to an object of one recording. Using it in another recording, or after its own has ended, is a
/// TraceError.
class RecordedName {
 public:
  std::uint32_t recording() const { return recording_; }
  std::uint32_t number() const { return number_; }
  /// Accesses through it are claimed to be in bounds (unsafe_::assume_inbounds).
  bool inbounds() const { return inbounds_; }

 protected:
  RecordedName(std::uint32_t recording, std::uint32_t number, bool inbounds)
      : recording_(recording), number_(number), inbounds_(inbounds) {}

 private:
  friend class unsafe_::detail::Promise;
  std::uint32_t recording_, number_;
  bool inbounds_;
};

/// A reference to a tensor.
class TensorRef : public RecordedName {
  friend class Recording;
  TensorRef(std::uint32_t recording, std::uint32_t number, bool inbounds) : RecordedName(recording, number, inbounds) {}
};
/// A reference to one block's piece of a mutable tensor.
class PieceRef : public RecordedName {
  friend class Recording;
  PieceRef(std::uint32_t recording, std::uint32_t number, bool inbounds) : RecordedName(recording, number, inbounds) {}
};

/// Creates the objects that hold references, and gives those objects access to the references.
class HandleAccess {
  template <Element T, int... E>
  friend class tessera::In;
  template <Element T, int... D>
  friend class tessera::TileGrid;
  template <Element T, int... D>
  friend class tessera::Piece;
  template <Element T, int... D>
  friend class tessera::JointPiece;
  template <Element T, int... D>
  friend class tessera::MutTiles;
  template <Accumulated T, int... E>
  friend class tessera::Acc;
  template <Element T, int... D>
  friend class tessera::detail::ScheduledTiles;
  template <Element T, int... D>
  friend class tessera::unsafe_::Mut;
  friend class tessera::unsafe_::detail::Promise;
  template <class P, ParamKind Kind, class T, int... E>
  friend struct detail::TensorParam;

  template <class Handle, class... A>
  static Handle make(const A&... arguments) {
    return Handle(arguments...);
  }
  template <class Handle>
  static auto ref(const Handle& handle) {
    return handle.ref();
  }
};

}  // namespace lang
}  // namespace tessera

namespace tessera::lang {

struct ParamInfo;
struct Specialization;
struct Trace;

class Recording {
 public:
  /// Starts recording on this thread: creates the entry's arguments for `params` (first_arg and spelling are filled
  /// in).
  Recording(std::string name, std::vector<ParamInfo> params, const Specialization&, SourceLocation where);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  TensorRef tensor(int param) const;        ///< parameter `param`, which is a tensor; InternalError if it is none
  PieceRef piece(int param) const;          ///< parameter `param`, which is a Mut or unsafe_::Mut; same
  ir::Value argument(int param) const;      ///< parameter `param`, which is a Scalar or a pointer
  std::uint64_t constant(int param) const;  ///< bits of parameter `param`, which is a Constant

  /// Called when the parameter objects exist, and when the kernel function has returned.
  void begin_body();
  Trace finish();

  struct Impl;
  Impl& impl() { return *impl_; }

 private:
  /// Not for kernels: it gives references to their tensors.
  friend Impl& state();
  /// The innermost recording of this thread; throws TraceError outside a kernel.
  static Recording& current();
  void prepare();
  std::unique_ptr<Impl> impl_;
  Recording* outer_ = nullptr;
};

/// The readable name of a kernel out of the compiler's text for `trace<K>` (a label only: compilers differ).
std::string kernel_label(const char* pretty_function);
/// The readable name of a type out of the compiler's text for a function template of it (a label only).
std::string type_label(const char* pretty_function);

}  // namespace tessera::lang
