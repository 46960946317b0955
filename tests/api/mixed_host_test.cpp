// Host programs that mix giving and lending, views, streams, operations as operands, foreign memory and errors in
// between: everything must stay usable afterwards.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <tessera/tessera.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "host/expect_error.hpp"

namespace THIS_FILE {

using namespace tessera;

using Values = std::vector<f32>;

template <int B>
void axpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}
template <int B>
void positive(Mut<f32, B> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  check(all(t > 0.0f), "x must be positive");
  y.store(t);
}
template <int B>
void twice(Mut<f32, B> y) {
  y.store(y.load() * 2.0f);
}
void rotate(Mut<f32, 4> a, Mut<f32, 4> b, Mut<f32, 4> c, Mut<f32, 4> d, Mut<f32, 4> e) {
  a.store(b.load());
  b.store(c.load());
  c.store(d.load());
  d.store(e.load());
  e.store(e.load() * 0.0f);
}
template <int A, int B>
void plus_one(Mut<f32, A, B> y, In<f32, dyn, dyn> x) {
  y.store(x.load_like(y) + 1.0f);
}
template <int BM, int BN>
void add_scaled(MutTiles<f32, BM, BN> c, In<f32, dyn, dyn> a, Scalar<f32> s) {
  for (auto out : c) {
    auto [i, j] = out.index();
    out.store(a.tiles(shape<BM, BN>).load(i, j) * s + out.load());
  }
}
void equal_lengths(Mut<f32, 4> y, In<f32, dyn> x) {
  require(x.dim(0) == y.dim(0), "equal lengths");
  y.store(x.load_like(y));
}

TEST(MixedHost, AFailureInTheMiddleOfAllLeavesTheOthers) {
  auto y = ones<f32>({8}).sync(), z = ones<f32>({8}).sync(), w = ones<f32>({8}).sync();
  const auto negative = full<f32>({8}, -1).sync(), x = ones<f32>({8}).sync();
  EXPECT_ERROR(DeviceError,
               (void)all(kernel<axpy<8>>(mut(y), 2.0f, x), kernel<positive<8>>(mut(z), negative),
                         kernel<axpy<8>>(mut(w), 3.0f, x))
                   .sync(),
               "x must be positive");
  EXPECT_EQ(host(y).sync(), Values(8, 3));
  EXPECT_EQ(host(w).sync(), Values(8, 4));
  copy_into(mut(z), x).sync();
  auto [p, q] = all(kernel<axpy<8>>(std::move(y), 2.0f, z), kernel<axpy<8>>(std::move(w), 2.0f, z)).sync();
  EXPECT_EQ(host(p).sync()[0], 5);
  EXPECT_EQ(host(q).sync()[0], 6);
}

TEST(MixedHost, AnExceptionOfTheUserInThenFreesWhatWasGiven) {
  auto y = ones<f32>({8}).sync();
  const auto v = y.view();
  auto op = kernel<twice<8>>(std::move(y)).then([](Tensor<f32, 1> t) -> Op<Tensor<f32, 1>> {
    if (t.size() == 8) throw std::runtime_error("mine");
    return kernel<twice<8>>(std::move(t));
  });
  EXPECT_THROW((void)std::move(op).sync(), std::runtime_error);
  EXPECT_EQ(host(v).sync(), Values(8, 2));
}

TEST(MixedHost, AnOperationThatIsDroppedOrUnwoundReleasesItsLeases) {
  auto y = ones<f32>({8}).sync();
  try {
    auto op = kernel<twice<8>>(mut(y));
    EXPECT_ERROR(BorrowError, (void)host(y), "kernel twice");
    EXPECT_ERROR(BorrowError, (void)kernel<twice<8>>(mut(y)), "kernel twice");
    throw 1;
  } catch (int) {}
  kernel<twice<8>>(mut(y)).sync();
  const auto v = y.view();
  {
    auto op = kernel<twice<8>>(std::move(y));
    EXPECT_ERROR(BorrowError, (void)host(v), "kernel twice");
  }
  EXPECT_EQ(host(v).sync(), Values(8, 2));
}

TEST(MixedHost, OperationsInsideOperations) {
  const auto x = arange<f32>(20).sync();
  const auto r = kernel<axpy<8>>(kernel<axpy<8>>(zeros<f32>({20}), 1.0f, x), 2.0f,
                                 kernel<axpy<4>>(kernel<twice<16>>(clone(x)), 1.0f, cast<f32>(cast<i32>(x))))
                     .sync();
  EXPECT_EQ(host(r).sync()[19], 19 + 2 * (38 + 19));
}

TEST(MixedHost, AViewOutlivesItsTensorAndStream) {
  View<f32, 1> v;
  {
    Stream s;
    const auto t = kernel<twice<64>>(arange<f32>(1000)).on(s);
    v = t.slice<0>(990, 1000);
  }
  EXPECT_EQ(host(v).sync()[9], 1998);
  EXPECT_EQ(host(kernel<axpy<4>>(zeros<f32>({10}), 1.0f, v)).sync()[0], 1980);
}

TEST(MixedHost, AFailureCrossesStreamsAndEndsWithTheNextWrite) {
  Stream a, b;
  const auto negative = full<f32>({8}, -1).sync();
  auto y = kernel<positive<8>>(zeros<f32>({8}), negative).on(a);
  auto z = kernel<axpy<8>>(ones<f32>({8}), 1.0f, y).on(b);
  EXPECT_ERROR(DeviceError, (void)host(z).sync(), "x must be positive");
  EXPECT_ERROR(DeviceError, (void)host(y).sync(), "x must be positive");
  EXPECT_EQ(host(negative).sync()[0], -1);
  copy_into(mut(y), ones<f32>({8})).sync();
  z = kernel<axpy<8>>(zeros<f32>({8}), 1.0f, y).on(b);
  EXPECT_EQ(host(z).sync()[0], 1);
}

TEST(MixedHost, PermutedAndEmptyPartsAreLent) {
  auto t = zeros<f32>({3, 5}).sync();
  const auto x = arange<f32>({5, 3}).sync();
  kernel<plus_one<4, 4>>(mut(t).permute<1, 0>(), x).sync();
  const auto values = host(t).sync();
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 5; ++j)
      EXPECT_EQ(values[static_cast<std::size_t>(i * 5 + j)], static_cast<float>(j * 3 + i + 1));
  kernel<plus_one<2, 2>>(mut(t).permute<1, 0>().slice<0>(1, 4).slice<1>(1, 1), x.slice<0>(1, 4).slice<1>(1, 1)).sync();
  EXPECT_EQ(host(t).sync(), values);
}

TEST(MixedHost, FiveMutablesSomeGivenSomeLent) {
  auto a = full<f32>({4}, 1).sync(), b = full<f32>({4}, 2).sync(), c = full<f32>({4}, 3).sync(),
       d = full<f32>({4}, 4).sync(), e = full<f32>({4}, 5).sync();
  auto [a2, c2, e2] = kernel<rotate>(std::move(a), mut(b), std::move(c), mut(d), std::move(e)).sync();
  EXPECT_EQ(host(a2).sync()[0], 2);
  EXPECT_EQ(host(b).sync()[0], 3);
  EXPECT_EQ(host(c2).sync()[0], 4);
  EXPECT_EQ(host(d).sync()[0], 5);
  EXPECT_EQ(host(e2).sync()[0], 0);
  EXPECT_ERROR(BorrowError, (void)kernel<rotate>(mut(b), mut(d), mut(b), mut(c2), mut(e2)), "same storage");
  EXPECT_ERROR(ShapeError, (void)kernel<rotate>(mut(b), mut(d), zeros<f32>({9}), mut(c2), mut(e2)), "pieces");
}

TEST(MixedHost, ShapesThatAreKnownLate) {
  const auto made = [](int n) { return zeros<f32>({n}).then([n](Tensor<f32, 1>) { return ones<f32>({n}); }); };
  EXPECT_EQ(host(kernel<equal_lengths>(made(8), made(8))).sync(), Values(8, 1));
  auto kept = zeros<f32>({8}).sync();
  const auto v = kept.view();
  auto op = kernel<equal_lengths>(std::move(kept), made(9));
  EXPECT_ERROR(ShapeError, (void)std::move(op).sync(), "equal lengths");
  EXPECT_EQ(host(v).sync(), Values(8, 0));
}

TEST(MixedHost, SharedThenWrittenAgain) {
  auto s = share(arange<f32>(8).sync());
  const auto v = s.view();
  auto other = s;
  EXPECT_FALSE(try_unshare(std::move(other)).has_value());
  other = Shared<f32, 1>();
  auto t = try_unshare(std::move(s));
  ASSERT_TRUE(t.has_value());
  kernel<twice<8>>(mut(*t)).sync();
  EXPECT_EQ(host(v).sync()[7], 14);
}

TEST(MixedHost, ScheduledTilesOfPermutedTensorsOnAnyNumberOfBlocks) {
  auto c = zeros<f32>({10, 7}).sync();
  const auto a = arange<f32>({7, 10}).sync();
  kernel<add_scaled<4, 4>>.blocks(2)(mut(c), a.permute<1, 0>(), 1.0f).sync();
  EXPECT_EQ(host(c).sync()[1 * 7 + 2], 21);
  kernel<add_scaled<4, 2>>(mut(c).permute<1, 0>(), a, 1.0f).sync();
  EXPECT_EQ(host(c).sync()[1 * 7 + 2], 42);
  c = kernel<add_scaled<2, 2>>.blocks(INT64_MAX)(std::move(c), a.permute<1, 0>(), -2.0f).sync();
  EXPECT_EQ(host(c).sync(), Values(70, 0));
}

TEST(MixedHost, ThreadsWithFailuresInSome) {
  std::vector<std::thread> threads;
  std::vector<int> good(6);
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([t, &count = good[static_cast<std::size_t>(t)]] {
      try {
        for (int i = 0; i < 30; ++i) {
          const auto x = full<f32>({64}, t % 2 != 0 ? -1 : 1).sync();
          const auto y = kernel<positive<64>>(zeros<f32>({64}), x).sync();
          count += host(y).sync()[63] == 1;
        }
      } catch (const DeviceError&) { count = -1; }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, (std::vector<int>{30, -1, 30, -1, 30, -1}));
}

TEST(MixedHost, OperandsReplacedWhileInFlight) {
  Stream s;
  auto x = ones<f32>({100000}).sync();
  auto y = zeros<f32>({100000}).sync();
  for (int i = 0; i < 20; ++i) {
    y = kernel<axpy<128>>(std::move(y), 1.0f, x).on(s);
    x = clone(x).on(s);
  }
  x = Tensor<f32, 1>();
  EXPECT_EQ(host(y).sync()[99999], 20);
}

TEST(MixedHost, BorrowedMemoryThroughStreamsDlpackAndAnotherThread) {
  auto owner = std::make_shared<Values>(1000, 1.0f);
  const std::weak_ptr<Values> watch = owner;
  f32* const memory = owner->data();
  {
    Stream s(Device::cpu());
    auto t = borrow<f32, 1>(memory, {1000}, {1}, std::move(owner));
    for (int i = 0; i < 5; ++i) t = kernel<twice<16>>(std::move(t)).on(s);
    auto exported = to_dlpack(std::move(t));
    EXPECT_EQ(memory[999], 32);
    auto back = from_dlpack<f32, 1>(std::move(exported));
    back = kernel<twice<16>>(std::move(back)).on(s);
    std::thread([b = std::move(back)]() mutable {
      EXPECT_EQ(host(b).sync()[0], 64);
      b = Tensor<f32, 1>();
    }).join();
  }
  EXPECT_TRUE(watch.expired());
}

}  // namespace THIS_FILE
