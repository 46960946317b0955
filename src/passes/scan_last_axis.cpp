// Turns a scan along any other axis into one along the last, between two permutations. tileiras 13.5.37 computes
// several scans along the first axis of one kernel wrongly on sm_90 (the second and later ones; found by the
// differential suite, tests/gpu/reduce_test.cpp); along the last axis it does not.
#include <numeric>
#include <vector>

#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// `v` with two axes exchanged.
Value exchanged(ir::Builder& b, Value v, std::size_t axis, std::size_t other) {
  std::vector<std::int64_t> shape(v.type().shape().begin(), v.type().shape().end());
  std::swap(shape[axis], shape[other]);
  ir::I32ArrayAttr order;
  order.values.resize(shape.size());
  std::iota(order.values.begin(), order.values.end(), 0);
  std::swap(order.values[axis], order.values[other]);
  return b.create(Op::Permute, {v}, {v.type().with_shape(shape)}, {{AttrName::permutation, order}})->result();
}

void move_to_last(Operation& scan) {
  const auto axis = static_cast<std::size_t>(scan.int_attr(AttrName::dim));
  const std::size_t last = scan.operand(0).type().shape().size() - 1;
  ir::Builder before = ir::Builder::before(&scan);
  before.loc = scan.loc;
  for (std::size_t i = 0; i < scan.num_operands(); ++i)
    scan.set_operand(i, exchanged(before, scan.operand(i), axis, last));
  scan.set_attr(AttrName::dim, ir::IntAttr{ir::Elem::I64, static_cast<std::int64_t>(last)});
  ir::Builder after = ir::Builder::before(scan.next());  // a scan is no terminator
  after.loc = scan.loc;
  for (std::size_t i = 0; i < scan.num_results(); ++i) {
    const Value result = scan.result(i);
    // Users move to the permuted result, which must go on using the scan's.
    result.set_type(scan.operand(i).type());
    const Value back = exchanged(after, result, axis, last);
    result.replace_all_uses_with(back);
    back.def()->set_operand(0, result);
  }
}

}  // namespace

bool scan_last_axis(ir::Function& f) {
  std::vector<Operation*> scans;
  ir::walk(f.body(), [&](Operation& op) {
    if (op.op() != Op::Scan) return;
    const auto rank = static_cast<std::int64_t>(op.operand(0).type().shape().size());
    if (op.int_attr(AttrName::dim) != rank - 1) scans.push_back(&op);
  });
  for (Operation* scan : scans) move_to_last(*scan);
  return !scans.empty();
}

}  // namespace tessera::passes
