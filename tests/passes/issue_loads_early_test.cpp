// Loads that nothing orders pass the reductions in front of them; loads that something orders, or that depend on a
// reduction, stay.
#include "passes/pass_support.hpp"

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Value;

namespace {

/// Element-wise work between a reduction of `x` (1 x n) and a second load.
struct RowKernel {
  Kernel k;
  Value x_view, w_view, zero;
  Operation* x = nullptr;
  Operation* reduce = nullptr;
  explicit RowKernel(std::int32_t n) {
    x_view = k.view(Elem::F32, {1, n});
    w_view = k.view(Elem::F32, {1, n});
    zero = k.i32(0);
    x = k.load(x_view, {zero, zero});
    reduce = sum(x->result());
  }
  Operation* sum(Value v) {
    const ir::Type result = ir::Type::tile(Elem::F32, {1});
    Operation* op = k.b.create(Op::Reduce, {v}, {result},
                               {{ir::AttrName::dim, ir::IntAttr{Elem::I64, 1}},
                                {ir::AttrName::identities, ir::ArrayAttr{{ir::FloatAttr{Elem::F32, 0}}}}});
    ir::Block& body = op->add_region();
    const Value a = body.add_arg(ir::Type::tile(Elem::F32)), c = body.add_arg(ir::Type::tile(Elem::F32));
    ir::Builder inner(body);
    const Value s = inner.create(Op::AddF, {a, c}, {a.type()})->result();
    inner.create(Op::Yield, {s}, std::initializer_list<ir::Type>{});
    return op;
  }
};

bool before(const Operation* a, const Operation* b) {
  for (const Operation* op = a; op; op = op->next())
    if (op == b) return true;
  return false;
}

TEST(IssueLoadsEarly, AFreeLoadAndItsIndexPassTheReduction) {
  RowKernel r(1024);
  const Value index = r.k.binary(Op::AddI, r.zero, r.zero);  // computed after the reduction
  Operation* w = r.k.load(r.w_view, {index, r.zero});
  r.k.store(w->result(), r.x_view, {r.zero, r.zero});
  ir::Function& f = r.k.function();
  EXPECT_TRUE(passes::issue_loads_early(f));
  EXPECT_TRUE(before(w, r.reduce));
  EXPECT_TRUE(before(index.def(), w));
  EXPECT_EQ(problems_of(r.k.module), "");
  EXPECT_FALSE(passes::issue_loads_early(f)) << "nothing is left to move";
}

TEST(IssueLoadsEarly, WhatDependsOnTheReductionStays) {
  RowKernel r(1024);
  const Value s = r.k.op(Op::Reshape, {r.reduce->result()}, ir::Type::tile(Elem::F32));
  const Value index =
      r.k.op(Op::FToI, {s}, ir::Type::tile(Elem::I32), {{ir::AttrName::signedness, ir::Signedness::Signed}});
  Operation* w = r.k.load(r.w_view, {index, r.zero});
  r.k.store(w->result(), r.x_view, {r.zero, r.zero});
  EXPECT_FALSE(passes::issue_loads_early(r.k.function()));
  EXPECT_TRUE(before(r.reduce, w));
}

TEST(IssueLoadsEarly, ALoadThatTokensOrderStays) {
  RowKernel r(1024);
  Operation* stored = r.k.store(r.x->result(), r.w_view, {r.zero, r.zero});
  Operation* w = r.k.load(r.w_view, {r.zero, r.zero});
  const std::vector<Value> operands{r.w_view, r.zero, r.zero, stored->result()};
  const std::vector<std::uint32_t> groups{1, 2, 1};
  w->set_operands(operands, groups);
  r.k.store(w->result(), r.x_view, {r.zero, r.zero});
  EXPECT_FALSE(passes::issue_loads_early(r.k.function()));
  EXPECT_TRUE(before(stored, w));
}

TEST(IssueLoadsEarly, NoMoreBytesMoveThanTwiceTheReducedOnes) {
  RowKernel r(1024);
  std::vector<Operation*> loads;
  for (int i = 0; i < 3; ++i) {
    loads.push_back(r.k.load(r.k.view(Elem::F32, {1, 1024}), {r.zero, r.zero}));
    r.k.store(loads.back()->result(), r.x_view, {r.zero, r.zero});
  }
  EXPECT_TRUE(passes::issue_loads_early(r.k.function()));
  EXPECT_TRUE(before(loads[0], r.reduce));
  EXPECT_FALSE(before(loads[2], r.reduce));
  EXPECT_EQ(problems_of(r.k.module), "");
}

TEST(IssueLoadsEarly, SmallReductionsHaveNoBarrierToWaitAt) {
  RowKernel r(64);
  Operation* w = r.k.load(r.w_view, {r.zero, r.zero});
  r.k.store(w->result(), r.x_view, {r.zero, r.zero});
  EXPECT_FALSE(passes::issue_loads_early(r.k.function()));
}

}  // namespace
