// Programmatic dependent launch: kernels start before their predecessor in the stream has ended, with the same results
// as if they did not. The kernels take unequal time, and each block uses results of the block at the other end.
#include <stdlib.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gpu/gpu_test.hpp"
#include "tessera/kernels/gemm.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

constexpr int kBlock = 256, kBlocks = 700, kSize = kBlock * kBlocks;

/// y = 5 y + (x from the other end); every seventh block is late, and works on what it has read all the while.
void gather_mirrored(Mut<i32, kBlock> y, In<i32, dyn> x, Scalar<i32> delay) {
  auto X = x.tiles(shape<kBlock>);
  auto [block] = y.index();
  auto t = X.load(X.count(0) - 1 - block);
  for (auto i : range(where(block % 7 == 0, delay, 0))) t = t * 3 + i;
  y.store(y.load() * 5 + t);
}
void add_one(Mut<i32, kBlock> x) { x.store(x.load() + 1); }

using Numbers = std::vector<i32>;
i32 wrapped(std::int64_t v) { return static_cast<i32>(static_cast<std::uint32_t>(v)); }
void gather_on_host(Numbers& y, const Numbers& x, int delay) {
  std::uint32_t factor = 1, term = 0;  // of the late blocks: t becomes factor * t + term
  for (int i = 0; i < delay; ++i) factor *= 3, term = term * 3 + static_cast<std::uint32_t>(i);
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t block = i / kBlock, other = (kBlocks - 1 - block) * kBlock + i % kBlock;
    const auto from = static_cast<std::uint32_t>(x[other]);
    y[i] = static_cast<i32>(static_cast<std::uint32_t>(y[i]) * 5 + (block % 7 == 0 ? from * factor + term : from));
  }
}

class Overlap : public Gpu {
 protected:
  static Tensor<i32, 1> tensor(const Numbers& values) { return from(values, {values.size()}).sync(); }
  static Numbers numbers() {
    Numbers v(kSize);
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<i32>(i * 2654435761u >> 8);
    return v;
  }
};

TEST_F(Overlap, ReadsWhatThePredecessorWrote) {
  const Stream s(device_under_test());
  Numbers a = numbers(), b(kSize, 1);
  auto x = tensor(a), y = tensor(b);
  for (int i = 0; i < 60; ++i) {
    y = kernel<gather_mirrored>(std::move(y), x, i % 3 * 2000).on(s);
    gather_on_host(b, a, i % 3 * 2000);
    std::swap(x, y), std::swap(a, b);
  }
  EXPECT_EQ(host(x).sync(), a);
  EXPECT_EQ(host(y).sync(), b);
}

TEST_F(Overlap, OverwritesOnlyWhatHasBeenRead) {
  const Stream s(device_under_test());
  Numbers a = numbers(), b(kSize, 0);
  auto x = tensor(a), y = tensor(b);
  for (int i = 0; i < 60; ++i) {
    y = kernel<gather_mirrored>(std::move(y), x, 3000).on(s);
    x = kernel<add_one>(std::move(x)).on(s);
    gather_on_host(b, a, 3000);
    for (i32& v : a) v = wrapped(std::int64_t{v} + 1);
  }
  EXPECT_EQ(host(y).sync(), b);
}

TEST_F(Overlap, BehindFillsAllocationsAndOtherStreams) {
  const Device device = device_under_test();
  const Stream s(device), t(device);
  Numbers a = numbers(), b(kSize, 0), c(kSize, 2);
  auto x = tensor(a), y = tensor(b), z = tensor(c);
  for (int i = 0; i < 40; ++i) {
    const auto filled = full<i32>({kSize}, i).on(i % 2 == 0 ? s : t);
    y = kernel<gather_mirrored>(std::move(y), x, 2000).on(s);
    z = kernel<gather_mirrored>(std::move(z), y, 0).on(t);
    x = kernel<gather_mirrored>(std::move(x), filled, 0).on(s);
    y = kernel<add_one>(std::move(y)).on(t);
    gather_on_host(b, a, 2000);
    gather_on_host(c, b, 0);
    gather_on_host(a, Numbers(kSize, i), 0);
    for (i32& v : b) v = wrapped(std::int64_t{v} + 1);
  }
  EXPECT_EQ(host(x).sync(), a);
  EXPECT_EQ(host(y).sync(), b);
  EXPECT_EQ(host(z).sync(), c);
}

/// y = 5 y + (a walk over x and w, the longer the higher the block's number): what is walked may be read before the
/// kernel waits for its predecessor.
void walk(Mut<i32, kBlock> y, In<i32, dyn> x, In<i32, dyn> w, Scalar<i32> steps) {
  auto X = x.tiles(shape<kBlock>);
  auto W = w.tiles(shape<kBlock>);
  auto [block] = y.index();
  auto acc = zeros<i32, kBlock>();
  for (auto k : range(steps + block % 5)) acc = acc * 3 + X.load((block * 7 + k) % X.count(0)) + W.load(k);
  y.store(y.load() * 5 + acc);
}
void walk_on_host(Numbers& y, const Numbers& x, const Numbers& w, int steps) {
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t block = i / kBlock;
    std::uint32_t acc = 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(steps) + block % 5; ++k) {
      const std::size_t from = (block * 7 + k) % kBlocks * kBlock + i % kBlock;
      acc = acc * 3 + static_cast<std::uint32_t>(x[from]) + static_cast<std::uint32_t>(w[k * kBlock + i % kBlock]);
    }
    y[i] = static_cast<i32>(static_cast<std::uint32_t>(y[i]) * 5 + acc);
  }
}

/// Weights that no kernel writes, an input that the predecessor wrote, and sometimes an older one.
TEST_F(Overlap, ReadsOnlyTensorsWithoutInFlightWriterEarly) {
  const Hints hints("early=1 overlap=2");
  const Stream s(device_under_test());
  const Numbers weights = numbers();
  Numbers a = numbers(), b(kSize, 1), c(kSize, 2);
  const auto w = tensor(weights);
  auto x = tensor(a), y = tensor(b), z = tensor(c);
  for (int i = 0; i < 60; ++i) {
    y = kernel<walk>(std::move(y), x, w, i % 4 * 3).on(s);
    walk_on_host(b, a, weights, i % 4 * 3);
    if (i % 3 == 0) {
      z = kernel<walk>(std::move(z), w, w, 9).on(s);  // no in-flight writer: it runs concurrently with the one before
      walk_on_host(c, weights, weights, 9);
    }
    std::swap(x, y), std::swap(a, b);
  }
  EXPECT_EQ(host(x).sync(), a);
  EXPECT_EQ(host(y).sync(), b);
  EXPECT_EQ(host(z).sync(), c);
}

/// Operands of products are loaded by tensor copies, in separate warps: x times a permutation, repeatedly.
TEST_F(Overlap, ProductsOfProducts) {
  constexpr int m = 640, n = 512, rounds = 30;
  const Stream s(device_under_test());
  std::vector<f32> values(std::size_t{m} * n), permutation(std::size_t{n} * n, 0.0f);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<f32>(i % 251);
  for (std::size_t j = 0; j < n; ++j) permutation[j * n + (j * 5 + 3) % n] = 1;
  auto x = cast<bf16>(from(values, {m, n})).sync();
  const auto p = cast<bf16>(from(permutation, {n, n})).sync();
  for (int i = 0; i < rounds; ++i) x = kernels::gemm(x, p).on(s);
  const auto found = host(cast<f32>(x)).sync();
  std::vector<std::size_t> to(n);
  for (std::size_t j = 0; j < n; ++j) {
    to[j] = j;
    for (int i = 0; i < rounds; ++i) to[j] = (to[j] * 5 + 3) % n;
  }
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < n; ++j) wrong += found[i * n + to[j]] != values[i * n + j];
  EXPECT_EQ(wrong, 0u);
}

}  // namespace
}  // namespace gpu_test
