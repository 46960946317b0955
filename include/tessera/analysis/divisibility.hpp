// The known low bits of a kernel's integers and addresses: the power of two that divides them, or the remainder.
// docs/compiler/divisibility.md.
#pragma once
#include <cstdint>
#include <unordered_map>

#include "tessera/ir/operation.hpp"

namespace tessera::analysis {

/// "value mod 2^known is low". Nothing is known with known = 0; a constant has all bits of its type known.
struct LowBits {
  int known = 0;
  std::uint64_t low = 0;
  bool operator==(const LowBits&) const = default;
  /// log2 of the largest power of two that certainly divides the value; 63 for zero.
  int zeros() const;
};

/// The low bits of every integer of a function, of a scalar or of all elements of a tile; of pointers, of the address
/// in bytes. Wrapping at the type's width does not change low bits, so nothing here needs a condition on
/// the launch. Guarantees of the launch are in the module as `assume div_by` (passes::apply_claims).
class Divisibility {
 public:
  explicit Divisibility(const ir::Function&);
  /// Unknown for values that are neither integers nor pointers, or were made after the analysis.
  LowBits of(ir::Value) const;

 private:
  std::unordered_map<const ir::ValueImpl*, LowBits> known_;
};

/// Bytes of the widest load and store of a thread (PTX ISA, ld.global.v4.b32), and their log2.
inline constexpr int kVectorBytes = 16, kVectorZeros = 4;

/// What keeps a thread's accesses narrow.
enum class WidthLimit {
  None,       ///< nothing: they are 16 bytes wide
  Base,       ///< where the tile begins
  Matched,    ///< the pass match_widths: it is combined with tiles of wider elements, or with narrow accesses
  Stride,     ///< how far its rows are from each other
  Mask,       ///< where the tensor ends along the contiguous axis
  Tile,       ///< how long the tile is along that axis
  Scattered,  ///< elements are not contiguous, or are not known to be
};
struct AccessWidth {
  std::int64_t bytes = 0;  ///< that a thread moves at a time: vector_bytes()
  /// What it would be if no element were outside (no WidthLimit::Mask): a tensor copy finds the end itself, and
  /// needs 16.
  std::int64_t in_bounds = 0;
  WidthLimit limit = WidthLimit::None;
};
/// Of a load or store; 0 bytes for other operations.
AccessWidth width_of(const ir::Operation& access, const Divisibility&);

/// Bytes that a thread can move at a time through `access`, a load or store through a partition view or through
/// pointers made from one: 16, or less where the base, a stride, or (if elements may lie outside along the contiguous
/// axis) its extent is not known to be a multiple. The size of an element for views without an axis of stride 1; 0 for
/// other operations.
std::int64_t vector_bytes(const ir::Operation& access, const Divisibility&);

}  // namespace tessera::analysis
