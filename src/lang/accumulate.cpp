// Atomic accumulation into shared tensors. Nothing reads an Acc inside the kernel, so relaxed order at device scope is
// enough.
#include "lang/recording_impl.hpp"
#include "tessera/base/error.hpp"

namespace tessera::lang {

using ir::AtomicMode;
using ir::AttrName;
using ir::Op;
using ir::Type;
using ir::Value;

namespace {

AtomicMode mode_of(AccOp op, bool is_float, bool is_signed) {
  switch (op) {
    case AccOp::Add: return is_float ? AtomicMode::AddF : AtomicMode::Add;
    case AccOp::Max: return is_signed ? AtomicMode::Max : AtomicMode::UMax;
    case AccOp::Min: return is_signed ? AtomicMode::Min : AtomicMode::UMin;
    case AccOp::And: return AtomicMode::And;
    case AccOp::Or: return AtomicMode::Or;
    case AccOp::Xor: return AtomicMode::Xor;
  }
  throw InternalError("accumulation without an atomic mode");
}

void update(ir::Builder& b, Value pointers, Value value, Value mask, AtomicMode mode) {
  std::vector<Value> operands{pointers, value};
  if (mask) operands.push_back(mask);
  const std::uint32_t groups[] = {1, 1, mask ? 1U : 0U, 0};
  const Type types[] = {value.type(), Type::token()};
  b.create_grouped(Op::AtomicRMWTko, operands, groups, types,
                   {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Relaxed},
                    {AttrName::memory_scope, ir::MemoryScope::Device},
                    {AttrName::mode, mode}});
}

/// Tile IR has no atomic extremes of floats. As integers, floats without the sign bit are in their order when read as
/// signed, and above all others; those with it are in the opposite order when read as unsigned, and above all others.
/// So the maximum is the signed maximum for values without the sign bit and the unsigned minimum for those with it; the
/// minimum is the signed minimum for values without the sign bit and the unsigned maximum for those with it. Values
/// that are NaN are ignored, as in maxf and minf.
void update_extreme(ir::Builder& b, AccOp op, Value pointers, Value value, Value mask) {
  const bool is_double = ir::info(value.type().elem()).bits == 64;
  const Type bits_type = value.type().with_element(is_double ? ir::Elem::I64 : ir::Elem::I32);
  const Type truth = value.type().with_element(ir::Elem::I1);
  const Value bits = b.create(Op::Bitcast, {value}, {bits_type})->result();
  const Type pointer = Type::tile(Type::pointer(Type::element(bits_type.elem())), pointers.type().shape());
  const Value places = b.create(Op::PtrToPtr, {pointers}, {pointer})->result();
  const Value zero = b.constant_int(bits_type.elem(), 0, bits_type.shape());
  const Value plain = b.create(Op::CmpF, {value, value}, {truth},
                               {{AttrName::comparison_predicate, ir::ComparisonPredicate::Equal},
                                {AttrName::comparison_ordering, ir::ComparisonOrdering::Ordered}})
                          ->result();
  const Value counts = mask ? b.create(Op::AndI, {mask, plain}, {truth})->result() : plain;
  const auto where = [&](ir::ComparisonPredicate sign) {
    const Value has = b.create(Op::CmpI, {bits, zero}, {truth},
                               {{AttrName::comparison_predicate, sign}, {AttrName::signedness, ir::Signedness::Signed}})
                          ->result();
    return b.create(Op::AndI, {counts, has}, {truth})->result();
  };
  const bool most = op == AccOp::Max;
  update(b, places, bits, where(ir::ComparisonPredicate::GreaterEqual), most ? AtomicMode::Max : AtomicMode::Min);
  update(b, places, bits, where(ir::ComparisonPredicate::Less), most ? AtomicMode::UMin : AtomicMode::UMax);
}

void accumulate_elements(TensorState& t, const Elements& at, AccOp op, bool is_signed, Extents shape, Value value,
                         SourceLocation loc) {
  ir::Builder& b = state().tracer.at(loc);
  const Value whole = ints::expand(b, value, wide(shape));
  const bool is_float = ir::info(t.elem).is_float;
  if (is_float && op != AccOp::Add) return update_extreme(b, op, at.pointers, whole, at.mask);
  update(b, at.pointers, whole, at.mask, mode_of(op, is_float, is_signed));
}

}  // namespace

void accumulate(TensorRef ref, AccOp op, bool is_signed, Values positions, Extents shape, Value value,
                SourceLocation loc) {
  TensorState& t = state().tensor(ref, ParamKind::Acc);
  const Elements at = elements_at(state().tracer.at(loc), t, positions, shape);
  assert_inside(at.mask, "update of", t, loc);
  accumulate_elements(t, at, op, is_signed, shape, value, loc);
}

void accumulate_clipped(TensorRef ref, AccOp op, bool is_signed, Values positions, Extents shape, Value value,
                        SourceLocation loc) {
  TensorState& t = state().tensor(ref, ParamKind::Acc);
  accumulate_elements(t, elements_at(state().tracer.at(loc), t, positions, shape), op, is_signed, shape, value, loc);
}

void accumulate_tile(TensorRef ref, AccOp op, bool is_signed, Extents tile, Values index, Value value,
                     SourceLocation loc) {
  Recording::Impl& s = state();
  TensorState& t = s.tensor(ref, ParamKind::Acc);
  const Value in_range = indices_in_range(t, tile, index, loc);
  // An index far outside could wrap to an element inside when multiplied by the tile's extent: the guard comes first.
  s.tracer.open_if(in_range, loc);
  ir::Builder& b = s.tracer.at(loc);
  std::vector<Value> positions;
  for (int a = 0; a < t.rank; ++a) {
    const auto i = static_cast<std::size_t>(a);
    const Value first = ints::mul(b, index[i], ints::i32(b, tile[i]));
    positions.push_back(positions_along(b, first, a, tile));
  }
  accumulate_clipped(ref, op, is_signed, positions, tile, value, loc);
  s.tracer.close();
}

}  // namespace tessera::lang
