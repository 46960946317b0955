// Defines results that Tile IR leaves undefined, as docs/semantics.md says. The CPU computes them so. GPU hardware
// agrees in most cases (narrowing conversions, overflow); this pass emits the rest for kernels that run on a GPU:
//
//   x << n = 0, unsigned x >> n = 0, signed x >> n = copies of the sign, for n of at least the type's bits
//                                              (undefined in the assembler; left out where n is known to be smaller)
//   integer x / 0 = 0, x % 0 = x, smallest / -1 = smallest, smallest % -1 = 0
//                                              (left out where the divisor is a constant other than 0 and -1)
//   NaN to an integer = 0                      (PTX cvt gives 0 only from 32 bits or fewer to 32 bits or fewer)
#include <vector>

#include "passes/values.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::passes {

using ir::AttrName;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

struct Emit {
  ir::Builder b;
  explicit Emit(Operation& before) : b(ir::Builder::before(&before)) { b.loc = before.loc; }

  Value number(Value like, std::int64_t v) { return b.constant_int(like.type().elem(), v, like.type().shape()); }
  Value equal(Value x, std::int64_t v) { return compared(b, ir::ComparisonPredicate::Equal, x, number(x, v)); }
  Value is_nan(Value x) {
    return b
        .create(Op::CmpF, {x, x}, {x.type().with_element(ir::Elem::I1)},
                {{AttrName::comparison_predicate, ir::ComparisonPredicate::NotEqual},
                 {AttrName::comparison_ordering, ir::ComparisonOrdering::Unordered}})
        ->result();
  }
  Value choose(Value condition, Value x, Value y) {
    return b.create(Op::Select, {condition, x, y}, {x.type()})->result();
  }
  Value binary(Op op, Value x, Value y) { return b.create(op, {x, y}, {x.type()})->result(); }
};

/// Users of `op`'s result take `defined`, which is computed from it.
void replace_users(Operation& op, Value defined, const std::vector<Operation*>& own) {
  const Value result = op.result();
  std::vector<ir::OpOperand*> uses;
  for (ir::OpOperand* use = result.first_use(); use; use = use->next) {
    bool is_own = false;
    for (const Operation* o : own) is_own = is_own || use->owner == o;
    if (!is_own) uses.push_back(use);
  }
  for (ir::OpOperand* use : uses) use->set(defined);
}

bool is_signed(const Operation& op) {
  return op.enum_attr<ir::Signedness>(AttrName::signedness) == ir::Signedness::Signed;
}

void define_division(Operation& op) {
  const Value x = op.operand(0), divisor = op.operand(1);
  Emit before(op);
  const Value zero_divisor = before.equal(divisor, 0), one = before.number(divisor, 1);
  Value minus_one, replaced = zero_divisor;
  if (is_signed(op)) {
    minus_one = before.equal(divisor, -1);
    replaced = before.binary(Op::OrI, zero_divisor, minus_one);
  }
  op.set_operand(1, before.choose(replaced, one, divisor));

  Emit after(*op.next());  // not a terminator
  after.b.loc = op.loc;
  const Value zero = after.number(x, 0), result = op.result();
  const bool quotient = op.op() == Op::DivI;
  std::vector<Operation*> own;
  Value defined = result;
  if (minus_one) {
    defined = after.choose(minus_one, quotient ? after.binary(Op::SubI, zero, x) : zero, defined);
    own.push_back(defined.def());
  }
  defined = after.choose(zero_divisor, quotient ? zero : x, defined);
  own.push_back(defined.def());
  replace_users(op, defined, own);
}

void define_conversion(Operation& op) {
  Emit after(*op.next());
  after.b.loc = op.loc;
  const Value nan = after.is_nan(op.operand(0));
  const Value defined = after.choose(nan, after.number(op.result(), 0), op.result());
  replace_users(op, defined, {defined.def()});
}

void define_shift(Operation& op) {
  const Value amount = op.operand(1);
  const std::int64_t bits = ir::info(op.result().type().elem()).bits;
  Emit before(op);
  const Value fits =
      compared(before.b, ir::ComparisonPredicate::Less, amount, before.number(amount, bits), ir::Signedness::Unsigned);
  const bool copies_sign = op.op() == Op::ShRI && is_signed(op);
  op.set_operand(1, before.choose(fits, amount, before.number(amount, copies_sign ? bits - 1 : 0)));
  if (copies_sign) return;
  Emit after(*op.next());
  after.b.loc = op.loc;
  const Value defined = after.choose(fits, op.result(), after.number(op.result(), 0));
  replace_users(op, defined, {defined.def()});
}

bool shifts_by_unknown(const Operation& op) {
  if (op.op() != Op::ShLI && op.op() != Op::ShRI) return false;
  const auto amount = unsigned_most(op.operand(1));
  return !amount || *amount >= static_cast<std::uint64_t>(ir::info(op.result().type().elem()).bits);
}

bool divides_by_unknown(const Operation& op) {
  if (op.op() != Op::DivI && op.op() != Op::RemI) return false;
  const auto constant = constant_int(op.operand(1));
  return !constant || *constant == 0 || (*constant == -1 && is_signed(op));
}

bool converts_nan(const Operation& op) {
  return op.op() == Op::FToI &&
         (ir::info(op.operand(0).type().elem()).bits > 32 || ir::info(op.result().type().elem()).bits > 32);
}

}  // namespace

bool define_results(ir::Function& f) {
  std::vector<Operation*> divisions, conversions, shifts;
  ir::walk(f.body(), [&](Operation& op) {
    if (divides_by_unknown(op)) divisions.push_back(&op);
    if (converts_nan(op)) conversions.push_back(&op);
    if (shifts_by_unknown(op)) shifts.push_back(&op);
  });
  for (Operation* op : divisions) define_division(*op);
  for (Operation* op : conversions) define_conversion(*op);
  for (Operation* op : shifts) define_shift(*op);
  return !divisions.empty() || !conversions.empty() || !shifts.empty();
}

}  // namespace tessera::passes
