// Views, pointers, atomics, allocations and globals.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "codegen/cpu/kernel.hpp"
#include "tessera/base/float_types.hpp"

namespace tessera::test {
namespace {

std::vector<std::int32_t> counting(std::size_t n) {
  std::vector<std::int32_t> v(n);
  std::iota(v.begin(), v.end(), 1);
  return v;
}

/// Copies tile (i, j) of a rows x columns tensor with these strides into a dense tile-sized output, with padding.
std::vector<std::int32_t> load_tile(std::vector<std::int32_t>& memory, Shape extents, Shape strides,
                                    std::vector<std::int32_t> tile, std::int64_t i, std::int64_t j,
                                    std::vector<std::int32_t> dim_map = {}) {
  Kernel k;
  const Value out = k.pointer(Elem::I32), in = k.pointer(Elem::I32);
  const Value a = k.arg(k.t(Elem::I32)), b = k.arg(k.t(Elem::I32));
  const Value t =
      k.load(k.partition(k.tensor(in, extents, strides), tile, PaddingValue::Zero, dim_map), {a, b})->result();
  k.store(t, k.partition(k.tensor(out, {tile[0], tile[1]}, {tile[1], 1}), tile), {k.i32(0), k.i32(0)});
  std::vector<std::int32_t> o(static_cast<std::size_t>(tile[0] * tile[1]), -1);
  const std::uint64_t args[] = {slot(o.data()), slot(memory.data()), slot(i), slot(j)};
  k.compile()->run({}, args);
  return o;
}

TEST(Memory, TilesAtEveryEdgeOfARaggedTensor) {
  auto memory = counting(13 * 21);
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t j = 0; j < 4; ++j) {
      const auto o = load_tile(memory, {13, 21}, {21, 1}, {4, 8}, i, j);
      for (std::int64_t r = 0; r < 4; ++r)
        for (std::int64_t c = 0; c < 8; ++c) {
          const std::int64_t y = i * 4 + r, x = j * 8 + c;
          const std::int32_t want = y < 13 && x < 21 ? static_cast<std::int32_t>(y * 21 + x + 1) : 0;
          ASSERT_EQ(o[static_cast<std::size_t>(r * 8 + c)], want) << i << ' ' << j << ' ' << r << ' ' << c;
        }
    }
}

TEST(Memory, IndicesFarOutsideGiveOnlyPadding) {
  auto memory = counting(64);
  for (const std::int64_t bad : {std::int64_t{2}, std::int64_t{1} << 30, std::int64_t{-1}}) {
    const auto o = load_tile(memory, {16, 4}, {4, 1}, {8, 4}, bad, 0);
    EXPECT_EQ(o, std::vector<std::int32_t>(32, 0)) << bad;
  }
}

TEST(Memory, PermutedViewsAndDimensionMaps) {
  auto memory = counting(32 * 16);
  const auto strided = load_tile(memory, {16, 32}, {1, 16}, {8, 8}, 1, 2);         // columns are contiguous
  const auto mapped = load_tile(memory, {32, 16}, {16, 1}, {8, 8}, 1, 2, {1, 0});  // the same through a dim_map
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 8; ++c) {
      const std::int32_t want = (8 + r) + (16 + c) * 16 + 1;
      ASSERT_EQ(strided[static_cast<std::size_t>(r * 8 + c)], want);
      ASSERT_EQ(mapped[static_cast<std::size_t>(r * 8 + c)], want);
    }
}

/// b[0..32) as a tile through a view and, reversed, through pointers: 1 and 10 where it is true.
std::vector<std::int32_t> widened_bools(std::vector<std::uint8_t>& memory, std::int64_t n) {
  Kernel k;
  const Value out = k.pointer(Elem::I32), in = k.pointer(Elem::I1);
  const Value direct = k.load(k.partition(k.tensor(in, {n}, {1}), {32}, PaddingValue::Zero), {k.i32(0)})->result();
  const Value backwards = k.same(Op::SubI, {k.i32(n - 1, {32}), k.iota(32)});
  const Value inside = k.op(Op::CmpI, {backwards, k.i32(0, {32})}, k.t(Elem::I1, {32}),
                            {{AttrName::comparison_predicate, ComparisonPredicate::GreaterEqual},
                             {AttrName::signedness, Signedness::Signed}});
  const Value reversed = k.load_ptr(k.offsets(in, backwards), inside, k.b.constant_int(Elem::I1, 0, {{32}}))->result();
  const auto number = [&](Value v) {
    return k.op(Op::ExtI, {v}, k.t(Elem::I32, {32}), {{AttrName::signedness, Signedness::Unsigned}});
  };
  const Value both = k.addi(number(direct), k.muli(k.i32(10, {32}), number(reversed)));
  k.store(both, k.partition(k.tensor(out, {32}, {1}), {32}), {k.i32(0)});
  std::vector<std::int32_t> o(32, -1);
  const std::uint64_t args[] = {slot(o.data()), slot(memory.data())};
  k.compile()->run({}, args);
  return o;
}
TEST(Memory, AnyByteButZeroIsTrue) {
  std::vector<std::uint8_t> memory(32);
  for (std::size_t i = 0; i < 32; ++i) memory[i] = static_cast<std::uint8_t>(i % 3 == 0 ? 0 : i % 3 == 1 ? 1 : 8 * i);
  memory[1] = 128, memory[2] = 255, memory[4] = 2, memory[31] = 254;
  const auto kept = memory;
  for (const std::int64_t n : {32, 29}) {
    const auto o = widened_bools(memory, n);
    for (std::int64_t i = 0; i < 32; ++i) {
      const auto is_true = [&](std::int64_t at) {
        return at >= 0 && at < n && memory[static_cast<std::size_t>(at)] != 0 ? 1 : 0;
      };
      EXPECT_EQ(o[static_cast<std::size_t>(i)], is_true(i) + 10 * is_true(n - 1 - i)) << i << " of " << n;
    }
  }
  EXPECT_EQ(memory, kept);  // what is read is not written
}

TEST(Memory, PaddingOfEveryKind) {
  const auto first_padding = [](PaddingValue value) {
    Kernel k;
    const Value out = k.pointer(Elem::F16), in = k.pointer(Elem::F16);
    const Value t = k.load(k.partition(k.tensor(in, {3}, {1}), {4}, value), {k.i32(0)})->result();
    k.store(t, k.partition(k.tensor(out, {4}, {1}), {4}), {k.i32(0)});
    std::vector<std::uint16_t> i{1, 2, 3}, o(4, 9);
    const std::uint64_t args[] = {slot(o.data()), slot(i.data())};
    k.compile()->run({}, args);
    EXPECT_EQ(o[2], 3);
    return o[3];
  };
  EXPECT_EQ(first_padding(PaddingValue::Zero), 0);
  EXPECT_EQ(first_padding(PaddingValue::NegZero), 0x8000);
  EXPECT_EQ(first_padding(PaddingValue::PosInf), 0x7c00);
  EXPECT_EQ(first_padding(PaddingValue::NegInf), 0xfc00);
  EXPECT_EQ(first_padding(PaddingValue::NaN) & 0x7c00, 0x7c00);
  EXPECT_NE(first_padding(PaddingValue::NaN) & 0x03ff, 0);
}

TEST(Memory, StoresAreClippedAndTakeTransposedTiles) {
  Kernel k;
  const Value out = k.pointer(Elem::I32);
  const Value x = k.reshape(k.iota(64), {8, 8});
  const Value view = k.partition(k.tensor(out, {8, 6}, {6, 1}), {8, 8});
  k.store(k.permute(x, {1, 0}), view, {k.i32(0), k.i32(0)});
  std::vector<std::int32_t> o(8 * 6 + 4, -7);
  const std::uint64_t args[] = {slot(o.data())};
  k.compile()->run({}, args);
  for (int r = 0; r < 8; ++r)
    for (int c = 0; c < 6; ++c) ASSERT_EQ(o[static_cast<std::size_t>(r * 6 + c)], c * 8 + r);
  for (std::size_t i = 48; i < o.size(); ++i) ASSERT_EQ(o[i], -7);
}

// Whole tiles may be used where they lie in memory; what the block stores must not show through them.
TEST(Memory, LoadedTilesKeepTheirValueWhenTheTensorIsWritten) {
  Kernel k;
  const Value a = k.pointer(Elem::I32), out = k.pointer(Elem::I32);
  const Value view = k.partition(k.tensor(a, {32}, {1}), {16}), zero = k.i32(0);
  Operation* x = k.load(view, {zero});
  const Value plus = k.addi(x->result(), k.i32(100, {16}));
  const Value t = k.store(k.i32(-1, {16}), view, {zero}, x->result(1));
  k.store(x->result(), view, {k.i32(1)}, t);
  k.store(plus, k.partition(k.tensor(out, {16}, {1}), {16}), {zero});
  auto memory = counting(32);
  std::vector<std::int32_t> o(16);
  const std::uint64_t args[] = {slot(memory.data()), slot(o.data())};
  k.compile()->run({}, args);
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(memory[i], -1);
    EXPECT_EQ(memory[16 + i], static_cast<std::int32_t>(i + 1));
    EXPECT_EQ(o[i], static_cast<std::int32_t>(i + 101));
  }
}

TEST(Memory, ATileMayBeStoredOverItsOwnSource) {
  const auto shifted = [](std::vector<std::int32_t> order, std::int64_t by) {
    Kernel k;
    const Value a = k.pointer(Elem::I32), b = k.pointer(Elem::I32);
    const std::vector<Value> zero(2, k.i32(0));
    const Value t = k.load(k.partition(k.tensor(a, {4, 4}, {4, 1}), {4, 4}), zero)->result();
    k.store(k.permute(t, std::move(order)), k.partition(k.tensor(b, {4, 4}, {4, 1}), {4, 4}), zero);
    auto memory = counting(32);
    const std::uint64_t args[] = {slot(memory.data()), slot(memory.data() + by)};
    k.compile()->run({}, args);
    return std::vector<std::int32_t>(memory.begin() + by, memory.begin() + by + 16);
  };
  for (const std::int64_t by : {0, 1, 5}) {
    const auto same = shifted({0, 1}, by), turned = shifted({1, 0}, by);
    for (std::size_t i = 0; i < 16; ++i) {
      ASSERT_EQ(same[i], static_cast<std::int32_t>(i + 1)) << by;
      ASSERT_EQ(turned[i], static_cast<std::int32_t>(i % 4 * 4 + i / 4 + 1)) << by;
    }
  }
}

TEST(Memory, StridedViewsOverlapAndSkip) {
  auto memory = counting(32);
  Kernel k;
  const Value out = k.pointer(Elem::I32), in = k.pointer(Elem::I32);
  const Value tensor = k.tensor(in, {32}, {1});
  const std::vector<std::int32_t> tile{4};
  const auto strided = [&](std::int32_t step) {
    const std::vector<std::int32_t> steps{step}, identity;
    return k.op(Op::MakeStridedView, {tensor},
                Type::strided_view(tensor.type(), tile, steps, identity, PaddingValue::Zero));
  };
  const Value view = k.partition(k.tensor(out, {16}, {1}), {4});
  k.store(k.load(strided(1), {k.i32(5)})->result(), view, {k.i32(0)});
  k.store(k.load(strided(6), {k.i32(5)})->result(), view, {k.i32(1)});
  const Value steps = k.b.create(Op::GetIndexSpaceShape, {strided(6)}, {k.t(Elem::I32)})->result();
  k.store(k.spread(steps, {4}), view, {k.i32(2)});
  std::vector<std::int32_t> o(16);
  const std::uint64_t args[] = {slot(o.data()), slot(memory.data())};
  k.compile()->run({}, args);
  EXPECT_EQ(std::vector<std::int32_t>(o.begin(), o.begin() + 12),
            (std::vector<std::int32_t>{6, 7, 8, 9, 31, 32, 0, 0, 6, 6, 6, 6}));
}

TEST(Memory, GatherAndScatterViews) {
  auto memory = counting(10 * 8);
  Kernel k;
  const Value out = k.pointer(Elem::I32), in = k.pointer(Elem::I32);
  const std::vector<std::int32_t> tile{4, 8};
  const auto view = [&](Value tensor) {
    return k.op(Op::MakeGatherScatterView, {tensor},
                Type::gather_scatter_view(tensor.type(), tile, 0, PaddingValue::Zero));
  };
  const Value rows = k.addi(k.muli(k.iota(4), k.i32(3, {4})), k.i32(1, {4}));  // 1, 4, 7, 10: the last is outside
  const Value t = k.load(view(k.tensor(in, {10, 8}, {8, 1})), {rows, k.i32(0)})->result();
  k.store(t, view(k.tensor(out, {10, 8}, {8, 1})), {rows, k.i32(0)});
  k.store(k.reshape(k.fold(Op::Reduce, t, 0, k.t(Elem::I32, {8}), IntAttr{Elem::I32, 0}, Op::AddI,
                           {{AttrName::overflow, IntegerOverflow::None}}),
                    {1, 8}),
          k.partition(k.tensor(out, {1, 8}, {8, 1}), {1, 8}), {k.i32(0), k.i32(0)});
  std::vector<std::int32_t> o(80, -1);
  const std::uint64_t args[] = {slot(o.data()), slot(memory.data())};
  k.compile()->run({}, args);
  for (std::size_t r = 1; r < 10; ++r)
    for (std::size_t c = 0; c < 8; ++c) ASSERT_EQ(o[r * 8 + c], r % 3 == 1 ? memory[r * 8 + c] : -1) << r;
  for (std::size_t c = 0; c < 8; ++c) ASSERT_EQ(o[c], memory[8 + c] + memory[32 + c] + memory[56 + c]);
}

/// Indices count elements along every axis, also those that are not listed one by one.
TEST(Memory, GatheredTilesBeginAtAnyElement) {
  auto memory = counting(10 * 8);
  for (const Elem rows_of : {Elem::I32, Elem::I64, Elem::I8}) {
    Kernel k;
    const Value out = k.pointer(Elem::I32), in = k.pointer(Elem::I32);
    const std::vector<std::int32_t> tile{4, 4};
    const Value tensor = k.tensor(in, {10, 8}, {8, 1});
    const Value view = k.op(Op::MakeGatherScatterView, {tensor},
                            Type::gather_scatter_view(tensor.type(), tile, 0, PaddingValue::Zero));
    Value rows = k.addi(k.muli(k.iota(4), k.i32(-2, {4})), k.i32(5, {4}));  // 5, 3, 1, -1
    const Type type = k.t(rows_of, {4});
    if (rows_of == Elem::I64) rows = k.op(Op::ExtI, {rows}, type, {{AttrName::signedness, Signedness::Signed}});
    if (rows_of == Elem::I8) rows = k.op(Op::TruncI, {rows}, type, {{AttrName::overflow, IntegerOverflow::None}});
    const Value to = k.partition(k.tensor(out, {8, 4}, {4, 1}), {4, 4});
    k.store(k.load(view, {rows, k.i32(3)})->result(), to, {k.i32(0), k.i32(0)});
    k.store(k.load(view, {rows, k.i32(6)})->result(), to, {k.i32(1), k.i32(0)});  // two columns are outside
    std::vector<std::int32_t> o(32);
    const std::uint64_t args[] = {slot(o.data()), slot(memory.data())};
    k.compile()->run({}, args);
    for (std::size_t r = 0; r < 4; ++r)
      for (std::size_t c = 0; c < 4; ++c) {
        const auto at = [&](std::size_t column) {
          return r == 3 || column >= 8 ? 0 : memory[(5 - 2 * r) * 8 + column];
        };
        EXPECT_EQ(o[r * 4 + c], at(3 + c)) << r << c;
        EXPECT_EQ(o[16 + r * 4 + c], at(6 + c)) << r << c;
      }
  }
}

TEST(Memory, PointersWithMasksAndPadding) {
  auto memory = counting(40);
  Kernel k;
  const Value out = k.pointer(Elem::I32), in = k.pointer(Elem::I32);
  const Value i = k.iota(32);
  const Value mask = k.less(i, k.i32(20, {32}));
  const Value reversed = k.same(Op::SubI, {k.i32(19, {32}), i}, {{AttrName::overflow, IntegerOverflow::None}});
  const Value a = k.load_ptr(k.offsets(in, i), mask, k.i32(-5, {32}))->result();
  const Value b = k.load_ptr(k.offsets(in, reversed), mask)->result();
  k.store_ptr(k.offsets(out, i), k.addi(a, k.muli(b, k.i32(1000, {32}))), k.less(i, k.i32(24, {32})));
  std::vector<std::int32_t> o(40, -1);
  const std::uint64_t args[] = {slot(o.data()), slot(memory.data())};
  k.compile()->run({}, args);
  for (int j = 0; j < 20; ++j) ASSERT_EQ(o[static_cast<std::size_t>(j)], j + 1 + 1000 * (20 - j));
  for (int j = 20; j < 24; ++j) ASSERT_EQ(o[static_cast<std::size_t>(j)], -5);
  for (std::size_t j = 24; j < 40; ++j) ASSERT_EQ(o[j], -1);
}

TEST(Memory, AtomicsReturnTheOldValueAndUpdateEveryLane) {
  const auto update = [](AtomicMode mode, std::int32_t start, std::int64_t operand) {
    Kernel k;
    const Value out = k.pointer(Elem::I32), cell = k.pointer(Elem::I32);
    const Value old = k.atomic(cell, mode, k.i32(operand))->result();
    k.store_ptr(out, old);
    std::vector<std::int32_t> o(1), c{start};
    const std::uint64_t args[] = {slot(o.data()), slot(c.data())};
    k.compile()->run({}, args);
    EXPECT_EQ(o[0], start);
    return c[0];
  };
  EXPECT_EQ(update(AtomicMode::And, 12, 10), 8);
  EXPECT_EQ(update(AtomicMode::Or, 12, 10), 14);
  EXPECT_EQ(update(AtomicMode::Xor, 12, 10), 6);
  EXPECT_EQ(update(AtomicMode::Add, 12, -20), -8);
  EXPECT_EQ(update(AtomicMode::Max, -3, 2), 2);
  EXPECT_EQ(update(AtomicMode::Min, -3, 2), -3);
  EXPECT_EQ(update(AtomicMode::UMax, -3, 2), -3);
  EXPECT_EQ(update(AtomicMode::UMin, -3, 2), 2);
  EXPECT_EQ(update(AtomicMode::Xchg, -3, 2), 2);
}

TEST(Memory, FloatAtomicsAddInTheirOwnFormat) {
  Kernel k;
  const Value h = k.pointer(Elem::F16), b = k.pointer(Elem::BF16), f = k.pointer(Elem::F32), d = k.pointer(Elem::F64);
  for (const Value p : {h, b, f, d}) {
    const Elem e = p.type().elem();
    k.atomic(k.spread(p, {8}), AtomicMode::AddF, k.b.constant_float(e, 1.5, Shape{8}),
             k.less(k.iota(8), k.i32(5, {8})));
  }
  f16 hv(1.0f);
  bf16 bv(1.0f);
  float fv = 1;
  double dv = 1;
  const std::uint64_t args[] = {slot(&hv), slot(&bv), slot(&fv), slot(&dv)};
  k.compile()->run({}, args);
  EXPECT_EQ(static_cast<float>(hv), 8.5f);
  EXPECT_EQ(static_cast<float>(bv), 8.5f);
  EXPECT_EQ(fv, 8.5f);
  EXPECT_EQ(dv, 8.5);
}

TEST(Memory, CompareAndSwapComparesBits) {
  Kernel k;
  const Value out = k.pointer(Elem::F32), cells = k.pointer(Elem::F32);
  const Value p = k.offsets(cells, k.iota(4));
  const Value in[] = {p, k.f32(0.0, {4}), k.f32(7.0, {4})};
  const std::uint32_t groups[] = {1, 1, 1, 0, 0};
  const Type results[] = {k.t(Elem::F32, {4}), Type::token()};
  Operation* cas = k.b.create_grouped(
      Op::AtomicCASTko, in, groups, results,
      {{AttrName::memory_ordering_semantics, MemoryOrdering::AcqRel}, {AttrName::memory_scope, MemoryScope::Device}});
  k.store_ptr(k.offsets(out, k.iota(4)), cas->result());
  std::vector<float> c{0.0f, -0.0f, 1.0f, 0.0f}, o(4);
  const std::uint64_t args[] = {slot(o.data()), slot(c.data())};
  k.compile()->run({}, args);
  EXPECT_EQ(c, (std::vector<float>{7.0f, 0.0f, 1.0f, 7.0f}));
  EXPECT_TRUE(std::signbit(c[1]));
  EXPECT_EQ(o, (std::vector<float>{0.0f, -0.0f, 1.0f, 0.0f}));
}

TEST(Memory, AllocationsAreAlignedScratch) {
  Kernel k;
  const Value out = k.pointer(Elem::I32), address = k.pointer(Elem::I64);
  const Value scratch =
      k.op(Op::Alloca, {}, k.p(Elem::I32),
           {{AttrName::num_elem, IntAttr{Elem::I64, 16}}, {AttrName::alignment, IntAttr{Elem::I64, 256}}});
  const Value t = k.store_ptr(k.offsets(scratch, k.iota(16)), k.muli(k.iota(16), k.i32(3, {16})));
  const Value backwards =
      k.same(Op::SubI, {k.i32(15, {16}), k.iota(16)}, {{AttrName::overflow, IntegerOverflow::None}});
  k.store_ptr(k.offsets(out, k.iota(16)), k.load_ptr(k.offsets(scratch, backwards), {}, {}, t)->result());
  k.store_ptr(address, k.op(Op::PtrToInt, {scratch}, k.t(Elem::I64)));
  std::vector<std::int32_t> o(16);
  std::int64_t a = 1;
  const std::uint64_t args[] = {slot(o.data()), slot(&a)};
  k.compile()->run({}, args);
  for (int i = 0; i < 16; ++i) ASSERT_EQ(o[static_cast<std::size_t>(i)], 3 * (15 - i));
  EXPECT_EQ(a % 256, 0);
}

TEST(Memory, GlobalsHoldTheirInitialValueAndKeepWhatIsStored) {
  Kernel k;
  const Type type = k.t(Elem::I32, {4});
  std::vector<std::byte> bytes(16);
  for (int i = 0; i < 4; ++i) bytes[static_cast<std::size_t>(i * 4)] = static_cast<std::byte>(10 + i);
  k.module.globals.push_back({"table", DenseAttr{type, bytes, false}, 16, false, false});
  const Value out = k.pointer(Elem::I32);
  const Value p =
      k.offsets(k.op(Op::GetGlobal, {}, k.p(Elem::I32), {{AttrName::name, std::string("table")}}), k.iota(4));
  Operation* loaded = k.load_ptr(p);
  k.store_ptr(k.offsets(out, k.iota(4)), loaded->result());
  k.store_ptr(p, k.addi(loaded->result(), k.i32(1, {4})), {}, loaded->result(1));
  const auto program = k.compile();
  std::vector<std::int32_t> o(4);
  const std::uint64_t args[] = {slot(o.data())};
  for (int run = 0; run < 3; ++run) {
    program->run({}, args);
    EXPECT_EQ(o, (std::vector<std::int32_t>{10 + run, 11 + run, 12 + run, 13 + run}));
  }
}

TEST(Memory, FourBitElementsArePackedInMemory) {
  Kernel k;
  const Value out = k.pointer(Elem::I4), in = k.pointer(Elem::I4);
  const auto view = [&](Value p) { return k.partition(k.tensor(p, {14}, {1}), {16}); };
  const Value t = k.load(view(in), {k.i32(0)})->result();
  const Value wide = k.op(Op::ExtI, {t}, k.t(Elem::I32, {16}), {{AttrName::signedness, Signedness::Unsigned}});
  const Value narrow = k.op(Op::TruncI, {k.addi(wide, k.i32(1, {16}))}, k.t(Elem::I4, {16}),
                            {{AttrName::overflow, IntegerOverflow::None}});
  k.store(narrow, view(out), {k.i32(0)});
  std::vector<std::uint8_t> i{0x10, 0x32, 0x54, 0x76, 0x98, 0xba, 0xdc}, o(8, 0xee);
  const std::uint64_t args[] = {slot(o.data()), slot(i.data())};
  k.compile()->run({}, args);
  EXPECT_EQ(o, (std::vector<std::uint8_t>{0x21, 0x43, 0x65, 0x87, 0xa9, 0xcb, 0xed, 0xee}));
}

}  // namespace
}  // namespace tessera::test
