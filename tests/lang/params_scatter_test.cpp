// Gathers and scatters inside a block's own piece, run on the CPU in checked mode against plain loops: equal indices,
// indices outside of every kind, edge pieces, narrow elements, the order with other accesses of the piece.
#include <cstdlib>

#include <algorithm>
#include <limits>
#include <utility>

#include "lang/run_kernel.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Array;

/// Runs K in checked mode, every block against every access.
template <auto K, class... A>
void run_checked(std::uint32_t blocks, A&... arguments) {
  lang::Specialization specialization;
  specialization.checked = true;
  auto trace = lang::trace<K>(specialization);
  ASSERT_EQ(test::problems(*trace.module), "");
  test::Slots slots;
  (slots.add(arguments), ...);
  std::vector<std::vector<std::uint8_t>> written;
  std::vector<cpu::Region> regions;
  written.reserve(sizeof...(A));
  const auto add = [&](auto& a) {
    const std::size_t bytes = a.data.size() * sizeof(a.data[0]);
    written.emplace_back(bytes, std::uint8_t{1});
    regions.push_back({reinterpret_cast<std::byte*>(a.data.data()), bytes,
                       "argument " + std::to_string(regions.size() + 1), written.back().data()});
  };
  (add(arguments), ...);
  cpu::RunOptions options;
  options.checked = true;
  options.regions = regions;
  options.threads = 2;
  cpu::Program::compile(*trace.module)->run({blocks}, slots.values(), options);
}

std::uint32_t ceil_of(std::int64_t n, std::int64_t tile) { return static_cast<std::uint32_t>((n + tile - 1) / tile); }

// ---- slices ---------------------------------------------------------------------------------------------------------

constexpr int kRows = 4, kColumns = 8, kIndices = 16;

template <class T, class I>
void scatter_rows(Mut<T, kRows, kColumns> y, In<I, dyn> at, In<T, dyn, dyn> values) {
  y.scatter(axis<0>, at.tiles(shape<kIndices>).load(0), values.tiles(shape<kIndices, kColumns>).load(0, 0));
}

/// Values that every element type holds exactly, different in neighbouring slices.
template <class Stored>
Stored sample(std::int64_t i) {
  return Stored(static_cast<float>(i % 15 + 1));
}

/// `Stored` is the type of a T in memory.
template <class T, class Stored = T, class I>
void expect_rows(const std::vector<I>& indices, std::int64_t rows, std::int64_t columns) {
  Array<Stored> y({rows, columns}), expected({rows, columns}), values({kIndices, kColumns});
  Array<I> at({kIndices});
  at.data = indices;
  values.each([](std::int64_t i) {
    const std::int64_t k = i / kColumns + i % kColumns;
    return std::is_same_v<T, bool> ? static_cast<Stored>(static_cast<float>(k % 2)) : sample<Stored>(k);
  });
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < columns; ++c)
      for (std::int64_t k = 0; k < kIndices; ++k)
        if (std::cmp_equal(at.at({k}), r % kRows)) expected.at({r, c}) = values.at({k, c % kColumns});
  run_checked<scatter_rows<T, I>>(ceil_of(rows, kRows) * ceil_of(columns, kColumns), y, at, values);
  for (std::size_t i = 0; i < y.data.size(); ++i)
    ASSERT_EQ(static_cast<float>(y.data[i]), static_cast<float>(expected.data[i])) << i;
}

const std::vector<std::int32_t> kRepeated = {3, 0, 3, -1, 4, 2, 0, 0, 3, 100, -4, 2, 3, -2147483647, 2147483647, 0};

TEST(Scatter, TheLastOfEqualIndicesIsStoredForEveryElementType) {
  expect_rows<f32>(kRepeated, 4, 8);
  expect_rows<f64>(kRepeated, 4, 8);
  expect_rows<i64>(kRepeated, 4, 8);
  expect_rows<i16>(kRepeated, 4, 8);
  expect_rows<u8>(kRepeated, 4, 8);
  expect_rows<bf16>(kRepeated, 4, 8);
  expect_rows<f8e4m3>(kRepeated, 4, 8);
  expect_rows<f8e5m2>(kRepeated, 4, 8);
  expect_rows<bool, std::uint8_t>(kRepeated, 4, 8);
}

TEST(Scatter, PiecesAtTheEdgesAreClipped) {
  expect_rows<f32>(kRepeated, 10, 19);
  expect_rows<bf16>(kRepeated, 3, 7);
  expect_rows<i32>(std::vector<std::int32_t>(kIndices, 2), 5, 8);
}

TEST(Scatter, IndicesOfEveryWidth) {
  std::vector<std::int64_t> wide;
  std::vector<std::uint32_t> natural;
  std::vector<std::int8_t> narrow;
  std::vector<std::uint8_t> bytes;
  for (const std::int32_t v : kRepeated) {
    wide.push_back(v == 4 ? std::int64_t{1} << 32 : v == 100 ? std::numeric_limits<std::int64_t>::min() : v);
    natural.push_back(static_cast<std::uint32_t>(v));
    narrow.push_back(static_cast<std::int8_t>(v));
    bytes.push_back(static_cast<std::uint8_t>(v));
  }
  expect_rows<f32>(wide, 6, 8);
  expect_rows<f32>(natural, 6, 8);
  expect_rows<f32>(narrow, 6, 8);
  expect_rows<f32>(bytes, 6, 8);
}

void scatter_columns(Mut<f32, 4, 8> y, In<i32, dyn, dyn> at, In<f32, dyn, dyn> values) {
  y.store(full<f32, 4, 8>(-1.0f));
  y.scatter(axis<1>, at.tiles(shape<1, 4>).load(0, 0), values.tiles(shape<4, 4>).load(0, 0));
  y.scatter(axis<1>, 7, full<f32, 4, 1>(5.0f));
}
TEST(Scatter, ColumnsAfterAStoreOfThePiece) {
  Array<float> y({4, 8}), values({4, 4});
  Array<std::int32_t> at({1, 4});
  at.data = {6, 1, 6, 8};
  values.each([](std::int64_t i) { return static_cast<float>(i); });
  run_checked<scatter_columns>(1, y, at, values);
  for (std::int64_t r = 0; r < 4; ++r) {
    for (std::int64_t c = 0; c < 8; ++c) {
      const float expected = c == 1 ? values.at({r, 1}) : c == 6 ? values.at({r, 2}) : c == 7 ? 5.0f : -1.0f;
      ASSERT_EQ(y.at({r, c}), expected) << r << "," << c;
    }
  }
}

// ---- elements -------------------------------------------------------------------------------------------------------

void scatter_elements(Mut<i32, 4, 8> y, In<i32, dyn> i, In<i32, dyn> j, In<i32, dyn> values) {
  y.scatter(i.tiles(shape<64>).load(0), j.tiles(shape<64>).load(0), values.tiles(shape<64>).load(0));
}
TEST(Scatter, ElementsByOneIndexPerAxis) {
  Array<std::int32_t> y({6, 13}, -1), expected({6, 13}, -1), i({64}), j({64}), values({64});
  // Row -1 to 4, column -1 to 8, each pair twice: an index outside must not access its neighbour in the next row.
  i.each([](std::int64_t k) { return static_cast<std::int32_t>(k * 5 % 6 - 1); });
  j.each([](std::int64_t k) { return static_cast<std::int32_t>(k * 7 % 10 - 1); });
  values.each([](std::int64_t k) { return static_cast<std::int32_t>(k); });
  for (std::int64_t block = 0; block < 4; ++block) {
    for (std::int64_t k = 0; k < 64; ++k) {
      const std::int64_t r = i.at({k}), c = j.at({k});
      if (r < 0 || r >= 4 || c < 0 || c >= 8) continue;
      const std::int64_t row = block / 2 * 4 + r, column = block % 2 * 8 + c;
      if (row < 6 && column < 13) expected.at({row, column}) = values.at({k});
    }
  }
  run_checked<scatter_elements>(4, y, i, j, values);
  EXPECT_EQ(y.data, expected.data);
}
TEST(Scatter, AnIndexOutsideDoesNotHideTheNextRow) {
  Array<std::int32_t> y({4, 8}, -1), i({64}, -1), j({64}), values({64});
  i.data[0] = 1;  // (1, 0), and later (0, 8): the same distance from the piece's first element
  i.data[1] = 0;
  j.data[1] = 8;
  values.data[0] = 7;
  run_checked<scatter_elements>(1, y, i, j, values);
  EXPECT_EQ(y.at({1, 0}), 7);
  EXPECT_EQ(std::count(y.data.begin(), y.data.end(), -1), 31);
}

void scatter_block(Mut<i32, 4, 8> y, In<i32, dyn> i) {
  y.store(zeros<i32, 4, 8>());
  auto rows = reshape(i.tiles(shape<4>).load(0), shape<4, 1>);
  y.scatter(rows, iota<i32, 1, 8>(axis<1>), iota<i32, 4, 1>(axis<0>) + 1);
  y.scatter(3, 7, 100);
  y.scatter(3, -1, 200);
}
TEST(Scatter, IndicesAndValuesBroadcast) {
  Array<std::int32_t> y({4, 8}), i({4});
  i.data = {2, 0, 2, 5};
  run_checked<scatter_block>(1, y, i);
  for (std::int64_t r = 0; r < 4; ++r)
    for (std::int64_t c = 0; c < 8; ++c)
      ASSERT_EQ(y.at({r, c}), r == 2 ? 3 : r == 0 ? 2 : r == 3 && c == 7 ? 100 : 0) << r << "," << c;
}

template <int N>
void scatter_many(Mut<i32, 256> y, In<i32, dyn> i) {
  y.scatter(i.tiles(shape<N>).load(0), iota<i32, N>());
}
template <int N>
void expect_many() {
  Array<std::int32_t> y({300}, -1), i({N}), expected({300}, -1);
  i.each([](std::int64_t k) { return static_cast<std::int32_t>(k * 7919 % 277 - 10); });
  for (std::int64_t k = 0; k < N; ++k) {
    const std::int64_t at = i.at({k});
    if (at < 0 || at >= 256) continue;
    expected.at({at}) = static_cast<std::int32_t>(k);
    if (at + 256 < 300) expected.at({at + 256}) = static_cast<std::int32_t>(k);
  }
  run_checked<scatter_many<N>>(2, y, i);
  EXPECT_EQ(y.data, expected.data) << N;
}
TEST(Scatter, ManyIndicesAreComparedInParts) {
  expect_many<64>();
  expect_many<256>();
  // NVIDIA's assembler needs 12 s for it, so it is not among the kernels of tests/assemble.
  if (std::getenv("TESSERA_DUMP") == nullptr) expect_many<1024>();
}

// ---- order, gathers, MutTiles ---------------------------------------------------------------------------------------

void permute_rows(MutTiles<f32, 4, 8> c, In<i32, dyn> to) {
  for (auto out : c) {
    auto index = to.tiles(shape<4>).load(0);
    out.scatter(axis<0>, index, out.load());
    out.store(out.load() * 2.0f);
    out.scatter(axis<0>, index, out.gather(axis<0>, 3 - index, pad(9)));
  }
}
TEST(Scatter, ThroughHandlesInTheOrderOfTheProgram) {
  Array<float> c({10, 16});
  Array<std::int32_t> to({4});
  to.data = {2, 3, 1, 0};
  c.each([](std::int64_t i) { return static_cast<float>(i); });
  Array<float> expected = c;
  // Row 3 - to[k] of the piece: outside the tensor in the last pieces, where it reads the padding.
  for (std::int64_t block = 0; block < 3; ++block) {
    for (std::int64_t column = 0; column < 16; ++column) {
      const auto inside = [&](std::int64_t r) { return block * 4 + r < 10; };
      float first[4], second[4];
      for (std::int64_t r = 0; r < 4; ++r) first[r] = inside(r) ? expected.at({block * 4 + r, column}) : 0.0f;
      for (std::int64_t k = 0; k < 4; ++k) second[to.at({k})] = first[k] * 2.0f;
      for (std::int64_t k = 0; k < 4; ++k) {
        const std::int64_t source = 3 - to.at({k}), target = to.at({k});
        if (inside(target)) expected.at({block * 4 + target, column}) = inside(source) ? second[source] : 9.0f;
      }
    }
  }
  run_checked<permute_rows>(2, c, to);
  EXPECT_EQ(c.data, expected.data);
}

void gather_own(Mut<i32, 8> y, In<i32, dyn> i) {
  auto mixed = y.gather(i.tiles(shape<8>).load(0));
  y.store(mixed);
}
TEST(GatherOwnPiece, OutsideThePieceReadsZeroThoughTheTensorGoesOn) {
  Array<std::int32_t> y({20}), i({8});
  y.each([](std::int64_t k) { return static_cast<std::int32_t>(k + 100); });
  i.data = {7, 0, 8, -1, 3, 3, -8, 4};
  run_checked<gather_own>(3, y, i);
  std::vector<std::int32_t> expected;
  for (std::int32_t block = 0; block < 3; ++block) {
    for (const std::int32_t k : i.data) {
      const std::int32_t at = block * 8 + k;
      expected.push_back(k >= 0 && k < 8 && at < 20 ? at + 100 : 0);
    }
  }
  expected.resize(20);
  EXPECT_EQ(y.data, expected);
}

}  // namespace THIS_FILE
}  // namespace tessera
