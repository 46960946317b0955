// Tiles that are multiplied as a batch of one lose the axis of the batch. For a product of three axes the assembler
// uses neither WGMMA nor shared memory as a source of operands. docs/compiler/drop_unit_axes.md.
//
//   a = load A : 1x128x64, b = load B : 1x64x128      a = load A : 1x128x64, b = load B : 1x64x128
//   sum = mma(a, b, sum) : 1x128x128            =>    sum = mma(reshape(a), reshape(b), sum) : 128x128
//   store C, cast(sum)                                store C, reshape(cast(sum))
//
// Axes of extent 1 form classes: those that operations require to agree. A class is dropped as a whole, from all its
// tiles, if it has the batch of a product. An operation that needs an axis, such as a load through a view, keeps it,
// and a reshape stands between.
#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "passes/values.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

std::size_t rank_of(Value v) { return v && v.type().is_tile() ? static_cast<std::size_t>(v.type().rank()) : 0; }
bool is_unit(Value v, std::size_t axis) { return axis < rank_of(v) && v.type().shape()[axis] == 1; }

/// Classes of axes of extent 1 (union-find). A node is an axis of a value.
class UnitAxes {
 public:
  explicit UnitAxes(ir::Function& f);

  bool any_dropped() const { return any_; }
  bool dropped(Value v, std::size_t axis) const;
  /// The type of `v` without its dropped axes; `kept` are axes that stay.
  Type without(Value v, const std::vector<std::size_t>& kept = {}) const;

 private:
  std::size_t node(Value v, std::size_t axis);
  std::size_t root(std::size_t n) const;
  void join(Value x, std::size_t i, Value y, std::size_t k);
  void join(Value x, Value y);
  void join_all(const Operation& op);
  void join_shape(const Operation& op);
  void join_control(const Operation& op);
  void join_product(const Operation& op);

  std::unordered_map<const ir::ValueImpl*, std::size_t> first_;  ///< node of axis 0
  std::vector<std::size_t> parent_;
  std::vector<bool> drops_;  ///< of roots
  std::vector<std::size_t> batches_;
  bool any_ = false;
};

std::size_t UnitAxes::node(Value v, std::size_t axis) {
  const auto [at, added] = first_.emplace(v.impl(), parent_.size());
  if (added)
    for (std::size_t a = 0; a < rank_of(v); ++a) parent_.push_back(parent_.size());
  return at->second + axis;
}

std::size_t UnitAxes::root(std::size_t n) const {
  while (parent_[n] != n) n = parent_[n];
  return n;
}

void UnitAxes::join(Value x, std::size_t i, Value y, std::size_t k) {
  if (!is_unit(x, i) || !is_unit(y, k)) return;
  const std::size_t from = root(node(x, i)), to = root(node(y, k));
  parent_[std::max(from, to)] = std::min(from, to);
}

/// Every axis of two tiles of one rank.
void UnitAxes::join(Value x, Value y) {
  if (rank_of(x) != rank_of(y)) return;
  for (std::size_t a = 0; a < rank_of(x); ++a) join(x, a, y, a);
}

void UnitAxes::join_product(const Operation& op) {
  if (rank_of(op.result()) != 3) return;
  for (const Value operand : op.operand_values()) join(op.result(), 0, operand, 0);
  for (const std::size_t axis : {std::size_t{1}, std::size_t{2}}) join(op.result(), axis, op.operand(2), axis);
  if (is_unit(op.result(), 0)) batches_.push_back(node(op.result(), 0));
}

/// The values that a region hands on, and what they become.
void UnitAxes::join_control(const Operation& op) {
  if (op.op() == Op::For || op.op() == Op::Loop) {
    const std::size_t operand = analysis::first_carried_operand(op), argument = analysis::first_carried_arg(op);
    for (std::size_t i = 0; operand + i < op.num_operands(); ++i) {
      join(op.operand(operand + i), op.region(0).arg(argument + i));
      if (op.op() == Op::For) join(op.region(0).arg(argument + i), op.result(i));
    }
  } else if (op.op() == Op::Continue || op.op() == Op::Break) {
    const Operation* loop = op.parent_op();
    while (loop && loop->op() != Op::For && loop->op() != Op::Loop) loop = loop->parent_op();
    for (std::size_t i = 0; loop && i < op.num_operands(); ++i) {
      const std::size_t argument = analysis::first_carried_arg(*loop) + i;
      join(op.operand(i), op.op() == Op::Break ? loop->result(i) : loop->region(0).arg(argument));
    }
  } else if (op.op() == Op::If) {
    for (std::size_t r = 0; r < op.num_regions(); ++r) {
      const Operation* end = op.region(r).terminator();
      if (!end || end->op() != Op::Yield) continue;
      for (std::size_t i = 0; i < op.num_results(); ++i) join(end->operand(i), op.result(i));
    }
  }
}

void UnitAxes::join_shape(const Operation& op) {
  const Value result = op.result(0);
  switch (op.op()) {
    case Op::Broadcast: return join(op.operand(0), result);
    case Op::Permute: {
      const auto& order = op.attr(AttrName::permutation)->as<ir::I32ArrayAttr>()->values;
      for (std::size_t a = 0; a < order.size(); ++a) join(op.operand(0), static_cast<std::size_t>(order[a]), result, a);
      return;
    }
    case Op::Reduce:
    case Op::Scan: {
      const auto dim = static_cast<std::size_t>(op.int_attr(AttrName::dim));
      for (const Value operand : op.operand_values()) {
        join(op.operand(0), operand);
        for (std::size_t i = 0; i < op.num_results(); ++i)
          for (std::size_t a = 0; a < rank_of(operand); ++a)
            if (a != dim) join(operand, a, op.result(i), op.op() == Op::Reduce && a > dim ? a - 1 : a);
      }
      return;
    }
    case Op::Cat:
      for (std::size_t a = 0; a < rank_of(result); ++a)
        for (const Value operand : op.operand_values()) join(operand, a, result, a);
      return;
    case Op::Extract: return join(op.operand(0), result);
    case Op::Insert: join(op.operand(0), op.operand(1)); return join(op.operand(1), result);
    default: return;
  }
}

/// True for accesses through pointers: all their tiles have one shape.
bool by_pointers(const Operation& op) {
  return op.op() == Op::LoadPtrTko || op.op() == Op::StorePtrTko || op.op() == Op::AtomicRMWTko ||
         op.op() == Op::AtomicCASTko;
}
bool has_one_shape(const Operation& op) { return is_elementwise(op) || by_pointers(op); }

void UnitAxes::join_all(const Operation& op) {
  if (analysis::is_product(op)) return join_product(op);
  if (has_one_shape(op)) {
    if (op.num_operands() == 0) return;
    for (const Value operand : op.operand_values()) join(op.operand(0), operand);
    for (std::size_t i = 0; i < op.num_results(); ++i) join(op.operand(0), op.result(i));
    return;
  }
  join_control(op);
  if (op.num_results() > 0) join_shape(op);
}

UnitAxes::UnitAxes(ir::Function& f) {
  ir::walk(f.body(), [&](const Operation& op) {
    if (analysis::is_product(op)) join_product(op);
  });
  if (batches_.empty()) return;
  ir::walk(f.body(), [&](const Operation& op) {
    if (!analysis::is_product(op)) join_all(op);
  });
  drops_.resize(parent_.size());
  for (const std::size_t batch : batches_) drops_[root(batch)] = true;
  any_ = true;
}

bool UnitAxes::dropped(Value v, std::size_t axis) const {
  const auto at = first_.find(v.impl());
  return at != first_.end() && is_unit(v, axis) && drops_[root(at->second + axis)];
}

Type UnitAxes::without(Value v, const std::vector<std::size_t>& kept) const {
  if (!v || rank_of(v) == 0) return v ? v.type() : Type();
  std::vector<std::int64_t> shape;
  for (std::size_t a = 0; a < rank_of(v); ++a)
    if (!dropped(v, a) || std::ranges::find(kept, a) != kept.end()) shape.push_back(v.type().shape()[a]);
  return v.type().with_shape(shape);
}

using Axes = std::vector<std::size_t>;

Axes all_axes(Value v) {
  Axes axes(rank_of(v));
  for (std::size_t a = 0; a < axes.size(); ++a) axes[a] = a;
  return axes;
}

/// Axes of extent 1 where `other` is longer.
Axes shorter_axes(Value v, Value other) {
  Axes axes;
  for (std::size_t a = 0; a < rank_of(v); ++a)
    if (is_unit(v, a) && !is_unit(other, a)) axes.push_back(a);
  return axes;
}

/// The axes of `v`, an operand or result of `op`, that `op` cannot do without.
Axes needed_axes(const Operation& op, Value v) {
  if (analysis::is_product(op)) {
    const auto rank = rank_of(v);
    return {rank - 2, rank - 1};
  }
  if (op.op() == Op::Assume) {
    const auto* multiple = op.attr(AttrName::predicate)->as<ir::DivByAttr>();
    return multiple && multiple->along ? Axes{static_cast<std::size_t>(*multiple->along)} : Axes{};
  }
  if (has_one_shape(op)) return {};
  const auto dim = [&] { return static_cast<std::size_t>(op.int_attr(AttrName::dim)); };
  const bool is_result = v.def() == &op;
  switch (op.op()) {
    case Op::Constant:
    case Op::Reshape:
    case Op::Permute:
    case Op::For:
    case Op::Loop:
    case Op::If:
    case Op::Continue:
    case Op::Break:
    case Op::Yield: return {};
    case Op::Broadcast: return is_result ? Axes{} : shorter_axes(v, op.result());
    case Op::Reduce: return is_result ? Axes{} : Axes{dim()};
    case Op::Scan:
    case Op::Cat: return {dim()};
    case Op::Extract: return is_result ? shorter_axes(v, op.operand(0)) : Axes{};
    case Op::Insert: return v == op.operand(0) ? shorter_axes(v, op.result()) : Axes{};
    default: return all_axes(v);
  }
}

/// Rewrites the tiles of a kernel.
class Dropper {
 public:
  Dropper(ir::Function& f, const UnitAxes& axes) : axes_(axes) {
    ir::walk(f.body(), [&](Operation& op) { plan(op); });
  }
  void rewrite() {
    for (Planned& p : planned_) rewrite_attributes(p);
    for (Planned& p : planned_) retype(*p.op);
    for (Planned& p : planned_) reshape_results(p);
    for (Planned& p : planned_) reshape_operands(p);
    for (Planned& p : planned_) forward(*p.op);
  }

 private:
  /// An operation, and the types of its operands and results as it takes and makes them.
  struct Planned {
    Operation* op;
    std::vector<Type> operands, results;
    std::vector<std::size_t> without;  ///< axes that attributes and indices lose
  };

  static Value reshape(ir::Builder b, const Operation& op, Value v, Type type) {
    b.loc = op.loc;
    return b.create(Op::Reshape, {v}, {type})->result();
  }

  void plan(Operation& op);
  void rewrite_attributes(Planned& p);
  void drop_indices(Planned& p);
  void retype(Operation& op);
  void reshape_results(Planned& p);
  void reshape_operands(Planned& p);
  static void forward(Operation& op);

  const UnitAxes& axes_;
  std::vector<Planned> planned_;
  std::unordered_map<const ir::ValueImpl*, Type> types_;
};

/// The value whose axes the attributes of `op` number.
Value numbered_by(const Operation& op) {
  switch (op.op()) {
    case Op::Extract:
    case Op::Reduce:
    case Op::Scan:
    case Op::Cat:
    case Op::Assume:
    case Op::Permute: return op.operand(0);
    case Op::Insert: return op.operand(1);
    case Op::Constant: return op.result();
    default: return {};
  }
}

void Dropper::plan(Operation& op) {
  Planned p{&op, {}, {}, {}};
  bool changed = false;
  const auto note = [&](Value v) {
    const Type type = v ? axes_.without(v, needed_axes(op, v)) : Type();
    changed = changed || (v && (type != v.type() || axes_.without(v) != v.type()));
    if (v) types_.emplace(v.impl(), axes_.without(v));
    return type;
  };
  for (const Value v : op.operand_values()) p.operands.push_back(note(v));
  for (std::size_t i = 0; i < op.num_results(); ++i) p.results.push_back(note(op.result(i)));
  for (std::size_t r = 0; r < op.num_regions(); ++r)
    for (std::size_t i = 0; i < op.region(r).num_args(); ++i) note(op.region(r).arg(i));
  if (const Value v = numbered_by(op)) {
    const Axes needed = needed_axes(op, v);
    for (std::size_t a = 0; a < rank_of(v); ++a)
      if (axes_.dropped(v, a) && std::ranges::find(needed, a) == needed.end()) p.without.push_back(a);
  }
  if (changed) planned_.push_back(std::move(p));
}

/// How far axis `axis` moves to the left.
std::int64_t fewer_before(const std::vector<std::size_t>& without, std::int64_t axis) {
  return std::ranges::count_if(without, [&](std::size_t a) { return static_cast<std::int64_t>(a) < axis; });
}

void Dropper::rewrite_attributes(Planned& p) {
  Operation& op = *p.op;
  if (const ir::Attribute* dim = op.attr(AttrName::dim)) {
    const ir::IntAttr before = *dim->as<ir::IntAttr>();
    op.set_attr(AttrName::dim, ir::IntAttr{before.type, before.value - fewer_before(p.without, before.value)});
  } else if (op.op() == Op::Constant) {
    ir::DenseAttr data = *op.attr(AttrName::value)->as<ir::DenseAttr>();
    data.type = p.results[0];
    op.set_attr(AttrName::value, std::move(data));
  } else if (op.op() == Op::Permute) {
    ir::I32ArrayAttr order;
    for (const std::int32_t axis : op.attr(AttrName::permutation)->as<ir::I32ArrayAttr>()->values)
      if (std::ranges::find(p.without, static_cast<std::size_t>(axis)) == p.without.end())
        order.values.push_back(axis - static_cast<std::int32_t>(fewer_before(p.without, axis)));
    op.set_attr(AttrName::permutation, std::move(order));
  } else if (op.op() == Op::Assume) {
    const ir::Attribute predicate = *op.attr(AttrName::predicate);
    if (const auto* multiple = predicate.as<ir::DivByAttr>(); multiple && multiple->along) {
      ir::DivByAttr moved = *multiple;
      moved.along = *multiple->along - fewer_before(p.without, *multiple->along);
      op.set_attr(AttrName::predicate, moved);
    } else if (const auto* same = predicate.as<ir::SameElementsAttr>()) {
      ir::SameElementsAttr fewer = *same;
      for (auto a = p.without.rbegin(); a != p.without.rend(); ++a)
        fewer.values.erase(fewer.values.begin() + static_cast<std::ptrdiff_t>(*a));
      op.set_attr(AttrName::predicate, std::move(fewer));
    }
  } else if (op.op() == Op::Extract || op.op() == Op::Insert) {
    drop_indices(p);
  }
}

void Dropper::drop_indices(Planned& p) {
  if (p.without.empty()) return;
  Operation& op = *p.op;
  std::vector<Value> values = op.operand_values();
  const std::size_t first = values.size() - op.group("indices").size();
  for (auto a = p.without.rbegin(); a != p.without.rend(); ++a) {
    values.erase(values.begin() + static_cast<std::ptrdiff_t>(first + *a));
    p.operands.erase(p.operands.begin() + static_cast<std::ptrdiff_t>(first + *a));
  }
  std::vector<std::uint32_t> sizes(op.group_sizes().begin(), op.group_sizes().end());
  sizes.back() = static_cast<std::uint32_t>(values.size() - first);
  op.set_operands(values, sizes);
}

void Dropper::retype(Operation& op) {
  for (std::size_t i = 0; i < op.num_results(); ++i) op.result(i).set_type(types_.at(op.result(i).impl()));
  for (std::size_t r = 0; r < op.num_regions(); ++r)
    for (std::size_t i = 0; i < op.region(r).num_args(); ++i) {
      const Value arg = op.region(r).arg(i);
      arg.set_type(types_.at(arg.impl()));
    }
}

void Dropper::reshape_results(Planned& p) {
  for (std::size_t i = 0; i < p.op->num_results(); ++i) {
    const Value made = p.op->result(i);
    if (p.results[i] == made.type()) continue;
    const Type dropped = made.type();
    made.set_type(p.results[i]);
    const Value without = reshape(ir::Builder::before(p.op->next()), *p.op, made, dropped);
    made.replace_all_uses_with(without);
    without.def()->set_operand(0, made);
  }
}

void Dropper::reshape_operands(Planned& p) {
  for (std::size_t i = 0; i < p.op->num_operands(); ++i) {
    const Value given = p.op->operand(i);
    if (!given || p.op->op() == Op::Reshape || given.type() == p.operands[i]) continue;
    p.op->set_operand(i, reshape(ir::Builder::before(p.op), *p.op, given, p.operands[i]));
  }
}

/// Changes of shape that no longer change anything.
void Dropper::forward(Operation& op) {
  if (op.op() != Op::Reshape && op.op() != Op::Broadcast && op.op() != Op::Permute) return;
  if (op.op() == Op::Permute) {
    const auto& order = op.attr(AttrName::permutation)->as<ir::I32ArrayAttr>()->values;
    if (!std::ranges::is_sorted(order)) return;
  } else if (op.operand(0).type() != op.result().type()) {
    return;
  }
  op.result().replace_all_uses_with(op.operand(0));
  op.erase();
}

}  // namespace

bool drop_unit_axes(ir::Function& f) {
  const UnitAxes axes(f);
  if (!axes.any_dropped()) return false;
  Dropper(f, axes).rewrite();
  return true;
}

}  // namespace tessera::passes
