// Scopes, what the launch contract and branches say, and launch expressions.
#include "certify/values.hpp"

#include <algorithm>

namespace tessera::certify {

using analysis::ArgRole;
using ir::AttrName;
using ir::Op;

namespace {

constexpr std::size_t kMaxParts = 256;        // of a condition that are looked at in each of its branches
constexpr std::int64_t kMaxDim = 0x7FFFFFFF;  // LaunchContract: a dimension, and the number of pieces, at most 2^31 - 1

}  // namespace

bool is_integer(ir::Type type) {
  return type.is_tile() && !type.is_pointer() && !type.is_float() && ir::info(type.elem()).bits > 1;
}

int bits_of(ir::Type type) { return ir::info(type.elem()).bits; }

Range integers(int bits) { return {-(Int{1} << (bits - 1)), (Int{1} << (bits - 1)) - 1}; }

namespace {

/// One operand further from where a question began.
class Deeper {
 public:
  explicit Deeper(int& depth) : depth_(depth) { ++depth_; }
  ~Deeper() { --depth_; }
  Deeper(const Deeper&) = delete;
  Deeper& operator=(const Deeper&) = delete;

 private:
  int& depth_;
};

}  // namespace

Values::Values(const ir::Function& entry, const analysis::LaunchContract& contract,
               const analysis::Certificate& certificate, const std::vector<bool>& met, Prover::Effort effort)
    : contract_(&contract),
      certificate_(&certificate),
      effort_(effort),
      entry_(&entry.body()),
      terms_(certificate.terms.size(), &memory_),
      divisors_assumed_(certificate.terms.size()),
      pieces_(Poly::invalid()) {
  open();
  take_dimensions();
  // Multiples first: what is known to divide shapes every quotient that is made from here on.
  for (const bool divides : {true, false}) {
    for (std::size_t i = 0; i < certificate.conditions.size(); ++i)
      if (met[i] && certificate.conditions[i].divides == divides) assume(certificate.conditions[i]);
    if (divides) count_pieces();
  }
}

/// Arguments that the contract says are equal are one; the lowest stands for them.
void Values::identify_arguments() {
  for (std::size_t i = 0; i < contract_->args.size(); ++i) same_as_.push_back(i);
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto& [a, b] : contract_->equal_args) {
      std::size_t &x = same_as_.at(static_cast<std::size_t>(a)), &y = same_as_.at(static_cast<std::size_t>(b));
      if (x == y) continue;
      x = y = std::min(x, y);
      changed = true;
    }
  }
}

void Values::take_dimensions() {
  identify_arguments();
  std::vector<bool> nonempty(contract_->args.size(), false);
  const auto is_dim = [&](std::size_t i) { return contract_->args[i].role == ArgRole::Dim; };
  for (std::size_t i = 0; i < contract_->args.size(); ++i) {
    if (!is_dim(i)) continue;
    // A block runs only where there is a piece for it, so no extent of the tensor of the pieces is 0.
    const int tensor = contract_->args[i].tensor;
    if (tensor == contract_->pieces_of_tensor || contract_->tensors[static_cast<std::size_t>(tensor)].nonempty)
      nonempty[same_as_[i]] = true;
  }
  for (std::size_t i = 0; i < contract_->args.size(); ++i)
    if (is_dim(i) && same_as_[i] == i)
      arguments_[(i << 8) | (64 << 1) | 1] = prover_.make({nonempty[i] ? 1 : 0, kMaxDim});
}

void Values::count_pieces() {
  if (contract_->blocks_arg >= 0) {
    pieces_ = argument(static_cast<std::size_t>(contract_->blocks_arg), 32, true);
    prover_.know(pieces_ - Poly(1));
    prover_.know(Poly(analysis::kMaxGridAxis) - pieces_);
    return;
  }
  if (contract_->pieces_of_tensor < 0) return;
  const analysis::TensorContract& t = contract_->tensors[static_cast<std::size_t>(contract_->pieces_of_tensor)];
  pieces_ = Poly(1);
  for (int a = 0; a < t.rank; ++a) {
    const Int extent = contract_->piece[static_cast<std::size_t>(a)];
    const Poly dim = argument(static_cast<std::size_t>(t.base_arg + 1 + a), 64, true);
    const Poly along = prover_.quotient(dim + Poly(extent - 1), Poly(extent));
    pieces_ = pieces_ * along;
    if (!contract_->wide_grid) pieces_along_.push_back(along);
  }
  prover_.know(pieces_ - Poly(1));
  prover_.know(Poly(kMaxDim) - pieces_);
}

Poly Values::argument(std::size_t number, int bits, bool is_signed) {
  if (number < same_as_.size() && bits == 64 && is_signed) number = same_as_[number];
  const std::uint64_t key = (number << 8) | (static_cast<std::uint64_t>(bits) << 1) | (is_signed ? 1 : 0);
  const auto [it, fresh] = arguments_.try_emplace(key, Atom{0});
  if (fresh) it->second = prover_.make(is_signed ? integers(bits) : Range{0, (Int{1} << bits) - 1});
  return Poly::of(it->second);
}

// ---- scopes ---------------------------------------------------------------------------------------------------------

void Values::open() { scopes_.push_back({prover_.mark(), found_.size(), found_terms_.size()}); }

void Values::close() {
  prover_.release(scopes_.back().facts);
  forget(scopes_.back().values);
  for (; found_terms_.size() > scopes_.back().terms; found_terms_.pop_back())
    terms_[found_terms_.back().number] = found_terms_.back().before;
  scopes_.pop_back();
}

void Values::forget(std::size_t size) {
  for (; found_.size() > size; found_.pop_back()) innermost_[found_.back().value.impl()] = found_.back().outer;
}

PolyView Values::of(ir::Value v) { return known(v).poly; }

Values::Known Values::known(ir::Value v) {
  const std::size_t number = innermost_[v.impl()];
  const bool is_new = number == 0;
  const Known before = is_new ? Known{PolyView(nullptr, 0, true), true, 0} : found_[number - 1].known;
  if (!is_new && (!before.weak || number > scopes_.back().values)) return before;
  if (depth_ == kDeepest) return is_new ? before : keep(v, before);
  const Deeper deeper(depth_);
  if (!is_new && !may_be_better(v, before.facts)) return keep(v, before);
  const Derived d = derive(v);
  return keep(v, {certify::keep(d.poly, memory_), d.weak, prover_.mark()});
}

/// In the present scope.
Values::Known Values::keep(ir::Value v, const Known& k) {
  std::size_t& number = innermost_[v.impl()];
  if (number > scopes_.back().values) return found_[number - 1].known = k;
  found_.push_back({v, number, k});
  number = found_.size();
  return k;
}

/// What a value is made of has been found out since there were so many facts, or there is news of it.
bool Values::may_be_better(ir::Value v, std::size_t facts) {
  const ir::Operation* op = v.def();
  if (op == nullptr) return false;
  for (const ir::OpOperand& use : op->operands()) {
    if (!is_integer(use.value.type())) {
      if (use.value.type().is_view()) return true;  // its extents are values as well
      continue;
    }
    const Known k = known(use.value);
    if (k.facts > facts || prover_.news_since(facts, k.poly)) return true;
  }
  return false;
}

/// Of the present scope; true if there was any.
bool Values::forget_weak() {
  const std::size_t first = scopes_.back().values;
  std::vector<Found> strong;
  for (std::size_t i = first; i < found_.size(); ++i)
    if (!found_[i].known.weak) strong.push_back(found_[i]);
  const bool any = strong.size() != found_.size() - first;
  if (!any) return false;
  forget(first);
  for (const Found& f : strong) keep(f.value, f.known);
  return true;
}

Poly Values::unknown(ir::Value v) {
  const auto [it, fresh] = unknown_.try_emplace(v.impl(), Atom{0});
  if (fresh) it->second = prover_.make(integers(bits_of(v.type())), v.type().num_elements() > 1);
  return Poly::of(it->second);
}

/// `p` of another element than the one it was of. What differs between elements gets another name, and the facts about
/// it.
Poly Values::renamed(const PolyView& p) {
  Poly out = p;
  std::vector<Atom> varying;
  std::vector<std::pair<Atom, Atom>> others;
  for (const PolyTerm& t : p.terms())
    for (Product f = t.product; f != 0; f >>= 16)
      if (prover_.varies(Poly::of(factor(f, 0)))) varying.push_back(factor(f, 0));
  for (const Atom a : varying) {
    if (!out.mentions(a)) continue;
    const Atom other = prover_.make(prover_.range_of(a), true);
    out = out.substituted(a, Poly::of(other));
    others.emplace_back(a, other);
  }
  prover_.copy_facts(others);
  return out;
}

bool Values::fits(const PolyView& p, int bits) {
  const Range all = integers(bits);
  return prover_.never_negative(p - Poly(all.lo), effort_) && prover_.never_negative(Poly(all.hi) - p, effort_);
}

// ---- launch expressions ---------------------------------------------------------------------------------------------

Poly Values::term(std::uint32_t number) {
  if (number >= terms_.size()) return Poly::invalid();
  const KnownTerm before = terms_[number];
  if (before.is_known && (!before.poly.bad() || before.facts == prover_.mark())) return before.poly;
  if (depth_ == kDeepest) return Poly::invalid();
  const Deeper deeper(depth_);
  const Poly p = term_anew(number);
  // For this scope only: what a quotient says of its operands is known as long as the scope in which it is made.
  found_terms_.push_back({number, before});
  terms_[number] = {certify::keep(p, memory_), prover_.mark(), true};
  return p;
}

Poly Values::term_anew(std::uint32_t number) {
  using analysis::ExprKind;
  const analysis::Term& t = certificate_->terms[number];
  switch (t.kind) {
    case ExprKind::Const: return Poly(t.value);
    case ExprKind::Arg: {
      const bool is_slot = t.value >= 0 && static_cast<std::uint64_t>(t.value) < entry_->num_args();
      if (!is_slot || t.bits < 1 || t.bits > 64) return Poly::invalid();
      return argument(static_cast<std::size_t>(t.value), t.bits, t.is_signed);
    }
    default: break;
  }
  if (t.lhs >= number || t.rhs >= number || t.kind > ExprKind::Max) return Poly::invalid();
  const Poly a = term(t.lhs), b = term(t.rhs);
  switch (t.kind) {
    case ExprKind::Add: return a + b;
    case ExprKind::Sub: return a - b;
    case ExprKind::Mul: return a * b;
    case ExprKind::Min: return prover_.extreme(a, b, false);
    case ExprKind::Max: return prover_.extreme(a, b, true);
    default: break;
  }
  if (!prover_.never_negative(b - Poly(1))) return Poly::invalid();
  if (t.kind == ExprKind::FloorDiv) return prover_.quotient(a, b);
  if (t.kind == ExprKind::CeilDiv) return prover_.quotient(a + b - Poly(1), b);
  return prover_.remainder(a, b);  // Mod
}

/// A launch finds a value for every operation of a condition, so what it divides by is at least 1.
void Values::assume_divisors(std::uint32_t number, int depth) {
  using enum analysis::ExprKind;
  if (number >= terms_.size() || depth == kDeepest) return;
  const analysis::Term& t = certificate_->terms[number];
  if (t.kind == Const || t.kind == Arg || t.lhs >= number || t.rhs >= number || divisors_assumed_[number]) return;
  divisors_assumed_[number] = true;
  assume_divisors(t.lhs, depth + 1);
  assume_divisors(t.rhs, depth + 1);
  if (t.kind == FloorDiv || t.kind == CeilDiv || t.kind == Mod) prover_.know(term(t.rhs) - Poly(1));
}

void Values::assume(const analysis::CertificateCondition& condition) {
  assume_divisors(condition.lhs);
  if (!condition.divides) assume_divisors(condition.rhs);
  if (condition.divides)
    prover_.know_multiple(term(condition.lhs), static_cast<Int>(condition.divisor));
  else
    prover_.know(term(condition.rhs) - term(condition.lhs));
}

// ---- conditions -----------------------------------------------------------------------------------------------------

namespace {

ir::ComparisonPredicate predicate_of(const ir::Operation& compare, bool truth) {
  using enum ir::ComparisonPredicate;
  constexpr ir::ComparisonPredicate kNegated[] = {NotEqual, Equal, GreaterEqual, Greater, LessEqual, Less};
  const auto p = compare.enum_attr<ir::ComparisonPredicate>(AttrName::comparison_predicate);
  return truth ? p : kNegated[static_cast<std::size_t>(p)];
}

bool is_unsigned(const ir::Operation& op) {
  return op.enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Unsigned;
}

/// The value of an i1 constant that is the same in all elements.
std::optional<bool> constant_truth(const ir::Operation& op) {
  const auto& bytes = op.attr(AttrName::value)->as<ir::DenseAttr>()->bytes;
  const auto bit = [](std::byte b) { return (std::to_integer<int>(b) & 1) != 0; };
  if (bytes.empty() || std::any_of(bytes.begin(), bytes.end(), [&](std::byte b) { return bit(b) != bit(bytes[0]); }))
    return std::nullopt;
  return bit(bytes[0]);
}

}  // namespace

/// True only if every element of the comparison is `truth`.
bool Values::compares(const ir::Operation& compare, bool truth) {
  if (!is_integer(compare.operand(0).type())) return false;
  const PolyView a = of(compare.operand(0)), b = of(compare.operand(1));
  const auto less = [&](const PolyView& x, const PolyView& y, Int gap) {
    // Read as unsigned, numbers that are not negative keep their order.
    return prover_.at_most(x + Poly(gap), y) && (!is_unsigned(compare) || prover_.never_negative(x));
  };
  using enum ir::ComparisonPredicate;
  switch (predicate_of(compare, truth)) {
    case Less: return less(a, b, 1);
    case LessEqual: return less(a, b, 0);
    case Greater: return less(b, a, 1);
    case GreaterEqual: return less(b, a, 0);
    case Equal: return prover_.at_most(a, b) && prover_.at_most(b, a);
    case NotEqual: return prover_.at_most(a + Poly(1), b) || prover_.at_most(b + Poly(1), a);
  }
  return false;
}

bool Values::proves(ir::Value condition, bool truth) {
  Answers known;
  return proves(condition, truth, known, 0);
}

bool Values::proves(ir::Value condition, bool truth, Answers& known, int depth) {
  const ir::Operation* op = condition.def();
  if (op == nullptr || depth == kDeepest) return false;
  const auto side = [&](std::size_t i, bool t) {
    const ir::Value v = op->operand(i);
    const std::uintptr_t key = reinterpret_cast<std::uintptr_t>(v.impl()) | (t ? 1u : 0u);  // no value is at an odd one
    if (const auto it = known.find(key); it != known.end()) return it->second;
    const bool proven = proves(v, t, known, depth + 1);
    known.emplace(key, proven);
    return proven;
  };
  switch (op->op()) {
    case Op::Constant: return constant_truth(*op) == truth;
    case Op::CmpI: return compares(*op, truth);
    case Op::AndI: return truth ? side(0, true) && side(1, true) : side(0, false) || side(1, false);
    case Op::OrI: return truth ? side(0, true) || side(1, true) : side(0, false) && side(1, false);
    case Op::XOrI: return (side(0, true) && side(1, !truth)) || (side(0, false) && side(1, truth));
    case Op::Cat: return side(0, truth) && side(1, truth);
    case Op::Select: return side(1, truth) && side(2, truth);
    case Op::Broadcast:
    case Op::Reshape:
    case Op::Permute:
    case Op::Extract: return side(0, truth);
    default: return false;
  }
}

void Values::suppose(const PolyView& p) {
  prover_.know(prover_.never_negative(Poly(-1) - p, effort_) ? Poly(-1) : Poly(p));
}

void Values::assume_compare(const ir::Operation& compare, bool truth) {
  if (!is_integer(compare.operand(0).type()) || compare.operand(0).type().rank() != 0) return;
  PolyView small = of(compare.operand(0)), large = of(compare.operand(1));
  const ir::ComparisonPredicate p = predicate_of(compare, truth);
  using enum ir::ComparisonPredicate;
  if (p == NotEqual) return;
  if (p == Equal) {
    suppose(small - large);
    suppose(large - small);
    return;
  }
  if (p == Greater || p == GreaterEqual) std::swap(small, large);
  if (is_unsigned(compare)) {
    // Below a number that is not negative there are no negative ones.
    if (!prover_.never_negative(large)) return;
    suppose(small);
  }
  suppose(large - small - Poly(p == Less || p == Greater ? 1 : 0));
}

void Values::assume(ir::Value condition, bool truth) {
  // Twice: what the condition says may show that a value in it does not wrap, which is then known by its parts.
  for (int round = 0; round < 2; ++round) {
    std::vector<ir::Value> work{condition};
    std::unordered_set<const ir::Operation*> seen;  // one may be an operand of many others
    while (!work.empty() && seen.size() < kMaxParts) {
      const ir::Operation* op = work.back().def();
      work.pop_back();
      if (op == nullptr || !seen.insert(op).second) continue;
      if (op->op() == (truth ? Op::AndI : Op::OrI)) {
        work.push_back(op->operand(0));
        work.push_back(op->operand(1));
      } else if (op->op() == Op::CmpI) {
        assume_compare(*op, truth);
      }
    }
    if (!forget_weak()) return;
  }
}

}  // namespace tessera::certify
