// Checked mode on GPUs: every sum, difference and product that an access depends on is computed again in 64 bits, and
// an assertion compares the two results. (On the CPU the evaluator checks this itself.)
#include "tessera/analysis/index_arithmetic.hpp"
#include "tessera/base/format.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {
namespace {

using ir::AttrName;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

Value widened(Builder& b, Value v) {
  return b.create(Op::ExtI, {v}, {v.type().with_element(Elem::I64)}, {{AttrName::signedness, ir::Signedness::Signed}})
      ->result();
}

/// 64-bit operations are not checked: there is no wider type to compute their exact result in.
bool can_be_checked(const Operation& op) {
  const int bits = ir::info(op.result().type().elem()).bits;
  return bits > 1 && bits <= 32;
}

void check(Operation& op) {
  Builder b = Builder::before(op.next());
  b.loc = op.loc;
  const Type type = op.result().type();
  std::vector<Value> operands;
  for (const Value v : op.operand_values()) operands.push_back(widened(b, v));
  const Type wide[] = {type.with_element(Elem::I64)};
  const Value exact = b.create(op.op(), operands, wide, {{AttrName::overflow, ir::IntegerOverflow::None}})->result();
  const Value same = b.create(Op::CmpI, {exact, widened(b, op.result())}, {type.with_element(Elem::I1)},
                              {{AttrName::comparison_predicate, ir::ComparisonPredicate::Equal},
                               {AttrName::signedness, ir::Signedness::Signed}})
                         ->result();
  b.create(Op::Assert, {same}, {},
           {{AttrName::message, concat("index arithmetic overflows ", ir::info(type.elem()).text)}});
}

}  // namespace

bool check_index_arithmetic(ir::Function& f) {
  bool changed = false;
  for (const Operation* found : analysis::index_arithmetic(f.body())) {
    if (!can_be_checked(*found)) continue;
    check(const_cast<Operation&>(*found));  // of the function that was given to be changed
    changed = true;
  }
  return changed;
}

}  // namespace tessera::passes
