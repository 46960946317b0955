// Propagates "varies" from the block numbers to a fixed point (see varying.hpp).
#include "passes/varying.hpp"

#include <algorithm>

#include "passes/rewriter.hpp"
#include "tessera/analysis/access.hpp"

namespace tessera::passes {

using ir::Op;
using ir::Operation;
using ir::Value;

Operation* loop_of_exit(const Operation& op) {
  Operation* loop = op.parent_op();
  while (!is_loop(*loop)) loop = loop->parent_op();
  return loop;
}

Varying::Varying(const ir::Function& f) {
  do {
    changed_ = false;
    ir::walk(f.body(), [&](const Operation& op) { visit(op); });
  } while (changed_);
}

bool Varying::any(const Operation& op) const {
  return std::ranges::any_of(op.operands(), [&](const ir::OpOperand& o) { return has(o.value); });
}

bool Varying::is_conditional(const Operation& op) const {
  for (const Operation* up = op.parent_op(); up != nullptr; up = up->parent_op())
    if (up->op() == Op::If && has(up->operand(0))) return true;
  return false;
}

void Varying::add(Value v) {
  if (v.type().is_tile()) changed_ = set_.insert(v.impl()).second || changed_;
}

void Varying::forget(const Operation& op) {
  for (std::size_t r = 0; r < op.num_results(); ++r) set_.erase(op.result(r).impl());
}

void Varying::visit(const Operation& op) {
  switch (op.op()) {
    case Op::GetTileBlockId:
    case Op::AtomicRMWTko: return add(op.result(0));
    case Op::For:
    case Op::Loop: return visit_loop(op);
    case Op::If: return visit_branch(op);
    case Op::Break:
    case Op::Continue: return visit_exit(op);
    default: break;
  }
  if (any(op) || (analysis::is_load(op) && is_conditional(op))) add_results(op);
}

void Varying::add_results(const Operation& op) {
  for (std::size_t r = 0; r < op.num_results(); ++r) add(op.result(r));
}

void Varying::visit_branch(const Operation& op) {
  if (has(op.operand(0))) return add_results(op);
  for (std::size_t region = 0; region < op.num_regions(); ++region)
    if (const Operation* end = op.region(region).terminator(); end && end->op() == Op::Yield) join(op, *end);
}

/// The results of `op` vary if a yielded value does.
void Varying::join(const Operation& op, const Operation& exit) {
  for (std::size_t i = 0; i < op.num_results(); ++i)
    if (has(exit.operand(i))) add(op.result(i));
}

void Varying::visit_loop(const Operation& op) {
  const ir::Block& body = op.region(0);
  const std::size_t first = first_carried_operand(op), arg = first_carried_arg(op);
  for (std::size_t i = first; i < op.num_operands(); ++i)
    if (has(op.operand(i))) add(body.arg(arg + i - first));
  // Of a `for` the carried values are its results too.
  for (std::size_t i = 0; op.op() == Op::For && i < op.num_results(); ++i) {
    if (has(body.arg(arg + i))) add(op.result(i));
    if (has(op.result(i))) add(body.arg(arg + i));
  }
}

void Varying::visit_exit(const Operation& exit) {
  const Operation* loop = loop_of_exit(exit);
  if (exit.op() == Op::Break || loop->op() == Op::For) join(*loop, exit);
  if (exit.op() == Op::Break) return;
  for (std::size_t i = 0; i < exit.num_operands(); ++i)
    if (has(exit.operand(i))) add(loop->region(0).arg(first_carried_arg(*loop) + i));
}

}  // namespace tessera::passes
