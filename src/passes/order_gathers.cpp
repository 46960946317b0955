// The layout of gathers. Where the assembler knows of no axis along which addresses are neighbours, it gives
// neighbouring threads places along the first axis that is longer than 1 (tileiras 13.5.37): each load of a warp then
// touches as many rows as it has threads. Neighbours along the last axis are mostly near each other, so that axis
// becomes the first:
//
//   x = load p                      =>    q = permute p            (the last axis first)
//                                         x = permute (load q)     (and back)
//
// The assembler resolves both permutations when it chooses layouts. docs/compiler/order_gathers.md.
#include <algorithm>
#include <vector>

#include "passes/values.hpp"
#include "tessera/analysis/divisibility.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Builder;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

namespace {

using Order = std::vector<std::int32_t>;

constexpr std::int64_t kFewestColumns = 8;  // f32 of a sector of memory, 32 bytes

Type permuted(Type type, const Order& order) {
  std::vector<std::int64_t> shape;
  for (const std::int32_t axis : order) shape.push_back(type.shape()[static_cast<std::size_t>(axis)]);
  return type.with_shape(shape);
}
Operation* permute(Builder& b, Value v, const Order& order) {
  return b.create(Op::Permute, {v}, {permuted(v.type(), order)}, {{AttrName::permutation, ir::I32ArrayAttr{order}}});
}

bool is_gather_of_rows(const Operation& op, const analysis::Divisibility& known) {
  if (op.op() != Op::LoadPtrTko) return false;
  const auto shape = op.result(0).type().shape();
  if (shape.size() < 2 || shape.back() < kFewestColumns) return false;
  const bool has_rows = std::any_of(shape.begin(), shape.end() - 1, [](std::int64_t n) { return n > 1; });
  return has_rows && analysis::width_of(op, known).limit == analysis::WidthLimit::Scattered;
}

void put_last_axis_first(Operation& load) {
  const Type tile = load.result(0).type();
  const auto last = static_cast<std::int32_t>(tile.rank()) - 1;
  Order order{last}, back;
  for (std::int32_t axis = 0; axis < last; ++axis) order.push_back(axis), back.push_back(axis + 1);
  back.push_back(0);
  Builder before = Builder::before(&load);
  before.loc = load.loc;
  for (std::size_t i = 0; i < load.num_operands(); ++i)  // pointers, mask and padding; not the token
    if (load.operand(i).type().is_tile()) load.set_operand(i, permute(before, load.operand(i), order)->result());
  load.result(0).set_type(permuted(tile, order));
  Builder after = Builder::before(load.next());  // not a terminator
  after.loc = load.loc;
  Operation* restored = permute(after, load.result(0), back);
  load.result(0).replace_all_uses_with(restored->result());
  restored->set_operand(0, load.result(0));
}

}  // namespace

bool order_gathers(ir::Function& f) {
  const analysis::Divisibility known(f);
  std::vector<Operation*> gathers;
  ir::walk(f.body(), [&](Operation& op) {
    if (is_gather_of_rows(op, known)) gathers.push_back(&op);
  });
  for (Operation* load : gathers) put_last_axis_first(*load);
  return !gathers.empty();
}

}  // namespace tessera::passes
