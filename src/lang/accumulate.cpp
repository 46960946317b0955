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

}  // namespace

void accumulate(TensorRef ref, AccOp op, bool is_signed, Values positions, Extents shape, Value value,
                SourceLocation loc) {
  Recording::Impl& s = state();
  TensorState& t = s.tensor(ref, ParamKind::Acc);
  ir::Builder& b = s.tracer.at(loc);
  const Elements at = elements_at(b, t, positions, shape);
  std::vector<Value> operands{at.pointers, ints::expand(b, value, wide(shape))};
  if (at.mask) operands.push_back(at.mask);
  const std::uint32_t groups[] = {1, 1, at.mask ? 1U : 0U, 0};
  const Type types[] = {operands[1].type(), Type::token()};
  b.create_grouped(Op::AtomicRMWTko, operands, groups, types,
                   {{AttrName::memory_ordering_semantics, ir::MemoryOrdering::Relaxed},
                    {AttrName::memory_scope, ir::MemoryScope::Device},
                    {AttrName::mode, mode_of(op, ir::info(t.elem).is_float, is_signed)}});
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
  accumulate(ref, op, is_signed, positions, tile, value, loc);
  s.tracer.close();
}

}  // namespace tessera::lang
