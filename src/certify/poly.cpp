// Polynomial arithmetic with limits: a result beyond them is marked bad, and so is everything computed from it.
#include "certify/poly.hpp"

#include <memory>

namespace tessera::certify {

int degree(Product p) {
  int n = 0;
  for (; p != 0; p >>= 16) ++n;
  return n;
}

Product times(Product a, Product b) {
  if (a == 0 || b == 0) return a | b;
  if (degree(a) + degree(b) > kMaxFactors) return 0;
  // Merges two rows of factors that are sorted, largest first.
  Product out = 0;
  int at = 0;
  while (a != 0 || b != 0) {
    Product& from = factor(a, 0) >= factor(b, 0) ? a : b;
    out |= static_cast<Product>(factor(from, 0)) << (16 * at++);
    from >>= 16;
  }
  return out;
}

bool contains(Product p, Atom a) {
  for (; p != 0; p >>= 16)
    if (factor(p, 0) == a) return true;
  return false;
}

Product without(Product p, Atom a) {
  for (int i = 0; i < kMaxFactors; ++i) {
    if (factor(p, i) != a) continue;
    const Product below = i == 0 ? 0 : p & ((Product{1} << (16 * i)) - 1);
    const Product above = i == kMaxFactors - 1 ? 0 : p >> (16 * (i + 1));
    return below | (above << (16 * i));
  }
  return p;
}

namespace {

// Almost all numbers are short, and 64 bits are divided many times faster than 128.
template <class T>
T floor_quotient(T a, T b) {
  const T q = a / b;
  return a % b < 0 ? q - 1 : q;
}

template <class T>
T common_divisor(T a, T b) {
  while (b != 0) {
    const T r = a % b;
    a = b;
    b = r;
  }
  return a;
}

}  // namespace

Int floor_div(Int a, Int b) {
  if (is_short(a) && is_short(b)) return floor_quotient(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
  return floor_quotient(a, b);
}

Int gcd(Int a, Int b) {
  if (a < 0) a = -a;
  if (b < 0) b = -b;
  if (a == 1 || b == 1) return 1;
  if (is_short(a) && is_short(b)) return common_divisor(static_cast<std::int64_t>(a), static_cast<std::int64_t>(b));
  return common_divisor(a, b);
}

Poly::Poly(Int constant) : Poly() {
  if (constant != 0) add(0, constant);
}

Poly Poly::of(Product p, Int coefficient) {
  Poly out;
  if (coefficient != 0) out.add(p, coefficient);
  return out;
}

Poly Poly::invalid() {
  Poly p;
  p.bad_ = true;
  return p;
}

bool PolyView::mentions(Atom a) const {
  return std::ranges::any_of(terms(), [&](const PolyTerm& t) { return contains(t.product, a); });
}

Int PolyView::content() const {
  Int g = 0;
  for (const PolyTerm& t : terms()) {
    if (t.product != 0) g = gcd(t.coefficient, g);
    if (g == 1) break;
  }
  return g;
}

Poly Poly::combine(const PolyView& a, Int ka, const PolyView& b, Int kb) {
  if (a.bad() || b.bad()) return invalid();
  Poly out;
  const bool fits = merge_terms(a, ka, b, kb, [&](const PolyTerm& t) {
    out.add(t.product, t.coefficient);
    return true;
  });
  return fits ? out : invalid();
}

Poly PolyView::times(const PolyTerm& by) const {
  if (bad_) return Poly::invalid();
  PolyTerm row[Poly::kMaxTerms];
  std::size_t n = 0;
  for (const PolyTerm& t : terms()) {
    const Product p = certify::times(t.product, by.product);
    Int c = 0;
    if ((p == 0 && (t.product | by.product) != 0) || !scaled(t.coefficient, by.coefficient, c)) return Poly::invalid();
    // Few terms, mostly in order already. (std::sort here: g++ 12 at -O3 warns of an index that no row has.)
    std::size_t at = n++;
    for (; at > 0 && p < row[at - 1].product; --at) row[at] = row[at - 1];
    row[at] = {p, c};
  }
  Poly out;
  for (std::size_t i = 0; i < n; ++i) out.add(row[i].product, row[i].coefficient);
  return out;
}

Poly operator*(const PolyView& a, const PolyView& b) {
  if (a.bad() || b.bad()) return Poly::invalid();
  if (a.terms().size() == 1) return b.times(a.terms()[0]);
  if (b.terms().size() == 1) return a.times(b.terms()[0]);
  Poly out;
  for (const PolyTerm& x : a.terms()) out = out + b.times(x);
  return out;
}

PolyView keep(const PolyView& p, std::pmr::memory_resource& memory) {
  const std::size_t n = p.terms().size();
  if (n == 0) return {nullptr, 0, p.bad()};
  auto* terms = static_cast<PolyTerm*>(memory.allocate(n * sizeof(PolyTerm), alignof(PolyTerm)));
  std::uninitialized_copy_n(p.terms().data(), n, terms);
  return {terms, n, p.bad()};
}

Poly PolyView::without(Product p) const {
  Poly out;
  out.bad_ = bad_;
  for (const PolyTerm& t : terms())
    if (t.product != p) out.add(t.product, t.coefficient);
  return out;
}

Poly PolyView::divided(Int by) const {
  Poly out;
  for (const PolyTerm& t : terms())
    if (const Int c = floor_div(t.coefficient, by); c != 0) out.add(t.product, c);
  return out;
}

Poly PolyView::substituted(Atom a, const PolyView& value) const {
  Poly out;
  for (const PolyTerm& t : terms()) {
    Poly product(t.coefficient);
    for (Product p = t.product; p != 0; p >>= 16)
      product = product * (factor(p, 0) == a ? Poly(value) : Poly::of(factor(p, 0)));
    out = out + product;
  }
  return bad_ ? Poly::invalid() : out;
}

}  // namespace tessera::certify
