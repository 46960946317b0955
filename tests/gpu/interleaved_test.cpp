// Small tiles that meet tiles whose axes were joined, with 1 to 16 warps: every element is the one that belongs there
// (src/passes/narrow_small_loads.cpp).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <tessera/tessera.hpp>

namespace {

using namespace tessera;

constexpr int kRows = 64, kColumns = 512;

/// Halves of bytes, interleaved, times a row.
template <class T, int M, int N>
void nibbles_times_row(Mut<f32, M> y, In<T, dyn> x, In<u8, dyn, dyn> w) {
  auto X = x.tiles(shape<N>);
  auto W = w.tiles(shape<M, N / 2>);
  auto [j] = y.index();
  auto acc = zeros<f32, M>();
  for (auto k : range(X.count(0))) {
    auto b = W.load(j, k);
    auto pairs = cat(reshape(b & std::uint8_t{15}, shape<M, N / 2, 1>),
                     reshape(b >> std::uint8_t{4}, shape<M, N / 2, 1>), axis<2>);
    acc += reshape(sum(cast<f32>(reshape(pairs, shape<M, N>)) * cast<f32>(reshape(X.load(k), shape<1, N>)), axis<1>),
                   shape<M>);
  }
  y.store(acc);
}
/// The row is a region.
template <class T, int M, int N>
void nibbles_times_region(Mut<f32, M> y, In<T, dyn> x, In<u8, dyn, dyn> w) {
  auto W = w.tiles(shape<M, N / 2>);
  auto [j] = y.index();
  auto acc = zeros<f32, M>();
  for (auto k : range(W.count(1))) {
    auto b = reshape(W.load(j, k), shape<M, N / 2, 1>);
    auto pairs = reshape(cat(b & std::uint8_t{15}, b >> std::uint8_t{4}, axis<2>), shape<M, N>);
    auto row = reshape(cast<f32>(x.load_at(shape<N>, k * N)), shape<1, N>);
    acc += reshape(sum(cast<f32>(pairs) * row, axis<1>), shape<M>);
  }
  y.store(acc);
}
/// Each element twice, times a row: a broadcast along a new last axis, joined with the one before.
template <class T, int M, int N>
void twice_times_row(Mut<f32, M> y, In<T, dyn> x, In<u8, dyn, dyn> w) {
  auto X = x.tiles(shape<N>);
  auto W = w.tiles(shape<M, N / 2>);
  auto [j] = y.index();
  auto acc = zeros<f32, M>();
  for (auto k : range(X.count(0))) {
    auto both = reshape(broadcast(reshape(W.load(j, k), shape<M, N / 2, 1>), shape<M, N / 2, 2>), shape<M, N>);
    acc += reshape(sum(cast<f32>(both) * cast<f32>(reshape(X.load(k), shape<1, N>)), axis<1>), shape<M>);
  }
  y.store(acc);
}

template <class T>
T number_at(int k) {
  return T(static_cast<float>(k * 37 % 64) - 31.0f);
}
std::uint8_t byte_at(int j, int i) { return static_cast<std::uint8_t>((j * 101 + i * 57 + j * i) % 256); }

template <class T, int M, int N>
void expect_right() {
  std::vector<T> row(kColumns);
  for (int k = 0; k < kColumns; ++k) row[static_cast<std::size_t>(k)] = number_at<T>(k);
  std::vector<u8> bytes(kRows * kColumns / 2);
  for (int i = 0; i < kRows * kColumns / 2; ++i)
    bytes[static_cast<std::size_t>(i)] = byte_at(i / (kColumns / 2), i % (kColumns / 2));
  const auto x = from(row, {kColumns}).sync();
  const auto w = from(bytes, {kRows, kColumns / 2}).sync();
  for (const int warps : {1, 2, 4, 8, 16}) {
    auto y = full<f32>({kRows}, NAN).sync(), z = full<f32>({kRows}, NAN).sync(), r = full<f32>({kRows}, NAN).sync();
    kernel<nibbles_times_row<T, M, N>>.hints({.warps = warps})(mut(y), x, w).sync();
    kernel<twice_times_row<T, M, N>>.hints({.warps = warps})(mut(z), x, w).sync();
    kernel<nibbles_times_region<T, M, N>>.hints({.warps = warps})(mut(r), x, w).sync();
    const auto of_nibbles = host(y).sync(), of_twice = host(z).sync(), of_region = host(r).sync();
    for (int j = 0; j < kRows; ++j) {
      double nibbles = 0, twice = 0;  // whole numbers below 2^24, so sums are exact in any order
      for (int k = 0; k < kColumns; ++k) {
        const int byte = byte_at(j, k / 2);
        nibbles += static_cast<double>(static_cast<float>(number_at<T>(k))) * (k % 2 == 0 ? byte & 15 : byte >> 4);
        twice += static_cast<double>(static_cast<float>(number_at<T>(k))) * byte;
      }
      ASSERT_EQ(of_nibbles[static_cast<std::size_t>(j)], nibbles) << "row " << j << ", " << warps << " warps";
      ASSERT_EQ(of_region[static_cast<std::size_t>(j)], nibbles) << "row " << j << ", " << warps << " warps";
      ASSERT_EQ(of_twice[static_cast<std::size_t>(j)], twice) << "row " << j << ", " << warps << " warps";
    }
  }
}

TEST(Interleaved, RowsOfF32) {
  expect_right<f32, 32, 128>();
  expect_right<f32, 8, 64>();
  expect_right<f32, 64, 32>();
}
TEST(Interleaved, RowsOfNarrowElements) {
  expect_right<f16, 16, 256>();
  expect_right<bf16, 16, 64>();
}

}  // namespace
