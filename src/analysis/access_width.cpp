// How wide a thread's accesses can be: the least of what base, strides, the tile, and (where elements are masked) the
// extent divide by. docs/compiler/divisibility.md.
#include <algorithm>
#include <bit>

#include "tessera/analysis/divisibility.hpp"

namespace tessera::analysis {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

constexpr int kVectorZeros = 4;  // 16 bytes, the widest load and store of a thread (PTX ISA, ld.global.v4.b32)

/// Numbers of a tensor view, static ones as they are: log2 of what they divide by.
class ViewNumbers {
 public:
  ViewNumbers(const Operation& tensor, const Divisibility& known) {
    const ir::Type type = tensor.result().type();
    const auto fill = [&](auto numbers, const std::vector<Value>& dynamic, std::vector<int>& zeros) {
      std::size_t next = 0;
      for (const std::int64_t n : numbers)
        zeros.push_back(n == ir::kDynamic ? known.of(dynamic[next++]).zeros()
                        : n == 0          ? 63
                                          : std::countr_zero(bits(n)));
    };
    fill(type.shape(), tensor.group("dynamicShape"), shape);
    fill(type.strides(), tensor.group("dynamicStrides"), strides);
  }
  std::vector<int> shape, strides;

 private:
  static std::uint64_t bits(std::int64_t n) { return static_cast<std::uint64_t>(n); }
};

bool inside(const Operation& access, std::size_t axis, std::int64_t tile, std::int64_t extent) {
  if (extent != ir::kDynamic && extent % tile == 0) return true;
  const ir::Attribute* flags = access.attr(AttrName::inbounds);
  return flags && flags->as<ir::BoolArrayAttr>()->values[axis];
}

/// log2 of what the right sides of a mask's comparisons divide by, through `and` and shape operations: of `i < count`
/// those of count.
int mask_zeros(Value mask, const Divisibility& known) {
  const Operation* def = mask.def();
  if (def == nullptr) return 0;
  switch (def->op()) {
    case Op::AndI:
    case Op::OrI: return std::min(mask_zeros(def->operand(0), known), mask_zeros(def->operand(1), known));
    case Op::Broadcast:
    case Op::Reshape: return mask_zeros(def->operand(0), known);
    case Op::CmpI: return known.of(def->operand(1)).zeros();
    default: return 0;
  }
}

/// Of a tile of pointers: offsets that are a multiple of something are those of rows, one sort of others counts
/// elements.
std::int64_t pointer_bytes(const Operation& access, const Divisibility& known) {
  Value p = access.operand(0);
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
  if (const Value mask = access.single("mask")) zeros = std::min(zeros, mask_zeros(mask, known) + element);
  return std::int64_t{1} << std::max(zeros, element);
}

}  // namespace

std::int64_t vector_bytes(const Operation& access, const Divisibility& known) {
  if (access.op() == Op::LoadPtrTko || access.op() == Op::StorePtrTko) return pointer_bytes(access, known);
  if (access.op() != Op::LoadViewTko && access.op() != Op::StoreViewTko) return 0;
  const Operation* view = access.single("view").def();
  if (view == nullptr || view->op() != Op::MakePartitionView) return 0;
  const Operation* tensor = view->operand(0).def();
  if (tensor == nullptr || tensor->op() != Op::MakeTensorView) return 0;
  const ir::Type type = view->result().type(), viewed = tensor->result().type();
  const auto tile = type.tile_shape();
  const auto axis_of = [&](std::size_t a) { return static_cast<std::size_t>(type.dim_map()[a]); };
  const std::int64_t bytes = ir::info(viewed.elem()).bytes;
  const int element = std::countr_zero(static_cast<std::uint64_t>(bytes));
  std::size_t contiguous = tile.size();
  for (std::size_t a = 0; a < tile.size(); ++a)
    if (viewed.strides()[axis_of(a)] == 1 && tile[a] > 1) contiguous = a;
  if (contiguous == tile.size()) return bytes;

  const ViewNumbers numbers(*tensor, known);
  const std::vector<Value> index = access.group("index");
  int zeros = std::min(kVectorZeros, known.of(tensor->single("base")).zeros()) - element;
  for (std::size_t a = 0; a < tile.size(); ++a) {
    const int extent = std::countr_zero(static_cast<std::uint64_t>(tile[a]));
    if (a == contiguous) {
      zeros = std::min(zeros, extent);
      if (!inside(access, a, tile[a], viewed.shape()[axis_of(a)])) zeros = std::min(zeros, numbers.shape[axis_of(a)]);
    } else {
      const int stride = numbers.strides[axis_of(a)];
      zeros = std::min(zeros, tile[a] > 1 ? stride : stride + known.of(index[a]).zeros());
    }
  }
  return bytes << std::max(zeros, 0);
}

}  // namespace tessera::analysis
