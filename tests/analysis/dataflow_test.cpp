// The driver of forward analyses, with an analysis that is easy to do by hand: which of the entry's arguments a number
// follows from.
#include "analysis/dataflow.hpp"

#include <gtest/gtest.h>

#include <map>

#include "passes/pass_support.hpp"

namespace tessera::test {
namespace {

using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

const Type kI32 = Type::tile(Elem::I32), kI1 = Type::tile(Elem::I1);
constexpr unsigned kRefined = 0x100;  // where a condition has been found to be true, what it compares first

struct From {
  unsigned arguments = 0;  ///< bits
  bool operator==(const From&) const = default;
};

class FromArguments final : public analysis::Dataflow<From> {
 public:
  FromArguments() : Dataflow(true) {}
  std::map<const Operation*, int> visits;
  std::map<const Operation*, unsigned> at_visit;  ///< the fact of the first operand, where it is visited

 private:
  bool follows(Type t) const override { return t == kI32; }
  From unknown(Type) const override { return {}; }
  From join(const From& a, const From& b) const override { return {a.arguments | b.arguments}; }
  std::optional<From> argument(Value v) override { return From{1u << v.index()}; }
  From induction(const Operation& loop) override { return join(fact(loop.operand(0)), fact(loop.operand(2))); }
  std::optional<From> transfer(const Operation& op, std::size_t) override {
    From all;
    for (const ir::OpOperand& use : op.operands())
      if (follows(use.value.type())) all = join(all, fact(use.value));
    return all;
  }
  void refine(Value condition, bool truth, Scope& scope) override {
    if (truth && condition.def()) scope.set(condition.def()->operand(0), {kRefined});
  }
  void visit(Operation& op) override {
    ++visits[&op];
    if (op.num_operands() > 0 && follows(op.operand(0).type())) at_visit[&op] = fact(op.operand(0)).arguments;
  }
};

struct Program {
  Kernel k;
  Value a = k.arg(Elem::I32), b = k.arg(Elem::I32), c = k.arg(Elem::I32), zero = k.i32(0), one = k.i32(1);
  FromArguments found;

  Value sum(ir::Builder& at, Value x, Value y) { return at.create(Op::AddI, {x, y}, {kI32})->result(); }
  Value less(ir::Builder& at, Value x, Value y) {
    return at
        .create(Op::CmpI, {x, y}, {kI1},
                {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Less},
                 {ir::AttrName::signedness, ir::Signedness::Signed}})
        ->result();
  }
  void run() {
    found.run(k.function());
    ir::walk(k.module.functions.front()->body(),
             [&](const Operation& op) { EXPECT_EQ(found.visits[&op], 1) << op.info().mnemonic; });
  }
  unsigned of(Value v) const {
    const From* fact = found.final_fact(v);
    return fact ? fact->arguments : 0;
  }
};

TEST(Dataflow, StraightLines) {
  Program p;
  const Value ab = p.sum(p.k.b, p.a, p.b), abc = p.sum(p.k.b, ab, p.c);
  p.k.keep(abc);
  p.run();
  EXPECT_EQ(p.of(p.a), 1u);
  EXPECT_EQ(p.of(ab), 3u);
  EXPECT_EQ(p.of(abc), 7u);
  EXPECT_EQ(p.of(p.zero), 0u);
}

/// for i in (0 to 1, step 1) with x, y, z = a, b, c { continue y, z, x }
TEST(Dataflow, CarriedValuesGoRoundUntilNothingChanges) {
  Program p;
  Operation* loop = p.k.b.create(Op::For, {p.zero, p.one, p.one, p.a, p.b, p.c}, {kI32, kI32, kI32});
  ir::Block& body = loop->add_region();
  for (int i = 0; i < 4; ++i) body.add_arg(kI32);
  ir::Builder inside(body);
  const Value seen = p.sum(inside, body.arg(1), p.zero);
  inside.create(Op::Continue, {body.arg(2), body.arg(3), body.arg(1)}, {});
  p.k.keep(loop->result(2));
  p.run();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(p.of(loop->result(i)), 7u) << i;
  for (std::size_t i = 1; i < 4; ++i) EXPECT_EQ(p.of(body.arg(i)), 7u) << i;
  EXPECT_EQ(p.of(body.arg(0)), 0u);
  EXPECT_EQ(p.of(seen), 7u);
  EXPECT_EQ(p.found.at_visit[seen.def()], 7u) << "operations are visited when everything is known";
}

/// loop with x = a { if x < 0 { break b }; if x < 0 { break a }; continue c }
TEST(Dataflow, ALoopEndsWithWhatItsBreaksCarry) {
  Program p;
  Operation* loop = p.k.b.create(Op::Loop, {p.a}, {kI32});
  ir::Block& body = loop->add_region();
  const Value x = body.add_arg(kI32);
  ir::Builder inside(body);
  for (const Value carried : {p.b, p.a}) {
    Operation* branch = inside.create(Op::If, {p.less(inside, x, p.zero)}, {});
    ir::Builder leaves(branch->add_region());
    leaves.create(Op::Break, {carried}, {});
    ir::Builder stays(branch->add_region());
    stays.create(Op::Yield, {}, {});
  }
  inside.create(Op::Continue, {p.c}, {});
  p.k.keep(loop->result());
  p.run();
  EXPECT_EQ(p.of(loop->result()), 3u);
  EXPECT_EQ(p.of(x), 5u);
}

/// before = a + b; r = if a < c { yield before } else { yield before }; after = before + 0
TEST(Dataflow, WhatABranchSaysHoldsInItsArm) {
  Program p;
  const Value before = p.sum(p.k.b, p.a, p.b);
  Operation* branch = p.k.b.create(Op::If, {p.less(p.k.b, p.a, p.c)}, {kI32});
  ir::Builder yes(branch->add_region());
  const Value inside = p.sum(yes, before, p.zero);
  yes.create(Op::Yield, {inside}, {});
  ir::Builder no(branch->add_region());
  const Value other = p.sum(no, before, p.zero);
  no.create(Op::Yield, {other}, {});
  const Value after = p.sum(p.k.b, before, p.zero);
  p.k.keep(branch->result());
  p.k.keep(after);
  p.run();
  EXPECT_EQ(p.of(inside), kRefined | 2u) << "computed again from what the condition says";
  EXPECT_EQ(p.of(other), 3u);
  EXPECT_EQ(p.of(branch->result()), kRefined | 3u);
  EXPECT_EQ(p.of(after), 3u);
  EXPECT_EQ(p.of(before), 3u);
}

/// for .. { if a < c { for .. with x, z, w = 0, b, c { y = x + a; continue z, z, y } } }: y is of the arm, and what it
/// is made of arrives in the second round of the loop inside.
TEST(Dataflow, ValuesOfTheArmAreNotRememberedFromAnEarlierRound) {
  Program p;
  Operation* outer = p.k.b.create(Op::For, {p.zero, p.one, p.one, p.zero}, {kI32});
  ir::Block& rounds = outer->add_region();
  rounds.add_arg(kI32);
  rounds.add_arg(kI32);
  ir::Builder in_outer(rounds);
  Operation* branch = in_outer.create(Op::If, {p.less(in_outer, p.a, p.c)}, {kI32});
  ir::Builder yes(branch->add_region());
  Operation* inner = yes.create(Op::For, {p.zero, p.one, p.one, p.zero, p.b, p.c}, {kI32, kI32, kI32});
  ir::Block& body = inner->add_region();
  for (int i = 0; i < 4; ++i) body.add_arg(kI32);
  ir::Builder inside(body);
  const Value y = p.sum(inside, body.arg(1), p.a);
  inside.create(Op::Continue, {body.arg(2), body.arg(2), y}, {});
  yes.create(Op::Yield, {inner->result(2)}, {});
  ir::Builder no(branch->add_region());
  no.create(Op::Yield, {p.zero}, {});
  in_outer.create(Op::Continue, {branch->result()}, {});
  p.k.keep(outer->result());
  p.run();
  EXPECT_EQ(p.of(y), kRefined | 2u);
  EXPECT_EQ(p.of(inner->result(2)), kRefined | 6u);
  EXPECT_EQ(p.of(branch->result()), kRefined | 6u);
  EXPECT_EQ(p.of(outer->result()), kRefined | 6u);
}

}  // namespace
}  // namespace tessera::test
