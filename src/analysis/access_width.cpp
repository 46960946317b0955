// How wide a thread's accesses can be: the least of what base, strides, the tile, and (where elements are masked) the
// extent divide by. docs/compiler/divisibility.md.
#include <algorithm>
#include <bit>
#include <unordered_set>
#include <vector>

#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"

namespace tessera::analysis {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr int kVectorZeros = 4;  // 16 bytes, the widest load and store of a thread (PTX ISA, ld.global.v4.b32)

/// log2 of what a number of a tensor view divides by.
int zeros_of(const ViewNumber& n, const Divisibility& known) {
  if (!n.is_fixed()) return known.of(n.value).zeros();
  return n.fixed == 0 ? 63 : std::countr_zero(static_cast<std::uint64_t>(n.fixed));
}

/// log2 of what the right sides of a mask's comparisons divide by, through `and` and shape operations: of `i < count`
/// those of count. Comparisons that are the same for all elements of the last axis cover whole vectors.
int mask_zeros(Value mask, const Divisibility& known) {
  int zeros = 63;
  std::unordered_set<const ir::ValueImpl*> seen;
  std::vector<Value> work{mask};
  while (!work.empty() && zeros > 0) {
    const Value part = work.back();
    work.pop_back();
    if (!seen.insert(part.impl()).second) continue;
    const Operation* def = part.def();
    const Op op = def == nullptr ? Op::Return : def->op();
    if (op == Op::AndI || op == Op::OrI) {
      for (const Value side : def->operand_values()) work.push_back(side);
    } else if (op == Op::Broadcast || op == Op::Reshape) {
      const auto from = def->operand(0).type().shape(), to = part.type().shape();
      const bool repeats = op == Op::Broadcast && !from.empty() && from.back() == 1 && to.back() > 1;
      if (!repeats) work.push_back(def->operand(0));
    } else {
      zeros = op == Op::CmpI ? std::min(zeros, known.of(def->operand(1)).zeros()) : 0;
    }
  }
  return zeros;
}

/// Of a tile of pointers: offsets that are a multiple of something are those of rows, one sort of others counts
/// elements.
std::int64_t pointer_bytes(const Access& access, const Divisibility& known) {
  Value p = access.pointers;
  const std::int64_t bytes = ir::info(p.type().pointee().elem()).bytes;
  const int element = std::countr_zero(static_cast<std::uint64_t>(bytes));
  int zeros = kVectorZeros, counting = 0;
  while (const Operation* def = p.def()) {
    if (def->op() == Op::Offset && p.type().rank() > 0) {
      const int of_offset = known.of(def->operand(1)).zeros();
      if (of_offset > 0)
        zeros = std::min(zeros, of_offset + element);
      else
        ++counting;
    } else if (def->op() != Op::Broadcast && def->op() != Op::Reshape) {
      break;
    }
    p = def->operand(0);
  }
  if (counting > 1 || p.type().rank() > 0) return bytes;
  zeros = std::min(zeros, known.of(p).zeros());
  if (access.mask) zeros = std::min(zeros, mask_zeros(access.mask, known) + element);
  return std::int64_t{1} << std::max(zeros, element);
}

}  // namespace

std::int64_t vector_bytes(const Operation& op, const Divisibility& known) {
  const auto access = access_of(op);
  if (!access || access->kind == AccessKind::Atomic) return 0;
  if (!access->view) return pointer_bytes(*access, known);
  const Operation* tensor = tensor_behind(access->view);
  if (tensor == nullptr) return 0;
  const ir::Type type = access->view.type(), viewed = tensor->result().type();
  const auto tile = type.tile_shape();
  const auto axis_of = [&](std::size_t a) { return static_cast<std::size_t>(type.dim_map()[a]); };
  const std::int64_t bytes = ir::info(viewed.elem()).bytes;
  const int element = std::countr_zero(static_cast<std::uint64_t>(bytes));
  std::size_t contiguous = tile.size();
  for (std::size_t a = 0; a < tile.size(); ++a)
    if (viewed.strides()[axis_of(a)] == 1 && tile[a] > 1) contiguous = a;
  if (contiguous == tile.size()) return bytes;

  const std::vector<TensorAxis> axes = axes_of(*tensor);
  const std::vector<bool> inside = axes_in_bounds(op);
  int zeros = std::min(kVectorZeros, known.of(tensor->single("base")).zeros()) - element;
  for (std::size_t a = 0; a < tile.size(); ++a) {
    const TensorAxis& axis = axes[axis_of(a)];
    if (a == contiguous) {
      zeros = std::min(zeros, std::countr_zero(static_cast<std::uint64_t>(tile[a])));
      if (!inside[a]) zeros = std::min(zeros, zeros_of(axis.extent, known));
    } else {
      const int stride = zeros_of(axis.stride, known);
      zeros = std::min(zeros, tile[a] > 1 ? stride : stride + known.of(access->index[a]).zeros());
    }
  }
  return bytes << std::max(zeros, 0);
}

}  // namespace tessera::analysis
