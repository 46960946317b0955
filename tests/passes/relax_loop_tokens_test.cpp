// Iterations that touch different elements do not wait for each other; all others still do.
#include "passes/accepting.hpp"
#include "passes/pass_support.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

enum class Index { Induction, Offset, Fixed, Squared };

/// token = for i: [load row[index], ] store row[index]; and, if `after`, a store that waits for the loop.
struct Rows {
  Kernel k;
  ir::Function* f = nullptr;
  Operation* loop = nullptr;
  Value before;

  Rows(Index index, std::vector<std::int32_t> tile = {1, 64}, bool loads = false, bool after = false,
       bool other_store = false) {
    const Value v = k.view(Elem::F32, tile), zero = k.i32(0), n = k.arg(Elem::I32);
    const Value data = k.b.constant_float(Elem::F32, 1, v.type().view_tile().shape());
    before = k.store(data, v, {zero, zero})->result();
    loop = k.b.create(Op::For, {zero, n, k.i32(1), before}, {Type::token()});
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(zero.type()), token = body.add_arg(Type::token());
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    Value at = i;
    if (index == Index::Offset) at = k.binary(Op::AddI, i, n);
    if (index == Index::Fixed) at = zero;
    if (index == Index::Squared) at = k.binary(Op::MulI, i, i);
    Value last = token;
    if (loads) {
      Operation* load = k.load(v, {zero, at});
      const std::vector<std::uint32_t> groups{1, 2, 1};
      const std::vector<Value> operands{v, zero, at, token};
      load->set_operands(operands, groups);
      last = k.op(Op::JoinTokens, {token, load->result(1)}, Type::token());
    }
    last = k.store(data, v, {zero, at}, {}, last)->result();
    if (other_store) last = k.store(data, v, {zero, k.binary(Op::AddI, at, k.i32(1))}, {}, last)->result();
    k.b.create(Op::Continue, {last}, {});
    k.b = outside;
    if (after) k.store(data, v, {zero, zero}, {}, loop->result());
    f = &k.function();
  }
  bool relaxed() {
    const bool changed = passes::relax_loop_tokens(*f, &kAcceptAll);
    EXPECT_EQ(problems_of(k.module), "");
    return changed;
  }
};

TEST(RelaxLoopTokens, StoresOfDifferentTilesWaitForWhatWasBeforeTheLoop) {
  for (const Index index : {Index::Induction, Index::Offset}) {
    Rows r(index);
    ASSERT_TRUE(r.relaxed());
    const Operation* store = nullptr;
    for (const Operation& op : r.loop->region(0))
      if (op.op() == Op::StoreViewTko) store = &op;
    EXPECT_EQ(store->single("token"), r.before);
    passes::clean_up(*r.f);
    EXPECT_EQ(first(*r.f, Op::For)->num_results(), 0u) << "no token goes round any more";
  }
}

TEST(RelaxLoopTokens, WhatComesAfterWaitsForAll) {
  Rows r(Index::Induction, {1, 64}, false, true);
  ASSERT_TRUE(r.relaxed());
  const Value next = r.loop->region(0).terminator()->operand(0);
  ASSERT_EQ(next.def()->op(), Op::JoinTokens);
  EXPECT_EQ(next.def()->operand(0), r.loop->region(0).arg(1));
  EXPECT_EQ(next.def()->operand(1).def()->op(), Op::StoreViewTko);
}

TEST(RelaxLoopTokens, AStoreStillWaitsForItsIterationsLoad) {
  Rows r(Index::Induction, {1, 64}, true);
  ASSERT_TRUE(r.relaxed());
  passes::drop_empty_tokens(*r.f);
  passes::clean_up(*r.f);
  EXPECT_EQ(problems_of(r.k.module), "");
  const Operation* loop = first(*r.f, Op::For);
  const Operation *load = nullptr, *store = nullptr;
  for (const Operation& op : loop->region(0)) {
    if (op.op() == Op::LoadViewTko) load = &op;
    if (op.op() == Op::StoreViewTko) store = &op;
  }
  EXPECT_EQ(load->single("token"), r.before);
  ASSERT_EQ(store->single("token").def()->op(), Op::JoinTokens);
  EXPECT_EQ(store->single("token").def()->operand(1), load->result(1));
}

TEST(RelaxLoopTokens, NotTheSameTileTwice) {
  EXPECT_FALSE(Rows(Index::Fixed).relaxed());
  EXPECT_FALSE(Rows(Index::Fixed, {1, 1}).relaxed());
  EXPECT_TRUE(Rows(Index::Induction, {1, 1}).relaxed());
  EXPECT_FALSE(Rows(Index::Squared).relaxed()) << "i * i may repeat";
}

TEST(RelaxLoopTokens, NotTilesOfSeveralLines) {
  EXPECT_FALSE(Rows(Index::Induction, {2, 64}).relaxed()) << "the rows of a tensor may overlap";
}

TEST(RelaxLoopTokens, NotWhereAnIterationTouchesItsNeighboursTile) {
  EXPECT_FALSE(Rows(Index::Induction, {1, 64}, false, false, true).relaxed());
}

}  // namespace THIS_FILE
