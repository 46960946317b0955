// Random numbers in kernels: the algorithms of base/philox.hpp emitted over whole tiles.
#include "lang/recording_impl.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/philox.hpp"

namespace tessera::lang {

using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

namespace {

/// Tiles of one shape as the arithmetic type of philox.hpp. Every operation is correctly rounded, whatever the kernel's
/// accuracy.
struct TileMath {
  using Word = Value;
  template <class F>
  using Float = Value;

  ir::Builder& b;
  std::vector<std::int64_t> shape;

  template <class F>
  static constexpr Elem int_elem = sizeof(F) == 4 ? Elem::I32 : Elem::I64;
  template <class F>
  static constexpr Elem float_elem = sizeof(F) == 4 ? Elem::F32 : Elem::F64;
  Type type(Elem e) const { return Type::tile(Type::element(e), shape); }
  Value binary(Op op, Value x, Value y) const { return b.create(op, {x, y}, {x.type()})->result(); }
  Value amount(Value x, std::int64_t n) const { return b.constant_int(x.type().elem(), n, shape); }

  Value word(std::uint32_t v) const { return b.constant_int(Elem::I32, static_cast<std::int32_t>(v), shape); }
  Value mul(Value x, Value y) const { return binary(Op::MulI, x, y); }
  Value mul_high(Value x, Value y) const { return binary(Op::MulhiI, x, y); }
  Value bit_xor(Value x, Value y) const { return binary(Op::XOrI, x, y); }
  Value bit_and(Value x, Value y) const { return binary(Op::AndI, x, y); }
  Value add(Value x, Value y) const { return binary(Op::AddI, x, y); }
  Value sub(Value x, Value y) const { return binary(Op::SubI, x, y); }
  Value shift_left(Value x, int n) const { return binary(Op::ShLI, x, amount(x, n)); }
  Value shift_right(Value x, int n, ir::Signedness sign) const {
    return b.create(Op::ShRI, {x, amount(x, n)}, {x.type()}, {{AttrName::signedness, sign}})->result();
  }
  Value shift_right_signed(Value x, int n) const { return shift_right(x, n, ir::Signedness::Signed); }

  template <class F>
  Value integer(std::int64_t v) const {
    return b.constant_int(int_elem<F>, v, shape);
  }
  template <class F>
  Value real(double v) const {
    return b.constant_float(float_elem<F>, v, shape);
  }
  template <class F>
  Value bits_of(Value x) const {
    return b.create(Op::Bitcast, {x}, {type(int_elem<F>)})->result();
  }
  template <class F>
  Value from_bits(Value x) const {
    return b.create(Op::Bitcast, {x}, {type(float_elem<F>)})->result();
  }
  template <class F>
  Value to_real(Value x) const {
    return b.create(Op::IToF, {x}, {type(float_elem<F>)}, {{AttrName::signedness, ir::Signedness::Signed}})->result();
  }
  template <class F>
  Value bit(Value x, int n) const {
    return bit_and(n == 0 ? x : shift_right_signed(x, n), integer<F>(1));
  }
  template <class F>
  Value bit_set(Value x, int n) const {
    return ints::equal(b, bit<F>(x, n), integer<F>(1));
  }
  template <class F>
  Value top_bits(Value w0, Value w1, int bits) const {
    if constexpr (sizeof(F) == 4) {
      return shift_right(w0, 32 - bits, ir::Signedness::Unsigned);
    } else {
      return shift_right(wide_word(w0, w1), 64 - bits, ir::Signedness::Unsigned);
    }
  }
  Value wide_word(Value high, Value low) const {
    const Value h = ints::extend(b, high, Elem::I64, false), l = ints::extend(b, low, Elem::I64, false);
    return ints::bit_or(b, shift_left(h, 32), l);
  }

  Value add_real(Value x, Value y) const { return binary(Op::AddF, x, y); }
  Value sub_real(Value x, Value y) const { return binary(Op::SubF, x, y); }
  Value mul_real(Value x, Value y) const { return binary(Op::MulF, x, y); }
  Value div(Value x, Value y) const { return binary(Op::DivF, x, y); }
  Value fma(Value x, Value y, Value z) const { return b.create(Op::Fma, {x, y, z}, {x.type()})->result(); }
  Value sqrt(Value x) const { return b.create(Op::Sqrt, {x}, {x.type()})->result(); }
  Value neg(Value x) const { return b.create(Op::NegF, {x}, {x.type()})->result(); }
  Value choose(Value c, Value x, Value y) const { return b.create(Op::Select, {c, x, y}, {x.type()})->result(); }
  Value to_float(Value x, Elem e) const { return b.create(Op::FToF, {x}, {type(e)})->result(); }
};

Value uniform(TileMath& a, const std::array<Value, 4>& w, ElementType type) {
  const auto narrow = [&](int bits, Elem elem) {
    const Value n = a.shift_right(w[0], 32 - bits, ir::Signedness::Unsigned);
    return a.to_float(a.mul_real(a.to_real<float>(n), a.real<float>(tessera::detail::power_of_two(-bits))), elem);
  };
  switch (type) {
    case ElementType::f64: return tessera::detail::uniform_from<double>(a, w);
    case ElementType::f32: return tessera::detail::uniform_from<float>(a, w);
    case ElementType::f16: return narrow(11, Elem::F16);
    case ElementType::bf16: return narrow(8, Elem::BF16);
    case ElementType::u32: return w[0];
    case ElementType::u64: return a.wide_word(w[0], w[1]);
    default: throw InternalError("no uniform numbers of this element type");
  }
}

Value normal(TileMath& a, const std::array<Value, 4>& w, ElementType type) {
  switch (type) {
    case ElementType::f64: return tessera::detail::normal_from<double>(a, w);
    case ElementType::f32: return tessera::detail::normal_from<float>(a, w);
    case ElementType::f16: return a.to_float(tessera::detail::normal_from<float>(a, w), Elem::F16);
    case ElementType::bf16: return a.to_float(tessera::detail::normal_from<float>(a, w), Elem::BF16);
    default: throw InternalError("no normal numbers of this element type");
  }
}

}  // namespace

Value random_tile(Distribution distribution, ElementType type, Value seed, Value offsets, SourceLocation loc) {
  ir::Builder& b = state().tracer.at(loc);
  const auto dims = offsets.type().shape();
  TileMath a{b, {dims.begin(), dims.end()}};
  const auto low = [&](Value v) { return ints::truncate(b, v, Elem::I32); };
  const auto high = [&](Value v) {
    const Value n = b.constant_int(Elem::I64, 32, v.type().shape());
    return low(b.create(Op::ShRI, {v, n}, {v.type()}, {{AttrName::signedness, ir::Signedness::Unsigned}})->result());
  };
  const std::array<Value, 2> key{ints::expand(b, low(seed), dims), ints::expand(b, high(seed), dims)};
  const auto words = tessera::detail::philox(a, {low(offsets), high(offsets), a.word(0), a.word(0)}, key);
  return distribution == Distribution::Uniform ? uniform(a, words, type) : normal(a, words, type);
}

}  // namespace tessera::lang
