// Integer polynomials over atoms: sums of products of unknown integers with exact coefficients. Two expressions that
// are equal by the laws of a commutative ring have one form, so equality is comparison. Private to the layer.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::certify {

using Int = __int128;
constexpr Int kHuge = Int{1} << 100;  ///< coefficients and constant bounds stay below; beyond it nothing is known

using Atom = std::uint16_t;
/// A product of up to eight atoms, packed with the largest number in the low bits; 0 is the empty product.
using Product = unsigned __int128;
constexpr int kMostFactors = 8;
inline Atom factor(Product p, int i) { return static_cast<Atom>(p >> (16 * i)); }
int degree(Product p);
/// 0 if the product has more than kMostFactors factors and neither side is empty.
Product times(Product a, Product b);
bool contains(Product p, Atom a);
/// `p` without one factor `a`, which it contains.
Product without(Product p, Atom a);

struct PolyTerm {
  Product product;
  Int coefficient;
  bool operator==(const PolyTerm&) const = default;
};

/// Terms in the order of their products, none with the coefficient 0. `bad()`: left the limits, nothing is known. The
/// terms are kept inside: proofs make and drop millions of polynomials.
class Poly {
 public:
  Poly() = default;
  Poly(Int constant);  // NOLINT: a number is a polynomial
  Poly(const Poly& o) : count_(o.count_), bad_(o.bad_) { std::copy_n(o.terms_, count_, terms_); }
  Poly& operator=(const Poly& o) {
    count_ = o.count_;
    bad_ = o.bad_;
    std::copy_n(o.terms_, count_, terms_);
    return *this;
  }
  ~Poly() = default;
  static Poly of(Atom a) { return of(Product{a}, 1); }
  static Poly of(Product p, Int coefficient);
  static Poly invalid();

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
  bool operator==(const Poly& o) const {
    return bad_ == o.bad_ && count_ == o.count_ && std::equal(terms_, terms_ + count_, o.terms_);
  }

  friend Poly operator+(const Poly& a, const Poly& b) { return combine(a, 1, b, 1); }
  friend Poly operator-(const Poly& a, const Poly& b) { return combine(a, 1, b, -1); }
  friend Poly operator*(const Poly& a, const Poly& b);
  /// a * ka + b * kb, for numbers that are not 0.
  static Poly combine(const Poly& a, Int ka, const Poly& b, Int kb);
  /// Every coefficient divided by `by`, rounded down where that is not exact.
  Poly divided(Int by) const;
  /// Every term multiplied with this one.
  Poly times(const PolyTerm& by) const;
  /// Without the term of product `p`.
  Poly without(Product p) const;
  /// With `value` in the place of `a`.
  Poly substituted(Atom a, const Poly& value) const;

  static constexpr std::size_t kMostTerms = 14;

 private:
  void add(Product p, Int coefficient);
  std::uint8_t count_ = 0;
  bool bad_ = false;
  PolyTerm terms_[kMostTerms];
};

Int floor_div(Int a, Int b);  ///< b > 0
/// The product of two such numbers fits an Int.
inline bool is_short(Int v) { return v == static_cast<std::int64_t>(v); }
Int gcd(Int a, Int b);

}  // namespace tessera::certify
