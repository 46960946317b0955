// Accumulation, random numbers, checks and printing, run on the CPU.
#include <cmath>
#include <cstring>
#include <limits>

#include "api/kernels.hpp"
#include "lang/run_kernel.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/philox.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera {
namespace THIS_FILE {

using test::Array;
using test::run;

TEST(Acc, HistogramCountsWhatIsInside) {
  Array<std::int32_t> counts({10}), x({1000});
  std::vector<std::int32_t> expected(10, 0);
  x.each([](std::int64_t i) { return static_cast<std::int32_t>((i * 37) % 13 - 1); });
  for (std::int32_t v : x.data) {
    if (v >= 0 && v < 10) ++expected[static_cast<std::size_t>(v)];
  }
  run<api_kernels::histogram<64>>({16}, {}, counts, x);
  EXPECT_EQ(counts.data, expected);
}

void two_indices(Acc<f32, dyn, dyn> a, In<i32, dyn> i) {
  auto rows = reshape(i.tiles(shape<8>, pad(-1)).load(0), shape<8, 1>);
  auto columns = iota<i32, 1, 4>(axis<1>);
  a.add(rows, columns, 0.5f);
}
TEST(Acc, IndicesBroadcast) {
  Array<float> a({3, 4});
  Array<std::int32_t> i({6});
  i.data = {0, 2, 2, 1, 7, -3};
  run<two_indices>({1}, {}, a, i);
  EXPECT_EQ(a.data, (std::vector<float>{.5, .5, .5, .5, .5, .5, .5, .5, 1, 1, 1, 1}));
}

template <class T>
void add_floats(Acc<T, dyn> a, In<T, dyn> x) {
  a.add(iota<i32, 16>() % 5, x.tiles(shape<16>).load(0));
}
template <class T>
void expect_float_sums() {
  Array<T> a({4}, T(1.0f)), x({16});
  x.each([](std::int64_t i) { return T(static_cast<float>(i) * 0.5f); });
  run<add_floats<T>>({1}, {}, a, x);
  // Element k has x[k], x[k + 5], x[k + 10] (and element 0 x[15]); index 4 is outside.
  for (std::size_t k = 0; k < 4; ++k) {
    const float sum = 1 + 0.5f * (3 * static_cast<float>(k) + 15) + (k == 0 ? 7.5f : 0);
    EXPECT_EQ(static_cast<float>(a.data[k]), sum) << k;
  }
}
TEST(Acc, AddsIntoEveryFloatingType) {
  expect_float_sums<f64>();
  expect_float_sums<f32>();
  expect_float_sums<f16>();
  expect_float_sums<bf16>();
}

template <class T>
void extremes(Acc<T, dyn> hi, Acc<T, dyn> lo, Acc<T, dyn> bits, In<T, dyn> x) {
  auto t = x.tiles(shape<8>).load(0);
  hi.max(0, t);
  lo.min(0, t);
  bits.bit_or(0, t);
  bits.bit_and(1, t);
  bits.bit_xor(2, t);
}
TEST(Acc, MaxMinAndBits) {
  Array<std::int32_t> hi({1}, -100), lo({1}, 100), bits({3}), x({8});
  bits.data = {0, -1, 0};
  x.data = {3, -7, 12, 5, -1, 0, 9, 2};
  run<extremes<i32>>({1}, {}, hi, lo, bits, x);
  EXPECT_EQ(hi.data[0], 12);
  EXPECT_EQ(lo.data[0], -7);
  EXPECT_EQ(bits.data[0], -1);
  EXPECT_EQ(bits.data[1], 0);
  EXPECT_EQ(bits.data[2], 3 ^ -7 ^ 12 ^ 5 ^ -1 ^ 0 ^ 9 ^ 2);
  Array<std::uint32_t> uhi({1}), ulo({1}, 0xffffffff), ubits({3}), ux({8});
  ux.data = {3, 0xfffffff9, 12, 5, 0xffffffff, 1, 9, 2};
  run<extremes<u32>>({1}, {}, uhi, ulo, ubits, ux);
  EXPECT_EQ(uhi.data[0], 0xffffffffU);
  EXPECT_EQ(ulo.data[0], 1U);
}

void split_sum(Acc<f32, dyn, dyn> total, In<f32, dyn, dyn, dyn> x) {
  auto [k] = block_id<1>();
  auto X = x.tiles(shape<1, 4, 8>);
  auto T = total.tiles(shape<4, 8>);
  for (auto i : range(T.count(0)))
    for (auto j : range(T.count(1))) T.add(i, j, reshape(X.load(k, i, j), shape<4, 8>));
  T.add(-1, 0, full<f32, 4, 8>(1000.0f));
  T.add(1 << 30, 0, full<f32, 4, 8>(1000.0f));  // times 4 would wrap to row 0
}
template <class T>
void float_extremes(Acc<T, dyn> hi, Acc<T, dyn> lo, In<i32, dyn> at, In<T, dyn> x) {
  auto i = at.tiles(shape<16>, pad(-1)).load(block_id<1>());
  auto t = x.tiles(shape<16>).load(block_id<1>());
  hi.max(i, t);
  lo.min(i, t);
}
/// Numbers of both signs in every order, zeros of both, infinities, denormals and NaN; places outside are dropped.
template <class T>
void expect_float_extremes() {
  constexpr T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  const T values[] = {T(-2),
                      T(3),
                      T(-0.0),
                      T(0.0),
                      inf,
                      -inf,
                      nan,
                      -nan,
                      std::numeric_limits<T>::denorm_min(),
                      -std::numeric_limits<T>::denorm_min(),
                      T(1e30),
                      T(-1e30),
                      T(-1),
                      T(1)};
  constexpr std::int64_t count = std::int64_t{std::size(values)} * std::int64_t{std::size(values)};
  // Place p has values p % n and p / n, in this order; NaN are no numbers, and -0 is less than 0.
  const auto less = [](T a, T b) { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); };
  for (const T start : {T(-5), T(-0.0), T(0.0), T(5)}) {
    Array<T> hi({count}, start), lo({count}, start), x({2 * count});
    Array<std::int32_t> at({2 * count});
    std::vector<T> most(count, start), least(count, start);
    for (std::int64_t p = 0; p < count; ++p)
      for (const std::int64_t second : {0, 1}) {
        const auto e = static_cast<std::size_t>(2 * p + second);
        const auto n = static_cast<std::int64_t>(std::size(values));
        x.data[e] = values[second == 0 ? p % n : p / n];
        at.data[e] = static_cast<std::int32_t>(p == 7 ? count + second : p == 9 ? -1 - second : p);
        auto& high = most[static_cast<std::size_t>(p)];
        auto& low = least[static_cast<std::size_t>(p)];
        if (p == 7 || p == 9 || std::isnan(x.data[e])) continue;
        if (less(high, x.data[e])) high = x.data[e];
        if (less(x.data[e], low)) low = x.data[e];
      }
    run<float_extremes<T>>({static_cast<std::uint32_t>((2 * count + 15) / 16)}, {}, hi, lo, at, x);
    EXPECT_EQ(std::memcmp(hi.data.data(), most.data(), most.size() * sizeof(T)), 0) << start;
    EXPECT_EQ(std::memcmp(lo.data.data(), least.data(), least.size() * sizeof(T)), 0) << start;
  }
}
TEST(Acc, ExtremesOfFloats) {
  expect_float_extremes<f32>();
  expect_float_extremes<f64>();
}

TEST(Acc, WholeTilesAtATileIndex) {
  Array<float> total({6, 11}), x({3, 6, 11});
  x.each([](std::int64_t i) { return static_cast<float>(i); });
  run<split_sum>({3}, {}, total, x);
  for (std::int64_t i = 0; i < 66; ++i)
    ASSERT_EQ(total.data[static_cast<std::size_t>(i)], static_cast<float>(3 * i + 66 + 132));
}

// ---- random numbers -------------------------------------------------------------------------------------------------

template <class T>
void fill_uniform(Mut<T, 8, 8> y, Scalar<u64> seed) {
  y.store(random::uniform<T>(seed, y.offsets()));
}
template <class T>
void fill_normal(Mut<T, 8, 8> y, Scalar<u64> seed) {
  y.store(random::normal<T>(seed, y.offsets()));
}
template <class T, auto K>
void expect_numbers(T (*reference)(std::uint64_t, std::uint64_t)) {
  Array<T> y({13, 21});
  const std::uint64_t seed = 0x123456789abcdef0;
  run<K>({6}, {}, y, seed);
  for (std::size_t i = 0; i < y.data.size(); ++i) {
    const T expected = reference(seed, i);
    ASSERT_EQ(std::memcmp(&y.data[i], &expected, sizeof(T)), 0) << i;
  }
}
TEST(Random, BitIdenticalToTheHost) {
  expect_numbers<f32, fill_uniform<f32>>(uniform_at<f32>);
  expect_numbers<f64, fill_uniform<f64>>(uniform_at<f64>);
  expect_numbers<f16, fill_uniform<f16>>(uniform_at<f16>);
  expect_numbers<bf16, fill_uniform<bf16>>(uniform_at<bf16>);
  expect_numbers<u32, fill_uniform<u32>>(uniform_at<u32>);
  expect_numbers<u64, fill_uniform<u64>>(uniform_at<u64>);
  expect_numbers<f32, fill_normal<f32>>(normal_at<f32>);
  expect_numbers<f64, fill_normal<f64>>(normal_at<f64>);
  expect_numbers<f16, fill_normal<f16>>(normal_at<f16>);
  expect_numbers<bf16, fill_normal<bf16>>(normal_at<bf16>);
}

TEST(Random, DropoutKeepsTheRightElements) {
  Array<float> y({300}), x({300}, 3.0f);
  const float p = 0.25f;
  const std::uint64_t seed = 42;
  run<api_kernels::dropout<128>>({3}, {}, y, x, p, seed);
  for (std::size_t i = 0; i < 300; ++i) ASSERT_EQ(y.data[i], uniform_at<f32>(seed, i) < p ? 0.0f : 4.0f) << i;
}

// ---- check and print ------------------------------------------------------------------------------------------------

void checked(Mut<i32, 8> y) {
  check(y.load(pad(1)) > 0, "elements must be positive");
  y.store(y.load() + 1);
}
TEST(Check, AFailedCheckIsADeviceErrorWithItsLine) {
  Array<std::int32_t> y({12}, 1);
  run<checked>({2}, {}, y);
  y.data[9] = 0;
  try {
    run<checked>({2}, {}, y);
    FAIL() << "no error";
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("elements must be positive"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("params_acc_test.cpp"), std::string::npos) << e.what();
  }
}

void printing(Mut<i32, 2> y) {
  auto [i] = y.index();
  print("block {} of 100% {{braces}}: {}", i, cast<f16>(y.load()));
  print("done");
}
TEST(Print, FormatsAndEscapes) {
  Array<std::int32_t> y({2}, 7);
  testing::internal::CaptureStdout();
  run<printing>({1}, {}, y);
  std::fflush(stdout);
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("block 0 of 100% {braces}: "), std::string::npos) << text;
  EXPECT_NE(text.find("7"), std::string::npos) << text;
  EXPECT_NE(text.find("done\n"), std::string::npos) << text;
}

void checked_index(Mut<i32, 8> y, In<i32, dyn> x, Scalar<i32> i) { y.store(x.tiles(shape<8>).load(i)); }
TEST(Checked, OutOfRangeTileIndicesAreReported) {
  lang::Specialization s;
  s.checked = true;
  Array<std::int32_t> y({8}), x({8}, 4);
  std::int32_t inside = 0, outside = 1;
  run<checked_index>({1}, s, y, x, inside);
  try {
    run<checked_index>({1}, s, y, x, outside);
    FAIL() << "no error";
  } catch (const DeviceError& e) {
    EXPECT_NE(std::string(e.what()).find("argument 2 (In<i32, dyn>)"), std::string::npos) << e.what();
  }
}

}  // namespace THIS_FILE
}  // namespace tessera
