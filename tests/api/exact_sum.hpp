// The exact sum of numbers of f32 by long addition, bit by bit: what reproducible sums are compared with.
#pragma once
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

namespace tessera::test {

class ExactSum {
 public:
  void add(float x) {
    if (std::isnan(x)) nan_ = true;
    if (std::isinf(x)) (x > 0 ? up_ : down_) = true;
    if (!std::isfinite(x)) return;
    // x is a multiple of 2^-149: its digits are those of `whole`, from place `shift` on.
    int exponent = 0;
    const auto whole = static_cast<std::uint32_t>(std::ldexp(std::fabs(std::frexp(x, &exponent)), 24));
    add_digits(whole, exponent - 24 + 149, x < 0);
  }
  /// n * 2^(place - 149)
  void add_whole(std::int64_t n, int place) {
    const auto bits = static_cast<std::uint64_t>(n);
    add_digits(n < 0 ? 0 - bits : bits, place, n < 0);
  }
  /// The sum before it is rounded, for finite numbers.
  bool operator==(const ExactSum& o) const {
    ExactSum difference = *this;
    difference.add_all(o.negative_, difference.positive_);
    difference.add_all(o.positive_, difference.negative_);
    return difference.positive_ == difference.negative_;
  }
  /// Rounded once, to nearest even.
  float rounded() const {
    if (nan_ || (up_ && down_)) return std::nanf("");
    if (up_ || down_) return up_ ? HUGE_VALF : -HUGE_VALF;
    bool minus = false;
    for (std::size_t i = positive_.size(); i-- > 0;) {
      if (positive_[i] == negative_[i]) continue;
      minus = positive_[i] < negative_[i];
      break;
    }
    const Words sum = minus ? difference(negative_, positive_) : difference(positive_, negative_);
    int top = -1;
    for (int place = 0; place < kPlaces; ++place)
      if (at(sum, place)) top = place;
    const int lowest = top > 23 ? top - 23 : 0;
    double digits = 0;
    for (int place = top; place >= lowest; --place) digits = 2 * digits + (at(sum, place) ? 1 : 0);
    bool more = false;
    for (int place = 0; place + 1 < lowest; ++place) more = more || at(sum, place);
    if (lowest > 0 && at(sum, lowest - 1) && (more || at(sum, lowest))) digits += 1;
    const double value = std::ldexp(digits, lowest - 149);
    return value > 0x1.fffffep127 ? (minus ? -HUGE_VALF : HUGE_VALF) : static_cast<float>(minus ? -value : value);
  }

 private:
  using Words = std::array<std::uint32_t, 12>;
  static constexpr int kPlaces = 12 * 32;

  static void add_all(const Words& from, Words& to) {
    for (int place = 0; place < kPlaces; ++place)
      if (at(from, place)) increment(to, place);
  }
  void add_digits(std::uint64_t whole, int place, bool minus) {
    for (int bit = 0; bit < 64; ++bit)
      if ((whole >> bit & 1) != 0) increment(minus ? negative_ : positive_, place + bit);
  }
  static bool at(const Words& w, int place) { return (w[static_cast<std::size_t>(place / 32)] >> place % 32 & 1) != 0; }
  static void increment(Words& w, int place) {
    std::uint32_t carry = std::uint32_t{1} << place % 32;
    for (auto i = static_cast<std::size_t>(place / 32); carry != 0; ++i) {
      w[i] += carry;
      carry = w[i] < carry ? 1 : 0;
    }
  }
  static Words difference(const Words& a, const Words& b) {
    Words result{};
    std::uint64_t borrow = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      const std::uint64_t d = std::uint64_t{a[i]} - b[i] - borrow;
      result[i] = static_cast<std::uint32_t>(d);
      borrow = d >> 63;
    }
    return result;
  }

  Words positive_{}, negative_{};
  bool nan_ = false, up_ = false, down_ = false;
};

inline float exact_sum(std::span<const float> values) {
  ExactSum sum;
  for (const float v : values) sum.add(v);
  return sum.rounded();
}

/// Equal bits; NaN equal NaN.
inline bool same_float(float a, float b) {
  return (std::isnan(a) && std::isnan(b)) || std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace tessera::test
