// Early tiles: the first iterations of a loop load the tiles of one tensor before griddepcontrol.wait, although another
// tensor that the loop reads has an in-flight writer.
#include <cstdint>
#include <cstring>

#include "passes/early_tiles.hpp"
#include "passes/pass_support.hpp"
#include "tessera/base/error.hpp"
#include "tessera/codegen/cpu/program.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace tessera::test;
using ir::Elem;
using ir::Op;
using ir::Operation;
using ir::Type;
using ir::Value;

constexpr int kRows = 4, kTile = 64;

/// What differs from a loop that can be peeled.
enum class Odd {
  None,
  CarriedAddress,  ///< the tile of w is at a number that the loop carries
  LoadedAddress,   ///< ... that it loads
  UnderCondition,  ///< it is loaded in some iterations only
  Ordered,         ///< the load of w has a token
  StepOfTwo,
  Unsigned,
  LoopInside,
  ReadBefore,      ///< x is read before the loop
  OneTensor,       ///< w alone is read
  MoreOfTheOther,  ///< most bytes are loaded at an address that is not known before
};

/// y = for i in (low to n): acc = acc / 2 + w[i] * x[i]; then, with `tail`, the same for i in (n to n + 1).
struct Sums {
  const int rows;
  Kernel k;
  Value x = k.view(Elem::F32, {1, kTile}), w = k.view(Elem::F32, {rows, kTile}), y = k.view(Elem::F32, {rows, kTile});
  Value low = k.arg(Elem::I32), n = k.arg(Elem::I32), zero = k.i32(0), one = k.i32(1);
  const Type sum = Type::tile(Elem::F32, {rows, kTile});
  Operation* loop = nullptr;
  ir::Function* f = nullptr;
  passes::Choices choices;

  explicit Sums(Odd odd = Odd::None, bool tail = false, int rows_of_w = kRows) : rows(rows_of_w) {
    Value first = k.b.constant_float(Elem::F32, 0, sum.shape());
    if (odd == Odd::ReadBefore) first = k.op(Op::Broadcast, {k.load(x, {zero, zero})->result()}, sum);
    loop = add_loop(odd, low, n, first);
    Value result = loop->result();
    if (tail) result = add_loop(Odd::None, n, k.binary(Op::AddI, n, one), result)->result();
    k.store(result, y, {zero, zero});
    f = &k.function();
  }
  int peel(std::optional<int> tiles = {}, int warps = 4) {
    passes::Tuning tuning;
    tuning.overlap = passes::Overlap::WaitOnly;
    tuning.early_tiles = tiles;
    choices.warps = warps;
    passes::overlap_launches(*f, kHopper, tuning, choices);
    EXPECT_EQ(problems_of(k.module), "");
    return choices.early_tiles;
  }

 private:
  Operation* add_loop(Odd odd, Value from, Value to, Value first) {
    std::vector<Value> operands{from, to, odd == Odd::StepOfTwo ? k.i32(2) : one, first};
    std::vector<Type> types{sum};
    if (odd == Odd::CarriedAddress) operands.push_back(zero), types.push_back(zero.type());
    const Value token = odd == Odd::Ordered ? k.op(Op::MakeToken, {}, Type::token()) : Value();
    Operation* made = k.b.create(Op::For, operands, types);
    if (odd == Odd::Unsigned) made->set_attr(ir::AttrName::unsignedCmp, ir::UnitAttr{});
    ir::Block& body = made->add_region();
    const Value i = body.add_arg(zero.type()), acc = body.add_arg(sum);
    Value at = i;
    if (odd == Odd::CarriedAddress) at = body.add_arg(zero.type());
    const ir::Builder outside = k.b;
    k.b.set_to_end(body);
    const auto wide = [&](Value row) { return k.op(Op::Broadcast, {row}, sum); };
    Value of_x =
        odd == Odd::OneTensor ? k.b.constant_float(Elem::F32, 1, sum.shape()) : wide(k.load(x, {zero, i})->result());
    if (odd == Odd::LoadedAddress) at = number_in(of_x);
    if (odd == Odd::MoreOfTheOther)
      for (int more = 0; more < 2; ++more)
        of_x = k.binary(Op::AddF, of_x, k.load(y, {zero, number_in(of_x)})->result());
    Value of_w = odd == Odd::UnderCondition ? if_even(i) : k.load(w, {zero, at})->result();
    if (token) passes_token(of_w, token);
    if (odd == Odd::LoopInside) {
      Operation* inner = k.b.create(Op::For, {zero, one, one, of_w}, {sum});
      ir::Block& inside = inner->add_region();
      inside.add_arg(zero.type());
      const Value kept = inside.add_arg(sum);
      ir::Builder(inside).create(Op::Continue, {kept}, {});
      of_w = inner->result();
    }
    const Value half = k.binary(Op::MulF, acc, k.b.constant_float(Elem::F32, 0.5, sum.shape()));
    std::vector<Value> next{k.binary(Op::AddF, half, k.binary(Op::MulF, of_w, of_x))};
    if (odd == Odd::CarriedAddress) next.push_back(k.binary(Op::AddI, at, one));
    k.b.create(Op::Continue, next, {});
    k.b = outside;
    return made;
  }
  static void passes_token(Value tile, Value token) {
    Operation& load = *tile.def();
    std::vector<Value> operands = load.operand_values();
    std::vector<std::uint32_t> groups(load.group_sizes().begin(), load.group_sizes().end());
    operands.push_back(token);
    groups.back() = 1;
    load.set_operands(operands, groups);
  }
  /// An element of a tile of numbers, as an index.
  Value number_in(Value tile) {
    const Type first = Type::tile(Elem::F32, {1, 1});
    const Value element =
        k.b.create(Op::Extract, std::vector<Value>{tile, zero, zero}, std::vector<Type>{first})->result();
    const Value scalar = k.op(Op::Reshape, {element}, Type::tile(Elem::F32));
    return k.op(Op::FToI, {scalar}, zero.type(), {{ir::AttrName::signedness, ir::Signedness::Signed}});
  }
  Value if_even(Value i) {
    const Value even = k.op(Op::CmpI, {k.binary(Op::AndI, i, one), zero}, Type::tile(Elem::I1),
                            {{ir::AttrName::comparison_predicate, ir::ComparisonPredicate::Equal},
                             {ir::AttrName::signedness, ir::Signedness::Signed}});
    Operation* branch = k.b.create(Op::If, {even}, {sum});
    const ir::Builder outside = k.b;
    k.b.set_to_end(branch->add_region());
    k.b.create(Op::Yield, {k.load(w, {zero, i})->result()}, {});
    k.b.set_to_end(branch->add_region());
    k.b.create(Op::Yield, {k.b.constant_float(Elem::F32, 0, sum.shape())}, {});
    k.b = outside;
    return branch->result();
  }
};

/// The branch that replaces the loop.
const Operation& branch_of(const Sums& s) { return *s.loop->parent_op(); }

TEST(EarlyTiles, TheFirstTilesOfTheLargestTensorAreLoadedBeforeTheWait) {
  Sums s;
  ASSERT_EQ(s.peel(3), 3);
  EXPECT_EQ(s.choices.abi.early_reads, (std::vector<int>{4, 0})) << "w comes first: bit 0 says that it has no writer";
  const ir::Block& peeled = branch_of(s).region(0);
  std::vector<const Operation*> before;
  const Operation* wait = nullptr;
  std::size_t after = 0;
  ir::walk(peeled, [&](const Operation& op) {
    if (op.op() == Op::GdcWaitTko) wait = &op;
    if (op.op() != Op::LoadViewTko) return;
    if (!wait) {
      before.push_back(&op);
      EXPECT_FALSE(op.single("token"));
      EXPECT_EQ(op.single("view"), s.w);
    } else {
      ++after;
      EXPECT_EQ(op.single("token"), wait->result());
    }
  });
  EXPECT_EQ(before.size(), 3u);
  EXPECT_EQ(after, 3u + 2u) << "x in the peeled iterations, both in the loop after them";
  ASSERT_TRUE(wait);
  const Operation* join = wait->operand(0).def();
  ASSERT_EQ(join->op(), Op::JoinTokens) << "the wait is placed after the loads";
  ASSERT_EQ(join->num_operands(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_EQ(join->operand(i), before[i]->result(1));
}

TEST(EarlyTiles, OtherLoopsAreReadEarlyAllOrNothing) {
  for (const Odd odd :
       {Odd::None, Odd::CarriedAddress, Odd::LoadedAddress, Odd::UnderCondition, Odd::Ordered, Odd::StepOfTwo,
        Odd::Unsigned, Odd::LoopInside, Odd::ReadBefore, Odd::OneTensor, Odd::MoreOfTheOther}) {
    Sums s(odd);
    EXPECT_EQ(s.peel(2), odd == Odd::None ? 2 : 0) << static_cast<int>(odd);
    EXPECT_FALSE(s.choices.abi.early_reads.empty()) << static_cast<int>(odd);
  }
}

TEST(EarlyTiles, AtMostTwoAndAsManyAsTheRegistersOfAThreadHold) {
  const auto chosen = [](int rows, int warps) { return Sums(Odd::None, false, rows).peel({}, warps); };
  EXPECT_EQ(chosen(4, 4), 2) << "2 registers an iteration: 1 KB over 128 threads";
  EXPECT_EQ(chosen(32, 4), 2) << "16 registers";
  EXPECT_EQ(chosen(64, 4), 1) << "32 registers";
  EXPECT_EQ(chosen(64, 0), 1) << "four warps if it is not known";
  EXPECT_EQ(chosen(64, 8), 2) << "16 registers";
  EXPECT_EQ(chosen(128, 4), 0) << "64 registers: a thread does not hold one tile";
}

TEST(EarlyTiles, TheOccupancyLimitsTheRegistersUnlessItIsSet) {
  const auto occupancy = [](std::optional<int> tiles, int warps, int set = 0, bool length_is_known = false) {
    Sums s;
    s.choices.occupancy = set;
    if (length_is_known) s.loop->set_operand(1, ir::Builder::before(s.loop).constant_int(Elem::I32, 5));
    s.peel(tiles, warps);
    EXPECT_EQ(s.f->hints.entries.empty(), s.choices.occupancy == set) << "the assembler is told";
    return s.choices.occupancy;
  };
  EXPECT_EQ(occupancy(4, 1), 7) << "72 registers of a thread: 32 for four tiles, 40 others; as for four warps";
  EXPECT_EQ(occupancy(8, 1), 5) << "104";
  EXPECT_EQ(occupancy(1, 1), 9) << "56: one tile, and the sum that the loop carries";
  EXPECT_EQ(occupancy(1, 1, 0, true), 7) << "72: and the tiles of two iterations more, for a loop that is unrolled";
  EXPECT_EQ(occupancy(4, 8), 6) << "of 256 threads: 44";
  EXPECT_EQ(occupancy(4, 0), 0) << "how many threads?";
  EXPECT_EQ(occupancy(4, 1, 2), 2);
  EXPECT_EQ(occupancy(0, 1), 0);
}

TEST(EarlyTiles, AWordSetsTheNumber) {
  for (const int requested : {0, 1, passes::kMaxEarlyTiles}) EXPECT_EQ(Sums().peel(requested), requested);
  for (const int requested : {-1, passes::kMaxEarlyTiles + 1}) EXPECT_THROW(Sums().peel(requested), CompileError);
}

using Numbers = std::vector<float>;
/// y for tiles of `x` and `w` (`length` columns), and whether tiles were loaded before the wait.
Numbers run(Sums& s, std::int32_t low, std::int32_t n, std::optional<std::uint32_t> launch_flags, std::int32_t* went) {
  constexpr std::int64_t kLength = 16 * kTile;
  Numbers x(kLength), w(kRows * kLength), y(kRows * kTile, -1);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i % 11) + static_cast<float>(i / kTile);
  std::vector<std::uint64_t> slots;
  const auto add = [&](Numbers& v, std::int64_t rows) {
    const auto columns = static_cast<std::uint64_t>(v.size()) / static_cast<std::uint64_t>(rows);
    slots.insert(slots.end(),
                 {reinterpret_cast<std::uintptr_t>(v.data()), static_cast<std::uint64_t>(rows), columns, columns});
  };
  add(x, 1), add(w, kRows), add(y, kRows);
  slots.insert(slots.end(), {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(n)});
  if (launch_flags) slots.insert(slots.end(), {*launch_flags, reinterpret_cast<std::uintptr_t>(went)});
  cpu::Program::compile(s.k.module)->run({}, slots, {});
  return y;
}

/// Notes in the argument that it adds whether tiles were loaded before the wait.
void note_peeled(Sums& s) {
  s.k.b = ir::Builder::before(branch_of(s).region(0).terminator());
  s.k.keep(s.k.i32(1));
  EXPECT_EQ(problems_of(s.k.module), "");
}

TEST(EarlyTiles, LoopsOfAnyNumberOfIterationsComputeTheSame) {
  for (const bool tail : {false, true}) {
    Sums plain(Odd::None, tail);
    for (const int tiles : {1, 2, 5}) {
      Sums peeled(Odd::None, tail);
      ASSERT_EQ(peeled.peel(tiles), tiles);
      note_peeled(peeled);
      for (const std::int32_t low : {0, 2})
        for (const std::int32_t n : {0, 1, 2, 3, 5, 6, 9}) {
          const Numbers expected = run(plain, low, n, {}, nullptr);
          for (const std::uint32_t flags : {0u, 1u, 2u, 3u, 5u, (1u << calling::kTriggerBit) + 1}) {
            std::int32_t went = 0;
            EXPECT_EQ(run(peeled, low, n, flags, &went), expected) << low << " to " << n << ", flags " << flags;
            EXPECT_EQ(went == 1, (flags & 3) == 1 && n - low >= tiles)
                << "of w alone, where the loop has " << tiles << " iterations: " << n - low << ", flags " << flags;
          }
        }
    }
  }
}

TEST(EarlyTiles, BoundsOfTheWholeTypeAreCountedExactly) {
  constexpr std::int32_t kLeast = INT32_MIN, kMost = INT32_MAX;
  Sums peeled;
  ASSERT_EQ(peeled.peel(2), 2);
  note_peeled(peeled);
  for (const auto& [low, n] : {std::pair(kMost, kLeast), std::pair(1, kLeast), std::pair(kMost, kMost)}) {
    std::int32_t went = 0;
    EXPECT_EQ(run(peeled, low, n, 1, &went), Numbers(kRows * kTile, 0)) << "no iteration";
    EXPECT_EQ(went, 0) << low << " to " << n;
  }
}

TEST(EarlyTiles, WhatFollowsTheLoopHasWaited) {
  for (const bool tail : {false, true}) {
    Sums s(Odd::None, tail);
    ASSERT_EQ(s.peel(2), 2);
    const Operation& branch = branch_of(s);
    const Value token = branch.result(branch.num_results() - 1);
    ASSERT_TRUE(token.type().is_token());
    EXPECT_EQ(branch.region(0).terminator()->operand_values().back().def()->op(), Op::GdcWaitTko);
    if (tail) {
      std::size_t loads = 0;
      for (const Operation* op = branch.next(); op; op = op->next())
        if (op->op() == Op::For)
          ir::walk(op->region(0), [&](const Operation& inner) {
            if (inner.op() != Op::LoadViewTko) return;
            ++loads;
            EXPECT_EQ(inner.single("token"), token);
          });
      EXPECT_EQ(loads, 2u);
    }
    const Operation* store = first(*s.f, Op::StoreViewTko);
    const Operation* last = store->single("token").def();
    ASSERT_EQ(last->op(), Op::If);
    for (std::size_t arm = 0; arm < 2; ++arm)
      EXPECT_EQ(last->region(arm).terminator()->operand(0).def()->op(), Op::GdcWaitTko);
    const Operation* ended = last->operand(0).def()->operand(0).def();
    if (tail)
      EXPECT_EQ(ended->op(), Op::For) << "the last loop";
    else
      EXPECT_EQ(ended, &branch);
  }
}

}  // namespace THIS_FILE
