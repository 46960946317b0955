// Rules of arithmetic, comparison and conversion.
#include "ir/verify_rules.hpp"

namespace tessera::ir {

namespace {

constexpr unsigned bit(Rounding r) { return 1u << static_cast<unsigned>(r); }
constexpr unsigned kIeee =
    bit(Rounding::NearestEven) | bit(Rounding::Zero) | bit(Rounding::NegativeInf) | bit(Rounding::PositiveInf);

std::string rounding_names(unsigned allowed) {
  std::string out;
  for (unsigned r = 0; r <= static_cast<unsigned>(Rounding::NearestAway); ++r)
    if ((allowed >> r & 1) != 0)
      out += concat(out.empty() ? "" : ", ", enum_text(AttrKind::Rounding, static_cast<std::uint8_t>(r)));
  return out;
}

/// The operation's rounding, or the default if it is absent.
Rounding rounding_of(const Operation& op, AttrName name = AttrName::rounding_mode) {
  const AttrInfo* a = op.info().attribute(name);
  return op.enum_attr<Rounding>(name, static_cast<Rounding>(a && a->implied >= 0 ? a->implied : 0));
}

bool check_rounding(Checker& c, const Operation& op, unsigned allowed, AttrName name = AttrName::rounding_mode) {
  const Rounding r = rounding_of(op, name);
  if ((allowed & bit(r)) != 0) return true;
  return c.fail(op, "expected a rounding out of ", rounding_names(allowed), ", found ",
                enum_text(AttrKind::Rounding, static_cast<std::uint8_t>(r)));
}

/// flush_to_zero, approx and full exist for f32 only.
bool check_f32_modifiers(Checker& c, const Operation& op) {
  const Elem e = op.result().type().elem();
  if (e == Elem::F32) return true;
  if (op.has_attr(AttrName::flush_to_zero)) return c.fail(op, "flush_to_zero needs f32, found ", info(e).text);
  const AttrInfo* a = op.info().attribute(AttrName::rounding_mode);
  const Rounding r = a ? rounding_of(op) : Rounding::NearestEven;
  const bool implied = a && static_cast<int>(r) == a->implied;
  if (!implied && (r == Rounding::Approx || r == Rounding::Full))
    return c.fail(op, "rounding ", r == Rounding::Approx ? "approx" : "full", " needs f32, found ", info(e).text);
  return true;
}

template <unsigned Allowed>
bool rounded(Checker& c, const Operation& op) {
  return check_rounding(c, op, Allowed) && check_f32_modifiers(c, op);
}

bool divi(Checker& c, const Operation& op) {
  if (!check_rounding(c, op, bit(Rounding::Zero) | bit(Rounding::NegativeInf) | bit(Rounding::PositiveInf),
                      AttrName::rounding))
    return false;
  if (rounding_of(op, AttrName::rounding) == Rounding::NegativeInf &&
      op.enum_attr<Signedness>(AttrName::signedness) == Signedness::Unsigned)
    return c.fail(op, "rounding negative_inf needs signed, found unsigned");
  return true;
}

bool negi(Checker& c, const Operation& op) {
  const auto overflow = op.enum_attr<IntegerOverflow>(AttrName::overflow, IntegerOverflow::None);
  if (overflow == IntegerOverflow::NoUnsignedWrap)
    return c.fail(op, "overflow no_unsigned_wrap has no meaning for a negation: expected none or no_signed_wrap");
  return true;
}

bool exti(Checker& c, const Operation& op) {
  Type from = op.operand(0).type(), to = op.result().type();
  if (info(to.elem()).bits > info(from.elem()).bits) return true;
  return c.fail(op, "expected a result wider than ", info(from.elem()).text, ", found ", info(to.elem()).text);
}

bool trunci(Checker& c, const Operation& op) {
  Type from = op.operand(0).type(), to = op.result().type();
  if (info(to.elem()).bits < info(from.elem()).bits) return true;
  return c.fail(op, "expected a result narrower than ", info(from.elem()).text, ", found ", info(to.elem()).text);
}

/// tf32 counts as 19 bits in MLIR; nothing else has as many, so only the same type matches.
int bitcast_bits(Elem e) { return e == Elem::TF32 ? 19 : info(e).bits; }

bool bitcast(Checker& c, const Operation& op) {
  const Elem from = op.operand(0).type().elem(), to = op.result().type().elem();
  if (bitcast_bits(from) == bitcast_bits(to)) return true;
  return c.fail(op, "expected elements of equal width, found ", info(from).text, " and ", info(to).text);
}

/// Roundings of a conversion between floating-point types. Beyond nearest_even they are of 13.4 (found by asking
/// tileirdisasm 13.5 for every pair); f8E8M0FNU has its own since 13.2.
unsigned ftof_roundings(Elem from, Elem to) {
  switch (to) {
    case Elem::F8E8M0FNU: return bit(Rounding::Zero) | bit(Rounding::PositiveInf);
    case Elem::F16:
    case Elem::BF16: return bit(Rounding::NearestEven) | bit(Rounding::Zero);
    case Elem::TF32: return bit(Rounding::NearestEven) | bit(Rounding::Zero) | bit(Rounding::NearestAway);
    case Elem::F32:
    case Elem::F64: return kIeee | (info(from).bits < info(to).bits ? bit(Rounding::NearestAway) : 0);
    default: return bit(Rounding::NearestEven);
  }
}

bool ftof(Checker& c, const Operation& op) {
  const Elem from = op.operand(0).type().elem(), to = op.result().type().elem();
  if (from == to)
    return c.fail(op, "expected another element type than ", info(from).text, " (the conversion is a no-op)");
  return check_rounding(c, op, ftof_roundings(from, to));
}

bool ftoi(Checker& c, const Operation& op) { return check_rounding(c, op, bit(Rounding::NearestIntToZero)); }

bool itof(Checker& c, const Operation& op) {
  if (op.result().type().elem() == Elem::F8E8M0FNU)
    return c.fail(op, "integers do not convert to f8E8M0FNU: convert to another floating-point type first");
  return check_rounding(c, op, bit(Rounding::NearestEven));
}

bool cmp(Checker& c, const Operation& op) {
  Type a = op.operand(0).type(), b = op.operand(1).type();
  if (a == b) return true;
  return c.fail(op, "expected operands of one type, found ", a.str(), " and ", b.str());
}

bool offset(Checker& c, const Operation& op) {
  Type pointers = op.operand(0).type(), result = op.result().type();
  if (pointers == result) return true;
  return c.fail(op, "expected a result of type ", pointers.str(), ", found ", result.str());
}

bool select(Checker& c, const Operation& op) {
  Type cond = op.operand(0).type(), yes = op.operand(1).type(), no = op.operand(2).type(), result = op.result().type();
  if (yes != no || yes != result)
    return c.fail(op, "expected values and result of one type, found ", yes.str(), ", ", no.str(), " and ",
                  result.str());
  if (!same_shape(cond, yes))
    return c.fail(op, "expected a condition of shape ", shape_text(yes.shape()), ", found ", shape_text(cond.shape()));
  if (!yes.is_pointer() && yes.elem() == Elem::F4E2M1FN) return c.fail(op, "f4E2M1FN cannot be selected");
  return true;
}

bool fpowi(Checker& c, const Operation& op) {
  Type source = op.operand(0).type(), exponent = op.operand(1).type(), result = op.result().type();
  if (source != result) return c.fail(op, "expected a result of type ", source.str(), ", found ", result.str());
  if (!same_shape(source, exponent))
    return c.fail(op, "expected exponents of shape ", shape_text(source.shape()), ", found ",
                  shape_text(exponent.shape()));
  return true;
}

}  // namespace

OpRule math_rule(Op op) {
  switch (op) {
    case Op::AddF:
    case Op::SubF:
    case Op::MulF:
    case Op::Fma: return rounded<kIeee>;
    case Op::DivF: return rounded<(kIeee | bit(Rounding::Approx) | bit(Rounding::Full))>;
    case Op::Sqrt: return rounded<(kIeee | bit(Rounding::Approx))>;
    case Op::Exp:
    case Op::TanH: return rounded<(bit(Rounding::Approx) | bit(Rounding::Full))>;
    case Op::Exp2:
    case Op::Rsqrt:
    case Op::MaxF:
    case Op::MinF: return check_f32_modifiers;
    case Op::DivI: return divi;
    case Op::NegI: return negi;
    case Op::ExtI: return exti;
    case Op::TruncI: return trunci;
    case Op::Bitcast: return bitcast;
    case Op::FToF: return ftof;
    case Op::FToI: return ftoi;
    case Op::IToF: return itof;
    case Op::CmpF:
    case Op::CmpI: return cmp;
    case Op::Offset: return offset;
    case Op::Select: return select;
    case Op::FPowI: return fpowi;
    default: return nullptr;
  }
}

}  // namespace tessera::ir
