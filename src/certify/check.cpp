// Walks the kernel once, in program order: bounds of the certificate are verified where a loop is entered, continued
// and left and where a branch yields, and are facts inside of it; claims are proven at their operation.
#include "tessera/certify/certify.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <ranges>
#include <unordered_set>

#include "certify/launch_questions.hpp"
#include "certify/values.hpp"

namespace tessera::certify {
namespace {

using analysis::Claim;
using analysis::ClaimKind;
using analysis::Invariant;
using ir::AttrName;
using ir::Op;
using ir::Operation;

bool names_an_obligation(const Claim& c) {
  return c.obligation >= analysis::kHoldsAlways && c.obligation < analysis::kMaxObligations;
}

class Judge {
 public:
  Judge(const ir::Function& entry, const analysis::LaunchContract& contract, const analysis::Certificate& certificate,
        std::span<const Claim> claims, std::uint64_t predicates, const std::vector<bool>& dropped,
        Prover::Effort effort, bool by_steps)
      : entry_(entry),
        certificate_(certificate),
        claims_(claims),
        conditions_(conditions_that_hold(certificate, predicates)),
        by_steps_(by_steps),
        values_(entry, contract, certificate, conditions_, effort),
        refuted_(certificate.invariants.size(), false),
        certified_(claims.size(), false) {
    take_invariants(dropped);
    for (std::size_t i = 0; i < claims.size(); ++i)
      if (names_an_obligation(claims[i]) && claims[i].holds(predicates) && is_well_formed(claims[i]))
        asked_.emplace_back(claims[i].op, i);
    std::stable_sort(asked_.begin(), asked_.end(), before);
  }

  void run() {
    judge(nullptr);
    run_block(entry_.body());
  }
  const std::vector<bool>& certified() const { return certified_; }
  const std::vector<bool>& refuted() const { return refuted_; }
  bool exhausted() { return values_.prover().exhausted(); }

 private:
  /// A loop or branch whose region is being walked.
  struct Frame {
    const Operation* op;
    std::vector<std::size_t> of_region, of_results;
    std::size_t first_atom;  ///< atoms from this one on may be of something that changes in it
  };

  using About = std::pair<const Operation*, std::size_t>;  ///< the number of a claim or invariant of the operation
  static bool before(const About& a, const About& b) { return std::less<>()(a.first, b.first); }
  static auto about(const std::vector<About>& list, const Operation* op) {
    const auto [first, last] = std::equal_range(list.begin(), list.end(), About(op, 0), before);
    return std::ranges::subrange(first, last);
  }

  static std::vector<bool> conditions_that_hold(const analysis::Certificate& certificate, std::uint64_t predicates) {
    std::vector<bool> is(certificate.conditions.size(), false);
    for (std::size_t i = 0; i < certificate.obligations.size() && i < 64; ++i) {
      if (((predicates >> i) & 1) == 0) continue;
      for (const std::uint32_t c : certificate.obligations[i])
        if (c < is.size()) is[c] = true;
    }
    return is;
  }

  static bool is_step(const Operation& op) { return op.num_regions() == 0; }
  static bool has_value(const Operation& op, const Invariant& inv) {
    if (!inv.of_region) return inv.index < op.num_results();
    return (op.op() == Op::For || op.op() == Op::Loop) && inv.index < op.region(0).num_args();
  }

  /// Those whose conditions hold. They name operations by their numbers in the order of a walk.
  void take_invariants(const std::vector<bool>& dropped) {
    std::vector<std::pair<std::size_t, std::size_t>> numbers;
    for (std::size_t i = 0; i < certificate_.invariants.size(); ++i) {
      const Invariant& inv = certificate_.invariants[i];
      const bool holds =
          std::ranges::all_of(inv.when, [&](auto c) { return c < conditions_.size() && conditions_[c]; });
      if (holds && !dropped[i]) numbers.emplace_back(inv.op, i);
    }
    std::ranges::sort(numbers);
    std::size_t number = 0;
    auto next = numbers.begin();
    ir::walk(entry_.body(), [&](const Operation& op) {
      for (; next != numbers.end() && next->first == number; ++next) {
        if (!has_value(op, certificate_.invariants[next->second]))
          refuted_[next->second] = true;
        else if (by_steps_ || !is_step(op))
          invariants_.emplace_back(&op, next->second);
      }
      ++number;
    });
    std::ranges::stable_sort(invariants_, before);
  }

  // ---- regions ------------------------------------------------------------------------------------------------------

  void run_block(const ir::Block& block) {
    for (const Operation& op : block) {
      // In this scope already, so that inner scopes need not derive it again.
      for (std::size_t i = 0; i < op.num_results() && op.num_regions() == 0; ++i)
        if (is_integer(op.result(i).type())) values_.of(op.result(i));
      if (by_steps_ && is_step(op)) take_steps(op);
      judge(&op);
      if (is_of_tiles(op)) walked_.insert(&op);
      switch (op.op()) {
        case Op::For: run_for(op); break;
        case Op::Loop: run_loop(op); break;
        case Op::If: run_if(op); break;
        case Op::Yield: leave_branch(op); break;
        case Op::Continue:
        case Op::Break: leave_loop(op); break;
        default: break;
      }
    }
  }

  Frame frame(const Operation& op) {
    Frame f{&op, {}, {}, values_.prover().next_atom()};
    for (const auto& [_, i] : about(invariants_, &op))
      (certificate_.invariants[i].of_region ? f.of_region : f.of_results).push_back(i);
    return f;
  }

  /// Bound number `i` of the certificate as something that is never negative for the value `v`.
  Poly slack(std::size_t i, ir::Value v) {
    const Invariant& inv = certificate_.invariants[i];
    if (!is_integer(v.type())) return Poly::invalid();
    const Poly bound = values_.term(inv.bound), value = values_.of(v);
    return inv.is_upper ? bound - value : value - bound;
  }
  void verify(std::size_t i, ir::Value v) {
    Prover& p = values_.prover();
    if (!refuted_[i] && !p.is_impossible() && !p.never_negative(slack(i, v))) refuted_[i] = true;
  }
  void take(const std::vector<std::size_t>& invariants, const auto& value_of) {
    for (const std::size_t i : invariants) values_.prover().know(slack(i, value_of(certificate_.invariants[i].index)));
  }

  /// The bounds of the results of an operation that follow from the facts, so those of its operands. One that does not
  /// is no fact, and no other rests on it.
  void take_steps(const Operation& op) {
    for (const auto& [_, i] : about(invariants_, &op)) {
      const Poly p = slack(i, op.result(certificate_.invariants[i].index));
      if (values_.prover().never_negative(p)) values_.prover().know(p);
    }
  }

  void run_for(const Operation& op) {
    const std::vector<ir::Value> inits = op.group("initValues");
    const Frame f = frame(op);
    // Carried value n is argument n + 1 of the body, after the induction variable, and result n.
    for (const std::size_t i : f.of_region) verify_at(i, inits, 1);
    for (const std::size_t i : f.of_results) verify_at(i, inits, 0);
    frames_.push_back(f);
    values_.open();
    const ir::Block& body = op.region(0);
    take_induction(op, body.arg(0));
    take(f.of_region, [&](std::uint32_t n) { return body.arg(n); });
    run_block(body);
    values_.close();
    frames_.pop_back();
    take(f.of_results, [&](std::uint32_t n) { return op.result(n); });
  }

  void run_loop(const Operation& op) {
    const std::vector<ir::Value> inits = op.group("initValues");
    const Frame f = frame(op);
    for (const std::size_t i : f.of_region) verify_at(i, inits, 0);
    frames_.push_back(f);
    values_.open();
    take(f.of_region, [&](std::uint32_t n) { return op.region(0).arg(n); });
    run_block(op.region(0));
    values_.close();
    frames_.pop_back();
    take(f.of_results, [&](std::uint32_t n) { return op.result(n); });
  }

  void run_if(const Operation& op) {
    const Frame f = frame(op);
    frames_.push_back(f);
    for (std::size_t arm = 0; arm < op.num_regions(); ++arm) {
      values_.open();
      values_.assume(op.operand(0), arm == 0);
      run_block(op.region(arm));
      values_.close();
    }
    frames_.pop_back();
    take(f.of_results, [&](std::uint32_t n) { return op.result(n); });
  }

  /// The value that is argument or result `index` of the invariant, among those that a terminator or a loop is given;
  /// `skipped` arguments have no value there.
  void verify_at(std::size_t i, const std::vector<ir::Value>& values, std::size_t skipped) {
    const std::size_t n = certificate_.invariants[i].index;
    if (n < skipped || n - skipped >= values.size())
      refuted_[i] = true;
    else
      verify(i, values[n - skipped]);
  }

  void leave_branch(const Operation& yield) {
    if (frames_.empty() || frames_.back().op != yield.parent_op()) return;
    for (const std::size_t i : frames_.back().of_results) verify_at(i, yield.operand_values(), 0);
  }

  void leave_loop(const Operation& exit) {
    auto f = frames_.rbegin();
    while (f != frames_.rend() && f->op->op() == Op::If) ++f;
    if (f == frames_.rend()) return;
    const bool counted = f->op->op() == Op::For, goes_on = exit.op() == Op::Continue;
    const std::vector<ir::Value> values = exit.operand_values();
    if (goes_on)
      for (const std::size_t i : f->of_region) verify_at(i, values, counted ? 1 : 0);
    if (counted || !goes_on)
      for (const std::size_t i : f->of_results) verify_at(i, values, 0);
  }

  /// The loop counts up, its bounds are the same read as signed, and its last step stays inside the type.
  bool step_fits(const Operation& loop) {
    Prover& p = values_.prover();
    const Poly lower = values_.of(loop.operand(0)), upper = values_.of(loop.operand(1));
    const Poly step = values_.of(loop.operand(2));
    if (loop.has_attr(AttrName::unsignedCmp) && !(p.never_negative(lower) && p.never_negative(upper))) return false;
    return p.at_most(Poly(1), step) &&
           p.at_most(upper - Poly(1) + step, Poly(integers(bits_of(loop.operand(2).type())).hi));
  }

  /// lower <= i <= upper - 1.
  void take_induction(const Operation& op, ir::Value i) {
    if (!step_fits(op)) return;
    values_.suppose(values_.of(i) - values_.of(op.operand(0)));
    values_.suppose(values_.of(op.operand(1)) - Poly(1) - values_.of(i));
  }

  // ---- claims -------------------------------------------------------------------------------------------------------

  void judge(const Operation* op) {
    for (const auto& [_, i] : about(asked_, op))
      certified_[i] =
          (values_.prover().is_impossible() && analysis::info(claims_[i].kind).each_run) || proves(claims_[i]);
  }

  /// An entry argument that is a whole slot of the launch: of a narrower one the slot's other bits are anything.
  bool is_slot(std::size_t argument, bool may_be_pointer) const {
    if (argument >= entry_.body().num_args()) return false;
    const ir::Type type = entry_.body().arg(argument).type();
    if (!type.is_tile() || type.rank() != 0) return false;
    return type.is_pointer() ? may_be_pointer : type.elem() == ir::Elem::I64;
  }
  /// Tiles of a partitioned or strided view.
  static bool has_axis(const Operation& access, std::size_t axis) {
    if (access.info().operand_group("view") < 0 || access.info().operand_group("index") < 0) return false;
    const ir::Type type = access.single("view").type();
    const bool strided = type.kind() == ir::TypeKind::StridedView;
    if (type.kind() != ir::TypeKind::PartitionView && !strided) return false;
    return axis < access.group("index").size() && axis < type.tile_shape().size() && axis < type.dim_map().size();
  }
  /// The claim says something that its kind can say: it names an operation, argument, result or operand that there is.
  /// (That the operation is one of this entry shows in the walk.)
  bool is_well_formed(const Claim& c) const {
    const auto index = static_cast<std::size_t>(c.index);
    if (c.index < 0) return false;
    switch (c.kind) {  // about the entry: true at its beginning, not at some operation
      case ClaimKind::ArgDivisible: return !c.op && is_slot(index, true) && std::has_single_bit(c.divisor);
      case ClaimKind::ArgBounded: return !c.op && is_slot(index, false);
      case ClaimKind::OfLaunch:
        return !c.op && c.question != nullptr &&
               is_answerable(*c.question, [&](std::size_t argument) { return is_slot(argument, false); });
      default: break;
    }
    if (c.op == nullptr) return false;
    switch (c.kind) {
      case ClaimKind::Condition: return index < c.op->num_results() && is_condition(c.op->result(index).type());
      case ClaimKind::Inbounds: return has_axis(*c.op, index);
      case ClaimKind::CountsPieces:
      case ClaimKind::DivisorIsOne: return c.op->op() == Op::DivI || c.op->op() == Op::RemI;
      case ClaimKind::StepFits: return c.op->op() == Op::For;
      case ClaimKind::StartsTile: return positions_of(*c.op).has_value();
      case ClaimKind::AtLeast:
      case ClaimKind::AtMost: return index < c.op->num_operands() && is_integer(c.op->operand(index).type());
      case ClaimKind::Disjoint: return c.other != nullptr;
      case ClaimKind::DisjointIterations: return true;
      default: return false;
    }
  }
  static bool is_condition(ir::Type type) {
    return type.is_tile() && !type.is_pointer() && type.elem() == ir::Elem::I1;
  }

  bool proves(const Claim& c) {
    Prover& p = values_.prover();
    const auto index = static_cast<std::size_t>(c.index);
    switch (c.kind) {
      case ClaimKind::Condition: return values_.proves(c.op->result(index), c.truth);
      case ClaimKind::Inbounds: return is_inside(*c.op, index);
      case ClaimKind::ArgDivisible: return p.multiple(values_.argument(index, 64, true), static_cast<Int>(c.divisor));
      case ClaimKind::ArgBounded: {
        const Poly arg = values_.argument(index, 64, true);
        return p.at_most(Poly(c.lower), arg) && p.at_most(arg, Poly(c.upper));
      }
      case ClaimKind::DivisorIsOne: {
        const Poly by = values_.of(c.op->operand(1));
        return p.at_most(by, Poly(1)) && p.at_most(Poly(1), by);
      }
      case ClaimKind::StepFits: return step_fits(*c.op);
      case ClaimKind::StartsTile: return starts_tile(*c.op);
      case ClaimKind::OfLaunch: return holds_in_launch(*c.question, values_);
      case ClaimKind::CountsPieces: {
        if (index >= values_.pieces_along().size()) return false;
        const Poly by = values_.of(c.op->operand(1)), pieces = values_.pieces_along()[index];
        return p.at_most(by, pieces) && p.at_most(pieces, by);
      }
      case ClaimKind::AtLeast: return p.at_most(Poly(c.lower), values_.of(c.op->operand(index)));
      case ClaimKind::AtMost: return p.at_most(values_.of(c.op->operand(index)), Poly(c.upper));
      case ClaimKind::Disjoint: return is_apart(*c.op, c.other);
      case ClaimKind::DisjointIterations: return is_apart_across_iterations(*c.op);
    }
    return false;
  }

  /// Positions along an axis that are compared with its extent.
  struct Positions {
    ir::Value start;  ///< a scalar; null: 0
    Int count = 1;
    ir::Value extent;  ///< a scalar
  };
  static ir::Value unshaped(ir::Value v) {
    for (const Operation* op = v.def(); op && (op->op() == Op::Broadcast || op->op() == Op::Reshape); op = v.def())
      v = op->operand(0);
    return v;
  }
  static std::optional<Positions> positions_of(const Operation& op) {
    if (op.op() != Op::CmpI || op.enum_attr<ir::Signedness>(AttrName::signedness) != ir::Signedness::Unsigned ||
        op.enum_attr<ir::ComparisonPredicate>(AttrName::comparison_predicate) != ir::ComparisonPredicate::Less)
      return std::nullopt;
    const ir::Value places = op.operand(0);
    Positions at{{}, 1, unshaped(op.operand(1))};
    const auto is_number = [](ir::Value v) { return v.type().rank() == 0; };
    const auto counts = [](ir::Value v) { return v.def() != nullptr && v.def()->op() == Op::Iota; };
    const ir::Value whole = unshaped(places);
    if (!is_number(at.extent)) return std::nullopt;
    if (is_number(whole)) {
      at.start = whole;
      return at;
    }
    at.count = whole.type().num_elements();
    if (counts(whole)) return at;
    const Operation* sum = places.def();
    if (sum == nullptr || sum->op() != Op::AddI) return std::nullopt;
    const ir::Value a = unshaped(sum->operand(0)), b = unshaped(sum->operand(1));
    at.start = counts(b) ? a : b;
    at.count = (counts(b) ? b : a).type().num_elements();
    if (!(counts(a) || counts(b)) || !is_number(at.start)) return std::nullopt;
    return at;
  }
  bool starts_tile(const Operation& compare) {
    const Positions at = *positions_of(compare);
    Prover& p = values_.prover();
    const Poly start = at.start ? Poly(values_.of(at.start)) : Poly(0);
    return p.multiple(start, at.count) && p.never_negative(start) &&
           p.at_most(start + Poly(1), Poly(values_.of(at.extent)));
  }

  /// [index * step, index * step + tile) is a part of [0, extent).
  bool is_inside(const Operation& access, std::size_t axis) {
    const ir::Value view = access.single("view");
    const ir::Type type = view.type();
    const bool strided = type.kind() == ir::TypeKind::StridedView;
    if (view.def() == nullptr) return false;
    const Int tile = type.tile_shape()[axis], step = strided ? type.traversal_strides()[axis] : type.tile_shape()[axis];
    const Poly at = values_.of(access.group("index").at(axis));
    const Poly extent = values_.extent(view.def()->operand(0), static_cast<std::size_t>(type.dim_map()[axis]));
    return values_.prover().never_negative(at) && values_.prover().at_most(at * Poly(step) + Poly(tile), extent);
  }

  // ---- accesses that share no element ---------------------------------------------------------------------------

  /// A load or store of a tile of a partition view.
  static bool is_of_tiles(const Operation& op) {
    if (op.op() != Op::LoadViewTko && op.op() != Op::StoreViewTko) return false;
    const ir::Value view = op.single("view");
    return view.type().kind() == ir::TypeKind::PartitionView && view.def() != nullptr;
  }

  /// True if the tiles of an access lie on one line of the tensor: they have extent 1 along all axes but one, where
  /// their place is fixed, and steps between elements along that one, where their place moves.
  static bool is_on_line(const Operation& access, const auto& is_fixed, const auto& moves) {
    const ir::Type type = access.single("view").type();
    int moving = 0;
    for (std::size_t axis = 0; axis < type.tile_shape().size(); ++axis) {
      if (type.tile_shape()[axis] == 1 && is_fixed(axis)) continue;
      const std::int64_t stride = type.tensor().strides()[static_cast<std::size_t>(type.dim_map()[axis])];
      if (stride == ir::kDynamic || stride == 0 || !moves(axis)) return false;
      ++moving;
    }
    return moving == 1;
  }

  Poly place(const Operation& access, std::size_t axis) { return values_.of(access.group("index").at(axis)); }

  bool is_apart(const Operation& later, const Operation* earlier) {
    if (!walked_.contains(earlier) || earlier->block() != later.block()) return false;
    if (!is_of_tiles(*earlier) || !is_of_tiles(later)) return false;
    const ir::Value x = earlier->single("view"), y = later.single("view");
    const bool same_tiles = std::ranges::equal(x.type().tile_shape(), y.type().tile_shape()) &&
                            std::ranges::equal(x.type().dim_map(), y.type().dim_map());
    if (x.def()->operand(0) != y.def()->operand(0) || !same_tiles) return false;
    const auto gap = [&](std::size_t axis) { return place(later, axis) - place(*earlier, axis); };
    return is_on_line(
        later, [&](std::size_t axis) { return gap(axis) == Poly(0); },
        [&](std::size_t axis) { return values_.prover().never_zero(gap(axis)); });
  }

  /// The tensor of the access is made before the loop: another one in each iteration may lie anywhere.
  static bool stands_before(const Operation& access, const Operation& loop) {
    for (const Operation* op = access.single("view").def()->operand(0).def(); op != nullptr; op = op->parent_op())
      if (op == &loop) return false;
    return true;
  }

  /// One index is a multiple of the induction variable, which is another one in each iteration, and something that does
  /// not change in the loop.
  bool is_apart_across_iterations(const Operation& access) {
    const Operation* loop = access.parent_op();
    if (loop == nullptr || loop->op() != Op::For || frames_.empty() || frames_.back().op != loop) return false;
    if (!is_of_tiles(access) || !step_fits(*loop) || !stands_before(access, *loop)) return false;
    const Poly i = values_.of(loop->region(0).arg(0));
    const auto stays = [&](const Poly& p) { return values_.prover().is_before(p, frames_.back().first_atom); };
    return is_on_line(
        access, [&](std::size_t axis) { return stays(place(access, axis)); },
        [&](std::size_t axis) {
          const Poly index = place(access, axis);
          const Int scale = i.is_constant() ? 0 : index.coefficient(i.terms().back().product);
          return scale != 0 && stays(index - Poly(scale) * i);
        });
  }

  const ir::Function& entry_;
  const analysis::Certificate& certificate_;
  std::span<const Claim> claims_;
  std::vector<bool> conditions_;
  bool by_steps_;  ///< bounds of single operations are used
  Values values_;
  std::vector<About> invariants_, asked_;  ///< in the order of `before`
  std::vector<Frame> frames_;
  std::unordered_set<const Operation*> walked_;  ///< accesses of tiles
  std::vector<bool> refuted_, certified_;
};

/// A bound that is not inductive is not a fact: the walk is repeated without it.
Verdict check(const ir::Function& entry, const analysis::LaunchContract& contract,
              const analysis::Certificate& certificate, std::span<const Claim> claims, std::uint64_t predicates,
              Prover::Effort effort, bool by_steps, bool& exhausted) {
  constexpr int kRounds = 8;
  Verdict verdict;
  verdict.certified.assign(claims.size(), false);
  std::vector<bool> dropped(certificate.invariants.size(), false);
  bool sound = false;
  for (int round = 0; round < kRounds && !sound; ++round) {
    Judge judge(entry, contract, certificate, claims, predicates, dropped, effort, by_steps);
    judge.run();
    exhausted = exhausted || judge.exhausted();
    sound = std::none_of(judge.refuted().begin(), judge.refuted().end(), [](bool b) { return b; });
    if (sound) verdict.certified = judge.certified();
    for (std::size_t i = 0; i < dropped.size(); ++i) dropped[i] = dropped[i] || judge.refuted()[i];
  }
  verdict.bad_invariants = static_cast<std::size_t>(std::count(dropped.begin(), dropped.end(), true));
  for (std::size_t i = 0; i < claims.size(); ++i)
    verdict.unproven +=
        (!names_an_obligation(claims[i]) || claims[i].holds(predicates)) && !verdict.certified[i] ? 1 : 0;
  return verdict;
}

}  // namespace

Verdict check(const ir::Function& entry, const analysis::LaunchContract& contract,
              const analysis::Certificate& certificate, std::span<const Claim> claims, std::uint64_t predicates) {
  bool exhausted = false;
  const Verdict quick =
      check(entry, contract, certificate, claims, predicates, Prover::Effort::Little, false, exhausted);
  if (exhausted || (quick.unproven == 0 && quick.bad_invariants == 0)) return quick;
  const Verdict full = check(entry, contract, certificate, claims, predicates, Prover::Effort::Full, false, exhausted);
  if (exhausted || full.unproven == 0) return full;
  Verdict stepwise = check(entry, contract, certificate, claims, predicates, Prover::Effort::Full, true, exhausted);
  stepwise.bad_invariants = full.bad_invariants;
  for (std::size_t i = 0; i < claims.size(); ++i) {  // each of the two has shown what it certifies
    if (full.certified[i] && !stepwise.certified[i]) --stepwise.unproven;
    stepwise.certified[i] = stepwise.certified[i] || full.certified[i];
  }
  return stepwise;
}

}  // namespace tessera::certify
