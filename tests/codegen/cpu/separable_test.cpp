// Accesses through pointers that are taken apart into one axis at a time, compared with one element after the other.
#include "codegen/cpu/separable.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <random>

#include "codegen/cpu/kernel.hpp"

namespace tessera::test {
namespace THIS_FILE {

Value below(Kernel& k, Value x, Value y) {
  return k.op(
      Op::CmpI, {x, y}, x.type().with_element(Elem::I1),
      {{AttrName::comparison_predicate, ComparisonPredicate::Less}, {AttrName::signedness, Signedness::Unsigned}});
}
Value both(Kernel& k, Value x, Value y) { return k.same(Op::AndI, {x, y}); }
Value wide(Kernel& k, Value x) {
  return k.op(Op::ExtI, {x}, x.type().with_element(Elem::I64), {{AttrName::signedness, Signedness::Signed}});
}

/// A region of a matrix of 8-bit elements, as the kernel language reads it: from (first row, first column) on, of
/// `rows` rows in memory `stride` elements apart, which are `columns` long.
struct Region {
  std::int64_t tile_rows = 4, tile_columns = 16;
  std::int64_t rows = 9, columns = 21, stride = 24;
  std::int64_t first_row = 0, first_column = 0;
  bool listed = false;  ///< the rows are named by a tile: place r is row 3 r + 1 of those
};

struct Built {
  Kernel k;
  Value pointers, mask;
  /// The pointers and the mask of a region of `base`. Arguments: first row and column (i32), rows, columns (i32),
  /// stride (i64).
  void region(Value base, const Region& r) {
    const Shape tile{r.tile_rows, r.tile_columns}, down{r.tile_rows, 1}, across{1, r.tile_columns};
    const Value row = k.arg(k.t(Elem::I32)), column = k.arg(k.t(Elem::I32)), rows = k.arg(k.t(Elem::I32)),
                columns = k.arg(k.t(Elem::I32)), stride = k.arg(k.t(Elem::I64));
    const auto line = [&](Elem e, std::int64_t n, const Shape& s) { return k.reshape(k.iota(n, e), s); };
    const auto spread = [&](Value v, const Shape& s) { return k.broadcast(k.reshape(v, {1, 1}), s); };
    Value places = k.addi(spread(row, down), line(Elem::I32, r.tile_rows, down));
    if (r.listed) {
      places = k.addi(k.muli(places, k.i32(3, down)), k.i32(1, down));
      pointers =
          k.op(Op::Offset, {spread(base, down), k.muli(wide(k, places), spread(stride, down))}, k.p(Elem::I8, down));
    } else {
      const Value start = k.op(Op::Offset, {base, k.muli(wide(k, row), stride)}, base.type());
      pointers =
          k.op(Op::Offset, {spread(start, down), k.muli(line(Elem::I64, r.tile_rows, down), spread(stride, down))},
               k.p(Elem::I8, down));
    }
    const Value along = k.addi(spread(wide(k, column), across), line(Elem::I64, r.tile_columns, across));
    const Value begin =
        k.op(Op::Offset, {k.broadcast(pointers, tile), k.broadcast(spread(wide(k, column), {1, 1}), tile)},
             k.p(Elem::I8, tile));
    pointers =
        k.op(Op::Offset, {begin, k.broadcast(line(Elem::I64, r.tile_columns, across), tile)}, k.p(Elem::I8, tile));
    (void)along;
    const Value across_place = k.addi(spread(column, across), line(Elem::I32, r.tile_columns, across));
    mask = both(k, k.broadcast(below(k, places, spread(rows, down)), tile),
                k.broadcast(below(k, across_place, spread(columns, across)), tile));
  }
  void run(std::vector<std::uint8_t>& out, std::vector<std::uint8_t>& memory, const Region& r, bool checked = false) {
    // The base may be negative, so that the matrix lies in the middle.
    const std::uint64_t args[] = {slot(out.data()), slot(memory.data() + 512), slot(r.first_row), slot(r.first_column),
                                  slot(r.rows),     slot(r.columns),           slot(r.stride)};
    RunOptions options;
    const auto bytes = [](std::uint8_t* p) { return reinterpret_cast<std::byte*>(p); };
    const cpu::Region regions[] = {{bytes(out.data()), out.size(), "argument 0"},
                                   {bytes(memory.data()), memory.size(), "argument 1"}};
    options.checked = checked;
    if (checked) options.regions = regions;
    k.compile()->run({}, args, options);
  }
};

std::int64_t row_of(const Region& r, std::int64_t i) {
  const auto place = static_cast<std::int32_t>(static_cast<std::uint32_t>(r.first_row) + static_cast<std::uint32_t>(i));
  return r.listed ? 3 * std::int64_t{place} + 1 : place;
}
bool is_inside(const Region& r, std::int64_t i, std::int64_t j) {
  const std::int64_t row = row_of(r, i), column = r.first_column + j;
  return row >= 0 && row < r.rows && column >= 0 && column < r.columns;
}
std::string text_of(const Region& r) {
  std::string text;
  for (const std::int64_t v : {r.tile_rows, r.tile_columns, r.rows, r.columns, r.stride, r.first_row, r.first_column})
    text += std::to_string(v) + " ";
  return text + (r.listed ? "listed" : "");
}

std::vector<std::uint8_t> memory_of_bytes() {
  std::vector<std::uint8_t> memory(4096);
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::uint8_t>(i * 7 + i / 256 + 1);
  return memory;
}

std::vector<std::uint8_t> loaded(const Region& r, bool checked = false) {
  Built b;
  const Value out = b.k.pointer(Elem::I8), in = b.k.pointer(Elem::I8);
  b.region(in, r);
  const Value tile =
      b.k.load_ptr(b.pointers, b.mask, b.k.b.constant_int(Elem::I8, 77, {{r.tile_rows, r.tile_columns}}))->result();
  const auto rows = static_cast<std::int32_t>(r.tile_rows), columns = static_cast<std::int32_t>(r.tile_columns);
  b.k.store(tile, b.k.partition(b.k.tensor(out, {rows, columns}, {columns, 1}), {rows, columns}),
            {b.k.i32(0), b.k.i32(0)});
  std::vector<std::uint8_t> o(static_cast<std::size_t>(rows * columns), 5), memory = memory_of_bytes();
  b.run(o, memory, r, checked);
  return o;
}
std::vector<std::uint8_t> expected(const Region& r) {
  const std::vector<std::uint8_t> memory = memory_of_bytes();
  std::vector<std::uint8_t> o;
  for (std::int64_t i = 0; i < r.tile_rows; ++i)
    for (std::int64_t j = 0; j < r.tile_columns; ++j)
      o.push_back(is_inside(r, i, j)
                      ? memory[static_cast<std::size_t>(512 + row_of(r, i) * r.stride + r.first_column + j)]
                      : 77);
  return o;
}

Region random_region(std::mt19937& random) {
  const auto number = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Region r;
  r.tile_rows = std::int64_t{1} << number(0, 4);
  r.tile_columns = std::int64_t{1} << number(1, 6);
  r.rows = number(0, 40), r.columns = number(0, 40);
  r.stride = r.columns + number(0, 9);
  r.listed = number(0, 2) == 0 && r.tile_rows > 1;
  r.first_row = number(-20, 45), r.first_column = number(-70, 45);
  return r;
}

TEST(Separable, RegionsAnywhere) {
  std::mt19937 random(17);
  for (int i = 0; i < 300; ++i) {
    const Region r = random_region(random);
    ASSERT_EQ(loaded(r), expected(r)) << text_of(r);
    ASSERT_EQ(loaded(r, true), expected(r)) << text_of(r) << " checked";
  }
}

TEST(Separable, StoresOfRegionsAnywhere) {
  std::mt19937 random(18);
  for (int n = 0; n < 200; ++n) {
    Region r = random_region(random);
    Built b;
    const Value in = b.k.pointer(Elem::I8), out = b.k.pointer(Elem::I8);
    b.region(out, r);
    const auto rows = static_cast<std::int32_t>(r.tile_rows), columns = static_cast<std::int32_t>(r.tile_columns);
    const Value tile = b.k.load(b.k.partition(b.k.tensor(in, {rows, columns}, {columns, 1}), {rows, columns}),
                                {b.k.i32(0), b.k.i32(0)})
                           ->result();
    b.k.store_ptr(b.pointers, tile, b.mask);
    std::vector<std::uint8_t> from(static_cast<std::size_t>(rows * columns));
    std::iota(from.begin(), from.end(), std::uint8_t{100});
    std::vector<std::uint8_t> memory = memory_of_bytes(), wanted = memory;
    for (std::int64_t i = 0; i < r.tile_rows; ++i)
      for (std::int64_t j = 0; j < r.tile_columns; ++j)
        if (is_inside(r, i, j))
          wanted[static_cast<std::size_t>(512 + row_of(r, i) * r.stride + r.first_column + j)] =
              from[static_cast<std::size_t>(i * columns + j)];
    b.run(from, memory, r);
    ASSERT_EQ(memory, wanted) << text_of(r);
  }
}

TEST(Separable, PlacesAtTheEndsOfTheirType) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max(),
                         least = std::numeric_limits<std::int32_t>::min();
  for (const std::int64_t row : {most, most - 1, least, least + 2, std::int64_t{-1}, std::int64_t{-3}}) {
    Region r;
    r.first_row = row;
    EXPECT_EQ(loaded(r), expected(r)) << row;
  }
  // Counted as unsigned, all places but those just below 2^32 are inside.
  Region r;
  r.first_row = -2, r.rows = -1;
  const std::vector<std::uint8_t> memory = memory_of_bytes(), o = loaded(r);
  for (std::size_t j = 0; j < 16; ++j) {
    EXPECT_EQ(o[j], memory[512 - 48 + j]) << "row -2";
    EXPECT_EQ(o[16 + j], 77) << "row -1";
    EXPECT_EQ(o[32 + j], memory[512 + j]) << "row 0";
    EXPECT_EQ(o[48 + j], memory[512 + 24 + j]) << "row 1";
  }
}

TEST(Separable, AListOfOneRowManyTimes) {
  Kernel k;
  const Value out = k.pointer(Elem::I32), in = k.pointer(Elem::I32), row = k.arg(k.t(Elem::I64));
  // A sum of what is repeated: its elements are all equal, and stored once.
  const Value repeated = k.addi(k.spread(row, {4, 1}), k.spread(row, {4, 1}));
  const Value rows = k.op(Op::Offset, {k.spread(in, {4, 1}), repeated}, k.p(Elem::I32, {4, 1}));
  const Value columns = k.broadcast(k.reshape(k.iota(8, Elem::I64), {1, 8}), {4, 8});
  const Value all = k.op(Op::Offset, {k.broadcast(rows, {4, 8}), columns}, k.p(Elem::I32, {4, 8}));
  k.store(k.load_ptr(all)->result(), k.partition(k.tensor(out, {4, 8}, {8, 1}), {4, 8}), {k.i32(0), k.i32(0)});
  ASSERT_EQ(cpu::SeparableAccesses(k.entry.body()).accesses.size(), 1U);
  std::vector<std::int32_t> o(32, -1), memory(64);
  std::iota(memory.begin(), memory.end(), 0);
  const std::uint64_t args[] = {slot(o.data()), slot(memory.data()), slot(10)};
  k.compile()->run({}, args);
  for (std::int32_t i = 0; i < 32; ++i) EXPECT_EQ(o[static_cast<std::size_t>(i)], 20 + i % 8) << i;
}
TEST(Separable, SumsThatOverflowAreFoundInCheckedMode) {
  const auto run = [](std::int64_t first, bool checked) {
    Kernel k;
    const Value out = k.pointer(Elem::I32), in = k.pointer(Elem::I32), at = k.arg(k.t(Elem::I64));
    const auto line = [&](std::int64_t n, const Shape& s) {
      return k.broadcast(k.reshape(k.iota(n, Elem::I64), s), {4, 8});
    };
    const Value sum = k.at(7).addi(k.addi(line(4, {4, 1}), k.spread(at, {4, 8})), line(8, {1, 8}));
    const Value inside = k.spread(below(k.at(9), at, k.i64(2)), {4, 8});  // nothing that overflows is read
    k.store(k.load_ptr(k.op(Op::Offset, {k.spread(in, {4, 8}), sum}, k.p(Elem::I32, {4, 8})), inside)->result(),
            k.partition(k.tensor(out, {4, 8}, {8, 1}), {4, 8}), {k.i32(0), k.i32(0)});
    EXPECT_EQ(cpu::SeparableAccesses(k.entry.body()).accesses.size(), 1U);
    std::vector<std::int32_t> o(32), memory(16);
    const auto bytes = [](std::vector<std::int32_t>& v) { return reinterpret_cast<std::byte*>(v.data()); };
    const cpu::Region regions[] = {{bytes(o), 128, "argument 0"}, {bytes(memory), 64, "argument 1"}};
    const std::uint64_t args[] = {slot(o.data()), slot(memory.data()), slot(first)};
    RunOptions options;
    options.checked = checked;
    if (checked) options.regions = regions;
    k.compile()->run({}, args, options);
  };
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  EXPECT_NE(message_of<DeviceError>([&] { run(most, true); }), "");
  EXPECT_NO_THROW(run(most, false));
  EXPECT_NO_THROW(run(1, true));
}
TEST(Separable, StepsMayBeNegative) {
  Kernel k;
  const Value out = k.pointer(Elem::I32), in = k.pointer(Elem::I32);
  const auto backwards = [&](Value base, std::int64_t step) {
    const Value first = k.op(Op::Offset, {base, k.i64(31)}, base.type());
    return k.offsets(first, k.muli(k.iota(16, Elem::I64), k.i64(step, {16})));
  };
  k.store_ptr(backwards(out, -1), k.load_ptr(backwards(in, -2))->result());
  EXPECT_EQ(cpu::SeparableAccesses(k.entry.body()).accesses.size(), 2U);
  std::vector<std::int32_t> o(32, -1), memory(32);
  std::iota(memory.begin(), memory.end(), 0);
  const std::uint64_t args[] = {slot(o.data()), slot(memory.data())};
  k.compile()->run({}, args);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(o[i], i < 16 ? -1 : 31 - 2 * static_cast<std::int32_t>(31 - i)) << i;
}

/// What is taken apart, and how many operations no longer run.
struct Taken {
  std::size_t accesses, unneeded;
  int listed;
};
Taken taken(const Region& r, bool mask_is_stored = false) {
  Built b;
  const Value out = b.k.pointer(Elem::I1), in = b.k.pointer(Elem::I8);
  b.region(in, r);
  b.k.load_ptr(b.pointers, b.mask, b.k.b.constant_int(Elem::I8, 0, {{r.tile_rows, r.tile_columns}}));
  const auto rows = static_cast<std::int32_t>(r.tile_rows), columns = static_cast<std::int32_t>(r.tile_columns);
  if (mask_is_stored)
    b.k.store(b.mask, b.k.partition(b.k.tensor(out, {rows, columns}, {columns, 1}), {rows, columns}),
              {b.k.i32(0), b.k.i32(0)});
  const cpu::SeparableAccesses all(b.k.entry.body());
  return {all.accesses.size(), all.unneeded.size(),
          all.accesses.empty() ? cpu::kNoAxis : all.accesses.begin()->second.listed};
}
TEST(Separable, RegionsAndListsOfRowsAreTakenApart) {
  Region r;
  EXPECT_EQ(taken(r).accesses, 1U);
  EXPECT_EQ(taken(r).listed, cpu::kNoAxis);
  r.listed = true;
  EXPECT_EQ(taken(r).accesses, 1U);
  EXPECT_EQ(taken(r).listed, 0);
}
TEST(Separable, WhatIsUsedElsewhereStaysComputed) {
  const Region r;
  EXPECT_GT(taken(r).unneeded, taken(r, true).unneeded);
  EXPECT_GT(taken(r, true).unneeded, 0U);  // the pointers
}
TEST(Separable, ListsAlongTheLastAxisAreNotTakenApart) {
  Kernel k;
  const Value in = k.pointer(Elem::I32);
  const Value odd = k.addi(k.muli(k.iota(16), k.i32(2, {16})), k.i32(1, {16}));
  k.load_ptr(k.offsets(in, odd), below(k, odd, k.i32(9, {16})));
  EXPECT_TRUE(cpu::SeparableAccesses(k.entry.body()).accesses.empty());
}

}  // namespace THIS_FILE
}  // namespace tessera::test
