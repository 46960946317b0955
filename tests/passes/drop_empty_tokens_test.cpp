// Tokens that order nothing are dropped, tokens that order accesses are kept, through loops and branches.
#include "passes/pass_support.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

Value make_token(Kernel& k) { return k.op(Op::MakeToken, {}, Type::token()); }
Value join(Kernel& k, std::initializer_list<Value> tokens) { return k.op(Op::JoinTokens, tokens, Type::token()); }

struct Tokens {
  Kernel k;
  Value v = k.view(Elem::F32, {64}), zero = k.i32(0), empty = make_token(k);
  Value tile = k.b.constant_float(Elem::F32, 1, std::vector<std::int64_t>{64});
};

/// The token operand of every store after the pass.
std::vector<Value> waits_of_stores(Tokens& t, bool expect_change) {
  ir::Function& f = t.k.function();
  EXPECT_EQ(passes::drop_empty_tokens(f), expect_change);
  EXPECT_EQ(problems_of(t.k.module), "");
  std::vector<Value> waits;
  ir::walk(f.body(), [&](const Operation& op) {
    if (op.op() == Op::StoreViewTko) waits.push_back(op.single("token"));
  });
  return waits;
}

TEST(DropEmptyTokens, AStoreWaitsForNobody) {
  Tokens t;
  t.k.store(t.tile, t.v, {t.zero}, {}, join(t.k, {t.empty, t.empty}));
  EXPECT_EQ(waits_of_stores(t, true), (std::vector<Value>{Value()}));
}

TEST(DropEmptyTokens, AStoreWaitsForTheLoadBefore) {
  Tokens t;
  const Value loaded = t.k.load(t.v, {t.zero})->result(1);
  t.k.store(t.tile, t.v, {t.zero}, {}, join(t.k, {t.empty, loaded}));
  EXPECT_EQ(waits_of_stores(t, true), (std::vector<Value>{loaded})) << "without the join";
}

TEST(DropEmptyTokens, NothingToDo) {
  Tokens t;
  const Value a = t.k.load(t.v, {t.zero})->result(1), b = t.k.load(t.v, {t.zero})->result(1);
  const Value both = join(t.k, {a, b});
  t.k.store(t.tile, t.v, {t.zero}, {}, both);
  EXPECT_EQ(waits_of_stores(t, false), (std::vector<Value>{both}));
}

TEST(DropEmptyTokens, AJoinKeepsAllThatOrderSomething) {
  Tokens t;
  const Value a = t.k.load(t.v, {t.zero})->result(1), b = t.k.load(t.v, {t.zero})->result(1);
  t.k.store(t.tile, t.v, {t.zero}, {}, join(t.k, {t.empty, a, b, a}));
  const std::vector<Value> waits = waits_of_stores(t, true);
  ASSERT_EQ(waits[0].def()->op(), Op::JoinTokens);
  EXPECT_EQ(waits[0].def()->operand_values(), (std::vector<Value>{a, b}));
}

/// for i: token = stores ? store(token) : token; then a store that waits for the loop.
std::vector<Value> around_loop(bool stores) {
  Tokens t;
  Kernel& k = t.k;
  Operation* loop = k.b.create(Op::For, {t.zero, k.arg(Elem::I32), k.i32(1), t.empty}, {Type::token()});
  ir::Block& body = loop->add_region();
  const Value i = body.add_arg(t.zero.type()), carried = body.add_arg(Type::token());
  const ir::Builder outside = k.b;
  k.b.set_to_end(body);
  Value next = carried;
  if (stores) next = k.store(t.tile, t.v, {i}, {}, carried)->result();
  k.b.create(Op::Continue, {next}, {});
  k.b = outside;
  k.store(t.tile, t.v, {t.zero}, {}, loop->result());
  return waits_of_stores(t, !stores);
}

TEST(DropEmptyTokens, ThroughLoops) {
  const std::vector<Value> idle = around_loop(false), busy = around_loop(true);
  ASSERT_EQ(idle.size(), 1u);
  EXPECT_FALSE(idle[0]);
  ASSERT_EQ(busy.size(), 2u);
  EXPECT_TRUE(busy[0]) << "an iteration waits for the one before";
  EXPECT_TRUE(busy[1]);
}

TEST(DropEmptyTokens, ThroughBranches) {
  for (const bool stores : {false, true}) {
    Tokens t;
    Kernel& k = t.k;
    Operation* branch = k.b.create(Op::If, {k.arg(Elem::I1)}, {Type::token()});
    ir::Block& yes = branch->add_region();
    ir::Block& no = branch->add_region();
    const ir::Builder outside = k.b;
    k.b.set_to_end(yes);
    k.b.create(Op::Yield, {stores ? k.store(t.tile, t.v, {t.zero})->result() : t.empty}, {});
    k.b.set_to_end(no);
    k.b.create(Op::Yield, {t.empty}, {});
    k.b = outside;
    k.store(t.tile, t.v, {t.zero}, {}, branch->result());
    const std::vector<Value> waits = waits_of_stores(t, !stores);
    EXPECT_EQ(static_cast<bool>(waits.back()), stores);
  }
}

}  // namespace THIS_FILE
