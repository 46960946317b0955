// Real kernels in flight on several streams: results without waits by the user, failed checks and what depends on them.
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "tessera/tessera.hpp"

namespace THIS_FILE {

using namespace tessera;

template <int B>
void axpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}

template <int B>
void add_positive(Mut<f32, B> y, Scalar<f32> a) {
  check(a > 0.0f, "a must be positive");
  y.store(y.load() + a);
}

std::vector<f32> all_equal(f32 value) { return std::vector<f32>(1000, value); }

TEST(InFlight, StreamsAreOrderedByWhatTheyShare) {
  const auto x = ones<f32>({1000}).sync();
  auto y = zeros<f32>({1000}).sync();
  auto z = zeros<f32>({1000}).sync();
  f32 expected_y = 0, expected_z = 0;
  {
    const Stream a, b;
    for (int i = 0; i < 20; ++i) {
      y = kernel<axpy<128>>(std::move(y), 2.0f, x).on(a);
      z = kernel<axpy<128>>(std::move(z), 3.0f, y).on(b);
      kernel<axpy<128>>(mut(y), 1.0f, x).on(b);
      expected_y += 2;
      expected_z += 3 * expected_y;
      expected_y += 1;
    }
  }  // the streams go while their work is in flight
  EXPECT_EQ(host(y).sync(), all_equal(expected_y));
  EXPECT_EQ(host(z).sync(), all_equal(expected_z));
}

TEST(InFlight, TensorsMayGoBeforeTheirWorkHasRun) {
  const Stream a;
  auto z = zeros<f32>({1000}).sync();
  for (int i = 0; i < 20; ++i) {
    auto temporary = full<f32>({1000}, static_cast<f32>(i)).on(a);
    z = kernel<axpy<128>>(std::move(z), 1.0f, temporary).on(a);
  }
  EXPECT_EQ(host(z).sync(), all_equal(190));
}

TEST(InFlight, AFailedCheckIsToldAndTheTensorIsUsableAfterwards) {
  auto y = zeros<f32>({1000}).sync();
  EXPECT_THROW(kernel<add_positive<128>>(mut(y), -1.0f).sync(), DeviceError);
  copy_into(mut(y), full<f32>({1000}, 4)).sync();  // what the failed kernel has left there is unspecified
  kernel<add_positive<128>>(mut(y), 1.0f).sync();
  EXPECT_EQ(host(y).sync(), all_equal(5));
}

TEST(InFlight, WhatDependsOnAFailedCheckFailsToo) {
  const Stream a, b;
  const auto x = ones<f32>({1000}).sync();
  auto y = zeros<f32>({1000}).sync();
  auto z = zeros<f32>({1000}).sync();
  auto u = zeros<f32>({1000}).sync();
  kernel<add_positive<128>>(mut(y), -1.0f).on(a);
  z = kernel<axpy<128>>(std::move(z), 2.0f, y).on(b);
  u = kernel<axpy<128>>(std::move(u), 2.0f, x).on(a);
  try {
    (void)host(z).sync();
    FAIL() << "computed from a tensor whose kernel had failed";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("a must be positive"), std::string::npos) << error.what();
  }
  EXPECT_EQ(host(u).sync(), all_equal(2)) << "what does not depend on it is right";
}

TEST(InFlight, ThreadsShareAnInput) {
  const auto x = ones<f32>({1000}).sync();
  std::vector<std::thread> threads;
  std::vector<std::vector<f32>> results(4);
  for (std::size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      const Stream own;
      auto y = zeros<f32>({1000}).sync();
      for (int i = 0; i < 10; ++i) y = kernel<axpy<128>>(std::move(y), static_cast<f32>(t), x).on(own);
      results[t] = host(y).sync();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t t = 0; t < results.size(); ++t) EXPECT_EQ(results[t], all_equal(10 * static_cast<f32>(t)));
}

}  // namespace THIS_FILE
