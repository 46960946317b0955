// The facts of a scope: bounds, the operands of a minimum, maximum or quotient that they bound, multiples.
#include <algorithm>

#include "certify/prover.hpp"

namespace tessera::certify {

std::size_t Prover::Fact::place(Product p) const {
  std::size_t i = 0;
  while (poly.terms()[i].product != p) ++i;
  return i;
}

void Prover::FactList::add(const PolyView& p) {
  const std::size_t n = p.terms().size();
  Fact& fact = all_.emplace_back();
  fact.poly = keep(p, *memory_);
  fact.older = static_cast<const Fact**>(memory_->allocate(n * sizeof(const Fact*), alignof(const Fact*)));
  for (std::size_t i = 0; i < n; ++i) {
    if (p.terms()[i].product == 0) continue;
    const Fact*& newest = newest_place(p.terms()[i].product);
    fact.older[i] = newest;
    newest = &fact;
  }
}

void Prover::FactList::shrink(std::size_t size) {
  for (; all_.size() > size; all_.pop_back()) {
    const Fact& fact = all_.back();
    for (std::size_t i = 0; i < fact.poly.terms().size(); ++i)
      if (const Product p = fact.poly.terms()[i].product; p != 0) newest_place(p) = fact.older[i];
  }
}

bool Prover::FactList::holds(const PolyView& p) const {
  const Product last = p.terms().back().product;
  std::size_t looked_at = 0;
  for (const Fact* f = newest(last); f != nullptr && looked_at < kNewest; f = f->older[f->place(last)], ++looked_at)
    if (f->poly == p) return true;
  return false;
}

const Prover::Fact*& Prover::FactList::newest_place(Product p) {
  if (degree(p) != 1) return newest_of_product_[p];
  const auto atom = static_cast<std::size_t>(p);
  constexpr std::size_t kMore = 64;
  if (atom >= newest_of_atom_.size()) newest_of_atom_.resize(atom + kMore);
  return newest_of_atom_[atom];
}

const Prover::Fact* Prover::FactList::newest(Product p) const {
  if (degree(p) == 1) return p < newest_of_atom_.size() ? newest_of_atom_[static_cast<std::size_t>(p)] : nullptr;
  const auto it = newest_of_product_.find(p);
  return it == newest_of_product_.end() ? nullptr : it->second;
}

void Prover::take(const PolyView& p, bool is_news) {
  if (p.bad()) return;
  if (!impossible_ && least(Poly(-1) - p) >= 0) {
    impossible_ = facts_.size();
    facts_.add(p);  // also a number: scopes that are opened from now on have more facts
  }
  if (p.is_constant()) return;
  const Int g = p.content();
  Poly fact = g > 1 ? p.divided(g) : p;
  if (facts_.holds(fact)) return;
  if (is_news) news_.push_back(facts_.size());
  facts_.add(fact);
  take_parts(fact, is_news);
}

void Prover::copy_facts(const std::vector<std::pair<Atom, Atom>>& renamed) {
  const auto belongs = [&](const PolyView& fact) {  // no atom in it stays that of the other element
    for (const PolyTerm& t : fact.terms())
      for (Product f = t.product; f != 0; f >>= 16) {
        const Atom a = factor(f, 0);
        if (atoms_[a].varying && std::ranges::find(renamed, a, &std::pair<Atom, Atom>::first) == renamed.end())
          return false;
      }
    return true;
  };
  std::vector<Poly> found;
  for (const auto& [from, to] : renamed)
    for (const FactList* list : {&facts_, &axioms_}) {
      std::size_t looked_at = 0;
      for (const Fact* f = list->newest(from); f != nullptr && looked_at < kNewest; ++looked_at) {
        if (belongs(f->poly)) found.emplace_back(f->poly);
        f = f->older[f->place(from)];
      }
    }
  for (Poly& p : found) {
    for (const auto& [from, to] : renamed) p = p.substituted(from, Poly::of(to));
    define(p);
  }
}

/// What a constant bound of a minimum, maximum or quotient implies for its operands.
void Prover::take_parts(const PolyView& fact, bool is_news) {
  const PolyTerm last = fact.terms().back();
  if (degree(last.product) != 1 || fact.terms().size() != (fact.constant() == 0 ? 1 : 2)) return;
  if (last.coefficient != 1 && last.coefficient != -1) return;
  const Atom atom = factor(last.product, 0);
  tightened_.push_back({facts_.size(), atom, now_[atom]});
  if (last.coefficient > 0)
    now_[atom].lo = std::max(now_[atom].lo, -fact.constant());
  else
    now_[atom].hi = std::min(now_[atom].hi, fact.constant());
  if (atoms_[atom].kind != Kind::Quotient && atoms_[atom].kind != Kind::Choice) return;
  const Info part = atoms_[atom];
  const bool at_least = last.coefficient > 0;  // bound <= part, or part <= bound
  const Poly bound = at_least ? Poly(-fact.constant()) : Poly(fact.constant());
  const auto holds = [&](const PolyView& p) { take(at_least ? p - bound : bound - p, is_news); };
  if (part.kind == Kind::Quotient) {
    if (!part.divides) return;
    take(at_least ? part.a - part.b * bound : part.b * bound + part.b - Poly(1) - part.a, is_news);
  } else if (part.kind == Kind::Choice && part.larger && *part.larger != at_least) {
    holds(part.a);
    holds(part.b);
  } else if (part.kind == Kind::Choice && part.larger) {  // the other side is excluded
    const auto cannot = [&](const PolyView& p) {
      const Range r = sum_range(at_least ? bound - Poly(1) - p : p - bound - Poly(1), now_);
      return r.lo >= 0;
    };
    if (cannot(part.a)) holds(part.b);
    if (cannot(part.b)) holds(part.a);
  }
}

void Prover::know_multiple(const PolyView& p, Int divisor) {
  if (divisor < 1) return;
  // Only single atoms: obligations about multiples are about dimensions, strides and addresses.
  if (p.bad() || p.terms().size() != 1 || p.terms()[0].coefficient != 1 || degree(p.terms()[0].product) != 1) return;
  Int& known = atoms_[factor(p.terms()[0].product, 0)].divisor;
  Int least = 0;
  if (!__builtin_mul_overflow(known / gcd(known, divisor), divisor, &least) && least < kHuge) known = least;
}

bool Prover::news_since(std::size_t mark, const PolyView& p) const {
  const auto end = news_.rbegin() + static_cast<std::ptrdiff_t>(std::min(news_.size(), kNewest));
  for (auto at = news_.rbegin(); at != end && *at >= mark; ++at)
    for (const PolyTerm& t : p.terms())
      for (Product f = t.product; f != 0; f >>= 16)
        if (facts_[*at].mentions(factor(f, 0))) return true;
  return false;
}

void Prover::release(std::size_t mark) {
  ++releases_;
  if (impossible_ && *impossible_ >= mark) impossible_.reset();
  facts_.shrink(mark);
  while (!news_.empty() && news_.back() >= mark) news_.pop_back();
  for (; !tightened_.empty() && tightened_.back().facts > mark; tightened_.pop_back())
    now_[tightened_.back().atom] = tightened_.back().before;
  for (; !divides_.empty() && divides_.back().facts > mark; divides_.pop_back())
    atoms_[divides_.back().quotient].divides = false;
}

std::optional<Int> Prover::number(const PolyView& p) const {
  const Int low = least(p), high = p.bad() ? 0 : -least(Poly(0) - p);
  return !p.bad() && !exhausted_ && low == high && low > -kHuge ? std::optional(low) : std::nullopt;
}

bool Prover::multiple(const PolyView& p, Int divisor) const {
  if (p.bad() || exhausted_) return false;
  for (const PolyTerm& t : p.terms()) {
    Int left = divisor / gcd(divisor, t.coefficient);
    for (Product f = t.product; f != 0 && left != 1; f >>= 16) left /= gcd(left, atoms_[factor(f, 0)].divisor);
    if (left != 1) return false;
  }
  return true;
}

bool Prover::is_before(const PolyView& p, std::size_t first) const {
  return !p.bad() && !exhausted_ && std::ranges::all_of(p.terms(), [&](const PolyTerm& t) {
    for (Product f = t.product; f != 0; f >>= 16)
      if (factor(f, 0) >= first) return false;
    return true;
  });
}

bool Prover::never_zero(const PolyView& p) {
  if (p.bad() || exhausted_) return false;
  Int step = 0;  // divides everything but the constant
  for (const PolyTerm& t : p.terms()) {
    if (t.product == 0) continue;
    Int divisor = t.coefficient;
    for (Product f = t.product; f != 0; f >>= 16)
      if (__builtin_mul_overflow(divisor, atoms_[factor(f, 0)].divisor, &divisor)) return false;
    step = gcd(step, divisor);
  }
  if (step == 0) return p.constant() != 0;
  return p.constant() % step != 0 || never_negative(p - Poly(1)) || never_negative(Poly(-1) - p);
}

}  // namespace tessera::certify
