// Puts elementwise primitives together from the loops of an instruction set: which computing type an element has, which
// conversions stand before and after the loop, and what is left to the reference.
#include <utility>

#include "codegen/cpu/prims/isa.hpp"

namespace tessera::cpu::prims {
namespace {

using ir::Elem;
using ir::ElementOp;
using ir::Op;

bool is_narrow_float(Elem e) { return e == Elem::F16 || e == Elem::BF16; }
bool is_part_of_byte(Elem e) { return e == Elem::I1 || e == Elem::I4; }

/// The element of operand `i`.
Elem operand_element(const ElementOp& op, int i) {
  if (op.op == Op::Select && i == 0) return Elem::I1;
  if (op.op == Op::Offset && i == 0) return Elem::I64;
  return op.op == Op::FPowI && i == 1 ? op.exponent : op.source;
}

/// What every primitive of the operation has.
Elementwise described(const ElementOp& op) {
  Elementwise e;
  e.op = op;
  e.arity = op.arity;
  e.out_bytes = ir::info(op.result).bytes;
  for (int i = 0; i < op.arity && i < 3; ++i) e.bytes[i] = ir::info(operand_element(op, i)).bytes;
  return e;
}

Elementwise reference(const ElementOp& op) {
  Elementwise e = described(op);
  e.by_reference = true;
  return e;
}

Elementwise with(const ElementOp& op, const Loop& l) {
  Elementwise e = described(op);
  e.loop = l.loop;
  e.with_one[0] = l.with_one[0];
  e.with_one[1] = l.with_one[1];
  e.any_length = l.any_length;
  e.swapped = l.swapped;
  return e;
}
Elementwise with(const ElementOp& op, LoopFn f) { return with(op, Loop{.loop = f}); }

// ---- floating point

Loop float_loop(const ElementOp& op, const Table& t) {
  if (const Loop l = t.arithmetic(op); l.loop != nullptr) return l;
  if (const Loop l = t.elementary(op); l.loop != nullptr) return l;
  return {.loop = baseline::library(op)};
}

/// f16 and bf16, by the loop of f32.
Elementwise narrow_float(const ElementOp& op, const Table& t) {
  ElementOp single = op;
  single.source = Elem::F32;
  single.flush_to_zero = false;
  const Loop l = op.op == Op::Fma ? Loop{.loop = t.narrow_fma()} : float_loop(single, t);
  Elementwise e = with(op, l);
  e.with_one[0] = e.with_one[1] = nullptr;
  for (int i = 0; i < op.arity; ++i) e.load[i] = t.widen(op.source);
  if (op.op != Op::CmpF) e.store = t.narrow(op.source);
  return e;
}

/// None for operations that are not of floating point.
Elementwise floating_point(const ElementOp& op, const Table& t) {
  if (!ir::info(op.op).has(ir::traits::Exact | ir::traits::Elementary)) return {};
  switch (op.op) {
    case Op::FPowI: return reference(op);
    case Op::AbsF:
    case Op::NegF: return with(op, t.arithmetic(op));
    case Op::AddF:
    case Op::SubF:
    case Op::MulF:
    case Op::DivF:
    case Op::Sqrt:
    case Op::Fma:
      if (is_directed(op.rounding)) return reference(op);
      [[fallthrough]];
    default: break;
  }
  if (is_narrow_float(op.source)) {
    const Elementwise e = narrow_float(op, t);
    return e.loop != nullptr ? e : reference(op);
  }
  if (op.source != Elem::F32 && op.source != Elem::F64) return {};
  const Loop l = float_loop(op, t);
  return l.loop != nullptr ? with(op, l) : reference(op);
}

// ---- integers

/// i8 is divided as i16.
Elementwise divided_bytes(const ElementOp& op, const Table& t) {
  ElementOp wide = op;
  wide.source = wide.result = Elem::I16;
  Elementwise e = with(op, t.integer(wide));
  e.load[0] = e.load[1] = t.resize(1, 2, op.is_signed);
  e.store = t.resize(2, 1, false);
  return e;
}

bool has_integers(const ElementOp& op) {
  switch (op.source) {
    case Elem::I1:
    case Elem::I8:
    case Elem::I16:
    case Elem::I32:
    case Elem::I64: return true;
    default: return false;
  }
}

Elementwise integer(const ElementOp& op, const Table& t) {
  if (!ir::info(op.op).has(ir::traits::Integer)) return {};
  if (!has_integers(op)) return {};
  const auto bytes = on_bytes(op);
  if (!bytes) return reference(op);
  if (op.source == Elem::I8 && (op.op == Op::DivI || op.op == Op::RemI)) return divided_bytes(op, t);
  const Loop l = t.integer(*bytes);
  return l.loop != nullptr ? with(op, l) : reference(op);
}

// ---- conversions

Elementwise float_to_float(const ElementOp& op, const Table& t) {
  if (op.result == Elem::F8E8M0FNU) return reference(op);
  Elementwise e = described(op);
  if (op.source == op.result && op.source != Elem::TF32 && ir::info(op.source).bytes >= 4)
    e.loop = t.copy(e.out_bytes);
  else if (op.source == Elem::F32)
    e.loop = t.narrow(op.result);
  else if (op.result == Elem::F32)
    e.loop = op.source == Elem::F64 ? t.double_to_float() : t.widen(op.source);
  else if (op.result == Elem::F64) {
    e.load[0] = t.widen(op.source);
    e.loop = t.narrow(Elem::F64);
  } else {
    e.load[0] = t.widen(op.source);
    e.store = t.narrow(op.result);
  }
  return e;
}

Elementwise float_to_integer(const ElementOp& op, const Table& t) {
  const LoopFn f = t.float_to_integer(op.source == Elem::F64, op.result, op.is_signed);
  if (f == nullptr) return {};
  Elementwise e = with(op, f);
  if (op.source != Elem::F64 && op.source != Elem::F32) e.load[0] = t.widen(op.source);
  return e;
}

Elementwise integer_to_float(const ElementOp& op, const Table& t) {
  const bool small = is_part_of_byte(op.source) || op.source == Elem::I8 || op.source == Elem::I16;  // exact in f32
  const auto convert = [&](FromInteger how) { return t.integer_to_float(op.source, op.is_signed, how); };
  switch (op.result) {
    case Elem::F32: return with(op, convert(FromInteger::F32));
    case Elem::F64: {
      if (!small) return with(op, convert(FromInteger::F64));
      Elementwise e = with(op, t.narrow(Elem::F64));
      e.load[0] = convert(FromInteger::F32);
      return e;
    }
    case Elem::F16:
    case Elem::BF16:
    case Elem::TF32: {
      Elementwise e = described(op);
      e.load[0] = convert(FromInteger::OddF32);
      e.store = t.narrow(op.result);
      return e;
    }
    case Elem::F8E8M0FNU: return {};
    default: return reference(op);  // they overflow to infinity or NaN here, but saturate from floats
  }
}

/// i1 and i4 are one byte with fewer bits.
Elementwise resize(const ElementOp& op, const Table& t) {
  const bool is_signed = op.op == Op::ExtI && op.is_signed;
  Elementwise e = described(op);
  if (is_part_of_byte(op.source)) e.load[0] = t.extend_bits(op.source, is_signed);
  if (is_part_of_byte(op.result)) e.store = t.keep_bits(op.result);
  if (e.bytes[0] != e.out_bytes || (e.load[0] == nullptr && e.store == nullptr))
    e.loop = t.resize(e.bytes[0], e.out_bytes, is_signed);
  else if (e.store == nullptr)
    e.loop = std::exchange(e.load[0], nullptr);
  else if (e.load[0] == nullptr)
    e.loop = std::exchange(e.store, nullptr);
  return e;
}

Elementwise offset(const ElementOp& op, const Table& t) {
  const int bytes = ir::info(op.source).bytes;
  Elementwise e = with(op, t.offset(bytes < 4 ? 4 : bytes, op.pointee_bytes));
  e.out_bytes = 8;
  if (bytes < 4) e.load[1] = t.resize(bytes, 4, true);
  return e;
}

Elementwise conversion(const ElementOp& op, const Table& t) {
  switch (op.op) {
    case Op::FToF: return float_to_float(op, t);
    case Op::FToI: return float_to_integer(op, t);
    case Op::IToF: return integer_to_float(op, t);
    case Op::ExtI:
    case Op::TruncI: return resize(op, t);
    case Op::Select: return with(op, t.select(ir::info(op.source).bytes));
    case Op::Offset: return offset(op, t);
    case Op::Bitcast:
    case Op::Assume:
    case Op::IntToPtr:
    case Op::PtrToInt:
    case Op::PtrToPtr: return with(op, t.copy(ir::info(op.result).bytes));
    default: return {};
  }
}

}  // namespace

std::optional<ElementOp> on_bytes(const ElementOp& op) {
  if (op.source != Elem::I1) return op;
  ElementOp byte = op;
  byte.source = Elem::I8;
  byte.is_signed = false;
  using P = ir::ComparisonPredicate;
  switch (op.op) {
    case Op::AndI:
    case Op::OrI:
    case Op::XOrI: return byte;
    case Op::AddI:
    case Op::SubI: byte.op = Op::XOrI; return byte;
    case Op::MulI:
    case Op::DivI: byte.op = Op::AndI; return byte;  // x / 0 is 0
    case Op::ShRI:
      if (op.is_signed) return std::nullopt;
      [[fallthrough]];
    case Op::ShLI:
    case Op::RemI:  // x % 0 is x, and any x shifted by 0: x and not y
      byte.op = Op::CmpI;
      byte.predicate = P::Greater;
      return byte;
    case Op::MaxI: byte.op = op.is_signed ? Op::AndI : Op::OrI; return byte;  // signed, 1 is -1
    case Op::MinI: byte.op = op.is_signed ? Op::OrI : Op::AndI; return byte;
    case Op::CmpI:
      if (op.is_signed)
        byte.predicate = op.predicate == P::Less           ? P::Greater
                         : op.predicate == P::LessEqual    ? P::GreaterEqual
                         : op.predicate == P::Greater      ? P::Less
                         : op.predicate == P::GreaterEqual ? P::LessEqual
                                                           : op.predicate;
      return byte;
    default: return std::nullopt;
  }
}

Elementwise elementwise(const ElementOp& op, Isa isa) {
  const Table& t = table(isa);
  for (const auto choose : {integer, floating_point, conversion})
    if (Elementwise e = choose(op, t)) {
      e.plain = e.load[0] == nullptr && e.load[1] == nullptr && e.store == nullptr && !e.by_reference;
      return e;
    }
  return {};
}

Elementwise converting(const Elementwise& user, int operand, const Elementwise& conversion, Isa isa) {
  const ElementOp& from = conversion.op;
  const bool widens = from.op == Op::FToF && from.result == Elem::F32 && from.source != Elem::F32 && conversion.plain;
  const bool takes = !user.by_reference && user.load[operand] == nullptr && !user.widening &&
                     (user.plain || user.loop != nullptr) && operand_element(user.op, operand) == Elem::F32;
  if (!widens || !takes) return {};
  Elementwise e = user;
  e.with_one[0] = e.with_one[1] = nullptr;
  e.bytes[operand] = conversion.bytes[0];
  const bool commutes = user.op.op == Op::Fma || user.op.op == Op::MulF || user.op.op == Op::AddF;
  const bool simple = user.plain && commutes && !user.swapped && !user.op.flush_to_zero && operand < 2;
  if (const LoopFn f = simple ? table(isa).widening(user.op.op, from.source) : nullptr) {
    e.loop = f;
    e.widening = true;
    e.swapped = operand == 1;  // the loop converts its first operand
    if (e.swapped) std::swap(e.bytes[0], e.bytes[1]);
    return e;
  }
  if (user.swapped) return {};
  e.load[operand] = conversion.loop;
  e.plain = false;
  return e;
}
Elementwise converting(const Elementwise& user, int operand, const Elementwise& conversion) {
  return converting(user, operand, conversion, selected_isa());
}

}  // namespace tessera::cpu::prims
