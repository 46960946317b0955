// Products of f32 by f32 are computed by fused multiply-add, and the assembler loads the operands of a product into
// registers whole before it multiplies: for tiles of 64x32 and 32x64 in 4 warps 384 of a thread, which spill. A product
// becomes a chain of products over slices of k. docs/compiler/slice_products.md.
//
//   c = mma(a, b, c)       =>     c = mma(a[:, 0:8], b[0:8, :], c); c = mma(a[:, 8:16], b[8:16, :], c); ...
#include <vector>

#include "passes/cost_model.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// Slice `s` of `tile` along `axis`, `length` long.
Value slice(ir::Builder& b, Value tile, std::size_t axis, std::int64_t s, std::int64_t length) {
  std::vector<std::int64_t> shape(tile.type().shape().begin(), tile.type().shape().end());
  shape[axis] = length;
  std::vector<Value> operands{tile};
  for (std::size_t a = 0; a < shape.size(); ++a) operands.push_back(b.constant_int(ir::Elem::I32, a == axis ? s : 0));
  const std::vector<ir::Type> type{tile.type().with_shape(shape)};
  return b.create(Op::Extract, operands, type)->result();
}

void slice_product(Operation& product, std::int64_t length) {
  ir::Builder b = ir::Builder::before(&product);
  b.loc = product.loc;
  const Value left = product.operand(0), right = product.operand(1);
  const auto rank = static_cast<std::size_t>(left.type().rank());
  const std::int64_t slices = left.type().shape()[rank - 1] / length;
  Value sum = product.operand(2);
  for (std::int64_t s = 0; s < slices; ++s) {
    const Value a = slice(b, left, rank - 1, s, length), c = slice(b, right, rank - 2, s, length);
    sum = b.create(Op::MmaF, {a, c, sum}, {product.result().type()})->result();
  }
  product.result().replace_all_uses_with(sum);
  product.erase();
}

}  // namespace

bool slice_products(ir::Function& f, const Choices& choices) {
  const std::int64_t threads = std::int64_t{32} * (choices.warps > 0 ? choices.warps : kWarpsOfProduct);
  std::vector<Operation*> products;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() == Op::MmaF && !analysis::uses_tensor_cores(op)) products.push_back(&op);
  });
  bool changed = false;
  for (Operation* p : products) {
    const std::int64_t length = slice_of_product(p->result().type().num_elements() / threads);
    if (p->operand(0).type().shape().back() <= length) continue;
    slice_product(*p, length);
    changed = true;
  }
  return changed;
}

}  // namespace tessera::passes
