// Blocks whose loop gets longer with their number are taken from the other end; all others stay.
#include "passes/pass_support.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::AttrName;
using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

/// for i in (low to high) { store }, with bounds made from the block's number.
struct LoopOfBlock {
  Kernel k;
  Value block, number, count;
  LoopOfBlock() {
    const Type i32 = Type::tile(Elem::I32);
    block = k.b.create(Op::GetTileBlockId, {}, {i32, i32, i32})->result(0);
    count = k.arg(Elem::I32);
    number = k.op(Op::RemI, {block, count}, i32, {unsigned_()});  // its place in a row of blocks
  }
  static ir::NamedAttr unsigned_() { return {AttrName::signedness, ir::Signedness::Unsigned}; }
  static ir::NamedAttr signed_() { return {AttrName::signedness, ir::Signedness::Signed}; }
  Value ceil_div(Value x, std::int64_t by) {
    return k.op(Op::DivI, {x, k.i32(by)}, x.type(), {signed_(), {AttrName::rounding, ir::Rounding::PositiveInf}});
  }
  Value times(Value x, std::int64_t by) { return k.binary(Op::MulI, x, k.i32(by)); }
  Value min(Value x, Value y) { return k.op(Op::MinI, {x, y}, x.type(), {signed_()}); }
  Value minus(Value x, Value y) { return k.binary(Op::SubI, x, y); }

  bool reversed(Value low, Value high) {
    const Value start = k.arg(Elem::I32);
    ir::Operation* loop = k.b.create(Op::For, {low, high, k.i32(1), start}, {start.type()});
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(low.type()), carried = body.add_arg(start.type());
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    k.b.create(Op::Continue, {k.binary(Op::AddI, carried, i)}, {});
    k.b = outside;
    k.keep(loop->result());
    ir::Function& f = k.function();
    const bool changed = passes::order_blocks(f);
    EXPECT_EQ(problems_of(k.module), "");
    EXPECT_EQ(changed, count_of(f) == 1);
    return changed;
  }
  static std::size_t count_of(const ir::Function& f) { return ::tessera::test::count(f, Op::GetNumTileBlocks); }
};

TEST(OrderBlocks, WhereTheEndRises) {
  LoopOfBlock l;
  const Value end = l.min(l.ceil_div(l.k.binary(Op::AddI, l.times(l.number, 64), l.k.i32(64)), 128), l.count);
  ASSERT_TRUE(l.reversed(l.k.i32(0), end));
  EXPECT_NE(l.k.text().find("%1 = subi %0, %blockId_x"), std::string::npos) << l.k.text();
  EXPECT_NE(l.k.text().find("remi %1, %arg0"), std::string::npos) << l.k.text();
  EXPECT_FALSE(passes::order_blocks(*l.k.module.functions[0])) << "once";
}

TEST(OrderBlocks, WhereTheBeginFalls) {
  LoopOfBlock l;
  EXPECT_TRUE(l.reversed(l.minus(l.count, l.number), l.count));
}

TEST(OrderBlocks, NotWhereTheWorkFalls) {
  LoopOfBlock falls;
  EXPECT_FALSE(falls.reversed(falls.k.i32(0), falls.minus(falls.count, falls.number)));
  LoopOfBlock begins_later;
  EXPECT_FALSE(begins_later.reversed(begins_later.number, begins_later.count));
}

TEST(OrderBlocks, NotWhereItIsTheSameOrUnknown) {
  LoopOfBlock same;
  EXPECT_FALSE(same.reversed(same.k.i32(0), same.count));
  LoopOfBlock window;
  EXPECT_FALSE(window.reversed(window.number, window.k.binary(Op::AddI, window.number, window.k.i32(4))));
  LoopOfBlock square;
  EXPECT_FALSE(square.reversed(square.k.i32(0), square.k.binary(Op::MulI, square.number, square.number)));
  LoopOfBlock by_argument;
  EXPECT_FALSE(by_argument.reversed(by_argument.k.i32(0),
                                    by_argument.k.binary(Op::MulI, by_argument.number, by_argument.count)));
}

TEST(OrderBlocks, NotWhereBlocksAreCountedOrNamed) {
  LoopOfBlock counts;
  const Type i32 = Type::tile(Elem::I32);
  counts.k.keep(counts.k.b.create(Op::GetNumTileBlocks, {}, {i32, i32, i32})->result(0));
  const Value zero = counts.k.i32(0);
  ir::Operation* loop = counts.k.b.create(Op::For, {zero, counts.number, counts.k.i32(1), zero}, {i32});
  ir::Block& body = loop->add_region();
  body.add_arg(i32);
  const Value carried = body.add_arg(i32);
  const ir::Builder outside = counts.k.b;
  counts.k.b.set_to_end(body);
  counts.k.b.create(Op::Continue, {carried}, {});
  counts.k.b = outside;
  counts.k.keep(loop->result());
  EXPECT_FALSE(passes::order_blocks(counts.k.function()));

  LoopOfBlock checks;
  checks.k.b.create(Op::Assert, {checks.k.arg(Elem::I1)}, {}, {{AttrName::message, "inside"}});
  EXPECT_FALSE(checks.reversed(checks.k.i32(0), checks.number));
}

}  // namespace THIS_FILE
