// Sums and products of narrow integers: their type is named, and checked mode reports what still wraps.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <tessera/tessera.hpp>
#include <vector>

#include "host/expect_error.hpp"

namespace THIS_FILE {

using namespace tessera;

struct CheckedIntegers : testing::Test {
  void SetUp() override { set_check_mode(true); }
  void TearDown() override { set_check_mode(before_); }
  bool before_ = check_mode();
};

constexpr int N = 64;

template <class To>
void dot_of_products(Mut<To, 1> y, In<i8, N> a, In<i8, N> b) {
  y.store(reshape(sum<To>(a.load_at(shape<N>, 0) * b.load_at(shape<N>, 0)), shape<1>));
}
template <class To>
void dot_of_wide(Mut<To, 1> y, In<i8, N> a, In<i8, N> b) {
  y.store(reshape(sum(cast<To>(a.load_at(shape<N>, 0)) * cast<To>(b.load_at(shape<N>, 0))), shape<1>));
}
template <class T, class To>
void totals(Mut<To, 4, N> y, In<T, N> x) {
  auto t = x.load_at(shape<N>, 0);
  auto out = y.sub(shape<1, N>);
  out.store(0, 0, full<To, 1, N>(sum<To>(t)));
  out.store(1, 0, reshape(cumsum<To>(t, axis<0>), shape<1, N>));
  out.store(2, 0, reshape(cumsum<To>(t, axis<0>, backward), shape<1, N>));
  out.store(3, 0, broadcast(reshape(sum<To>(t, axis<0>), shape<1, 1>), shape<1, N>));
}
template <class T>
void narrow_total(Mut<T, 1> y, In<T, N> x) {
  y.store(reshape(sum<T>(x.load_at(shape<N>, 0)), shape<1>));
}
template <class T>
void product(Mut<T, 1> y, In<T, N> x) {
  y.store(reshape(prod<T>(x.load_at(shape<N>, 0)), shape<1>));
}
template <class T>
void running(Mut<T, N> y, In<T, N> x) {
  y.store(cumsum<T>(x.load_at(shape<N>, 0), axis<0>));
}

template <class T>
Tensor<T, 1> tensor_of(const std::vector<T>& values) {
  return from(std::span(values), {static_cast<std::int64_t>(values.size())}).sync();
}

TEST_F(CheckedIntegers, TotalsInANamedTypeAreThoseOfTheHost) {
  std::mt19937 random(7);
  std::vector<i8> bytes(N);
  std::vector<u16> words(N);
  for (i8& v : bytes) v = static_cast<i8>(random());
  for (u16& v : words) v = static_cast<u16>(random());
  const auto expect = [](const auto& values, const auto& rows) {
    std::int64_t all = 0;
    for (const auto v : values) all += v;
    std::int64_t before = 0;
    for (std::size_t i = 0; i < N; ++i) {
      EXPECT_EQ(rows[i], all);
      EXPECT_EQ(rows[2 * N + i], all - before);
      before += values[i];
      EXPECT_EQ(rows[N + i], before);
      EXPECT_EQ(rows[3 * N + i], all);
    }
  };
  expect(bytes, host(kernel<totals<i8, i32>>(empty<i32>({4, N}), tensor_of(bytes))).sync());
  expect(bytes, host(kernel<totals<i8, f32>>(empty<f32>({4, N}), tensor_of(bytes))).sync());
  expect(words, host(kernel<totals<u16, i64>>(empty<i64>({4, N}), tensor_of(words))).sync());
}

TEST_F(CheckedIntegers, NarrowProductsThatAreWidenedMustNotWrap) {
  const auto a = tensor_of(std::vector<i8>(N, 100)), b = tensor_of(std::vector<i8>(N, -13));
  EXPECT_ERROR(DeviceError, (void)kernel<dot_of_products<i32>>(empty<i32>({1}), a, b).sync(),
               "arithmetic of i8 wraps before its result is converted to a wider type", "cast<i32>(a) * cast<i32>(b)",
               "checked_integers_test.cpp");
  EXPECT_EQ(host(kernel<dot_of_wide<i32>>(empty<i32>({1}), a, b)).sync()[0], -1300 * N);
  const auto small = tensor_of(std::vector<i8>(N, 3));
  EXPECT_EQ(host(kernel<dot_of_products<i32>>(empty<i32>({1}), small, small)).sync()[0], 9 * N);
  EXPECT_EQ(host(kernel<dot_of_products<f32>>(empty<f32>({1}), small, small)).sync()[0], 9.0f * N);
  set_check_mode(false);  // defined, and wrong: -1300 is -20 in eight bits
  EXPECT_EQ(host(kernel<dot_of_products<i32>>(empty<i32>({1}), a, b)).sync()[0], -20 * N);
}

TEST_F(CheckedIntegers, SignedSumsThatWrapAreReported) {
  EXPECT_ERROR(DeviceError, (void)kernel<narrow_total<i8>>(empty<i8>({1}), tensor_of(std::vector<i8>(N, 2))).sync(),
               "a sum wraps: it does not fit i8", "sum<i64>(tile)");
  EXPECT_EQ(host(kernel<narrow_total<i8>>(empty<i8>({1}), tensor_of(std::vector<i8>(N, -2)))).sync()[0], -2 * N);
  EXPECT_ERROR(DeviceError,
               (void)kernel<narrow_total<i32>>(empty<i32>({1}), tensor_of(std::vector<i32>(N, 1 << 25))).sync(),
               "a sum wraps: it does not fit i32");
  EXPECT_EQ(host(kernel<narrow_total<i32>>(empty<i32>({1}), tensor_of(std::vector<i32>(N, -(1 << 25))))).sync()[0],
            INT32_MIN);
  std::vector<i16> twos(N, 1);
  std::fill_n(twos.begin(), 20, i16{2});  // 2^64 would be 0 in 64 bits as well
  EXPECT_ERROR(DeviceError, (void)kernel<product<i16>>(empty<i16>({1}), tensor_of(twos)).sync(),
               "a product wraps: it does not fit i16", "prod<i64>(tile)");
  EXPECT_EQ(host(kernel<product<i16>>(empty<i16>({1}), tensor_of(std::vector<i16>(N, -1)))).sync()[0], 1);
  EXPECT_ERROR(DeviceError, (void)kernel<running<i8>>(empty<i8>({N}), tensor_of(std::vector<i8>(N, 2))).sync(),
               "a sum wraps: it does not fit i8");
}

TEST_F(CheckedIntegers, UnsignedSumsAreModuloTwoToTheirBits) {
  EXPECT_EQ(host(kernel<narrow_total<u8>>(empty<u8>({1}), tensor_of(std::vector<u8>(N, 5)))).sync()[0],
            static_cast<u8>(5 * N));
  EXPECT_EQ(host(kernel<narrow_total<u32>>(empty<u32>({1}), tensor_of(std::vector<u32>(N, 1u << 31)))).sync()[0], 0u);
}

}  // namespace THIS_FILE
