// Split loops compute what the whole loop computed, wherever its bounds lie and whether or not its arithmetic wraps.
#include <random>

#include "base/rounds.hpp"
#include "passes/accepting.hpp"
#include "passes/product_loop.hpp"
#include "tessera/codegen/cpu/program.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::AttrName;
using ir::ComparisonPredicate;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

constexpr std::int64_t kSide = 32;  // of a tile that is large enough to be worth a split

struct Compared {
  std::int64_t coefficient, constant;
  ComparisonPredicate predicate;
  bool swapped;  // limit on the left
};

/// for i in (low to high): sum = (condition ? sum * 3 + i : sum + 7) over a tile; entry arguments: low, high, limit,
/// other limit, pointer.
struct Branching {
  Kernel k;
  ir::Function* f = nullptr;

  Branching(const Compared& first, const Compared* second, bool both, std::int64_t side = kSide,
            ir::Signedness sign = ir::Signedness::Signed) {
    const Value low = k.arg(Elem::I32), high = k.arg(Elem::I32), limit = k.arg(Elem::I32), other = k.arg(Elem::I32);
    const Type tile = Type::tile(Elem::I32, {side, side});
    const Value start = k.b.constant_int(Elem::I32, 1, tile.shape());
    const Value three = k.b.constant_int(Elem::I32, 3, tile.shape());
    const Value seven = k.b.constant_int(Elem::I32, 7, tile.shape());
    Operation* loop = k.b.create(Op::For, {low, high, k.i32(1), start}, {tile});
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(low.type()), sum = body.add_arg(tile);
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    Value c = compare(first, i, limit, sign);
    if (second) c = k.binary(both ? Op::AndI : Op::OrI, c, compare(*second, i, other, sign));
    const Value wide = k.op(Op::Reshape, {i}, Type::tile(Elem::I32, {1, 1}));
    const Value all = k.op(Op::Broadcast, {wide}, tile);
    Operation* branch = k.b.create(Op::If, {c}, {tile});
    ir::Block& yes = branch->add_region();
    ir::Block& no = branch->add_region();
    k.b.set_to_end(yes);
    k.b.create(Op::Yield, {k.binary(Op::AddI, k.binary(Op::MulI, sum, three), all)}, {});
    k.b.set_to_end(no);
    k.b.create(Op::Yield, {k.binary(Op::AddI, sum, seven)}, {});
    k.b.set_to_end(body);
    k.b.create(Op::Continue, {branch->result()}, {});
    k.b = outside;
    k.keep(loop->result());
    f = &k.function();
  }

  std::int32_t run(std::int32_t low, std::int32_t high, std::int32_t limit, std::int32_t other) const {
    std::vector<std::int32_t> out(kSide * kSide);
    const auto slot = [](std::int32_t v) { return std::uint64_t{static_cast<std::uint32_t>(v)}; };
    const std::vector<std::uint64_t> slots{slot(low), slot(high), slot(limit), slot(other),
                                           reinterpret_cast<std::uintptr_t>(out.data())};
    cpu::RunOptions options;
    options.threads = 1;
    cpu::Program::compile(k.module)->run({}, slots, options);
    return out.front();
  }

 private:
  Value compare(const Compared& c, Value i, Value limit, ir::Signedness sign) {
    Value x = c.coefficient == 1 ? i : k.binary(Op::MulI, i, k.i32(c.coefficient));
    if (c.constant != 0) x = k.binary(Op::AddI, x, k.i32(c.constant));
    return k.op(Op::CmpI, {c.swapped ? limit : x, c.swapped ? x : limit}, Type::tile(Elem::I1),
                {{AttrName::comparison_predicate, c.predicate}, {AttrName::signedness, sign}});
  }
};

/// A number that is likely to sit on an edge.
std::int32_t edge(std::mt19937& rng) {
  constexpr std::int32_t kMost = 0x7FFFFFFF;
  const std::int32_t small = static_cast<std::int32_t>(rng() % 81) - 40;
  switch (rng() % 4) {
    case 0: return small > 0 ? kMost - small : -kMost - 1 - small;
    case 1: return static_cast<std::int32_t>(rng());
    default: return small;
  }
}

TEST(SplitLoops, ComputeTheSameForAllBoundsAndLimits) {
  std::mt19937 rng(20261121);
  std::size_t split = 0;
  for (std::uint64_t round = 0; round < rounds(150); ++round) {
    const auto random_comparison = [&] {
      constexpr std::int64_t kCoefficients[] = {1, -1, 3, 64, -128};
      return Compared{kCoefficients[rng() % 5], static_cast<std::int64_t>(rng() % 5) - 2,
                      static_cast<ComparisonPredicate>(2 + rng() % 4), rng() % 2 == 0};
    };
    const Compared first = random_comparison(), second = random_comparison();
    const bool two = rng() % 2 == 0, both = rng() % 2 == 0;
    Branching whole(first, two ? &second : nullptr, both), parts(first, two ? &second : nullptr, both);
    split += passes::split_loops(*parts.f, {}, &kAcceptAll) ? 1 : 0;
    passes::clean_up(*parts.f);
    ASSERT_EQ(problems_of(parts.k.module), "");
    for (int launch = 0; launch < 12; ++launch) {
      const std::int32_t low = edge(rng), length = static_cast<std::int32_t>(rng() % 24) - 2;
      const std::int64_t end = std::min<std::int64_t>(std::int64_t{low} + length, 0x7FFFFFFF);
      const auto high = static_cast<std::int32_t>(std::max<std::int64_t>(end, -0x7FFFFFFF));
      // Limits near what is compared with them.
      const auto near = [&](const Compared& c) {
        if (rng() % 4 == 0) return edge(rng);
        return static_cast<std::int32_t>(c.coefficient * (low + static_cast<std::int64_t>(rng() % 24)) + c.constant +
                                         static_cast<std::int64_t>(rng() % 3) - 1);
      };
      const std::int32_t limit = near(first), other = near(second);
      ASSERT_EQ(parts.run(low, high, limit, other), whole.run(low, high, limit, other))
          << "low " << low << " high " << high << " limit " << limit << " other " << other << "\n"
          << whole.k.text() << parts.k.text();
    }
  }
  EXPECT_GE(split, rounds(100)) << "most of these loops can be split";
}

/// A condition that holds where one comparison does, or at another limit too, is only known to be true.
TEST(SplitLoops, WhereAConditionIsTrueAndNotWhereItMayBeFalse) {
  const Compared equal{1, 0, ComparisonPredicate::Equal, false};
  for (const auto predicate : {ComparisonPredicate::Less, ComparisonPredicate::LessEqual, ComparisonPredicate::Greater,
                               ComparisonPredicate::GreaterEqual}) {
    for (const std::int64_t coefficient : {1, -1, 2}) {
      for (const bool swapped : {false, true}) {
        const Compared first{coefficient, 0, predicate, swapped};
        Branching whole(first, &equal, false), parts(first, &equal, false);
        ASSERT_TRUE(passes::split_loops(*parts.f, {}, &kAcceptAll));
        passes::clean_up(*parts.f);
        ASSERT_EQ(problems_of(parts.k.module), "");
        for (std::int32_t limit = -5; limit <= 9; ++limit)
          ASSERT_EQ(parts.run(0, 4, limit, 2), whole.run(0, 4, limit, 2)) << "limit " << limit << parts.k.text();
      }
    }
  }
}

const Compared kAbove{64, 0, ComparisonPredicate::Greater, false};

TEST(SplitLoops, TheMiddleHasNoBranch) {
  Branching b(kAbove, nullptr, false);
  EXPECT_TRUE(passes::split_loops(*b.f, {}, &kAcceptAll));
  passes::clean_up(*b.f);
  EXPECT_EQ(count(*b.f, Op::For), 2u);
  EXPECT_EQ(count(*b.f, Op::If), 1u);
}

TEST(SplitLoops, ThreePartsForAWindow) {
  const Compared below{1, 0, ComparisonPredicate::Less, false};
  Branching b(kAbove, &below, false);
  EXPECT_TRUE(passes::split_loops(*b.f, {}, &kAcceptAll));
  passes::clean_up(*b.f);
  EXPECT_EQ(count(*b.f, Op::For), 3u);
  EXPECT_EQ(count(*b.f, Op::If), 2u);
}

TEST(SplitLoops, NotForEquality) {
  Branching b({1, 0, ComparisonPredicate::Equal, false}, nullptr, false);
  EXPECT_FALSE(passes::split_loops(*b.f, {}, &kAcceptAll));
}

TEST(SplitLoops, NotForUnsignedComparisons) {
  Branching b(kAbove, nullptr, false, kSide, ir::Signedness::Unsigned);
  EXPECT_FALSE(passes::split_loops(*b.f, {}, &kAcceptAll));
}

TEST(SplitLoops, NotForLittleWork) {
  Branching b(kAbove, nullptr, false, 8);
  EXPECT_FALSE(passes::split_loops(*b.f, {}, &kAcceptAll));
}

/// A row walked in chunks of 256: every chunk is added up.
struct Chunks {
  Kernel k;
  ir::Function* f = nullptr;
  explicit Chunks(int direction = 1, std::vector<bool> inside = {true, false}) {
    const Value x = k.view(Elem::F32, {1, 256}, ir::PaddingValue::Zero), n = k.arg(Elem::I32), zero = k.i32(0);
    const Type row = Type::tile(Elem::F32, {1, 256});
    Operation* loop = k.b.create(Op::For, {zero, n, k.i32(1), k.b.constant_float(Elem::F32, 0, row.shape())}, {row});
    ir::Block& body = loop->add_region();
    const Value i = body.add_arg(zero.type()), sum = body.add_arg(row);
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    const Value index = direction == 1 ? i : k.binary(direction == 2 ? Op::AddI : Op::SubI, n, i);
    k.b.create(Op::Continue, {k.binary(Op::AddF, sum, k.load(x, {zero, index}, inside)->result())}, {});
    k.b = outside;
    k.keep(loop->result());
    f = &k.function();
  }
};

TEST(SplitLoops, OnlyTheLastChunkIsMasked) {
  for (const int direction : {1, 2}) {  // the induction variable itself, and from a first chunk on
    Chunks c(direction);
    EXPECT_TRUE(passes::split_loops(*c.f, {}, &kAcceptAll));
    passes::choose_access_paths(*c.f, {90, 132});
    EXPECT_EQ(problems_of(c.k.module), "");
    EXPECT_EQ(count(*c.f, Op::For), 2u);
    ASSERT_EQ(count(*c.f, Op::LoadViewTko), 1u) << "in bounds";
    ASSERT_EQ(count(*c.f, Op::LoadPtrTko), 1u);
    EXPECT_TRUE(first(*c.f, Op::LoadPtrTko)->single("mask"));
  }
}

TEST(SplitLoops, NotWhereEverythingIsInBoundsOrTheIndexIsAnother) {
  Chunks known(1, {true, true}), backwards(-1);
  EXPECT_FALSE(passes::split_loops(*known.f, {}, &kAcceptAll));
  EXPECT_FALSE(passes::split_loops(*backwards.f, {}, &kAcceptAll));
}

/// A chain of two products, as in attention, whose result is doubled in the steps from a limit on.
bool splits_chain(std::int32_t keys, std::int32_t depth, const passes::Target& target) {
  ProductLoop l(128, keys, depth, Elem::BF16, depth);
  Operation* end = l.loop->region(0).terminator();
  const Value out = end->operand(0), limit = l.k.arg(Elem::I32);
  const ir::Builder outside = l.k.b;
  l.k.b = ir::Builder::before(end);
  const Value late = l.k.op(
      Op::CmpI, {l.i, limit}, Type::tile(Elem::I1),
      {{AttrName::comparison_predicate, ComparisonPredicate::Greater}, {AttrName::signedness, ir::Signedness::Signed}});
  Operation* branch = l.k.b.create(Op::If, {late}, {out.type()});
  ir::Block& yes = branch->add_region();
  ir::Block& no = branch->add_region();
  l.k.b.set_to_end(yes);
  l.k.b.create(Op::Yield, {l.k.binary(Op::AddF, out, out)}, {});
  l.k.b.set_to_end(no);
  l.k.b.create(Op::Yield, {out}, {});
  l.k.b = outside;
  end->set_operand(0, branch->result());
  const bool split = passes::split_loops(*l.f, target, &kAcceptAll);
  EXPECT_EQ(problems_of(l.k.module), "");
  EXPECT_EQ(count(*l.f, Op::For), split ? 2u : 1u);
  return split;
}

TEST(SplitLoops, NotWhereSharedMemoryHoldsOneStepOfTheOperands) {
  const passes::Target hopper{90, 132}, ampere{86, 84};
  EXPECT_FALSE(splits_chain(128, 256, hopper))
      << "128 KiB a step of 228: 8 x 8 x 2048 x 256 took 256 us, 245 in one loop";
  EXPECT_TRUE(splits_chain(64, 256, hopper)) << "64 KiB a step";
  EXPECT_TRUE(splits_chain(128, 128, hopper)) << "64 KiB a step";
  EXPECT_TRUE(splits_chain(128, 256, ampere)) << "not timed there";
  EXPECT_TRUE(splits_chain(128, 256, {})) << "the CPU";
}

TEST(SplitLoops, NotForOperandsOfProducts) {
  ProductLoop l(64, 64, 64);
  EXPECT_FALSE(passes::split_loops(*l.f, {}, &kAcceptAll));
}

}  // namespace THIS_FILE
