// Reading small pieces of IR (see values.hpp).
#include "tessera/analysis/values.hpp"

#include "tessera/ir/semantics.hpp"

namespace tessera::analysis {

using ir::Op;
using ir::Operation;
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

std::optional<double> constant_float(Value v) {
  if (!v.type().is_float()) return std::nullopt;
  const auto bits = splat_bits(v);
  return bits ? std::optional(ir::to_double(v.type().elem(), *bits)) : std::nullopt;
}

Value behind_shapes(Value v) {
  for (const Operation* op = v.def(); op && (op->op() == Op::Broadcast || op->op() == Op::Reshape); op = v.def())
    v = op->operand(0);
  return v;
}

bool is_pure(const ir::Operation& op) { return op.info().has(ir::traits::Pure); }

bool defined_outside(Value v, const ir::Block& block) {
  const ir::Block* b = v.def() ? v.def()->block() : v.argument_block();
  for (; b; b = b->parent() ? b->parent()->block() : nullptr)
    if (b == &block) return false;
  return true;
}

const Operation* single_combiner(const Operation& reduce) {
  const ir::Block& body = reduce.region(0);
  const Operation* step = body.front();
  const bool single = reduce.num_operands() == 1 && step != nullptr && step->next() == body.terminator();
  return single ? step : nullptr;
}

bool leaves_early(const Operation& loop) {
  bool found = false;
  for (const Operation& op : loop.region(0)) {
    if (op.op() != ir::Op::If) continue;
    for (std::size_t r = 0; r < op.num_regions(); ++r)
      ir::walk(op.region(r), [&](const Operation& inner) {
        found = found || inner.op() == ir::Op::Continue || inner.op() == ir::Op::Break || inner.op() == ir::Op::Return;
      });
  }
  return found;
}

}  // namespace tessera::analysis
