// Integer polynomials over atoms: sums of products of unknown integers with exact coefficients. Two expressions that
// are equal by the laws of a commutative ring have one form, so equality is comparison. Private to the layer.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <span>

namespace tessera::certify {

using Int = __int128;
constexpr Int kHuge = Int{1} << 100;  ///< coefficients and constant bounds stay below; beyond it nothing is known

/// The product of two such numbers fits an Int.
inline bool is_short(Int v) { return v == static_cast<std::int64_t>(v); }

using Atom = std::uint16_t;
/// A product of up to eight atoms, packed with the largest number in the low bits; 0 is the empty product.
using Product = unsigned __int128;
constexpr int kMaxFactors = 8;
inline Atom factor(Product p, int i) { return static_cast<Atom>(p >> (16 * i)); }
int degree(Product p);
/// 0 if the product has more than kMaxFactors factors and neither side is empty.
Product times(Product a, Product b);
bool contains(Product p, Atom a);
/// `p` without one factor `a`, which it contains.
Product without(Product p, Atom a);

struct PolyTerm {
  Product product;
  Int coefficient;
  bool operator==(const PolyTerm&) const = default;
};

/// The product of two short numbers: one instruction, where that of any two is several.
inline Int short_product(Int a, Int b) {
  return static_cast<Int>(static_cast<std::int64_t>(a)) * static_cast<std::int64_t>(b);
}

/// False if the product does not fit.
inline bool scaled(Int a, Int b, Int& out) {
  if (b == 1) {
    out = a;
    return true;
  }
  if (!is_short(a) || !is_short(b)) return !__builtin_mul_overflow(a, b, &out);
  out = short_product(a, b);
  return true;
}

class Poly;

/// Terms in the order of their products, none with the coefficient 0. `bad()`: left the limits, nothing is known. The
/// terms lie elsewhere: in a Poly, or where they are kept.
class PolyView {
 public:
  PolyView() = default;
  PolyView(const PolyTerm* terms, std::size_t count, bool bad)
      : terms_(terms), count_(static_cast<std::uint8_t>(count)), bad_(bad) {}

  bool bad() const { return bad_; }
  std::span<const PolyTerm> terms() const { return {terms_, count_}; }
  bool is_constant() const { return !bad_ && (count_ == 0 || (count_ == 1 && terms_[0].product == 0)); }
  Int constant() const { return count_ != 0 && terms_[0].product == 0 ? terms_[0].coefficient : 0; }
  Int coefficient(Product p) const {
    for (const PolyTerm& t : terms())
      if (t.product == p) return t.coefficient;
    return 0;
  }
  bool mentions(Atom a) const;
  /// The greatest common divisor of the coefficients of everything but the constant; 0 for a constant.
  Int content() const;
  bool operator==(const PolyView& o) const {
    return bad_ == o.bad_ && count_ == o.count_ && std::equal(terms_, terms_ + count_, o.terms_);
  }

  /// Every coefficient divided by `by`, rounded down where that is not exact.
  Poly divided(Int by) const;
  /// Every term multiplied with this one.
  Poly times(const PolyTerm& by) const;
  /// Without the term of product `p`.
  Poly without(Product p) const;
  /// With `value` in the place of `a`.
  Poly substituted(Atom a, const PolyView& value) const;

 protected:
  const PolyTerm* terms_ = nullptr;
  std::uint8_t count_ = 0;
  bool bad_ = false;
};

/// Calls take(term) for the terms of a * ka + b * kb, for numbers that are not 0, in their order until it returns
/// false. Returns false if it did or a coefficient does not fit.
bool merge_terms(const PolyView& a, Int ka, const PolyView& b, Int kb, auto&& take) {
  const PolyTerm *x = a.terms().data(), *const x_end = x + a.terms().size();
  const PolyTerm *y = b.terms().data(), *const y_end = y + b.terms().size();
  Int c = 0, d = 0;
  while (x != x_end && y != y_end) {
    if (x->product < y->product) {
      if (!scaled(x->coefficient, ka, c) || !take(PolyTerm{x->product, c})) return false;
      ++x;
    } else if (y->product < x->product) {
      if (!scaled(y->coefficient, kb, c) || !take(PolyTerm{y->product, c})) return false;
      ++y;
    } else {
      if (!scaled(x->coefficient, ka, c) || !scaled(y->coefficient, kb, d) || __builtin_add_overflow(c, d, &c))
        return false;
      if (c != 0 && !take(PolyTerm{x->product, c})) return false;
      ++x;
      ++y;
    }
  }
  for (; x != x_end; ++x)
    if (!scaled(x->coefficient, ka, c) || !take(PolyTerm{x->product, c})) return false;
  for (; y != y_end; ++y)
    if (!scaled(y->coefficient, kb, c) || !take(PolyTerm{y->product, c})) return false;
  return true;
}

/// A polynomial with its terms, all inside: proofs make and drop millions of them.
class Poly : public PolyView {
 public:
  static constexpr std::size_t kMaxTerms = 14;

  Poly() : PolyView(own_, 0, false) {}
  Poly(Int constant);                                                    // NOLINT: a number is a polynomial
  Poly(const PolyView& o) : PolyView(own_, o.terms().size(), o.bad()) {  // NOLINT: the same polynomial
    std::copy_n(o.terms().data(), count_, own_);
  }
  Poly(const Poly& o) : Poly(static_cast<const PolyView&>(o)) {}
  Poly& operator=(const Poly& o) {
    count_ = o.count_;
    bad_ = o.bad_;
    std::copy_n(o.own_, count_, own_);
    return *this;
  }
  ~Poly() = default;
  static Poly of(Atom a) { return of(Product{a}, 1); }
  static Poly of(Product p, Int coefficient);
  static Poly invalid();

  /// a * ka + b * kb, for numbers that are not 0.
  static Poly combine(const PolyView& a, Int ka, const PolyView& b, Int kb);

 private:
  friend class PolyView;
  /// Behind the other terms.
  void add(Product p, Int coefficient) {
    bad_ = bad_ || count_ == kMaxTerms || (!is_short(coefficient) && (coefficient > kHuge || coefficient < -kHuge));
    if (bad_)
      count_ = 0;
    else
      own_[count_++] = {p, coefficient};
  }
  PolyTerm own_[kMaxTerms];
};

inline Poly operator+(const PolyView& a, const PolyView& b) { return Poly::combine(a, 1, b, 1); }
inline Poly operator-(const PolyView& a, const PolyView& b) { return Poly::combine(a, 1, b, -1); }
Poly operator*(const PolyView& a, const PolyView& b);
/// A copy whose terms lie in `memory`.
PolyView keep(const PolyView& p, std::pmr::memory_resource& memory);

Int floor_div(Int a, Int b);  ///< b > 0
Int gcd(Int a, Int b);

}  // namespace tessera::certify
