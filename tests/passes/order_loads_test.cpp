// Loads stand in the order in which products need them; what is ordered otherwise stays.
#include "passes/product_loop.hpp"
#include "passes/rewriter.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;

/// The load of the second product's right operand.
Operation* values_of(ProductLoop& l) {
  Operation* end = l.loop->region(0).terminator();
  return end->operand(0).def()->operand(1).def();
}

bool ordered(ProductLoop& l) {
  const std::string before = l.k.text();
  const bool changed = passes::order_loads(*l.f);
  EXPECT_EQ(problems_of(l.k.module), "");
  EXPECT_EQ(changed, l.k.text() != before);
  return changed;
}

TEST(OrderLoads, WhatTheFirstProductNeedsComesFirst) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64);
  EXPECT_FALSE(ordered(l)) << "it does already";
  Operation* values = values_of(l);
  values->move_before(l.keys);
  EXPECT_TRUE(ordered(l));
  EXPECT_EQ(l.keys->next(), values);
  EXPECT_FALSE(ordered(l));
}

TEST(OrderLoads, WithWhatItsPlaceIsComputedFrom) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64);
  Operation* values = values_of(l);
  values->move_before(l.keys);
  ir::Builder b = ir::Builder::before(l.keys);
  Operation* next = b.create(Op::AddI, {l.i, b.constant_int(Elem::I32, 1)}, {l.i.type()});
  for (std::size_t n = 0; n < l.keys->num_operands(); ++n)
    if (l.keys->operand(n) == l.i) l.keys->set_operand(n, next->result());
  EXPECT_TRUE(ordered(l));
  EXPECT_EQ(next->next(), l.keys);
  EXPECT_EQ(l.keys->next(), values);
}

TEST(OrderLoads, NotWhatATokenOrders) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64, ProductLoop::Scores::OrderedLoad);
  values_of(l)->move_before(l.keys);
  EXPECT_FALSE(ordered(l));
}

TEST(OrderLoads, NotAcrossABranch) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64);
  values_of(l)->move_before(l.keys);
  ir::Builder b = ir::Builder::before(l.keys);
  Operation* branch = b.create(Op::If, {l.k.arg(Elem::I1)}, {});
  for (int arm = 0; arm < 2; ++arm) {
    b.set_to_end(branch->add_region());
    b.create(Op::Yield, {}, {});
  }
  EXPECT_FALSE(ordered(l));
}

TEST(OrderLoads, NotAcrossACheck) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64);
  values_of(l)->move_before(l.keys);
  ir::Builder b = ir::Builder::before(l.keys);
  b.create(Op::Assert, {l.k.arg(Elem::I1)}, {}, {{ir::AttrName::message, std::string("in range")}});
  EXPECT_FALSE(ordered(l));
}

/// Makes the place of the keys depend on a number that is loaded just before them, as of a table of pages.
Operation* place_by_table(ProductLoop& l) {
  const ir::Builder outside = l.k.b;
  l.k.b = ir::Builder::before(l.loop);
  const ir::Value table = l.k.view(Elem::I32, {1});
  l.k.b = ir::Builder::before(l.keys);
  Operation* entry = l.k.load(table, {l.i});
  const ir::Value place = l.k.op(Op::Reshape, {entry->result()}, l.i.type());
  for (std::size_t n = 0; n < l.keys->num_operands(); ++n)
    if (l.keys->operand(n) == l.i) l.keys->set_operand(n, place);
  l.k.b = outside;
  return entry;
}

TEST(OrderLoads, BehindTheLoadOfTheirPlace) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64);
  Operation* values = values_of(l);
  values->move_before(l.keys);
  Operation* entry = place_by_table(l);
  EXPECT_TRUE(ordered(l)) << "the first product needs both";
  EXPECT_EQ(entry->next()->next(), l.keys);
  EXPECT_EQ(l.keys->next(), values);
}

TEST(OrderLoads, NotBeforeALoadThatStays) {
  ProductLoop l(64, 64, 64, Elem::BF16, 64);
  values_of(l)->move_before(l.keys);
  Operation* entry = place_by_table(l);
  l.k.b = ir::Builder::before(l.loop);
  const ir::Value token = l.k.op(Op::MakeToken, {}, ir::Type::token());
  passes::set_token(*entry, token);
  EXPECT_FALSE(ordered(l));
}

TEST(OrderLoads, NotForOneProduct) {
  ProductLoop l(64, 64, 64);
  EXPECT_FALSE(ordered(l));
}

}  // namespace THIS_FILE
