// Reading and building small pieces of IR (see values.hpp).
#include "passes/values.hpp"

#include <vector>

#include "tessera/ir/semantics.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Value;

std::optional<std::uint64_t> splat_bits(Value v) {
  const ir::Operation* def = v ? v.def() : nullptr;
  if (!def || def->op() != Op::Constant) return std::nullopt;
  const auto* data = def->attr(ir::AttrName::value)->as<ir::DenseAttr>();
  if (!data->splat && data->type.num_elements() != 1) return std::nullopt;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < data->bytes.size() && i < 8; ++i)
    bits |= static_cast<std::uint64_t>(data->bytes[i]) << (8 * i);
  return bits;
}

std::optional<std::int64_t> constant_int(Value v) {
  if (!v || !v.type().is_tile() || v.type().is_pointer() || v.type().is_float()) return std::nullopt;
  const auto bits = splat_bits(v);
  if (!bits) return std::nullopt;
  if (v.type().elem() == ir::Elem::I1) return static_cast<std::int64_t>(*bits & 1);
  return ir::to_signed(v.type().elem(), *bits);
}

bool is_pure(const ir::Operation& op) { return op.info().has(ir::traits::Pure); }

bool defined_outside(Value v, const ir::Block& block) {
  const ir::Block* b = v.def() ? v.def()->block() : v.argument_block();
  for (; b; b = b->parent() ? b->parent()->block() : nullptr)
    if (b == &block) return false;
  return true;
}

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
