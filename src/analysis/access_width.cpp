// The width of a thread's accesses: the minimum of the alignments of base, strides, the tile, and (where elements are
// masked) the extent. docs/compiler/divisibility.md.
#include <algorithm>
#include <bit>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analysis/low_bits.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/analysis/values.hpp"

namespace tessera::analysis {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// log2 of the largest known power of two that divides an extent or stride.
int zeros_of(const ViewNumber& n, const Divisibility& known) {
  if (!n.is_fixed()) return known.of(n.value).zeros();
  return n.fixed == 0 ? 63 : std::countr_zero(static_cast<std::uint64_t>(n.fixed));
}

/// The same for the right sides of a mask's comparisons (count of `i < count`), through `and` and shape operations.
/// Comparisons that are the same for all elements of the last axis cover whole vectors.
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

/// Operations on offsets that count: neighbours along the last axis stay neighbours.
bool keeps_neighbours(Op op) {
  switch (op) {
    case Op::Iota:
    case Op::Constant:
    case Op::AddI:
    case Op::SubI:
    case Op::ExtI:
    case Op::TruncI:
    case Op::Broadcast:
    case Op::Reshape:
    case Op::Assume: return true;
    default: return false;
  }
}

/// What a loop carries as argument `arg` of its body: the initial and the next values.
std::vector<Value> carried_as(Value arg) {
  const Operation* loop = arg.argument_block()->parent();
  if (!loop || (loop->op() != Op::For && loop->op() != Op::Loop)) return {};
  const std::size_t carried = arg.index() - first_carried_arg(*loop);
  std::vector<Value> values{loop->operand(first_carried_operand(*loop) + carried)};
  ir::walk(loop->region(0), [&](const Operation& op) {
    if (op.op() != Op::Continue) return;
    const Operation* of = op.parent_op();
    while (of && of->op() != Op::For && of->op() != Op::Loop) of = of->parent_op();
    if (of == loop) values.push_back(op.operand(carried));
  });
  return values;
}

/// True if elements along the last axis of `offsets` are computed or loaded, each by itself: a gather of elements.
bool picks_elements(Value offsets) {
  std::unordered_set<const ir::ValueImpl*> seen;
  std::vector<Value> work{offsets};
  while (!work.empty()) {
    const Value v = work.back();
    work.pop_back();
    const Operation* def = v.def();
    if (!v.type().is_tile() || v.type().rank() == 0 || v.type().shape().back() == 1 || !seen.insert(v.impl()).second)
      continue;
    if (def != nullptr && !keeps_neighbours(def->op())) return true;
    if (def == nullptr)
      for (const Value value : carried_as(v)) work.push_back(value);
    else
      for (const Value operand : def->operand_values()) work.push_back(operand);
  }
  return false;
}

/// What is known of the first element of each row of a tile of offsets, a row being the elements along the last axis:
/// where rows that count elements one by one begin.
class RowStarts {
 public:
  explicit RowStarts(const Divisibility& known) : known_(known) {}

  /// Assumes the initial values of what loops carry, and looks again where a loop changes what was assumed of them.
  /// What is known only ever gets less, so this ends.
  LowBits of(Value offsets) {
    for (;;) {
      done_.clear();
      changed_ = false;
      const LowBits found = start(offsets);
      if (!changed_) return found;
    }
  }

 private:
  LowBits start(Value v) {
    const bool one = !v.type().is_tile() || v.type().rank() == 0 || v.type().shape().back() == 1;
    if (one) return known_.of(v);
    if (const auto it = done_.find(v.impl()); it != done_.end()) return it->second;
    const LowBits found = v.def() != nullptr ? computed(*v.def(), v) : carried(v);
    done_[v.impl()] = found;
    return found;
  }
  LowBits computed(const Operation& op, Value v) {
    switch (op.op()) {
      case Op::Iota: return low_bits::exact(0, 64);
      case Op::AddI: return low_bits::add(start(op.operand(0)), start(op.operand(1)));
      case Op::SubI: return low_bits::sub(start(op.operand(0)), start(op.operand(1)));
      case Op::ExtI:
      case Op::Assume:
      case Op::Broadcast: return start(op.operand(0));
      case Op::TruncI: return low_bits::cut(start(op.operand(0)), ir::info(v.type().elem()).bits);
      case Op::Reshape: {  // rows may begin within rows of what is reshaped
        const auto from = op.operand(0).type().shape();
        const LowBits before = start(op.operand(0));
        if (from.empty() || from.back() == v.type().shape().back() || from.back() == 1) return before;
        return low_bits::cut(before, std::countr_zero(static_cast<std::uint64_t>(v.type().shape().back())));
      }
      default: return known_.of(v);
    }
  }
  LowBits carried(Value v) {
    const std::vector<Value> values = carried_as(v);
    if (values.empty()) return known_.of(v);
    const auto [it, first] = assumed_.try_emplace(v.impl());
    if (first) it->second = start(values.front());
    const LowBits assumed = it->second;
    done_[v.impl()] = assumed;
    LowBits all = assumed;
    for (const Value value : values) all = low_bits::meet(all, start(value));
    if (all == assumed) return assumed;
    changed_ = true;
    return assumed_[v.impl()] = all;
  }

  const Divisibility& known_;
  std::unordered_map<const ir::ValueImpl*, LowBits> done_, assumed_;
  bool changed_ = false;
};

/// The minimum so far, as log2 of elements or bytes, and its cause.
struct Least {
  int zeros = 0;
  WidthLimit limit = WidthLimit::None;
  void take(int other, WidthLimit why) {
    if (other < zeros) zeros = other, limit = why;
  }
};

/// The cause of what is known of a sum of an address and `offset`. The pass match_widths adds a zero that is not
/// recognised as one (passes/opaque.hpp).
WidthLimit limit_of_offset(Value offset) {
  const Operation* zero = offset.def();
  const bool added =
      zero && zero->op() == Op::Select && constant_int(zero->operand(1)) == 0 && constant_int(zero->operand(2)) == 1;
  return added ? WidthLimit::Matched : WidthLimit::Base;
}
WidthLimit limit_of_base(Value base) {
  const Operation* assume = base.def();
  const Operation* sum = assume && assume->op() == Op::Assume ? assume->operand(0).def() : nullptr;
  return sum && sum->op() == Op::Offset ? limit_of_offset(sum->operand(1)) : WidthLimit::Base;
}

/// The scalar that is repeated in a tile; null if its elements may differ.
Value repeated_scalar(Value tile) {
  while (tile.type().rank() > 0) {
    const Operation* def = tile.def();
    if (def == nullptr || (def->op() != Op::Broadcast && def->op() != Op::Reshape)) return {};
    tile = def->operand(0);
  }
  return tile;
}

/// For pointer tiles: aligned offsets are those of rows; exactly one other term may count elements, from where its rows
/// begin.
AccessWidth pointer_width(const Access& access, const Divisibility& known) {
  Value p = access.pointers;
  const std::int64_t bytes = ir::info(p.type().pointee().elem()).bytes;
  const int element = std::countr_zero(static_cast<std::uint64_t>(bytes));
  Least least{kVectorZeros};
  int counting = 0;
  while (const Operation* def = p.def()) {
    if (def->op() == Op::Offset && p.type().rank() > 0) {
      const int of_offset = known.of(def->operand(1)).zeros();
      if (const Value scalar = repeated_scalar(def->operand(1)))
        least.take(known.of(scalar).zeros() + element, limit_of_offset(scalar));
      else if (of_offset > 0)
        least.take(of_offset + element, WidthLimit::Stride);
      else if (picks_elements(def->operand(1)))
        counting += 2;
      else {
        ++counting;
        least.take(RowStarts(known).of(def->operand(1)).zeros() + element, WidthLimit::Base);
      }
    } else if (def->op() != Op::Broadcast && def->op() != Op::Reshape) {
      break;
    }
    p = def->operand(0);
  }
  if (counting > 1 || p.type().rank() > 0) return {bytes, bytes, WidthLimit::Scattered};
  least.take(known.of(p).zeros(), limit_of_base(p));
  const std::int64_t in_bounds = std::int64_t{1} << std::max(least.zeros, element);
  if (access.mask) least.take(mask_zeros(access.mask, known) + element, WidthLimit::Mask);
  return {std::int64_t{1} << std::max(least.zeros, element), in_bounds, least.limit};
}

AccessWidth view_width(const Operation& op, const Access& access, const Operation& tensor, const Divisibility& known) {
  const ir::Type type = access.view.type(), viewed = tensor.result().type();
  const auto tile = type.tile_shape();
  const auto axis_of = [&](std::size_t a) { return static_cast<std::size_t>(type.dim_map()[a]); };
  const std::int64_t bytes = ir::info(viewed.elem()).bytes;
  const int element = std::countr_zero(static_cast<std::uint64_t>(bytes));
  std::size_t contiguous = tile.size();
  for (std::size_t a = 0; a < tile.size(); ++a)
    if (viewed.strides()[axis_of(a)] == 1 && tile[a] > 1) contiguous = a;
  if (contiguous == tile.size()) return {bytes, bytes, WidthLimit::Scattered};

  const std::vector<TensorAxis> axes = axes_of(tensor);
  const std::vector<bool> inside = axes_in_bounds(op);
  Least least{kVectorZeros - element};
  const Value base = tensor.single("base");
  least.take(known.of(base).zeros() - element, limit_of_base(base));
  for (std::size_t a = 0; a < tile.size(); ++a) {
    const TensorAxis& axis = axes[axis_of(a)];
    if (a == contiguous) {
      least.take(std::countr_zero(static_cast<std::uint64_t>(tile[a])), WidthLimit::Tile);
    } else {
      const int stride = zeros_of(axis.stride, known);
      least.take(tile[a] > 1 ? stride : stride + known.of(access.index[a]).zeros(), WidthLimit::Stride);
    }
  }
  const std::int64_t in_bounds = bytes << std::max(least.zeros, 0);
  if (!inside[contiguous]) least.take(zeros_of(axes[axis_of(contiguous)].extent, known), WidthLimit::Mask);
  return {bytes << std::max(least.zeros, 0), in_bounds, least.limit};
}

}  // namespace

AccessWidth width_of(const Operation& op, const Divisibility& known) {
  const auto access = access_of(op);
  if (!access || access->kind == AccessKind::Atomic) return {};
  if (!access->view) return pointer_width(*access, known);
  const Operation* tensor = tensor_behind(access->view);
  return tensor == nullptr ? AccessWidth{} : view_width(op, *access, *tensor, known);
}

std::int64_t vector_bytes(const Operation& op, const Divisibility& known) { return width_of(op, known).bytes; }

}  // namespace tessera::analysis
