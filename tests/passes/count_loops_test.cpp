// Loops that may step over the end of their type: when they count their iterations, what they become, and that the
// iterations are the same, on the CPU, whose number of iterations is exact.
#include <algorithm>
#include <limits>

#include "analysis/support.hpp"
#include "passes/pass_support.hpp"
#include "tessera/passes/predicates.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;

using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

/// for i in (lower to upper, step step), all arguments; stores how often it ran, and a number made of all i in order.
struct AnyLoop : Kernel {
  AnyLoop(Elem elem, bool is_unsigned) {
    const Value lower = arg(elem), upper = arg(elem), step = arg(elem), zero = b.constant_int(Elem::I64, 0);
    const Type i64 = zero.type();
    ir::Operation* loop = b.create(Op::For, {lower, upper, step, zero, zero}, {i64, i64});
    if (is_unsigned) loop->set_attr(ir::AttrName::unsignedCmp, ir::UnitAttr{});
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(lower.type()), runs = body.add_arg(i64), all = body.add_arg(i64);
    ir::Builder in(body);
    const auto two = [&](Op op, Value x, Value y) { return in.create(op, {x, y}, {i64})->result(); };
    Value wide = i;
    if (elem != Elem::I64)
      wide = in.create(Op::ExtI, {i}, {i64}, {{ir::AttrName::signedness, ir::Signedness::Signed}})->result();
    const Value more = two(Op::AddI, runs, in.constant_int(Elem::I64, 1));
    in.create(Op::Continue, {more, two(Op::AddI, two(Op::MulI, all, in.constant_int(Elem::I64, 1000003)), wide)}, {});
    keep(loop->result(0));
    keep(loop->result(1));
    (void)function();
  }
};

struct Outcome {
  std::int64_t runs = 0, all = 0;
  bool operator==(const Outcome&) const = default;
};

/// What the definition says, in numbers that do not wrap.
template <class T>
Outcome defined(T lower, T upper, T step) {
  Outcome o;
  for (__int128 i = lower; i < __int128{upper}; i += std::max<__int128>(step, 1)) {
    ++o.runs;
    const auto read = static_cast<std::int64_t>(static_cast<std::make_signed_t<T>>(static_cast<T>(i)));
    o.all = static_cast<std::int64_t>(static_cast<std::uint64_t>(o.all) * 1000003u + static_cast<std::uint64_t>(read));
  }
  return o;
}

bool compares_unsigned(const ir::Module& module) {
  bool found = false;
  ir::walk(module.functions.front()->body(),
           [&](const ir::Operation& op) { found = found || op.has_attr(ir::AttrName::unsignedCmp); });
  return found;
}

template <class T>
void expect_the_defined_iterations(Elem elem) {
  AnyLoop k(elem, std::is_unsigned_v<T>);
  ASSERT_TRUE(passes::count_loops(*k.module.functions.front()));
  ASSERT_EQ(problems_of(k.module), "");
  ASSERT_FALSE(compares_unsigned(k.module)) << "the assembler's code for these does not end";
  const auto program = cpu::Program::compile(k.module);
  constexpr T low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
  const T ends[] = {low,      low + 1,  low + 6, low / 2, 0, 1, 7, high / 2, static_cast<T>(high / 2 + 1),
                    high - 6, high - 1, high};
  const T steps[] = {0, 1, 2, 3, 5, high / 3, high / 2, static_cast<T>(high / 2 + 1), high - 1, high};
  int looked_at = 0;
  for (const T lower : ends) {
    for (const T upper : ends) {
      for (const T step : steps) {
        if ((__int128{upper} - __int128{lower}) / std::max<__int128>(step, 1) > 1000) continue;
        Outcome found;
        Slots slots;
        for (const T n : {lower, upper, step}) slots.add(n);
        slots.add(&found.runs);
        slots.add(&found.all);
        program->run(cpu::Grid{1}, slots.values());
        ASSERT_EQ(found, defined(lower, upper, step)) << +lower << " to " << +upper << ", step " << +step;
        ++looked_at;
      }
    }
  }
  EXPECT_GT(looked_at, 500);
}

TEST(CountLoops, IterationsAreTheDefinedOnes) {
  expect_the_defined_iterations<std::int8_t>(Elem::I8);
  expect_the_defined_iterations<std::uint8_t>(Elem::I8);
  expect_the_defined_iterations<std::int16_t>(Elem::I16);
  expect_the_defined_iterations<std::int32_t>(Elem::I32);
  expect_the_defined_iterations<std::uint32_t>(Elem::I32);
  expect_the_defined_iterations<std::int64_t>(Elem::I64);
  expect_the_defined_iterations<std::uint64_t>(Elem::I64);
}

/// for i in (0 to the argument, step 5) store i.
struct FiveSteps : Kernel {
  FiveSteps() {
    const Value upper = arg(Elem::I32), p = pointer(Elem::I32);
    loop = b.create(Op::For, {i32(0), upper, i32(5)}, {});
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(upper.type());
    ir::Builder in(body);
    in.create_grouped(Op::StorePtrTko, std::vector<Value>{p, i}, std::vector<std::uint32_t>{1, 1, 0, 0},
                      std::vector<Type>{Type::token()}, {weak()});
    in.create(Op::Continue, {}, {});
    (void)function();
  }
  ir::Operation* loop;
};

TEST(CountLoops, ALoopOfWhichNothingIsKnown) {
  FiveSteps k;
  EXPECT_TRUE(passes::count_loops(*k.module.functions.front()));
  EXPECT_EQ(problems_of(k.module), "");
  EXPECT_EQ(k.text(), R"(entry @kernel(%arg0: tile<i32>, %arg1: tile<ptr<i32>>) {
  %cst_0_i32 = constant <i32: 0> : tile<i32>
  %cst_5_i32 = constant <i32: 5> : tile<i32>
  %cst_0_i32_0 = constant <i32: 0> : tile<i32>
  %cst_1_i32 = constant <i32: 1> : tile<i32>
  %0 = subi %arg0, %cst_0_i32 : tile<i32>
  %1 = subi %0, %cst_1_i32 : tile<i32>
  %2 = divi %1, %cst_5_i32 unsigned : tile<i32>
  %3 = cmpi less_than %cst_0_i32, %arg0, signed : tile<i32> -> tile<i1>
  %4 = addi %2, %cst_1_i32 : tile<i32>
  %5 = select %3, %4, %cst_0_i32_0 : tile<i1>, tile<i32>
  %cst_0_i64 = constant <i64: 0> : tile<i64>
  %6 = exti %5 unsigned : tile<i32> -> tile<i64>
  %cst_1_i64 = constant <i64: 1> : tile<i64>
  for %loopIdx in (%cst_0_i64 to %6, step %cst_1_i64) : tile<i64> {
    %7 = trunci %loopIdx : tile<i64> -> tile<i32>
    %8 = muli %7, %cst_5_i32 : tile<i32>
    %9 = addi %cst_0_i32, %8 : tile<i32>
    %10 = store_ptr_tko weak %arg1, %9 : tile<ptr<i32>>, tile<i32> -> token
  }
  return
}
)");
}

TEST(CountLoops, AClaimThatHoldsKeepsTheLoop) {
  FiveSteps k;
  analysis::Claim claim;
  claim.kind = analysis::ClaimKind::StepFits;
  claim.op = k.loop;
  claim.obligation = 3;
  const std::string before = k.text();
  ir::Function& f = *k.module.functions.front();
  EXPECT_FALSE(passes::count_loops(f, {&claim, 1}, 8));
  EXPECT_EQ(k.text(), before);
  EXPECT_TRUE(passes::count_loops(f, {&claim, 1}, 7)) << "its obligation does not hold";
}

TEST(CountLoops, WhatAlwaysFitsStays) {
  const auto changes = [](std::int64_t lower, std::optional<std::int64_t> upper, std::int64_t step, bool is_unsigned) {
    Kernel k;
    const Value end = upper ? k.i32(*upper) : k.arg(Elem::I32);
    ir::Operation* loop = k.b.create(Op::For, {k.i32(lower), end, k.i32(step)}, {});
    if (is_unsigned) loop->set_attr(ir::AttrName::unsignedCmp, ir::UnitAttr{});
    ir::Block& body = loop->add_region();
    body.add_arg(end.type());
    ir::Builder(body).create(Op::Continue, {}, {});
    return passes::count_loops(k.function());
  };
  EXPECT_FALSE(changes(0, {}, 1, false)) << "a step of 1 ends at the upper bound";
  EXPECT_FALSE(changes(0, 1000, 64, false));
  EXPECT_FALSE(changes(0, INT32_MAX - 63, 64, false)) << "the last sum is INT32_MAX";
  EXPECT_TRUE(changes(0, INT32_MAX - 62, 64, false));
  EXPECT_FALSE(changes(0, -5, 64, false)) << "it does not run";
  EXPECT_TRUE(changes(0, 1000, 0, false)) << "such a step counts as 1";
  EXPECT_TRUE(changes(0, {}, 1, true)) << "loops that compare as unsigned always go";
  EXPECT_TRUE(changes(0, 1000, 64, true));
}

TEST(CountLoops, AnUnsignedLoopOfWhichAClaimHoldsComparesAsSigned) {
  AnyLoop k(Elem::I32, true);
  analysis::Claim claim;
  claim.kind = analysis::ClaimKind::StepFits;
  ir::walk(k.module.functions.front()->body(), [&](ir::Operation& op) {
    if (op.op() == Op::For) claim.op = &op;
  });
  EXPECT_TRUE(passes::count_loops(*k.module.functions.front(), {&claim, 1}, 0));
  EXPECT_FALSE(compares_unsigned(k.module));
  EXPECT_EQ(claim.op->operand(0), k.module.functions.front()->body().arg(0)) << "its bounds stay";
}

// -- what launches are asked -------------------------------------------------------------------------------------

void strided(Mut<i32, 1> y, Scalar<i32> lower, Scalar<i32> upper, Scalar<i32> step) {
  Tile<i32> n = 0;
  for (auto i : range(lower, upper, step)) n = n + i;
  y.store(reshape(n, shape<1>));
}
void persistent(MutTiles<i8, 1> c) {
  for (auto out : c) out.store(full<i8, 1>(1));
}

/// Whether a loop of a launch with these argument slots counts its iterations.
bool counts(const Recorded& kernel, const std::vector<std::uint64_t>& slots) {
  const auto module = ir::clone(*kernel.trace.module);
  const bool changed =
      passes::count_loops(*module->functions.front(), kernel.facts.claims_of(*module), kernel.facts.evaluate(slots));
  EXPECT_EQ(problems(*module), "");
  return changed;
}

TEST(CountLoops, OnlyLaunchesThatReachTheEndOfI32) {
  const Recorded loop = recorded<strided>();
  const auto with = [&](int lower, int upper, int step) {
    std::vector<std::uint64_t> slots = loop.slots({{1}});
    slots.resize(slots.size() - 3);
    for (const int n : {lower, upper, step}) slots.push_back(static_cast<std::uint32_t>(n));
    return counts(loop, slots);
  };
  EXPECT_FALSE(with(0, 1000, 64));
  EXPECT_FALSE(with(-5, 2147483647, 1));
  EXPECT_FALSE(with(0, 2147483643, 5));
  EXPECT_TRUE(with(2147483640, 2147483647, 5));
  EXPECT_TRUE(with(0, 2147483644, 5));

  const Recorded r = recorded<persistent>();
  EXPECT_FALSE(counts(r, r.slots({{1000}})));
  EXPECT_FALSE(counts(r, r.slots({{2000000000}})));
  EXPECT_TRUE(counts(r, r.slots({{2147483647}})));
}

TEST(CountLoops, WhatIsReadAsUnsignedAndStepsBelowOne) {
  for (const bool is_unsigned : {false, true}) {
    AnyLoop k(Elem::I32, is_unsigned);
    analysis::LaunchContract contract;
    contract.args.resize(k.module.functions.front()->body().num_args());
    const analysis::Facts facts = analysis::Facts::analyze(k.module, contract, passes::predicate_table());
    const auto fits = [&](int lower, int upper, int step) {
      std::vector<std::uint64_t> slots(contract.args.size());
      for (std::size_t i = 0; const int n : {lower, upper, step}) slots[i++] = static_cast<std::uint32_t>(n);
      const std::uint64_t held = facts.evaluate(slots);
      return std::any_of(facts.claims().begin(), facts.claims().end(), [&](const analysis::Claim& c) {
        return c.kind == analysis::ClaimKind::StepFits && c.holds(held);
      });
    };
    EXPECT_TRUE(fits(0, 1000, 3));
    EXPECT_TRUE(fits(0, INT32_MAX, 1));
    EXPECT_FALSE(fits(0, INT32_MAX, 2));
    EXPECT_FALSE(fits(0, 1000, 0));
    EXPECT_FALSE(fits(0, 1000, -1));
    EXPECT_EQ(fits(-10, 1000, 3), !is_unsigned) << "unsigned, it starts at a large number";
    EXPECT_EQ(fits(-10, -5, 3), !is_unsigned);
  }
}

/// Code of usual launches is as if there were no such loops: all but those that none of these says anything about.
TEST(CountLoops, KernelsOfUsualExtentsStayAsTheyAre) {
  using namespace api_kernels;
  const auto product = recorded<gemm<f32, 64, 64, 32>>();
  EXPECT_FALSE(counts(product, product.slots({{8192, 8192}, {8192, 4096}, {4096, 8192}})));
  const auto rows = recorded<logsumexp<64>>();
  EXPECT_FALSE(counts(rows, rows.slots({{1000}, {1000, 50257}})));
}

}  // namespace THIS_FILE
