// Atomic operations of a tile on one place become a reduction and one atomic operation. The memory executes atomic
// operations on one address one after the other; a block reduces its own elements in registers.
//
//   places: tile<8x128xptr>, the same along axis 0      =>      places: tile<1x128xptr>
//   atomic add places, x: tile<8x128>                           atomic add places, sum(x, axis 0): tile<1x128>
//
// Kernels write such operations themselves, and coarsen_blocks makes them of pieces that add to the same places.
// docs/compiler/combine_atomics.md#reduce_atomics.
#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "passes/values.hpp"
#include "tessera/ir/semantics.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AtomicMode;
using ir::AttrName;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Signedness;
using ir::Type;
using ir::Value;

namespace {

using Shape = std::vector<std::int64_t>;

/// How the elements of a tile are combined as an atomic operation would combine them with memory.
struct Combiner {
  Op op;
  ir::Attribute identity;
  std::optional<Signedness> signedness;  ///< of extremes
};

std::optional<Combiner> combiner_of(AtomicMode mode, Elem elem) {
  const int bits = ir::info(elem).bits;
  const auto integer = [&](Op op, std::int64_t identity, std::optional<Signedness> signedness = {}) {
    return Combiner{op, ir::IntAttr{elem, identity}, signedness};
  };
  const std::int64_t largest = std::numeric_limits<std::int64_t>::max() >> (64 - bits);
  switch (mode) {
    case AtomicMode::Add: return integer(Op::AddI, 0);
    case AtomicMode::AddF: return Combiner{Op::AddF, ir::FloatAttr{elem, ir::from_double(elem, -0.0)}, {}};
    case AtomicMode::Max: return integer(Op::MaxI, -largest - 1, Signedness::Signed);
    case AtomicMode::Min: return integer(Op::MinI, largest, Signedness::Signed);
    case AtomicMode::UMax: return integer(Op::MaxI, 0, Signedness::Unsigned);
    case AtomicMode::UMin: return integer(Op::MinI, -1, Signedness::Unsigned);
    case AtomicMode::And: return integer(Op::AndI, -1);
    case AtomicMode::Or: return integer(Op::OrI, 0);
    case AtomicMode::Xor: return integer(Op::XOrI, 0);
    default: return std::nullopt;
  }
}

/// The axis of a reshaped tile's operand that `axis` of its result is, where only axes of extent 1 come and go.
std::optional<std::size_t> axis_before(const Operation& reshape, std::size_t axis) {
  const auto from = reshape.operand(0).type().shape(), to = reshape.result().type().shape();
  std::size_t a = 0;
  std::optional<std::size_t> found;
  for (std::size_t b = 0; b < to.size(); ++b) {
    if (to[b] == 1) continue;
    while (a < from.size() && from[a] == 1) ++a;
    if (a == from.size() || from[a] != to[b]) return std::nullopt;
    if (b == axis) found = a;
    ++a;
  }
  return found;
}

/// Values that are the same along an axis of their tile, by the operations that compute them.
class SameAlong {
 public:
  bool has(Value v, std::size_t axis) {
    if (v.type().shape()[axis] == 1) return true;
    const Operation* op = v.def();
    if (op == nullptr) return false;
    if (const auto known = known_.find({v.impl(), axis}); known != known_.end()) return known->second;
    bool same = op->op() == Op::Constant && splat_bits(v).has_value();
    if (op->op() == Op::Broadcast || (is_elementwise(*op) && op->num_operands() > 0))
      same = std::ranges::all_of(op->operands(), [&](const ir::OpOperand& o) { return has(o.value, axis); });
    if (op->op() == Op::Reshape) {
      const auto before = axis_before(*op, axis);
      same = before && has(op->operand(0), *before);
    }
    return known_[{v.impl(), axis}] = same;
  }

  /// The first element along the axis of such a value: a tile with an extent of 1 there.
  Value first(Builder& b, Value v, std::size_t axis) {
    if (v.type().shape()[axis] == 1) return v;
    if (const auto made = made_.find({v.impl(), axis}); made != made_.end()) return made->second;
    return made_[{v.impl(), axis}] = rebuilt(b, *v.def(), v.type(), axis);
  }

 private:
  Value rebuilt(Builder& b, const Operation& op, Type wide, std::size_t axis) {
    Shape shape(wide.shape().begin(), wide.shape().end());
    shape[axis] = 1;
    const Type results[] = {wide.with_shape(shape)};
    if (op.op() == Op::Broadcast) return broadcast_to(b, first(b, op.operand(0), axis), shape);
    if (op.op() == Op::Assume) return first(b, op.operand(0), axis);  // it may be about places along the axis
    const std::size_t before = op.op() == Op::Reshape ? *axis_before(op, axis) : axis;
    std::vector<Value> operands;
    for (const ir::OpOperand& o : op.operands()) operands.push_back(first(b, o.value, before));
    Operation* made = b.create(op.op(), operands, results);
    for (const ir::NamedAttr& a : op.attrs()) made->set_attr(a.name, a.value);
    if (op.op() == Op::Constant) {
      ir::DenseAttr data = *op.attr(AttrName::value)->as<ir::DenseAttr>();
      data.type = results[0];
      made->set_attr(AttrName::value, data);
    }
    return made->result();
  }

  std::map<std::pair<const ir::ValueImpl*, std::size_t>, bool> known_;
  std::map<std::pair<const ir::ValueImpl*, std::size_t>, Value> made_;
};

/// The combination of all elements along `axis`, which stays with an extent of 1.
Value reduced(Builder& b, Value v, std::size_t axis, const Combiner& how) {
  Shape line(v.type().shape().begin(), v.type().shape().end()), rest = line;
  line[axis] = 1;
  rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(axis));
  const Type element = v.type().with_shape({});
  Operation* made = b.create(Op::Reduce, {v}, {v.type().with_shape(rest)},
                             {{AttrName::dim, ir::IntAttr{Elem::I64, static_cast<std::int64_t>(axis)}},
                              {AttrName::identities, ir::ArrayAttr{{how.identity}}}});
  ir::Block& body = made->add_region();
  const Value x = body.add_arg(element), y = body.add_arg(element);
  Builder inner(body);
  inner.loc = b.loc;
  Operation* both = inner.create(how.op, {x, y}, {element});
  if (how.signedness) both->set_attr(AttrName::signedness, *how.signedness);
  inner.create(Op::Yield, {both->result()}, {});
  return b.create(Op::Reshape, {made->result()}, {v.type().with_shape(line)})->result();
}

Value filled(Builder& b, Type type, const ir::Attribute& element) {
  if (const auto* n = element.as<ir::IntAttr>()) return b.constant_int(type.elem(), n->value, type.shape());
  return b.constant_float(type.elem(), -0.0, type.shape());
}

/// The atomic operation with one element along `axis`, along which it had one place.
Operation* with_one_along(Operation& op, std::size_t axis, SameAlong& same, const Combiner& how) {
  Builder b = Builder::before(&op);
  b.loc = op.loc;
  Value value = op.operand(1), mask;
  const auto masks = op.group("mask");
  if (!masks.empty() && same.has(masks[0], axis)) {
    mask = same.first(b, masks[0], axis);
  } else if (!masks.empty()) {
    value = b.create(Op::Select, {masks[0], value, filled(b, value.type(), how.identity)}, {value.type()})->result();
    mask = reduced(b, masks[0], axis, *combiner_of(AtomicMode::Or, Elem::I1));
  }
  std::vector<Value> operands{same.first(b, op.operand(0), axis), reduced(b, value, axis, how)};
  if (mask) operands.push_back(mask);
  const std::uint32_t groups[] = {1, 1, mask ? 1U : 0U, 0};
  const Type types[] = {operands[1].type(), Type::token()};
  Operation* made = b.create_grouped(Op::AtomicRMWTko, operands, groups, types);
  for (const ir::NamedAttr& a : op.attrs()) made->set_attr(a.name, a.value);
  op.erase();
  return made;
}

/// f16 and bf16 are left alone: a sum of many of them would round otherwise than one by one.
std::optional<Combiner> combiner_of(const Operation& op) {
  if (op.op() != Op::AtomicRMWTko || op.result(0).has_uses() || op.result(1).has_uses() || !op.group("token").empty())
    return std::nullopt;
  const Elem elem = op.operand(1).type().elem();
  if (ir::info(elem).is_float && ir::info(elem).bits < 32) return std::nullopt;
  return combiner_of(op.enum_attr<AtomicMode>(AttrName::mode), elem);
}

bool reduce(Operation* op) {
  bool changed = false;
  const auto how = combiner_of(*op);
  for (std::size_t axis = how ? op->operand(0).type().shape().size() : 0; axis-- > 0;) {
    SameAlong same;
    if (op->operand(0).type().shape()[axis] == 1 || !same.has(op->operand(0), axis)) continue;
    op = with_one_along(*op, axis, same, *how);
    changed = true;
  }
  return changed;
}

}  // namespace

bool is_reduced(const Operation& atomic) { return combiner_of(atomic).has_value(); }

bool reduce_atomics(ir::Function& f) {
  std::vector<Operation*> all;
  bool scans = false;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::AtomicRMWTko) all.push_back(&op);
    scans = scans || op.op() == Op::Scan;
  });
  if (scans) return false;  // beside a reduction of several rows they would be expanded (expand_scans)
  bool changed = false;
  for (Operation* op : all) changed = reduce(op) || changed;
  return changed;
}

}  // namespace tessera::passes
