// Sums of a loop with several start from zeros that are no constants; all others stay.
#include "passes/accepting.hpp"
#include "passes/product_loop.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Value;

template <class Loop>
bool hidden(Loop& l, int sm = 90) {
  const std::string before = l.k.text();
  const bool changed = passes::prevent_peeling(*l.f, passes::Target{sm, 132});
  EXPECT_EQ(problems_of(l.k.module), "");
  EXPECT_EQ(changed, l.k.text() != before);
  return changed;
}

/// The operation that computes a sum's start, after what stretches it to a tile.
const Operation* start_of(const Operation& loop, std::size_t sum) {
  const Operation* def = loop.operand(3 + sum).def();
  while (def->op() == Op::Broadcast || def->op() == Op::Reshape) def = def->operand(0).def();
  return def;
}

TEST(PreventPeeling, SumsOfPartsStartFromZerosThatAreNoConstants) {
  ProductsOfParts parts(256, 128, 64);
  ASSERT_TRUE(hidden(parts));
  for (const std::size_t sum : {0, 1}) {
    const Operation* start = start_of(*parts.loop, sum);
    ASSERT_EQ(start->op(), Op::Select);
    // Zero where the block's number is less than the number of blocks.
    EXPECT_EQ(start->operand(1).def()->op(), Op::Constant);
    const Operation* inside = start->operand(0).def();
    ASSERT_EQ(inside->op(), Op::CmpI);
    EXPECT_EQ(inside->operand(0), first(*parts.f, Op::GetTileBlockId)->result(0));
    EXPECT_EQ(inside->operand(1), first(*parts.f, Op::GetNumTileBlocks)->result(0));
  }
  passes::clean_up(*parts.f);
  EXPECT_EQ(start_of(*parts.loop, 0)->op(), Op::Select) << "nothing folds it";
  EXPECT_FALSE(hidden(parts)) << "once";
}

TEST(PreventPeeling, TheZeroIsNeededAgainWhenTheLoopHasEnded) {
  ProductsOfParts parts(128, 128, 32);
  ASSERT_TRUE(hidden(parts));
  passes::clean_up(*parts.f);
  EXPECT_EQ(problems_of(parts.k.module), "");
  const Operation* once = parts.loop->parent_op();
  ASSERT_TRUE(once);
  EXPECT_EQ(once->op(), Op::For);
  EXPECT_EQ(once->num_results(), 0u);
  EXPECT_EQ(once->operand(0), first(*parts.f, Op::GetTileBlockId)->result(0));
  EXPECT_EQ(once->operand(1), first(*parts.f, Op::GetNumTileBlocks)->result(0));
  EXPECT_EQ(once->operand(2), once->operand(1)) << "once, but that is not known";
  EXPECT_EQ(first(*parts.f, Op::StoreViewTko)->parent_op(), once) << "what comes after the loop is inside";
  EXPECT_EQ(parts.f->body().terminator()->op(), Op::Return);
}

TEST(PreventPeeling, NoLoopAroundOneThatStandsInALoop) {
  ProductsOfParts parts(128, 128, 32);
  ir::Builder b = ir::Builder::before(parts.loop);
  const Value zero = b.constant_int(Elem::I32, 0);
  Operation* tiles = b.create(Op::For, {zero, parts.loop->operand(1), b.constant_int(Elem::I32, 1)}, {});
  ir::Block& body = tiles->add_region();
  body.add_arg(zero.type());
  while (tiles->next() != parts.f->body().terminator()) tiles->next()->move_to_end(body);
  b.set_to_end(body);
  b.create(Op::Continue, {}, {});
  ASSERT_EQ(problems_of(parts.k.module), "");
  ASSERT_TRUE(hidden(parts));
  EXPECT_EQ(parts.loop->parent_op(), tiles);
  EXPECT_EQ(count(*parts.f, Op::For), 2u);
}

TEST(PreventPeeling, NotASumAlone) {
  ProductLoop alone(128, 128, 64);
  EXPECT_FALSE(hidden(alone));
}

TEST(PreventPeeling, NotWhatStartsFromOtherNumbers) {
  ProductsOfParts ones(128, 64, 32, 1);
  EXPECT_FALSE(hidden(ones));
}

TEST(PreventPeeling, NotWhatIsTouchedBetweenProducts) {
  ProductsOfParts parts(128, 64, 32);
  Operation* end = parts.loop->region(0).terminator();
  ir::Builder b = ir::Builder::before(end);
  const Value sum = end->operand(1);
  end->set_operand(1, b.create(Op::Exp2, {sum}, {sum.type()})->result());
  EXPECT_FALSE(hidden(parts)) << "one sum is left";
}

TEST(PreventPeeling, OptimizeLeavesThemHidden) {
  for (const bool early : {false, true}) {
    for (const auto& [sm, start] : {std::pair{90, Op::Select}, {100, Op::Constant}}) {
      ProductsOfParts parts(256, 128, 64);
      passes::Tuning tuning;
      tuning.early_reads = early;
      optimize_with_claims(parts.k.module, passes::Target{sm, 132}, &tuning);
      EXPECT_EQ(problems_of(parts.k.module), "");
      const Operation* loop = first(*parts.f, Op::MmaF)->parent_op();
      ASSERT_EQ(loop->num_results(), early ? 3u : 2u) << "the launch flags is carried through, too";
      for (const std::size_t sum : {0, 1}) EXPECT_EQ(start_of(*loop, sum)->op(), start) << sm;
      EXPECT_EQ(start_of(*loop, loop->num_results() - 1)->op() == Op::Constant, early || sm != 90);
    }
  }
}

TEST(PreventPeeling, OnlyWhereProductsAreInFlightInRegisters) {
  for (const int sm : {80, 100, 120}) {
    ProductsOfParts parts(128, 64, 32);
    EXPECT_FALSE(hidden(parts, sm)) << sm;
  }
}

}  // namespace THIS_FILE
