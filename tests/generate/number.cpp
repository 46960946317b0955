// Arithmetic on single elements, conversions, their bytes.
#include "generate/number.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace tessera::generate {
namespace {

using lang::BinaryOp;
using U = std::uint64_t;

int bits_of(ElementType e) { return e == ElementType::boolean ? 1 : tessera::info(e).bits; }

/// A binary float format: significant bits, the exponents of its smallest normal and largest numbers, its largest.
struct Format {
  int precision, smallest, largest;
  double most;
};
Format format_of(ElementType e) {
  switch (e) {
    case ElementType::f64: return {53, -1022, 1023, std::numeric_limits<double>::max()};
    case ElementType::f32: return {24, -126, 127, static_cast<double>(std::numeric_limits<float>::max())};
    case ElementType::tf32: return {11, -126, 127, std::ldexp(2047.0, 117)};
    case ElementType::f16: return {11, -14, 15, 65504};
    case ElementType::bf16: return {8, -126, 127, std::ldexp(255.0, 120)};
    case ElementType::f8e4m3: return {4, -6, 8, 448};
    case ElementType::f8e5m2: return {3, -14, 15, 57344};
    default: throw std::logic_error("no float format");
  }
}

double canonical_min(double a, double b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
double canonical_max(double a, double b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}

Cell float_binary(BinaryOp op, ElementType e, double a, double b) {
  switch (op) {
    case BinaryOp::Add: return real(rounded(e, a + b));
    case BinaryOp::Sub: return real(rounded(e, a - b));
    case BinaryOp::Mul: return real(rounded(e, a * b));
    case BinaryOp::Div: return real(rounded(e, a / b));
    case BinaryOp::Rem: return real(std::fmod(a, b));
    case BinaryOp::Min: return real(canonical_min(a, b));
    case BinaryOp::Max: return real(canonical_max(a, b));
    default: throw std::logic_error("no operation of floats");
  }
}

std::int64_t divided(ElementType e, std::int64_t a, std::int64_t b, bool up) {
  if (b == 0) return 0;
  if (!is_signed(e)) {
    const U x = static_cast<U>(a), y = static_cast<U>(b);
    return static_cast<std::int64_t>(x / y + (up && x % y != 0 ? 1 : 0));
  }
  if (b == -1) return wrapped(e, U{0} - static_cast<U>(a));
  return a / b + (up && a % b != 0 && (a < 0) == (b < 0) ? 1 : 0);
}
std::int64_t remainder(ElementType e, std::int64_t a, std::int64_t b) {
  if (b == 0) return a;
  if (!is_signed(e)) return static_cast<std::int64_t>(static_cast<U>(a) % static_cast<U>(b));
  return b == -1 ? 0 : a % b;
}
/// The amount is unsigned; amounts of n and more shift everything out.
std::int64_t shifted(ElementType e, std::int64_t a, std::int64_t by, bool left) {
  const int n = bits_of(e);
  const U amount = static_cast<U>(by) & (n == 64 ? ~U{0} : (U{1} << n) - 1);
  if (left) return amount >= static_cast<U>(n) ? 0 : wrapped(e, static_cast<U>(a) << amount);
  if (amount >= static_cast<U>(n)) return is_signed(e) && a < 0 ? -1 : 0;
  return is_signed(e) ? a >> amount : static_cast<std::int64_t>(static_cast<U>(a) >> amount);
}
bool less(ElementType e, std::int64_t a, std::int64_t b) {
  return is_signed(e) ? a < b : static_cast<U>(a) < static_cast<U>(b);
}

std::int64_t integer_binary(BinaryOp op, ElementType e, std::int64_t a, std::int64_t b) {
  const U x = static_cast<U>(a), y = static_cast<U>(b);
  switch (op) {
    case BinaryOp::Add: return wrapped(e, x + y);
    case BinaryOp::Sub: return wrapped(e, x - y);
    case BinaryOp::Mul: return wrapped(e, x * y);
    case BinaryOp::Div: return divided(e, a, b, false);
    case BinaryOp::CeilDiv: return divided(e, a, b, true);
    case BinaryOp::Rem: return remainder(e, a, b);
    case BinaryOp::Min: return less(e, a, b) ? a : b;
    case BinaryOp::Max: return less(e, a, b) ? b : a;
    case BinaryOp::And: return wrapped(e, x & y);
    case BinaryOp::Or: return wrapped(e, x | y);
    case BinaryOp::Xor: return wrapped(e, x ^ y);
    case BinaryOp::Shl: return shifted(e, a, b, true);
    case BinaryOp::Shr: return shifted(e, a, b, false);
    default: throw std::logic_error("no operation of integers");
  }
}

std::int64_t lowest(ElementType e) { return is_signed(e) ? -(std::int64_t{1} << (bits_of(e) - 2)) * 2 : 0; }
/// As bits.
U highest(ElementType e) {
  const int n = bits_of(e) - (is_signed(e) ? 1 : 0);
  return n == 64 ? ~U{0} : (U{1} << n) - 1;
}

Cell float_to_integer(double v, ElementType to) {
  if (std::isnan(v)) return integer(0);
  v = std::trunc(v);
  if (v <= static_cast<double>(lowest(to))) return integer(lowest(to));
  if (v >= static_cast<double>(highest(to))) return integer(static_cast<std::int64_t>(highest(to)));
  return integer(is_signed(to) ? static_cast<std::int64_t>(v) : static_cast<std::int64_t>(static_cast<U>(v)));
}
Cell integer_to_integer(std::int64_t v, ElementType from, ElementType to, bool saturate) {
  if (saturate) {
    const bool negative = is_signed(from) && v < 0;
    if (negative && v < lowest(to)) return integer(lowest(to));
    if (!negative && static_cast<U>(v) > highest(to)) v = static_cast<std::int64_t>(highest(to));
  }
  return integer(wrapped(to, static_cast<U>(v)));
}
long double exact(std::int64_t v, ElementType from) {
  return is_signed(from) ? static_cast<long double>(v) : static_cast<long double>(static_cast<U>(v));
}

}  // namespace

std::int64_t wrapped(ElementType e, std::uint64_t bits) {
  const int n = bits_of(e);
  if (n == 64) return static_cast<std::int64_t>(bits);
  const std::uint64_t low = bits & ((U{1} << n) - 1);
  if (!is_signed(e)) return static_cast<std::int64_t>(low);
  return static_cast<std::int64_t>(low << (64 - n)) >> (64 - n);
}

double rounded(ElementType e, long double v) {
  if (e == ElementType::f64) return static_cast<double>(v);
  if (e == ElementType::f32) return static_cast<double>(static_cast<float>(v));
  const Format f = format_of(e);
  const bool narrow = tessera::info(e).bits == 8;
  if (std::isnan(v) || v == 0) return static_cast<double>(v);
  long double r = v;
  if (std::isfinite(v)) {
    const int exponent = std::max(std::ilogb(v), f.smallest);
    r = std::ldexp(std::nearbyint(std::ldexp(v, f.precision - 1 - exponent)), exponent - f.precision + 1);
  }
  if (std::fabs(r) <= static_cast<long double>(f.most)) return static_cast<double>(r);
  return std::copysign(narrow ? f.most : static_cast<double>(INFINITY), static_cast<double>(v));
}

Cell unary(Kind kind, ElementType e, Cell x) {
  switch (kind) {
    case Kind::Neg: return is_float(e) ? real(-x.d) : integer(wrapped(e, U{0} - static_cast<U>(x.i)));
    case Kind::Abs:
      if (is_float(e)) return real(std::fabs(x.d));
      return is_signed(e) && x.i < 0 ? integer(wrapped(e, U{0} - static_cast<U>(x.i))) : x;
    case Kind::BitNot: return integer(wrapped(e, ~static_cast<U>(x.i)));
    case Kind::Not: return integer(x.i == 0 ? 1 : 0);
    case Kind::Floor: return real(std::floor(x.d));
    case Kind::Ceil: return real(std::ceil(x.d));
    case Kind::Sqrt: return real(rounded(e, std::sqrt(x.d)));
    default: throw std::logic_error("no operation of one operand");
  }
}

Cell binary(lang::BinaryOp op, ElementType e, Cell a, Cell b) {
  return is_float(e) ? float_binary(op, e, a.d, b.d) : integer(integer_binary(op, e, a.i, b.i));
}

bool compare(lang::CompareOp op, ElementType e, Cell a, Cell b) {
  using lang::CompareOp;
  const bool below = is_float(e) ? a.d < b.d : less(e, a.i, b.i);
  const bool above = is_float(e) ? a.d > b.d : less(e, b.i, a.i);
  const bool same = is_float(e) ? a.d == b.d : a.i == b.i;
  switch (op) {
    case CompareOp::Equal: return same;
    case CompareOp::NotEqual: return !same;
    case CompareOp::Less: return below;
    case CompareOp::LessEqual: return below || same;
    case CompareOp::Greater: return above;
    case CompareOp::GreaterEqual: return above || same;
  }
  throw std::logic_error("no comparison");
}

Cell fma(ElementType e, Cell a, Cell b, Cell c) {
  if (e == ElementType::f64) return real(std::fma(a.d, b.d, c.d));
  if (e == ElementType::f32) {
    return real(std::fmaf(static_cast<float>(a.d), static_cast<float>(b.d), static_cast<float>(c.d)));
  }
  // f16: products and sums are exact in 64 bits of significand. bf16 is not generated.
  return real(rounded(e, static_cast<long double>(a.d) * b.d + c.d));
}

Cell convert(Cell x, ElementType from, ElementType to, bool saturate) {
  if (to == ElementType::boolean) return integer(is_float(from) ? x.d != 0 : x.i != 0);
  if (from == ElementType::boolean) return is_float(to) ? real(static_cast<double>(x.i)) : x;
  if (!is_float(to)) return is_float(from) ? float_to_integer(x.d, to) : integer_to_integer(x.i, from, to, saturate);
  const long double v = is_float(from) ? static_cast<long double>(x.d) : exact(x.i, from);
  double r = from == to ? static_cast<double>(v) : rounded(to, v);
  if (saturate && to != ElementType::f64 && !std::isnan(r)) {
    const double most = format_of(to).most;
    r = std::clamp(r, -most, most);
  }
  return real(r);
}

Cell bitcast(Cell x, ElementType from, ElementType to) {
  std::byte bytes[8];
  store(from, bytes, x);
  return load(to, bytes);
}

Cell literal(ElementType e, std::int64_t n) {
  return is_float(e) ? real(rounded(e, static_cast<double>(n) / 4)) : integer(wrapped(e, static_cast<U>(n)));
}

namespace {
template <class T>
T read(const std::byte* at) {
  T v;
  std::memcpy(&v, at, sizeof v);
  return v;
}
}  // namespace

Cell load(ElementType e, const std::byte* at) {
  switch (e) {
    case ElementType::f64: return real(read<double>(at));
    case ElementType::f32: return real(static_cast<double>(read<float>(at)));
    case ElementType::tf32: return real(static_cast<double>(static_cast<float>(read<tf32>(at))));
    case ElementType::f16: return real(static_cast<double>(static_cast<float>(read<f16>(at))));
    case ElementType::bf16: return real(static_cast<double>(static_cast<float>(read<bf16>(at))));
    case ElementType::f8e4m3: return real(static_cast<double>(static_cast<float>(read<f8e4m3>(at))));
    case ElementType::f8e5m2: return real(static_cast<double>(static_cast<float>(read<f8e5m2>(at))));
    case ElementType::boolean: return integer(read<std::uint8_t>(at) != 0);
    default: break;
  }
  U bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(tessera::info(e).bits / 8));
  return integer(wrapped(e, bits));
}

void store(ElementType e, std::byte* at, Cell x) {
  const auto write = [&](auto v) { std::memcpy(at, &v, sizeof v); };
  switch (e) {
    case ElementType::f64: return write(x.d);
    case ElementType::f32: return write(static_cast<float>(x.d));
    case ElementType::tf32: return write(tf32(x.d));
    case ElementType::f16: return write(f16(x.d));
    case ElementType::bf16: return write(bf16(x.d));
    case ElementType::f8e4m3: return write(f8e4m3(x.d));
    case ElementType::f8e5m2:  // the host's conversion saturates
      if (std::isinf(x.d)) return write(static_cast<std::uint8_t>(x.d > 0 ? 0x7C : 0xFC));
      return write(f8e5m2(x.d));
    case ElementType::boolean: return write(static_cast<std::uint8_t>(x.i));
    default: break;
  }
  std::memcpy(at, &x.i, static_cast<std::size_t>(tessera::info(e).bits / 8));
}

}  // namespace tessera::generate
