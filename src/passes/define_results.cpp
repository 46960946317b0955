// Defines results that Tile IR leaves undefined, as docs/semantics.md says. The CPU computes them so. GPU hardware
// agrees in most cases (narrowing conversions, overflow); this pass emits the rest for kernels that run on a GPU:
//
//   x << n = 0, unsigned x >> n = 0, signed x >> n = copies of the sign, for n of at least the type's bits
//                                              (undefined in the assembler; left out where n is known to be smaller)
//   integer x / 0 = 0, x % 0 = x, smallest / -1 = smallest, smallest % -1 = 0
//                                              (left out where the divisor is positive, or a constant other than 0 and
//                                              -1)
//   float to integer: NaN gives 0, numbers out of range the smallest or largest integer
//                                              (PTX cvt saturates, and gives 0 for NaN from 32 bits or fewer to 32 bits
//                                              or fewer; the assembler takes numbers that it knows for undefined)
//
// docs/compiler/define_results.md.
#include <cmath>
#include <vector>

#include "passes/values.hpp"
#include "tessera/analysis/known_floats.hpp"
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
  Value compare(ir::ComparisonPredicate predicate, ir::ComparisonOrdering ordering, Value x, Value y) {
    return b
        .create(Op::CmpF, {x, y}, {x.type().with_element(ir::Elem::I1)},
                {{AttrName::comparison_predicate, predicate}, {AttrName::comparison_ordering, ordering}})
        ->result();
  }
  Value is_nan(Value x) { return compare(ir::ComparisonPredicate::NotEqual, ir::ComparisonOrdering::Unordered, x, x); }
  /// False for NaN.
  Value compared_to(ir::ComparisonPredicate predicate, Value x, double number) {
    const Value y = b.constant_float(x.type().elem(), number, x.type().shape());
    return compare(predicate, ir::ComparisonOrdering::Ordered, x, y);
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

/// What a conversion to an integer does not do by itself.
struct Missing {
  bool above, below, nan;
  bool any() const { return above || below || nan; }
};

/// 2^n of the n value bits: the first number above the range of an integer type.
double end_of(const Operation& conversion) {
  const int bits = ir::info(conversion.result().type().elem()).bits;
  return std::ldexp(1.0, is_signed(conversion) ? bits - 1 : bits);
}

Missing missing_of(const Operation& conversion, const analysis::KnownFloat& x) {
  const int from = ir::info(conversion.operand(0).type().elem()).bits;
  const int to = ir::info(conversion.result().type().elem()).bits;
  if (to < 32) return {true, true, true};  // the instruction saturates to 16, 32 or 64 bits
  const double end = end_of(conversion);
  return {x.high >= end, is_signed(conversion) ? x.low < -end : x.low <= -1, x.nan || from > 32 || to > 32};
}

/// The assembler knows that finite numbers of f16 are small, and forgets that infinities are converted too: it leaves
/// out a `min` by 100000, for example. Of wider types it knows nothing.
bool is_too_narrow(const Operation& conversion) {
  const ir::Elem from = conversion.operand(0).type().elem();
  return from == ir::Elem::F16 || ir::info(from).bits < 16;
}

void define_conversion(Operation& op, const Missing& missing) {
  if (is_too_narrow(op)) {
    Emit before(op);
    const Value x = op.operand(0);
    op.set_operand(0, before.b.create(Op::FToF, {x}, {x.type().with_element(ir::Elem::F32)})->result());
  }
  if (!missing.any()) return;
  Emit after(*op.next());
  after.b.loc = op.loc;
  const Value x = op.operand(0);
  const int bits = ir::info(op.result().type().elem()).bits;
  const std::int64_t smallest = is_signed(op) ? std::int64_t(std::uint64_t{1} << (bits - 1)) : 0;
  const std::int64_t largest = is_signed(op) ? ~smallest : -1;
  Value defined = op.result();
  std::vector<Operation*> own;
  const auto choose = [&](Value condition, std::int64_t number) {
    defined = after.choose(condition, after.number(op.result(), number), defined);
    own.push_back(defined.def());
  };
  if (missing.below)
    choose(after.compared_to(ir::ComparisonPredicate::Less, x, is_signed(op) ? -end_of(op) : 0), smallest);
  if (missing.above) choose(after.compared_to(ir::ComparisonPredicate::GreaterEqual, x, end_of(op)), largest);
  if (missing.nan) choose(after.is_nan(x), 0);
  replace_users(op, defined, own);
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

/// The divisor counts the tiles along an axis of a tensor that is not empty where a block runs.
bool divides_by_tiles(const Operation& op, const analysis::LaunchContract& contract) {
  const auto counted = tiles_counted(op.operand(1));
  if (!counted || counted->argument >= contract.args.size()) return false;
  const analysis::ArgContract& arg = contract.args[counted->argument];
  return arg.role == analysis::ArgRole::Dim &&
         (arg.tensor == contract.pieces_of_tensor || contract.tensors[static_cast<std::size_t>(arg.tensor)].nonempty);
}

/// Such a number is at least 1, so every quotient by it is defined.
void drop_positive_divisors(std::vector<Operation*>& divisions, const ir::Function& f,
                            const analysis::LaunchContract* contract, const Certifier* certifier) {
  std::vector<analysis::Claim> claims;
  for (Operation* op : divisions)
    if (contract && divides_by_tiles(*op, *contract))
      claims.push_back({.kind = analysis::ClaimKind::AtLeast, .op = op, .index = 1, .lower = 1});
  const std::vector<bool> positive = certified(certifier, f, claims);
  for (std::size_t i = 0; i < claims.size(); ++i)
    if (positive[i]) std::erase(divisions, claims[i].op);
}

}  // namespace

bool define_results(ir::Function& f, const analysis::LaunchContract* contract, const Certifier* certifier) {
  struct Conversion {
    Operation* op;
    Missing missing;
  };
  std::vector<Operation*> divisions, to_integers, shifts;
  std::vector<Conversion> conversions;
  ir::walk(f.body(), [&](Operation& op) {
    if (divides_by_unknown(op)) divisions.push_back(&op);
    if (op.op() == Op::FToI) to_integers.push_back(&op);
    if (shifts_by_unknown(op)) shifts.push_back(&op);
  });
  if (!to_integers.empty()) {
    const auto known = analysis::KnownFloats::analyze(f);
    for (Operation* op : to_integers) {
      const Missing missing = missing_of(*op, known.of(op->operand(0)));
      if (missing.any() || is_too_narrow(*op)) conversions.push_back({op, missing});
    }
  }
  drop_positive_divisors(divisions, f, contract, certifier);
  for (Operation* op : divisions) define_division(*op);
  for (const Conversion& c : conversions) define_conversion(*c.op, c.missing);
  for (Operation* op : shifts) define_shift(*op);
  return !divisions.empty() || !conversions.empty() || !shifts.empty();
}

}  // namespace tessera::passes
