// A product that feeds a product goes one step ahead; what cannot or need not stays.
#include "passes/product_loop.hpp"

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;

namespace {

const passes::Target kHopper{90, 132};
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

}  // namespace
