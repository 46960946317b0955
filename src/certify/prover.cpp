// Shows that a polynomial is never negative: by the constant bounds of atoms, by subtracting facts that cancel a term,
// or by cases of a selection.
#include "certify/prover.hpp"

#include <algorithm>
#include <array>

namespace tessera::certify {
namespace {

constexpr int kDepth = 6;  // facts used one after the other in a proof; twice as many where there are few alternatives
constexpr int kBudget = 1500;  // polynomials examined for one proof
constexpr std::size_t kTried = 512;
constexpr int kLittle = 20;  // the same for the first, cheap attempt: proofs that it finds need fewer

std::uint64_t hash(const PolyView& p) {
  std::uint64_t h = 0x9E3779B97F4A7C15u;
  for (const PolyTerm& t : p.terms())
    h = (h ^ (static_cast<std::uint64_t>(t.product) * 0xC2B2AE3D27D4EB4Fu) ^
         (static_cast<std::uint64_t>(t.product >> 64) * 0x9FB21C651E98DF25u) ^
         static_cast<std::uint64_t>(t.coefficient)) *
        0x165667B19E3779F9u;
  return h;
}

/// w with p = d * w + rest for a rest that is a number; nothing if there is none.
std::optional<std::pair<Poly, Int>> divide(const PolyView& p, const PolyView& d) {
  if (d.bad() || d.terms().empty()) return std::nullopt;
  const PolyTerm lead = d.terms().back();
  Poly rest = p, quotient;
  for (int step = 0; step < 16 && !rest.bad() && !rest.is_constant(); ++step) {
    const PolyTerm top = rest.terms().back();
    if (lead.coefficient != 1 && top.coefficient % lead.coefficient != 0) return std::nullopt;
    Product left = top.product;
    for (Product f = lead.product; f != 0; f >>= 16) {
      if (!contains(left, factor(f, 0))) return std::nullopt;
      left = without(left, factor(f, 0));
    }
    const PolyTerm part{left, lead.coefficient == 1 ? top.coefficient : top.coefficient / lead.coefficient};
    quotient = quotient + Poly::of(part.product, part.coefficient);
    rest = rest - d.times(part);
  }
  if (rest.bad() || quotient.bad() || !rest.is_constant()) return std::nullopt;
  return std::pair(quotient, rest.constant());
}

}  // namespace

Prover::Prover(Effort effort, std::pmr::memory_resource* memory)
    : memory_(memory),
      atoms_(memory),
      always_(memory),
      now_(memory),
      index_(memory),
      quotients_by_(memory),
      minima_(memory),
      axioms_(memory),
      facts_(memory),
      news_(memory),
      tightened_(memory),
      divides_(memory),
      effort_(effort),
      tried_(kTried, memory) {
  constexpr std::size_t kUsual = 64;
  for (Ranges* r : {&always_, &now_}) r->reserve(kUsual);
  atoms_.emplace_back();  // number 0 is no atom
  for (Ranges* r : {&always_, &now_}) r->emplace_back();
}

Atom Prover::make(Range range, bool varying) {
  Info info;
  info.varying = varying;
  return add(info, range);
}

Atom Prover::add(Info info, Range range) {
  constexpr std::size_t kMaxAtoms = 0xFFFF;  // what a factor of a product can number
  exhausted_ = exhausted_ || atoms_.size() == kMaxAtoms;
  if (exhausted_) return 1;
  info.a = keep(info.a, *memory_);
  info.b = keep(info.b, *memory_);
  atoms_.push_back(info);
  always_.push_back(range);
  now_.push_back(range);
  return static_cast<Atom>(atoms_.size() - 1);
}

Atom Prover::intern(const Info& info, Range range, bool& is_new) {
  const std::uint64_t h = hash(info.a) * 31 + hash(info.b) + static_cast<std::uint64_t>(info.kind);
  const auto [first, last] = index_.equal_range(h);
  for (auto it = first; it != last; ++it) {
    const Info& known = atoms_[it->second];
    if (known.kind == info.kind && known.a == info.a && known.b == info.b && known.larger == info.larger) {
      is_new = false;
      return it->second;
    }
  }
  is_new = true;
  const Atom a = add(info, range);
  index_.emplace(h, a);
  if (info.kind == Kind::Quotient) quotients_by_[hash(info.b)].push_back(a);
  if (info.kind == Kind::Choice && info.larger == false) minima_.push_back(a);
  return a;
}

std::span<const Atom> Prover::newest(const Atoms& all) {
  return std::span<const Atom>(all).last(std::min(all.size(), kNewestAtoms));
}

bool Prover::varies(const PolyView& p) const {
  for (const PolyTerm& t : p.terms())
    for (Product f = t.product; f != 0; f >>= 16)
      if (atoms_[factor(f, 0)].varying) return true;
  return false;
}

/// The lower bound of a term in the present scope.
Int Prover::least(const PolyTerm& t) const {
  const bool positive = t.coefficient > 0;
  Int bound = 1;
  if (t.product != 0) {
    const bool single = t.product >> 16 == 0;
    const Range r = single ? Range{} : product_range(t.product, now_);
    const Range& of = single ? now_[factor(t.product, 0)] : r;
    bound = positive ? of.lo : of.hi;
  }
  if (t.coefficient == 1) return bound;
  return t.coefficient == -1 ? -bound : bound_product(t.coefficient, bound);
}

/// The same of a sum.
Int Prover::least(const PolyView& p) const {
  Int sum = 0;
  for (const PolyTerm& t : p.terms()) {
    const Int lo = least(t);
    if (lo == -kHuge) return lo;
    sum += lo;
  }
  return clamped(sum);
}

/// The bounds of the term leave one value.
bool Prover::is_fixed(const PolyTerm& t) const {
  const Range r = product_range(t.product, now_);
  return r.lo == r.hi;
}

// ---- quotients ------------------------------------------------------------------------------------------------------

Poly Prover::quotient(const PolyView& a, const PolyView& b) {
  if (a.bad() || b.bad()) return Poly::invalid();
  if (const auto whole = divide(a, b)) {
    // a = b * w + r: floor(a / b) = w + floor(r / b).
    const auto& [w, r] = *whole;
    if (r == 0) return w;
    if (b.is_constant()) return w + Poly(floor_div(r, b.constant()));
    if (r > 0 && never_negative(b - Poly(r + 1))) return w;
    if (r < 0 && never_negative(b + Poly(r))) return w - Poly(1);
  }
  Poly outside, inside = a;  // of a constant divisor: what it divides comes out
  if (b.is_constant()) {
    const Int c = b.constant();
    for (const PolyTerm& t : a.terms()) {
      const Int out = t.product == 0 ? floor_div(t.coefficient, c) : t.coefficient % c == 0 ? t.coefficient / c : 0;
      if (out != 0) outside = outside + Poly::of(t.product, out);
    }
    inside = a - outside * b;
  }
  Info info;
  info.kind = Kind::Quotient;
  info.varying = varies(a) || varies(b);
  const Range n = range_of(inside), d = range_of(b);
  // The quotient is between 0 and a, and is a number if both are.
  const Int divisor = d.lo >= 1 ? d.lo : 1;
  Range range{n.lo >= 0        ? 0
              : n.lo <= -kHuge ? -kHuge
                               : floor_div(n.lo, divisor),
              n.hi < 0        ? -1
              : n.hi >= kHuge ? kHuge
                              : floor_div(n.hi, divisor)};
  if (b.is_constant() && n.lo > -kHuge) range.lo = floor_div(n.lo, b.constant());
  info.a = inside;
  info.b = b;
  bool is_new = false;
  const Atom q = intern(info, range, is_new);
  know_divisor(q);
  if (is_new && b.is_constant()) know_quotient(q, inside, b);
  // Not again where nothing has changed since.
  const auto same = [&] { return atoms_[q].bounded == facts_.size() && atoms_[q].releases == releases_; };
  if (!b.is_constant() && !same()) {
    define(inside - b * Poly::of(q));
    define(b * Poly::of(q) + b - Poly(1) - inside);
    bound_quotient(q, inside, b);
    atoms_[q].bounded = facts_.size();
    atoms_[q].releases = releases_;
  }
  return outside + Poly::of(q);
}

Poly Prover::remainder(const PolyView& a, const PolyView& b) {
  const Poly exact = a - b * quotient(a, b);
  if (exact.bad() || b.is_constant() || exact.is_constant()) return exact;
  // One atom, so that products with it are one term.
  Info info;
  info.kind = Kind::Remainder;
  info.varying = varies(a) || varies(b);
  const Int most = std::max<Int>(range_of(b).hi, 1);  // the range is for every scope, also where b is less
  info.a = a;
  info.b = b;
  bool is_new = false;
  const Poly r = Poly::of(intern(info, {0, most >= kHuge ? kHuge : most - 1}, is_new));
  define(exact - r);
  define(r - exact);
  define(b - Poly(1) - r);
  if (never_negative(a, effort_)) define(a - r);
  // What is below both of two numbers is below the smaller one.
  for (const Atom c : newest(minima_)) {
    const PolyView x = atoms_[c].a, y = atoms_[c].b;
    for (const int gap : {1, 0}) {
      const Poly low = r + Poly(gap);
      if (!never_negative(x - low, effort_) || !never_negative(y - low, effort_)) continue;
      define(Poly::of(c) - low);
      break;
    }
  }
  return r;
}

/// The caller of quotient() has shown it from the present facts: as long as these hold.
void Prover::know_divisor(Atom q) {
  Info& quotient = atoms_[q];
  if (quotient.divides) return;
  quotient.divides = true;
  const bool always = range_of(quotient.b).lo >= 1;
  if (!always) divides_.push_back({facts_.size(), q});
}

/// c * q <= a <= c * q + c - 1; where c divides all of a but a rest, c * q is a less the rest.
void Prover::know_quotient(Atom q, const PolyView& a, const PolyView& b) {
  const Int c = b.constant();
  const Poly scaled = Poly::of(q) * b;
  const Poly rest(a.constant());
  if (multiple(a - rest, c)) {
    const Poly exact = a - Poly(a.constant() - floor_div(a.constant(), c) * c);
    axioms_.add(exact - scaled);
    axioms_.add(scaled - exact);
    return;
  }
  axioms_.add(a - scaled);
  axioms_.add(scaled + b - Poly(1) - a);
}

/// Linear bounds of q = floor(a / b), which products need: q >= 0 for an a >= 0, and a fact "a <= b * w - 1" gives
/// q <= w - 1. That is what division by a number of tiles makes of a block's number.
void Prover::bound_quotient(Atom q, const PolyView& a, const PolyView& b) {
  if (never_negative(a, effort_)) define(Poly::of(q));
  std::vector<Poly> bounds;
  const Product last = a.terms().empty() ? 0 : a.terms().back().product;
  std::size_t facts = 0;
  for (const Fact* f = last == 0 ? nullptr : facts_.newest(last); f != nullptr && facts < kNewest;
       f = f->older[f->place(last)], ++facts) {
    const auto whole = divide(f->poly + a + Poly(1), b);  // the fact is u - a >= 0
    if (whole && whole->second == 0 && !whole->first.mentions(q))
      bounds.push_back(whole->first - Poly(1) - Poly::of(q));
  }
  for (const PolyView& p : bounds) define(p);
  // Of two numbers divided by the same, the larger one has the larger quotient.
  for (const Atom other : newest(quotients_by_[hash(b)])) {
    if (other == q || !atoms_[other].divides || !(atoms_[other].b == b)) continue;
    const PolyView x = atoms_[other].a;
    if (never_negative(x - a, effort_))
      define(Poly::of(other) - Poly::of(q));
    else if (never_negative(a - x, effort_))
      define(Poly::of(q) - Poly::of(other));
  }
}

// ---- choices --------------------------------------------------------------------------------------------------------

Prover::Info Prover::choice_of(const PolyView& a, const PolyView& b, bool varying) const {
  Info info;
  info.kind = Kind::Choice;
  info.varying = varying || varies(a) || varies(b);
  info.a = a;
  info.b = b;
  return info;
}

Poly Prover::choice(const PolyView& a, const PolyView& b, bool varying) {
  if (a.bad() || b.bad()) return Poly::invalid();
  if (a == b) return a;
  const Range x = range_of(a), y = range_of(b);
  // Never one that is known: another choice between the same two may take the other one.
  return Poly::of(add(choice_of(a, b, varying), {std::min(x.lo, y.lo), std::max(x.hi, y.hi)}));
}

Poly Prover::extreme(const PolyView& a, const PolyView& b, bool larger) {
  if (a.bad() || b.bad()) return Poly::invalid();
  if (a == b) return a;
  Info info = choice_of(a, b, false);
  info.larger = larger;
  const Range x = range_of(a), y = range_of(b);
  if (x.hi <= y.lo || y.hi <= x.lo) return (x.hi <= y.lo) == larger ? b : a;
  if (hash(b) < hash(a)) std::swap(info.a, info.b);
  const Range range =
      larger ? Range{std::max(x.lo, y.lo), std::max(x.hi, y.hi)} : Range{std::min(x.lo, y.lo), std::min(x.hi, y.hi)};
  bool is_new = false;
  const Atom c = intern(info, range, is_new);
  if (is_new) {
    for (const PolyView* side : {&a, &b}) axioms_.add(larger ? Poly::of(c) - *side : *side - Poly::of(c));
  }
  return Poly::of(c);
}

// ---- proofs ---------------------------------------------------------------------------------------------------------

bool Prover::never_negative(const PolyView& p, Effort effort) {
  if (p.bad() || exhausted_) return false;
  if (least(p) >= 0) return true;
  bool found = false;
  if (pool_ <= 0) effort = Effort::Little;
  for (const Order order : {Order::NewestOnly, Order::Any}) {
    order_ = order;
    const int budget = effort == Effort::Full ? kBudget : kLittle;
    budget_ = budget;
    ++proof_;
    const int deepest = order == Order::NewestOnly ? 2 * kDepth : kDepth;
    cut_ = true;
    for (int depth = 1; depth <= deepest && budget_ > 0 && cut_ && !found; ++depth) {
      cut_ = false;
      found = search(p, depth);
    }
    if (effort == Effort::Full) pool_ -= budget - budget_;
    if (found || effort == Effort::Little) break;
  }
  return found;
}

bool Prover::search(const PolyView& given, int depth) {
  if (given.bad() || --budget_ < 0) return false;
  // Over integers, c * x + k >= 0 is x + floor(k / c) >= 0.
  if (const Int g = given.content(); g > 1) return search_divided(given.divided(g), depth);
  return search_divided(given, depth);
}

bool Prover::search_divided(const PolyView& goal, int depth) {
  std::array<Int, Poly::kMaxTerms> lows;
  const std::size_t n = goal.terms().size();
  Int sum = 0;
  for (std::size_t i = 0; i < n; ++i) {
    lows[i] = least(goal.terms()[i]);
    sum = bound_sum(sum, lows[i], -kHuge);
  }
  if (sum >= 0) return true;
  if (depth == 0) {
    cut_ = true;
    return false;
  }
  // The same facts in another order end here. (If two polynomials share a hash, a proof may be missed, but none is
  // invented.)
  const std::uint64_t h = hash(goal);
  Tried& tried = tried_[h % kTried];
  if (tried.hash == h && tried.proof == proof_ && tried.depth >= depth) return false;
  tried = {h, proof_, depth};
  if (order_ == Order::NewestOnly) {
    // The term that is made of most others, among those that may be negative, else among all.
    const PolyTerm* newest = nullptr;
    bool negative = false;
    for (std::size_t i = 0; i < n; ++i) {
      const PolyTerm& t = goal.terms()[i];
      if (negative && lows[i] >= 0) continue;
      if (newest != nullptr && negative == (lows[i] < 0) && factor(t.product, 0) < factor(newest->product, 0)) continue;
      if (is_fixed(t)) continue;
      newest = &t;
      negative = lows[i] < 0;
    }
    return newest != nullptr && replace(goal, *newest, depth);
  }
  // Terms that may be negative first; a better bound of the others may be needed as well.
  for (const bool negative : {true, false})
    for (std::size_t i = n; i-- > 0;)
      if ((lows[i] < 0) == negative && !is_fixed(goal.terms()[i]) && replace(goal, goal.terms()[i], depth)) return true;
  return false;
}

/// Continues with a lower bound in the place of `term`.
bool Prover::replace(const PolyView& goal, const PolyTerm& term, int depth) {
  if (by_division(goal, term, depth) || eliminate(goal, term, depth) || by_cases(goal, term, depth)) return true;
  // Its least value, where the rest can then be divided.
  const Int low = least(term);
  if (low == -kHuge) return false;
  const Poly rest = goal.without(term.product);
  return rest.content() > 1 && search(rest + Poly(low), depth - 1);
}

/// Subtracts a fact that cancels `term`, which may be negative: the rest has to be shown.
bool Prover::eliminate(const PolyView& goal, const PolyTerm& term, int depth) {
  if (use_all(goal, term, term.product, 0, depth)) return true;
  return degree(term.product) > 1 && eliminate_product(goal, term, depth);
}

/// A product is bounded by a bound of one factor, multiplied with the others if those are not negative.
bool Prover::eliminate_product(const PolyView& goal, const PolyTerm& term, int depth) {
  for (Product p = term.product; p != 0; p >>= 16) {
    const Atom f = factor(p, 0);
    const Product others = without(term.product, f);
    if (product_range(others, now_).lo < 0) continue;
    const Range r = now_[f];
    const Int bound = term.coefficient < 0 ? r.hi : r.lo;
    const Int sign = term.coefficient < 0 ? -1 : 1;
    if (bound < kHuge && bound > -kHuge &&
        use(goal, term, Poly::of(term.product, sign) - Poly::of(others, sign * bound), depth))
      return true;
    if (use_all(goal, term, f, others, depth)) return true;
  }
  return false;
}

/// Every fact that has a term of the product `of`, times `scale`, the newest first. (A proof adds no facts.)
bool Prover::use_all(const PolyView& goal, const PolyTerm& term, Product of, Product scale, int depth) {
  for (const FactList* list : {&facts_, &axioms_}) {
    const Fact* older = nullptr;
    std::size_t looked_at = 0;
    for (const Fact* fact = list->newest(of); fact != nullptr && looked_at < kNewest; fact = older, ++looked_at) {
      if (budget_ <= 0) return false;
      const std::size_t place = fact->place(of);
      older = fact->older[place];
      const PolyView& p = fact->poly;
      if ((p.terms()[place].coefficient < 0) != (term.coefficient < 0)) continue;  // it does not cancel the term
      if (scale == 0 ? use(goal, term, p, depth) : use(goal, term, p.times({scale, 1}), depth)) return true;
    }
  }
  return false;
}

/// A fact that has the product of the term, with the same sign.
bool Prover::use(const PolyView& goal, const PolyTerm& term, const PolyView& fact, int depth) {
  if (fact.bad()) return false;
  const Int c = fact.coefficient(term.product);
  const auto size = [](Int v) { return v < 0 ? -v : v; };
  const Int g = gcd(c, term.coefficient);
  const Int of_goal = g == 1 ? size(c) : floor_div(size(c), g);
  const Int of_fact = g == 1 ? size(term.coefficient) : floor_div(size(term.coefficient), g);
  if (depth == 1) return is_done(goal, of_goal, fact, -of_fact);
  return search(Poly::combine(goal, of_goal, fact, -of_fact), depth - 1);
}

/// The last step of an attempt, which most steps are: goal * of_goal + fact * of_fact is not negative by the bounds of
/// its terms, of which it is not made.
bool Prover::is_done(const PolyView& goal, Int of_goal, const PolyView& fact, Int of_fact) {
  if (--budget_ < 0) return false;
  Int sum = 0;
  const bool bounded = merge_terms(goal, of_goal, fact, of_fact, [&](const PolyTerm& t) {
    const Int low = t.coefficient > kHuge || t.coefficient < -kHuge ? -kHuge : least(t);
    sum = bound_sum(sum, low, -kHuge);
    return low != -kHuge;
  });
  if (bounded && sum >= 0) return true;
  cut_ = true;
  return false;
}

/// For q = floor(a / b), where b >= 1 is known: q <= r is a <= b * r + b - 1, and q >= r is a >= b * r.
bool Prover::by_division(const PolyView& goal, const PolyTerm& term, int depth) {
  const Info& q = atoms_[factor(term.product, 0)];
  if (degree(term.product) != 1 || q.kind != Kind::Quotient || !q.divides) return false;
  if (term.coefficient != 1 && term.coefficient != -1) return false;
  const Poly rest = goal.without(term.product);
  if (rest.mentions(factor(term.product, 0))) return false;
  if (term.coefficient > 0) return search(q.a + q.b * rest, depth - 1);
  return search(q.b * rest + q.b - Poly(1) - q.a, depth - 1);
}

bool Prover::by_cases(const PolyView& goal, const PolyTerm& term, int depth) {
  for (Product f = term.product; f != 0; f >>= 16) {
    const Atom a = factor(f, 0);
    if (atoms_[a].kind != Kind::Choice) continue;
    const PolyView left = atoms_[a].a, right = atoms_[a].b;
    if (search(goal.substituted(a, left), depth - 1) && search(goal.substituted(a, right), depth - 1)) return true;
  }
  return false;
}

}  // namespace tessera::certify
