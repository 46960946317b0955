// Assigning tiles to blocks: every tile exactly once, for every order, any number of blocks and ragged grids.
#include "lang/run_kernel.hpp"
#include "tessera/base/error.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Array;
using test::run;

template <int Order, int Group>
struct TileLoops {
  static void kernel(MutTiles<i32, 4, 8> c, Acc<i32, dyn, dyn> times) {
    const auto visit = [&](auto&& tiles) {
      for (auto out : tiles) {
        auto [i, j] = out.index();
        auto [r, q] = out.origin();
        times.add(i, j, 1);
        out.store(out.load() + (i * 1000 + j) + (r + q) * 0);
      }
    };
    if constexpr (Order == 0) visit(c);
    if constexpr (Order == 1) visit(c.row_order());
    if constexpr (Order == 2) visit(c.column_order());
    if constexpr (Order == 3) visit(c.grouped(Group));
  }
};

template <int Order, int Group>
void expect_exactly_once() {
  for (auto [rows, columns] : {std::pair{4, 8}, {17, 40}, {40, 17}, {33, 1}, {1, 70}}) {
    for (std::uint32_t blocks : {1U, 3U, 7U, 64U}) {
      const std::int64_t tr = (rows + 3) / 4, tc = (columns + 7) / 8;
      Array<std::int32_t> c({rows, columns}, 5), times({tr, tc});
      run<&TileLoops<Order, Group>::kernel>({blocks}, {}, c, times);
      EXPECT_EQ(times.data, std::vector<std::int32_t>(times.data.size(), 1))
          << rows << "x" << columns << " on " << blocks;
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t q = 0; q < columns; ++q) ASSERT_EQ(c.at({r, q}), 5 + r / 4 * 1000 + q / 8);
    }
  }
}
TEST(TileSchedule, DefaultOrder) { expect_exactly_once<0, 0>(); }
TEST(TileSchedule, RowOrder) { expect_exactly_once<1, 0>(); }
TEST(TileSchedule, ColumnOrder) { expect_exactly_once<2, 0>(); }
TEST(TileSchedule, GroupsOfOne) { expect_exactly_once<3, 1>(); }
TEST(TileSchedule, RaggedGroups) { expect_exactly_once<3, 3>(); }
TEST(TileSchedule, GroupsHigherThanTheGrid) { expect_exactly_once<3, 1 << 30>(); }

void by_iterators(MutTiles<i32, 8> c) {
  for (auto it = c.begin(); it != c.end(); ++it) {
    auto tile = *it, again = *it;
    tile.store(again.load() + 1);
  }
  auto unread = c.begin();
  ++unread;
}
TEST(TileSchedule, ByIterators) {
  Array<std::int32_t> c({50}, 2);
  run<by_iterators>({3}, {}, c);
  EXPECT_EQ(c.data, std::vector<std::int32_t>(50, 3));
}
void advanced_twice(MutTiles<i32, 8> c) {
  auto it = c.begin();
  ++it;
  ++it;
}
void stored_late(MutTiles<i32, 8> c) {
  auto it = c.begin();
  ++it;
  (*it).store(zeros<i32, 8>());
}
void nested(MutTiles<i32, 8> c) {
  for (auto a : c)
    for (auto b : c) b.store(a.load());
}
void broken_off(MutTiles<i32, 8> c) {
  for (auto out : c) {
    out.store(zeros<i32, 8>());
    break;
  }
}
template <auto K>
void expect_tile_loop_error(const char* words) {
  try {
    (void)lang::trace<K>();
    ADD_FAILURE() << "expected: " << words;
  } catch (const TraceError& e) {
    EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.where().file).find("params_tile_schedule_test.cpp"), std::string::npos) << e.what();
  }
}
TEST(TileSchedule, MisusedIteratorsAreTraceErrorsWithTheUsersLine) {
  expect_tile_loop_error<advanced_twice>("advanced past its end");
  expect_tile_loop_error<stored_late>("used after its end");
  expect_tile_loop_error<nested>("inside another loop over the same tiles");
  expect_tile_loop_error<broken_off>("`break` or `return` leaves");
}

void loop_over_three(MutTiles<i32, 2, 4, 8> c, Acc<i32, dyn, dyn, dyn> times) {
  for (auto out : c.grouped(2)) {
    auto [b, i, j] = out.index();
    times.add(b, i, j, 1);
    out.store(full<i32, 2, 4, 8>(0) + (b * 100 + i * 10 + j));
  }
}
TEST(TileSchedule, LeadingAxes) {
  Array<std::int32_t> c({5, 19, 17}), times({3, 5, 3});
  run<loop_over_three>({4}, {}, c, times);
  EXPECT_EQ(times.data, std::vector<std::int32_t>(45, 1));
  for (std::int64_t b = 0; b < 5; ++b)
    for (std::int64_t i = 0; i < 19; ++i)
      for (std::int64_t j = 0; j < 17; ++j) ASSERT_EQ(c.at({b, i, j}), b / 2 * 100 + i / 4 * 10 + j / 8);
}

void tile_order(MutTiles<i32, 1, 1> c, Acc<i32, dyn> place) {
  auto n = Scalar<i32>(0);
  for (auto out : c.grouped(2)) {
    auto [i, j] = out.index();
    place.add(n, i * 10 + j);
    n += 1;
    out.store(zeros<i32, 1, 1>());
  }
}
TEST(TileSchedule, GroupsRunDownTheirColumns) {
  Array<std::int32_t> c({3, 3}), place({9});
  run<tile_order>({1}, {}, c, place);
  EXPECT_EQ(place.data, (std::vector<std::int32_t>{0, 10, 1, 11, 2, 12, 20, 21, 22}));
}

void twice(MutTiles<i32, 8> c) {
  for (auto out : c) out.store(full<i32, 8>(3));
  for (auto out : c) out.store(out.load() * 2);
}
TEST(TileSchedule, TwoLoopsOverTheSameTiles) {
  Array<std::int32_t> c({50});
  run<twice>({3}, {}, c);
  EXPECT_EQ(c.data, std::vector<std::int32_t>(50, 6));
}

void wide_tile_loop(MutTiles<i32, 8> c) {
  for (auto out : c) out.store(out.load() + 1);
}
TEST(TileSchedule, OnAWideGrid) {
  lang::Specialization wide;
  wide.wide_grid = true;
  Array<std::int32_t> c({100});
  run<wide_tile_loop>({2, 3}, wide, c);
  EXPECT_EQ(c.data, std::vector<std::int32_t>(100, 1));
}
void mut_and_tiles(Mut<i32, 4> y, MutTiles<i32, 8> c) {
  y.store(y.load() + 1);
  for (auto out : c) out.store(out.load() + 1);
}
TEST(TileSchedule, BesideAMutOnAWideGridWithSurplusBlocks) {
  lang::Specialization wide;
  wide.wide_grid = true;
  Array<std::int32_t> y({18}), c({100});
  run<mut_and_tiles>({4, 2}, wide, y, c);  // 5 pieces, 8 blocks
  EXPECT_EQ(y.data, std::vector<std::int32_t>(18, 1));
  EXPECT_EQ(c.data, std::vector<std::int32_t>(100, 1));
}

}  // namespace THIS_FILE
}  // namespace tessera
