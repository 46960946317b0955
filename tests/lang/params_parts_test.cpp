// Pieces with an extent that is no power of two: their sub-tiles cover the tensor exactly once, for all sizes.
#include "lang/run_kernel.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Array;
using test::run;

/// Adds 1 to what the block owns, and the bias of its columns.
void add_parts(Mut<i32, 2, 12> y, In<i32, dyn> bias) {
  auto [wide, narrow] = y.parts();
  static_assert(std::is_same_v<decltype(wide), Piece<i32, 2, 8>> && std::is_same_v<decltype(narrow), Piece<i32, 2, 4>>);
  wide.store(wide.load() + bias.load_like(wide, axes<1>) + 1);
  narrow.store(narrow.load() + bias.load_like(narrow, axes<1>) + 1);
}
TEST(Parts, OfAMutCoverTheTensorOnce) {
  for (std::int64_t rows : {1, 2, 5})
    for (std::int64_t columns : {1, 3, 8, 11, 12, 13, 24, 25, 40, 61}) {
      Array<std::int32_t> y({rows, columns}, 5), bias({columns});
      bias.each([](std::int64_t i) { return static_cast<std::int32_t>(100 * i); });
      const auto blocks = static_cast<std::uint32_t>((rows + 1) / 2 * ((columns + 11) / 12));
      for (bool checked : {false, true}) {
        Array<std::int32_t> mine = y;
        lang::Specialization s;
        s.checked = checked;
        run<add_parts>({blocks}, s, mine, bias);
        for (std::int64_t r = 0; r < rows; ++r)
          for (std::int64_t c = 0; c < columns; ++c)
            ASSERT_EQ(mine.at({r, c}), 6 + 100 * c) << rows << "x" << columns << " at " << r << ", " << c;
      }
    }
}

template <int Order>
void loop_over_parts(MutTiles<i32, 4, 7> y) {
  const auto visit = [&](auto&& tiles) {
    for (auto out : tiles) {
      auto [i, j] = out.index();
      std::apply([&](auto... part) { (part.store(part.load() + (i * 1000 + j)), ...); }, out.parts());
    }
  };
  if constexpr (Order == 0) visit(y);
  if constexpr (Order == 1) visit(y.column_order());
  if constexpr (Order == 2) visit(y.grouped(3));
}
template <int Order>
void expect_scheduled() {
  for (auto [rows, columns] : {std::pair{4, 7}, {9, 20}, {33, 1}, {1, 70}, {13, 29}})
    for (std::uint32_t blocks : {1U, 3U, 64U}) {
      Array<std::int32_t> y({rows, columns}, 5);
      run<loop_over_parts<Order>>({blocks}, {}, y);
      const int p = (columns + 6) / 7;  // pieces: sub-tiles of 4 first, then of 2, then of 1
      for (int r = 0; r < rows; ++r)
        for (int c = 0; c < columns; ++c) {
          const int j = c < 4 * p ? c / 4 : c < 6 * p ? (c - 4 * p) / 2 : c - 6 * p;
          ASSERT_EQ(y.at({r, c}), 5 + r / 4 * 1000 + j) << rows << "x" << columns << " at " << r << ", " << c;
        }
    }
}
TEST(Parts, OfScheduledTilesCoverTheTensorOnce) {
  expect_scheduled<0>();
  expect_scheduled<1>();
  expect_scheduled<2>();
}

/// Stores of a part are seen by its later loads, through loops and branches; parts do not disturb each other.
void twice(Mut<i32, 6> y) {
  auto [wide, narrow] = y.parts();
  for (auto i : range(3)) {
    wide.store(wide.load() + i + 1);
    tile_if (i > 0) { narrow.store(narrow.load() * 2 + sum(wide.load())); }
  }
}
TEST(Parts, KeepTheOrderOfTheProgram) {
  Array<std::int32_t> y({6}, 1);
  run<twice>({1}, {}, y);
  EXPECT_EQ(y.data, (std::vector<std::int32_t>{7, 7, 7, 7, 64, 64}));  // 1 + 1 + 2 + 3; (1 * 2 + 4 * 4) * 2 + 4 * 7
}

/// A gather and a scatter of elements count inside the part; what is outside the tensor stays untouched.
void elements(Mut<i32, 3> y) {
  auto [wide, narrow] = y.parts();
  wide.scatter(iota<i32, 2>(), 10 + wide.gather(iota<i32, 2>()));
  narrow.scatter(iota<i32, 2>(), 20 + narrow.gather(iota<i32, 2>()));
}
TEST(Parts, ElementsByIndex) {
  Array<std::int32_t> y({5}, 1);
  run<elements>({2}, {}, y);
  EXPECT_EQ(y.data, (std::vector<std::int32_t>{11, 11, 11, 11, 21}));
}

}  // namespace THIS_FILE
}  // namespace tessera
