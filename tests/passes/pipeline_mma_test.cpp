// Software pipelining of a product that feeds a product; other products are unchanged.
#include "passes/accepting.hpp"
#include "passes/product_loop.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;

using Scores = ProductLoop::Scores;

bool pipelined(ProductLoop& l) {
  const std::string before = l.k.text();
  const bool changed = passes::pipeline_mma(*l.f, kHopper);
  EXPECT_EQ(problems_of(l.k.module), "");
  EXPECT_EQ(changed, l.k.text() != before);
  return changed;
}

TEST(PipelineMma, ScoresAreIssuedOneStepAhead) {
  ProductLoop l(64, 128, 128, Elem::BF16, 128);
  ASSERT_TRUE(pipelined(l));
  passes::clean_up(*l.f);
  EXPECT_EQ(problems_of(l.k.module), "");
  // Before the loop, in it, and for the last iteration after it: two products each but one before.
  EXPECT_EQ(count(*l.f, Op::MmaF), 4u);
  Operation* loop = first(*l.f, Op::For);
  ASSERT_TRUE(loop);
  EXPECT_EQ(loop->num_results(), 2u) << "the scores are carried";
  ASSERT_EQ(loop->parent_op()->op(), Op::If) << "nothing is loaded if there is no iteration";
  std::vector<const Operation*> order;
  for (const Operation& op : loop->region(0))
    if (op.op() == Op::MmaF || op.op() == Op::Exp2) order.push_back(&op);
  ASSERT_EQ(order.size(), 3u);
  EXPECT_EQ(order[0]->op(), Op::MmaF);
  EXPECT_EQ(order[1]->op(), Op::Exp2);
  EXPECT_FALSE(order[1]->operand(0).def()) << "the exponential is of what the last iteration computed";
  passes::clean_up(*l.f);
  EXPECT_FALSE(pipelined(l)) << "what is ahead once is not sent further";
}

TEST(PipelineMma, NotACorrectionOfAResult) {
  ProductLoop rare(64, 64, 64, Elem::BF16, 64);
  put_into_branch(rare, product_is_large(rare));
  EXPECT_FALSE(pipelined(rare)) << "a branch on what a product gave";
  ProductLoop usual(64, 64, 64, Elem::BF16, 64);
  put_into_branch(usual, usual.k.arg(Elem::I1));
  EXPECT_TRUE(pipelined(usual)) << "a branch on an argument";
}

TEST(PipelineMma, NoBranchAroundALoopThatRuns) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64);
  ir::Builder b = ir::Builder::before(l.loop);
  const ir::Value steps = l.loop->operand(1);
  l.loop->set_operand(
      1, b.create(Op::Assume, {steps}, {steps.type()}, {{ir::AttrName::predicate, ir::BoundedAttr{1, {}}}})->result());
  ASSERT_TRUE(pipelined(l));
  passes::clean_up(*l.f);
  EXPECT_EQ(problems_of(l.k.module), "");
  EXPECT_EQ(count(*l.f, Op::If), 0u);
  EXPECT_EQ(count(*l.f, Op::MmaF), 4u);
}

/// A branch that may double `v`, before `user`, whose operand it becomes. Null condition: an argument.
void double_sometimes(ProductLoop& l, ir::Value v, Operation* user, ir::Value condition = {}) {
  if (!condition) condition = l.k.arg(Elem::I1);
  ir::Builder b = ir::Builder::before(user);
  Operation* branch = b.create(Op::If, {condition}, {v.type()});
  ir::Block& doubles = branch->add_region();
  ir::Block& other = branch->add_region();
  user->set_operand(0, branch->result());
  b.set_to_end(doubles);
  b.create(Op::Yield, {b.create(Op::AddF, {v, v}, {v.type()})->result()}, {});
  b.set_to_end(other);
  b.create(Op::Yield, {v}, {});
}

/// The operations of the pipelined loop that matter, in order.
std::vector<Op> order_in_loop(ProductLoop& l) {
  std::vector<Op> order;
  for (const Operation& op : first(*l.f, Op::For)->region(0))
    if (op.op() == Op::MmaF || op.op() == Op::Exp2 || op.op() == Op::If) order.push_back(op.op());
  return order;
}

TEST(PipelineMma, BehindABranchThatComesFirst) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64);
  double_sometimes(l, l.scores, l.scores.first_use()->owner);
  ASSERT_TRUE(pipelined(l));
  EXPECT_EQ(order_in_loop(l), (std::vector<Op>{Op::If, Op::MmaF, Op::Exp2, Op::MmaF}));
}

TEST(PipelineMma, BeforeABranchBehindTheWork) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64);
  Operation* narrow = l.scores.first_use()->owner->result().first_use()->owner;
  double_sometimes(l, narrow->result(), narrow->result().first_use()->owner);
  ASSERT_TRUE(pipelined(l));
  EXPECT_EQ(order_in_loop(l), (std::vector<Op>{Op::MmaF, Op::Exp2, Op::If, Op::MmaF}));
}

TEST(PipelineMma, StepsThatNeedNoBranchGetALoopOfTheirOwn) {
  for (const bool split : {true, false}) {
    ProductLoop l(64, 64, 64, Elem::BF16, 64);
    Operation* user = l.scores.first_use()->owner;
    const ir::Value limit = l.k.arg(Elem::I32);
    ir::Builder b = ir::Builder::before(user);
    const ir::Value late = b.create(Op::CmpI, {l.i, limit}, {ir::Type::tile(Elem::I1)},
                                    {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Greater},
                                     {ir::AttrName::signedness, ir::Signedness::Signed}})
                               ->result();
    double_sometimes(l, l.scores, user, late);
    passes::Tuning tuning;
    if (!split) tuning.split_loops = false;
    optimize_with_claims(l.k.module, kHopper, &tuning);
    EXPECT_EQ(problems_of(l.k.module), "");
    EXPECT_EQ(count(*l.f, Op::For), split ? 2u : 1u);
    const std::vector<Op> plain{Op::MmaF, Op::Exp2, Op::MmaF}, branching{Op::If, Op::MmaF, Op::Exp2, Op::MmaF};
    EXPECT_EQ(order_in_loop(l), split ? plain : branching);
  }
}

TEST(PipelineMma, NotAPlainProduct) {
  ProductLoop l(128, 128, 64);
  EXPECT_FALSE(pipelined(l));
}

TEST(PipelineMma, NotAProductOfCarriedValues) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64, Scores::FromCarried);
  EXPECT_FALSE(pipelined(l));
}

TEST(PipelineMma, NotWhatAStoreWaitsFor) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64, Scores::OrderedLoad);
  EXPECT_FALSE(pipelined(l));
}

TEST(PipelineMma, NotBeyondTheRegisters) {
  ProductLoop l(128, 128, 256, Elem::BF16, 256);
  EXPECT_FALSE(pipelined(l)) << "192 accumulators a thread already, and 64 more";
}

TEST(PipelineMma, NotWhatWaitsForMemory) {
  for (const bool few : {true, false}) {
    // 16 or 64 rows against keys that are loaded in every step: 16 or 64 operations a byte.
    ProductLoop l(few ? 16 : 64, 128, 128, Elem::BF16, 128);
    EXPECT_EQ(pipelined(l), !few);
  }
}

TEST(PipelineMma, NotALoopOfOtherSteps) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64);
  l.loop->set_operand(2, ir::Builder::before(l.loop).constant_int(Elem::I32, 2));
  EXPECT_FALSE(pipelined(l));
}

}  // namespace THIS_FILE
