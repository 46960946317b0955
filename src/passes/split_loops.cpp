// Splits a loop where a condition in it changes once: the unmasked steps of causal attention from the masked ones, the
// full chunks of a row from the last, ragged one. In the resulting loop the branch is decided, or the accesses are in
// bounds.
//
// The iteration of the change is computed exactly, in 64 bits, before the loop. The kernel's own 32-bit arithmetic may
// wrap. Whether it does is computed as well, and if so, all iterations run in the loop that keeps the branch.
// docs/compiler/split_loops.md.
#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "passes/cost_model.hpp"
#include "passes/pointer_tiles.hpp"
#include "passes/rewriter.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/access.hpp"
#include "tessera/analysis/affine.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Builder;
using ir::ComparisonPredicate;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// Emits the form at i, in 64 bits. No overflow: coefficients are small (affine_value), invariants of 32 bits.
Value emit(const analysis::Affine& form, Value i, Builder& b) {
  const auto times = [&](Value v, std::int64_t scale) {
    if (scale == 1) return v;
    return b.create(Op::MulI, {v, b.constant_int(ir::Elem::I64, scale)}, {v.type()})->result();
  };
  Value total = b.constant_int(ir::Elem::I64, form.constant);
  const auto add = [&](Value v) { total = b.create(Op::AddI, {total, v}, {total.type()})->result(); };
  if (form.coefficient != 0) add(times(i, form.coefficient));
  for (const analysis::Affine::Term& t : form.terms) add(times(as_i64(b, t.value, t.read), t.scale));
  return total;
}

constexpr std::int64_t kWorthSplitting =
    1024;  // elements that a branch works on; for fewer, a second copy of the body does not pay
constexpr std::size_t kLargestBody = 400;  // operations: the body is copied
/// Nesting of `and` and `or`, each of which may double the code before the loop.
constexpr int kDeepestCondition = 6;

/// Iterations [low, high) for which something is known; null: no bound. Both are i64 before the loop.
struct Range {
  Value low, high;
};

class LoopSplitter {
 public:
  LoopSplitter(ir::Function& f, Operation& loop, const Certifier* certifier)
      : f_(f), loop_(loop), certifier_(certifier), b_(Builder::before(&loop)) {
    b_.loc = loop.loc;
  }

  /// Splits at the first branch whose condition changes once. False: there is none, and nothing was changed (but for
  /// dead code before the loop).
  bool at_branch() {
    for (Operation& op : loop_.region(0)) {
      if (op.op() != Op::If || !is_large(op)) continue;
      for (const bool truth : {false, true}) {
        steps_.clear();
        const auto range = where(op.operand(0), truth);
        if (!range) continue;
        const std::size_t branch = position(op);
        emit_loops(*range, [&](std::vector<Operation*>& ops) {
          Builder b = Builder::before(ops[branch]);
          ops[branch]->set_operand(0, b.constant_int(Elem::I1, truth ? 1 : 0));
        });
        return true;
      }
    }
    return false;
  }

  /// Splits before the first iteration whose accesses may leave a tensor.
  bool at_ragged_end() {
    struct Inside {
      std::size_t access, axis;
    };
    std::vector<Inside> inside;
    Range range;
    steps_.clear();
    const std::vector<Operation*> ops = operations(loop_);
    for (std::size_t n = 0; n < ops.size(); ++n) {
      const auto access = analysis::view_access_of(*ops[n]);
      if (!access) continue;
      const std::vector<bool> known = analysis::axes_in_bounds(*ops[n]);
      for (std::size_t a = 0; a < known.size(); ++a) {
        if (known[a]) continue;
        const auto form = analysis::affine_value(access->index[a], loop_);
        if (!form || form->form.coefficient != 1) continue;
        const Value tiles = whole_tiles(access->view, a);
        if (!tiles) continue;
        analysis::Affine start = form->form;  // index = i + start < tiles
        start.coefficient = 0;
        steps_.insert(steps_.end(), form->steps.begin(), form->steps.end());
        inside.push_back({n, a});
        const Value limit = b_.create(Op::SubI, {tiles, emit(start, Value(), b_)}, {tiles.type()})->result();
        range.high = both(range.high, limit, Op::MinI);
      }
    }
    if (inside.empty()) return false;
    std::vector<analysis::Claim> claims;
    emit_loops(range, [&](std::vector<Operation*>& copies) {
      for (const Inside& i : inside)
        claims.push_back(
            {.kind = analysis::ClaimKind::Inbounds, .op = copies[i.access], .index = static_cast<int>(i.axis)});
    });
    const std::vector<bool> may = certified(certifier_, f_, claims);
    for (std::size_t i = 0; i < claims.size(); ++i) {
      if (!may[i]) continue;
      ir::BoolArrayAttr flags{analysis::axes_in_bounds(*claims[i].op)};
      flags.values[inside[i].axis] = true;
      claims[i].op->set_attr(AttrName::inbounds, flags);
    }
    return true;
  }

 private:
  // ---- where a condition is known -------------------------------------------------------------------------------

  static bool is_large(const Operation& branch) {
    std::int64_t largest = 0;
    for (std::size_t r = 0; r < branch.num_regions(); ++r)
      ir::walk(branch.region(r), [&](const Operation& op) {
        for (std::size_t i = 0; i < op.num_results(); ++i)
          if (op.result(i).type().is_tile()) largest = std::max(largest, op.result(i).type().num_elements());
      });
    return largest >= kWorthSplitting;
  }

  /// Iterations (some of them, at least) in which `condition` is `truth`.
  std::optional<Range> where(Value condition, bool truth, int depth = kDeepestCondition) {
    const Operation* def = condition.def();
    if (!def || def->block() != &loop_.region(0) || depth == 0) return std::nullopt;
    if (def->op() == Op::CmpI) return where_compared(*def, truth);
    if (def->op() != Op::OrI && def->op() != Op::AndI) return std::nullopt;
    const bool needs_both = (def->op() == Op::AndI) == truth;
    const auto x = where(def->operand(0), truth, depth - 1), y = where(def->operand(1), truth, depth - 1);
    if (!needs_both) return x ? x : y;
    if (!x || !y) return std::nullopt;
    return Range{both(x->low, y->low, Op::MaxI), both(x->high, y->high, Op::MinI)};
  }

  std::optional<Range> where_compared(const Operation& cmp, bool truth) {
    if (cmp.enum_attr<ir::Signedness>(AttrName::signedness) != ir::Signedness::Signed) return std::nullopt;
    const auto x = analysis::affine_value(cmp.operand(0), loop_), y = analysis::affine_value(cmp.operand(1), loop_);
    if (!x || !y) return std::nullopt;
    analysis::Affine d = x->form;  // x - y, compared with 0
    d.coefficient -= y->form.coefficient;
    d.constant -= y->form.constant;
    for (analysis::Affine::Term t : y->form.terms) d.terms.push_back({t.value, -t.scale, t.read});
    if (d.coefficient == 0) return std::nullopt;
    bool at_least = false;  // d >= limit, otherwise d <= limit
    std::int64_t limit = 0;
    switch (cmp.enum_attr<ComparisonPredicate>(AttrName::comparison_predicate)) {
      case ComparisonPredicate::Less:
        at_least = !truth;
        limit = truth ? -1 : 0;
        break;
      case ComparisonPredicate::LessEqual:
        at_least = !truth;
        limit = truth ? 0 : 1;
        break;
      case ComparisonPredicate::Greater:
        at_least = truth;
        limit = truth ? 1 : 0;
        break;
      case ComparisonPredicate::GreaterEqual:
        at_least = truth;
        limit = truth ? 0 : -1;
        break;
      default: return std::nullopt;
    }
    for (const auto* v : {&*x, &*y}) steps_.insert(steps_.end(), v->steps.begin(), v->steps.end());
    return solved(d, at_least, limit);
  }

  /// coefficient * i >= or <= limit - rest, for i.
  Range solved(const analysis::Affine& d, bool at_least, std::int64_t limit) {
    analysis::Affine rest = d;
    rest.coefficient = 0;
    for (analysis::Affine::Term& t : rest.terms) t.scale = -t.scale;
    rest.constant = limit - rest.constant;
    std::int64_t divisor = d.coefficient;
    if (divisor < 0) {
      divisor = -divisor;
      rest.constant = -rest.constant;
      for (analysis::Affine::Term& t : rest.terms) t.scale = -t.scale;
      at_least = !at_least;
    }
    const Value numerator = emit(rest, Value(), b_);
    const ir::Rounding round = at_least ? ir::Rounding::PositiveInf : ir::Rounding::NegativeInf;
    const Value quotient = b_.create(Op::DivI, {numerator, wide(divisor)}, {numerator.type()},
                                     {{AttrName::signedness, ir::Signedness::Signed}, {AttrName::rounding, round}})
                               ->result();
    if (at_least) return {quotient, {}};
    return {{}, b_.create(Op::AddI, {quotient, wide(1)}, {quotient.type()})->result()};
  }

  /// floor(extent / tile) of the axis that a view's index number `a` counts along. Null for static extents.
  Value whole_tiles(Value view, std::size_t a) {
    const Operation* tensor = analysis::tensor_behind(view);
    if (!tensor || !defined_outside(tensor->result(), loop_.region(0))) return {};
    const auto axis = static_cast<std::size_t>(view.type().dim_map()[a]);
    const analysis::ViewNumber extent = analysis::axes_of(*tensor)[axis].extent;
    if (extent.is_fixed()) return {};
    const Value dim = as_i64(b_, extent.value, ir::Signedness::Unsigned);
    return b_
        .create(Op::DivI, {dim, wide(view.type().tile_shape()[a])}, {dim.type()},
                {{AttrName::signedness, ir::Signedness::Signed}, {AttrName::rounding, ir::Rounding::NegativeInf}})
        ->result();
  }

  // ---- the loops ------------------------------------------------------------------------------------------------

  /// Front, middle and back. `change` gets the operations of the middle, in the order of `operations`.
  template <class Change>
  void emit_loops(const Range& range, Change change) {
    const Value low = as_i64(b_, loop_.operand(0), ir::Signedness::Signed);
    const Value high = max(as_i64(b_, loop_.operand(1), ir::Signedness::Signed), low);
    const Value exact = no_step_wraps(low, high);
    const bool front = static_cast<bool>(range.low), back = static_cast<bool>(range.high);
    // Without a back part the front one takes what must not be split.
    Value begin = front ? min(max(range.low, low), high) : low;
    if (front && exact) begin = select(exact, begin, back ? low : high);
    Value end = back ? max(min(range.high, high), begin) : high;
    if (back && exact) end = select(exact, end, low);
    if (front) copy_loop(narrow(begin), [](std::vector<Operation*>&) {});
    if (!back) {
      std::vector<Operation*> ops = operations(loop_);
      change(ops);
      return;
    }
    copy_loop(narrow(end), change);
  }

  /// Puts a copy of the loop, up to `end`, before the loop, which goes on from there.
  template <class Change>
  void copy_loop(Value end, Change change) {
    Copier copier;
    Operation* part = copier.copy(loop_, b_);
    part->set_operand(1, end);
    loop_.set_operand(0, end);
    for (std::size_t i = 0; i < loop_.num_results(); ++i) loop_.set_operand(3 + i, part->result(i));
    std::vector<Operation*> ops = operations(*part);
    change(ops);
  }

  static std::vector<Operation*> operations(Operation& loop) {
    std::vector<Operation*> ops;
    ir::walk(loop.region(0), [&](Operation& op) { ops.push_back(&op); });
    return ops;
  }
  std::size_t position(const Operation& op) {
    const std::vector<Operation*> ops = operations(loop_);
    return static_cast<std::size_t>(std::find(ops.begin(), ops.end(), &op) - ops.begin());
  }

  /// i1: every intermediate result that the solution relies on fits its type in every iteration. Null: always.
  /// analysis::Affine forms are monotone, so it is enough to look at the first and the last iteration.
  Value no_step_wraps(Value low, Value high) {
    Value all;
    const Value last = b_.create(Op::SubI, {high, wide(1)}, {high.type()})->result();
    for (const analysis::AffineValue::Step& step : steps_)
      for (const Value i : {low, last}) {
        const Value v = emit(step.form, i, b_);
        const std::int64_t most = (std::int64_t{1} << (step.bits - 1)) - 1;
        for (const Value fits : {compare(v, wide(most), ComparisonPredicate::LessEqual),
                                 compare(v, wide(-most - 1), ComparisonPredicate::GreaterEqual)})
          all = all ? b_.create(Op::AndI, {all, fits}, {all.type()})->result() : fits;
      }
    return all;
  }

  // ---- scalars before the loop ----------------------------------------------------------------------------------

  Value wide(std::int64_t v) { return b_.constant_int(Elem::I64, v); }
  Value narrow(Value v) {
    const ir::Type t = loop_.operand(0).type();
    return v.type() == t ? v : b_.create(Op::TruncI, {v}, {t})->result();
  }
  Value signed_op(Op op, Value x, Value y) {
    return b_.create(op, {x, y}, {x.type()}, {{AttrName::signedness, ir::Signedness::Signed}})->result();
  }
  Value min(Value x, Value y) { return signed_op(Op::MinI, x, y); }
  Value max(Value x, Value y) { return signed_op(Op::MaxI, x, y); }
  Value both(Value x, Value y, Op op) { return !x ? y : !y ? x : signed_op(op, x, y); }
  Value select(Value c, Value x, Value y) { return b_.create(Op::Select, {c, x, y}, {x.type()})->result(); }
  Value compare(Value x, Value y, ComparisonPredicate p) { return compared(b_, p, x, y); }

  ir::Function& f_;
  Operation& loop_;
  const Certifier* certifier_;
  Builder b_;
  std::vector<analysis::AffineValue::Step> steps_;  // of the conditions that were solved
};

bool can_split(const Operation& loop) {
  if (loop.op() != Op::For || loop.has_attr(AttrName::unsignedCmp) || constant_int(loop.operand(2)) != 1) return false;
  const Operation* end = loop.region(0).terminator();
  if (!end || end->op() != Op::Continue || leaves_early(loop)) return false;
  std::size_t size = 0;
  ir::walk(loop.region(0), [&](const Operation&) { ++size; });
  return size <= kLargestBody;
}

bool has_product(const Operation& loop) {
  bool found = false;
  ir::walk(loop.region(0), [&](const Operation& op) { found = found || analysis::is_product(op); });
  return found;
}

/// True if the shared memory of an SM holds two steps of the loads of the loop's products. If it holds one, every step
/// is loaded after the previous one has been used, with or without a branch, and a second loop only adds a wait. Only
/// for targets with clusters, where this was measured.
bool has_room_ahead(const Operation& loop, const std::vector<analysis::Product>& products, const Target& target) {
  const machine::Machine& machine = machine::machine_of(target.sm);
  if (!target.is_gpu() || !machine.clusters) return true;
  std::set<const Operation*> loads;
  for (const analysis::Product& p : products)
    if (p.loop == &loop) loads.insert(p.step_loads.begin(), p.step_loads.end());
  std::int64_t bytes = 0;
  for (const Operation* load : loads) bytes += analysis::bytes_of(load->result(0).type());
  return 2 * bytes <= std::int64_t{machine.shared_kib} * 1024;
}

}  // namespace

bool split_loops(ir::Function& f, const Target& target, const Certifier* certifier) {
  const std::vector<analysis::Product> products = analysis::kernel_facts(f).products;
  const auto corrections = analysis::corrections_of_products(f);
  std::vector<Operation*> loops;
  ir::walk(f.body(), [&](Operation& op) {
    if (can_split(op) && !analysis::corrects_products(op, corrections) && has_room_ahead(op, products, target))
      loops.push_back(&op);
  });
  bool changed = false;
  for (std::size_t n = loops.size();
       n-- > 0;) {  // inner loops first: copies of an outer loop then contain the split inner ones
    LoopSplitter s(f, *loops[n], certifier);
    // Operands of products are loaded by tensor copies, which check bounds at no cost.
    changed = s.at_branch() || (!has_product(*loops[n]) && s.at_ragged_end()) || changed;
  }
  return changed;
}

}  // namespace tessera::passes
