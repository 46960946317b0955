// Intervals of what launch expressions can be, and one step of evaluating them.
#include "analysis/interval.hpp"

#include <algorithm>

namespace tessera::analysis {
namespace {

using Wide = __int128;
constexpr Wide kLow = INT64_MIN, kHigh = INT64_MAX;

/// An end that left 64 bits is no bound.
std::int64_t end(Wide v) { return static_cast<std::int64_t>(std::clamp(v, kLow, kHigh)); }

/// Ends as numbers beyond everything where there is no bound, so that sums and products of them stay beyond.
Wide low(Interval i) { return i.lo == INT64_MIN ? -(Wide{1} << 100) : Wide{i.lo}; }
Wide high(Interval i) { return i.hi == INT64_MAX ? Wide{1} << 100 : Wide{i.hi}; }

Wide times(Wide a, Wide b) {
  const Wide limit = Wide{1} << 100;
  Wide product = 0;
  if (__builtin_mul_overflow(a, b, &product)) product = (a < 0) == (b < 0) ? limit : -limit;
  return std::clamp(product, -limit, limit);
}

Wide floored(Wide a, Wide b) {
  const Wide q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

Interval product(Interval a, Interval b) {
  const Wide corners[] = {times(low(a), low(b)), times(low(a), high(b)), times(high(a), low(b)),
                          times(high(a), high(b))};
  return {end(*std::min_element(corners, corners + 4)), end(*std::max_element(corners, corners + 4))};
}

/// Divisors below 1 give no number.
Interval quotients(Interval a, Interval b, bool up) {
  const Wide d0 = std::max<Wide>(low(b), 1), d1 = std::max<Wide>(high(b), 1);
  const auto divide = [&](Wide x, Wide d) { return up ? -floored(-x, d) : floored(x, d); };
  return {end(std::min(divide(low(a), d0), divide(low(a), d1))),
          end(std::max(divide(high(a), d0), divide(high(a), d1)))};
}

Interval remainders(Interval a, Interval b) {
  const std::int64_t largest = b.hi == INT64_MAX ? INT64_MAX : std::max<std::int64_t>(b.hi - 1, 0);
  return {0, a.lo >= 0 ? std::min(largest, a.hi) : largest};
}

}  // namespace

Interval integers_of(int bits, bool is_signed) {
  if (bits >= 64) return {};
  if (!is_signed) return {0, (std::int64_t{1} << bits) - 1};
  return {-(std::int64_t{1} << (bits - 1)), (std::int64_t{1} << (bits - 1)) - 1};
}

Interval interval_of(ExprKind kind, Interval a, Interval b) {
  switch (kind) {
    case ExprKind::Const:
    case ExprKind::Arg: break;
    case ExprKind::Add: return {end(low(a) + low(b)), end(high(a) + high(b))};
    case ExprKind::Sub: return {end(low(a) - high(b)), end(high(a) - low(b))};
    case ExprKind::Mul: return product(a, b);
    case ExprKind::FloorDiv: return quotients(a, b, false);
    case ExprKind::CeilDiv: return quotients(a, b, true);
    case ExprKind::Mod: return remainders(a, b);
    case ExprKind::Min: return {std::min(a.lo, b.lo), std::min(a.hi, b.hi)};
    case ExprKind::Max: return {std::max(a.lo, b.lo), std::max(a.hi, b.hi)};
  }
  return {};
}

std::int64_t floor_quotient(std::int64_t a, std::int64_t b) {
  const std::int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}

bool evaluate_step(ExprKind kind, std::int64_t a, std::int64_t b, std::int64_t& result) noexcept {
  switch (kind) {
    case ExprKind::Const:
    case ExprKind::Arg: return false;
    case ExprKind::Add: return !__builtin_add_overflow(a, b, &result);
    case ExprKind::Sub: return !__builtin_sub_overflow(a, b, &result);
    case ExprKind::Mul: return !__builtin_mul_overflow(a, b, &result);
    case ExprKind::FloorDiv:
      if (b < 1) return false;
      result = floor_quotient(a, b);
      return true;
    case ExprKind::CeilDiv:
      if (b < 1) return false;
      result = floor_quotient(a, b) + (a % b != 0 ? 1 : 0);
      return true;
    case ExprKind::Mod: {
      if (b < 1) return false;
      const std::int64_t r = a % b;
      result = r < 0 ? r + b : r;
      return true;
    }
    case ExprKind::Min: result = std::min(a, b); return true;
    case ExprKind::Max: result = std::max(a, b); return true;
  }
  return false;
}

std::int64_t read_slot(std::uint64_t slot, int bits, bool is_signed) noexcept {
  if (bits >= 64) return static_cast<std::int64_t>(slot);
  const int shift = 64 - bits;
  return is_signed ? static_cast<std::int64_t>(slot << shift) >> shift
                   : static_cast<std::int64_t>(slot << shift >> shift);
}

}  // namespace tessera::analysis
