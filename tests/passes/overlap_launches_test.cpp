// A kernel with programmatic dependent launch waits before its first access of memory; kernels that cannot wait are
// unchanged.
#include <cstdint>
#include <tuple>

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

bool overlapped(Kernel& k, ir::Function& f, const passes::Target& target = kHopper) {
  const std::string before = k.text();
  passes::Tuning tuning;
  tuning.early_reads = false;
  passes::Choices choices;
  passes::overlap_launches(f, target, tuning, choices);
  EXPECT_EQ(problems_of(k.module), "");
  EXPECT_EQ(choices.abi.programmatic_launch, k.text() != before);
  EXPECT_FALSE(choices.abi.launch_flags);
  return choices.abi.programmatic_launch;
}

/// True if `op` is ordered after the wait: its token, or that of what it waits for, is the wait's.
bool waits(const Operation& op) {
  Value token = op.single("token");
  while (token && token.def() && token.def()->op() != Op::GdcWaitTko) {
    const int group = token.def()->info().operand_group("token");
    token = group >= 0 ? token.def()->single("token") : token.def()->operand(0);
  }
  return token && token.def();
}

/// load; store after the load; in a loop, a load and a store with a chain from make_token.
struct Accesses {
  Kernel k;
  ir::Function* f = nullptr;
  Accesses() {
    const Value v = k.view(Elem::F32, {64}), zero = k.i32(0), n = k.arg(Elem::I32);
    Operation* load = k.load(v, {zero});
    k.store(load->result(), v, {zero}, {}, load->result(1));
    const Value empty = k.op(Op::MakeToken, {}, Type::token());
    Operation* loop = k.b.create(Op::For, {zero, n, k.i32(1)}, {});
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(zero.type());
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    k.store(k.load(v, {i})->result(), v, {i}, {}, empty);
    k.b.create(Op::Continue, {}, {});
    k.b = outside;
    k.keep(load->result());
    f = &k.function();
  }
};

TEST(OverlapLaunches, EveryAccessWaits) {
  Accesses a;
  ASSERT_TRUE(overlapped(a.k, *a.f));
  const Operation* start = a.f->body().front();
  EXPECT_EQ(start->op(), Op::GdcWaitTko);
  int accesses = 0;
  ir::walk(a.f->body(), [&](const Operation& op) {
    if (!op.info().has(ir::traits::Read) && !op.info().has(ir::traits::Write)) return;
    ++accesses;
    EXPECT_TRUE(waits(op)) << static_cast<int>(op.op());
  });
  EXPECT_EQ(accesses, 5);
  EXPECT_EQ(count(*a.f, Op::MakeToken), 0u);
  EXPECT_FALSE(overlapped(a.k, *a.f)) << "once is enough";
}

TEST(OverlapLaunches, PrintsComeInTheOrderOfTheKernels) {
  Kernel k;
  const std::vector<std::uint32_t> groups{1, 0};
  const std::vector<Value> operands{k.i32(7)};
  const std::vector<Type> token{Type::token()};
  const Operation* print =
      k.b.create_grouped(Op::PrintTko, operands, groups, token, {{ir::AttrName::str, std::string("%d")}});
  k.keep(k.i32(1));
  ASSERT_TRUE(overlapped(k, k.function()));
  EXPECT_TRUE(waits(*print));
}

TEST(OverlapLaunches, OnlyWhereTheMachineAndTheAssemblerCan) {
  for (const auto& [sm, bytecode, can] :
       {std::tuple{89, 4, false}, {90, 3, false}, {90, 4, true}, {100, 4, true}, {120, 5, true}}) {
    Accesses a;
    EXPECT_EQ(overlapped(a.k, *a.f, {sm, 132, bytecode}), can) << sm << " 13." << bytecode;
  }
}

TEST(OverlapLaunches, NotAKernelThatTouchesNoMemory) {
  Kernel k;
  k.op(Op::MakeToken, {}, Type::token());
  EXPECT_FALSE(overlapped(k, k.function()));
}

TEST(OverlapLaunches, OptimizeWaitsAndTriggersAsRequested) {
  using passes::Overlap;
  for (const bool early : {false, true}) {
    for (const auto& [wanted, waits, triggers] : {std::tuple{Overlap::Never, 0u, 0u},
                                                  {Overlap::WhereItPays, 1u, early ? 1u : 0u},
                                                  {Overlap::Always, 1u, 1u},
                                                  {Overlap::WaitOnly, 1u, 0u}}) {
      Accesses a;
      passes::Tuning tuning;
      tuning.overlap = wanted;
      tuning.early_reads = early;
      const passes::Choices choices = optimize_with_claims(a.k.module, kHopper, &tuning);
      EXPECT_EQ(problems_of(a.k.module), "");
      EXPECT_EQ(choices.abi.programmatic_launch, waits > 0);
      EXPECT_EQ(choices.abi.launch_flags, early && wanted == Overlap::WhereItPays);
      EXPECT_EQ(count(*a.f, Op::GdcWaitTko), waits);
      EXPECT_EQ(count(*a.f, Op::GdcLaunchDependentsTko), triggers);
    }
  }
}

TEST(OverlapLaunches, WhetherBlocksTriggerDependsOnTheLaunchFlags) {
  Accesses a;
  const std::size_t arguments = a.f->body().num_args();
  passes::Choices choices;
  passes::overlap_launches(*a.f, kHopper, passes::Tuning{}, choices);
  EXPECT_EQ(problems_of(a.k.module), "");
  EXPECT_TRUE(choices.abi.launch_flags);
  EXPECT_TRUE(choices.abi.early_reads.empty()) << "its loop writes";
  ASSERT_EQ(a.f->body().num_args(), arguments + 1);
  const Operation* triggers = first(*a.f, Op::GdcLaunchDependentsTko);
  ASSERT_EQ(triggers->parent_op()->op(), Op::If);
  const Operation* asked = triggers->parent_op()->operand(0).def();
  EXPECT_EQ(asked->operand(0), a.f->body().arg(arguments));
  EXPECT_EQ(asked->enum_attr<ir::ComparisonPredicate>(ir::AttrName::comparison_predicate),
            ir::ComparisonPredicate::GreaterEqual);
}

/// Blocks that each load and store a tile of so many integers, and add one that all blocks load.
ir::Function& tiles(Kernel& k, std::int32_t elements, bool loop = false) {
  const Value own = k.view(Elem::I32, {elements}), shared = k.view(Elem::I32, {elements}), n = k.arg(Elem::I32);
  const Type i32 = Type::tile(Elem::I32);
  const Value block = k.b.create(Op::GetTileBlockId, {}, {i32, i32, i32})->result(0);
  const Value bias = k.load(shared, {k.i32(0)})->result();
  const ir::Builder outside = k.b;
  if (loop) {
    Operation* range = k.b.create(Op::For, {k.i32(0), n, k.i32(1)}, {});
    ir::Block& body = range->add_region();
    body.add_arg(i32);
    k.b.set_to_end(body);
  }
  k.store(k.binary(Op::AddI, k.load(own, {block})->result(), bias), own, {block});
  if (loop) {
    k.b.create(Op::Continue, {}, {});
    k.b = outside;
  }
  return k.function();
}
TEST(OverlapLaunches, LongBlocksWithoutALoopAlwaysTrigger) {
  for (const auto& [elements, loop, triggers] :
       {std::tuple{128, false, 0u}, {512, false, 0u}, {8192, false, 1u}, {128, true, 0u}, {8192, true, 0u}}) {
    Kernel k;
    const ir::Function& f = tiles(k, elements, loop);
    passes::Tuning tuning;
    tuning.early_reads = false;
    EXPECT_TRUE(optimize_with_claims(k.module, kHopper, &tuning).abi.programmatic_launch) << elements;
    EXPECT_EQ(count(f, Op::GdcWaitTko), 1u) << elements;
    EXPECT_EQ(count(f, Op::GdcLaunchDependentsTko), triggers) << elements << (loop ? " in a loop" : "");
  }
}

}  // namespace THIS_FILE
