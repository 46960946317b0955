// Products of f32 by f32 are computed by fused multiply-add, and the assembler loads the operands of a product into
// registers whole before it multiplies: for tiles of 64x32 and 32x64 in 4 warps 384 of a thread, which spill. A product
// becomes a chain of products over slices of k. docs/compiler/slice_products.md.
//
//   c = mma(a, b, c)       =>     c = mma(a[:, 0:8], b[0:8, :], c); c = mma(a[:, 8:16], b[8:16, :], c); ...
#include <algorithm>
#include <vector>

#include "passes/cost_model.hpp"
#include "passes/opaque.hpp"
#include "passes/values.hpp"
#include "tessera/analysis/kernel_facts.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// Slice `s` of `tile` along `axis`, `length` long.
Value slice(ir::Builder& b, Value tile, std::size_t axis, Value s, std::int64_t length) {
  std::vector<std::int64_t> shape(tile.type().shape().begin(), tile.type().shape().end());
  shape[axis] = length;
  std::vector<Value> operands{tile};
  for (std::size_t a = 0; a < shape.size(); ++a) operands.push_back(a == axis ? s : b.constant_int(ir::Elem::I32, 0));
  const std::vector<ir::Type> type{tile.type().with_shape(shape)};
  return b.create(Op::Extract, operands, type)->result();
}

/// The product of one slice of each operand, added to `sum`.
Value step_of(ir::Builder& b, const Operation& product, Value sum, Value s, std::int64_t length) {
  const Value left = product.operand(0), right = product.operand(1);
  const auto rank = static_cast<std::size_t>(left.type().rank());
  const Value a = slice(b, left, rank - 1, s, length), c = slice(b, right, rank - 2, s, length);
  Operation* step = b.create(product.op(), {a, c, sum}, {sum.type()});
  for (const ir::NamedAttr& attr : product.attrs()) step->set_attr(attr.name, attr.value);
  return step->result();
}

/// The assembler unrolls a loop whose number of iterations it knows.
void loop_over_slices(Operation& product, std::int64_t length, Opaque& opaque) {
  ir::Builder b = ir::Builder::before(&product);
  b.loc = product.loc;
  const Value left = product.operand(0), sum = product.operand(2);
  const auto rank = static_cast<std::size_t>(left.type().rank());
  const Value count = b.constant_int(ir::Elem::I32, left.type().shape()[rank - 1] / length);
  const Value most = b.create(Op::AddI, {count, opaque.zero(ir::Elem::I32)}, {count.type()})->result();
  const Value bounds[] = {b.constant_int(ir::Elem::I32, 0), most, b.constant_int(ir::Elem::I32, 1), sum};
  const std::uint32_t groups[] = {1, 1, 1, 1};
  const ir::Type type = sum.type();
  Operation* loop = b.create_grouped(Op::For, bounds, groups, {&type, 1});
  ir::Block& body = loop->add_region();
  const Value step = body.add_arg(ir::Type::tile(ir::Elem::I32)), carried = body.add_arg(type);
  ir::Builder inner(body);
  inner.loc = product.loc;
  const Value result = step_of(inner, product, carried, step, length);
  inner.create(Op::Continue, std::span<const Value>(&result, 1), std::span<const ir::Type>());
  product.result().replace_all_uses_with(loop->result(0));
  product.erase();
}

void slice_product(Operation& product, std::int64_t length) {
  ir::Builder b = ir::Builder::before(&product);
  b.loc = product.loc;
  const Value left = product.operand(0);
  const std::int64_t slices = left.type().shape()[static_cast<std::size_t>(left.type().rank()) - 1] / length;
  Value sum = product.operand(2);
  for (std::int64_t s = 0; s < slices; ++s) sum = step_of(b, product, sum, b.constant_int(ir::Elem::I32, s), length);
  product.result().replace_all_uses_with(sum);
  product.erase();
}

/// Multiplications of a thread in all products of a kernel from which on they are loops. Unrolled, their code is longer
/// than an SM's instruction cache, and takes the assembler more than 20 s (bench/notes/compile_time.md).
constexpr std::int64_t kUnrolledMultiplications = 16384;

/// The fewest bytes of a slice. Operands reach a thread's registers through shared memory. The assembler arranges it in
/// rows of 128 bytes, whose words it exchanges, but reserves only the bytes that a tile has. So the stores of a tile of
/// 32 bytes at the end of a block's shared memory go behind that end (tileiras 13.5.37; compute-sanitizer's memcheck
/// reports them).
constexpr std::int64_t kBytesOfSlice = 128;

/// How much of k a step of the product's chain multiplies: all of k where the product stays as it is.
std::int64_t slice_length(const Operation& product, std::int64_t threads) {
  const std::int64_t all = product.operand(0).type().shape().back();
  std::int64_t length = slice_of_product(product.result().type().num_elements() / threads);
  const std::int64_t least =
      std::min(analysis::bytes_of(product.operand(0).type()), analysis::bytes_of(product.operand(1).type()));
  while (length < all && least * length / all < kBytesOfSlice) length *= 2;
  return std::min(length, all);
}

std::int64_t multiplications(const Operation& product) {
  return product.result().type().num_elements() * product.operand(0).type().shape().back();
}

}  // namespace

bool slice_products(ir::Function& f, const Choices& choices, const Tuning& tuning) {
  const std::int64_t threads = std::int64_t{32} * (choices.warps > 0 ? choices.warps : kWarpsOfProduct);
  std::vector<Operation*> products;
  std::int64_t all = 0;
  ir::walk(f.body(), [&](Operation& op) {
    if ((op.op() != Op::MmaF && op.op() != Op::MmaI) || analysis::uses_tensor_cores(op)) return;
    products.push_back(&op);
    all += multiplications(op) / threads;
  });
  const bool rolled = tuning.roll ? *tuning.roll != 0 : all > kUnrolledMultiplications;
  bool changed = false;
  Opaque opaque(f);
  for (Operation* p : products) {
    const std::int64_t length = slice_length(*p, threads);
    if (p->operand(0).type().shape().back() == length) continue;
    rolled ? loop_over_slices(*p, length, opaque) : slice_product(*p, length);
    changed = true;
  }
  return changed;
}

}  // namespace tessera::passes
