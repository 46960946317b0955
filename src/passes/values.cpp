// Building small pieces of IR (see values.hpp).
#include "passes/values.hpp"

#include <vector>

namespace tessera::passes {

using ir::Op;
using ir::Value;

Value broadcast_to(ir::Builder& b, Value v, std::span<const std::int64_t> shape) {
  const ir::Type wanted = v.type().with_shape(shape);
  return v.type() == wanted ? v : b.create(Op::Broadcast, {v}, {wanted})->result();
}

Value splat(ir::Builder& b, Value scalar, std::span<const std::int64_t> shape) {
  if (shape.empty()) return scalar;
  const std::vector<std::int64_t> ones(shape.size(), 1);
  return broadcast_to(b, b.create(Op::Reshape, {scalar}, {scalar.type().with_shape(ones)})->result(), shape);
}

Value iota_along(ir::Builder& b, std::int64_t extent, std::size_t axis, std::size_t rank) {
  const Value flat = b.create(Op::Iota, {}, {ir::Type::tile(ir::Elem::I32, {extent})})->result();
  if (rank == 1) return flat;
  std::vector<std::int64_t> shape(rank, 1);
  shape[axis] = extent;
  return b.create(Op::Reshape, {flat}, {flat.type().with_shape(shape)})->result();
}

Value compared(ir::Builder& b, ir::ComparisonPredicate how, Value x, Value y, ir::Signedness sign) {
  return b
      .create(Op::CmpI, {x, y}, {x.type().with_element(ir::Elem::I1)},
              {{ir::AttrName::comparison_predicate, how}, {ir::AttrName::signedness, sign}})
      ->result();
}

Value as_i64(ir::Builder& b, Value v, ir::Signedness sign) {
  if (v.type().elem() == ir::Elem::I64) return v;
  return b.create(Op::ExtI, {v}, {v.type().with_element(ir::Elem::I64)}, {{ir::AttrName::signedness, sign}})->result();
}

}  // namespace tessera::passes
