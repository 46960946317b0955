// Device control flow, prints, checks and raw pointers on the GPU.
#include <limits>
#include <thread>

#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

void loops(Mut<i32, 64> y, In<i32, dyn> x, Scalar<i32> n, Scalar<u32> m) {
  auto v = x.load_like(y);
  auto count = zeros<i32, 64>();
  for (auto i : range(n)) v += i;
  for (auto i : range(-3, n, 4)) {
    tile_if (i % 2 == 0) {
      v = v * 3 + i;
    } else tile_if (i > 5) {
      v -= 1;
    } else {
      for (auto j : range(i)) v ^= j;
    }
  }
  for (auto i : range(m)) v += cast<i32>(i);
  Scalar<i32> left = n;
  tile_while(left > 0 && any(v > 0)) {
    v = v / 2;
    count += 1;
    left -= 1;
  }
  for (auto i : range(5, 1)) v += i * 1000;  // empty
  y.store(v + count);
}
class Control : public Gpu {};
TEST_F(Control, Loops) {
  const auto values = any_values<i32>(200, 1);
  for (const int n : {0, 1, 7, 20, -4}) {
    const auto both = on_both(Placement::Aligned, [&](const Side& side) {
      auto x = side.input(values, {200});
      auto y = side.output<i32>({200});
      kernel<loops>(y.lend(), x.view(), n, static_cast<u32>(n > 0 ? n * 2 : 0)).sync();
      return y.take();
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << n;
  }
}

/// Loops that end, begin or step near the ends of their type, with loads in flight for more iterations than they have.
void ends_of_the_type(Mut<f32, 4, 64> y, In<f32, dyn, dyn> x, Scalar<i32> lower, Scalar<i32> upper, Scalar<i32> step) {
  auto X = x.tiles(shape<4, 64>);
  const auto row = y.origin()[0] / 4, column = y.origin()[1] / 64;
  auto sum = zeros<f32, 4, 64>();
  for (auto i : range(upper)) sum = sum * 0.5f + X.load((i & 7) + row, column);
  for (auto i : range(lower, upper)) sum = sum * 0.75f + X.load((i & 7) + row, column);
  for (auto i : range(lower, upper, step)) sum = sum * 0.25f + X.load((i & 7) + row, column);
  for (auto i : range(0, upper, 1 << 28)) sum = sum * 0.125f + X.load((i & 7) + row, column);
  y.store(sum);
}
TEST_F(Control, LoopsAtTheEndsOfTheirType) {
  const auto values = any_values<f32>(64 * 64, 1);
  constexpr i32 low = std::numeric_limits<i32>::min(), high = std::numeric_limits<i32>::max();
  const i32 cases[][3] = {{low, low, 1},     {low, low + 3, 1}, {low, low + 3, 2},    {0, low, 1},
                          {0, low + 7, 5},   {5, 3, high},      {0, 5, high},         {-3, 5, 1 << 29},
                          {low + 2, low, 1}, {-2, 9, 3},        {low, low + 9, high}, {1, -1, 1}};
  for (const auto& c : cases) {
    const auto both = on_both(Placement::Aligned, [&](const Side& side) {
      auto x = side.input(values, {64, 64});
      auto y = side.output<f32>({4, 64});
      kernel<ends_of_the_type>(y.lend(), x.view(), c[0], c[1], c[2]).sync();
      return y.take();
    });
    EXPECT_EQ(close(both.cpu, both.gpu, 1e-6), "") << c[0] << " to " << c[1] << " by " << c[2];
  }
}

/// Pairs of values that are one after an iteration and two before the first: by assignment, from the arms of a branch,
/// by arithmetic that changes nothing, of tiles, and of a loop without a number of iterations.
void two_names(Mut<i32, 1, 64> y, Mut<f32, 1, 64> z, In<i32, dyn> x, Scalar<i32> n) {
  const Scalar<i32> other = x.dim(0) - 6;
  Scalar<i32> a = 1, b = other, c = 1, d = other, e = 2, f = other, g = 3, h = other;
  auto p = zeros<f32, 1, 64>(), q = full<f32, 1, 64>(3.0f);
  for (auto i : range(n)) {
    a += i + 7;
    b = a;
    tile_if (i % 2 == 0) {
      e = e * 3 + 1;
      f = e;
    } else {
      e = e * 5 + 2;
      f = e;
    }
    g = g * 7 + i;
    h = max(g, -2147483647 - 1);
    p = p * 0.5f + cast<f32>(i);
    q = p;
  }
  tile_while(c < n) {
    c = c * 3 + 1;
    d = c;
  }
  y.store(full<i32, 1, 64>(1) * (a * 1000 + b + (c * 1000 + d) * 7 + (e * 1000 + f) * 11 + (g * 1000 + h) * 13));
  z.store(p * 100.0f + q);
}
TEST_F(Control, TwoNamesOfOneValueWithoutIterations) {
  for (const int n : {-1, 0, 1, 2, 9}) {
    const auto both = on_both(Placement::Aligned, [&](const Side& side) {
      auto x = side.input(any_values<i32>(200, 1), {200});
      auto y = side.output<i32>({1, 64});
      auto z = side.output<f32>({1, 64});
      kernel<two_names>(y.lend(), z.lend(), x.view(), n).sync();
      auto found = y.take();
      for (const f32 v : z.take()) found.push_back(static_cast<i32>(v * 64));
      return found;
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << n;
  }
}

/// What variables held an iteration ago, after loops whose loads are issued ahead.
template <int N>
void held_before(Mut<f32, 1, 64> y, In<f32, dyn, dyn> x, Scalar<i32> n) {
  auto X = x.tiles(shape<1, 64>);
  auto sum = zeros<f32, 1, 64>(), before = full<f32, 1, 64>(9.0f), tile = full<f32, 1, 64>(1.0f), loaded = tile;
  Scalar<i32> older = n, old = 50, now = 1;
  const auto step = [&](const Scalar<i32>& k) {
    older = old;
    old = now;
    before = tile;
    now = now + 2;
    tile = tile + 2.0f;
    const auto row = X.load(k, y.index()[1]);
    sum += row * 8.0f + loaded;
    loaded = row;
  };
  if constexpr (N > 0) {
    for (auto k : range(Scalar<i32>(2), Scalar<i32>(2 + N))) step(k);
  } else {
    for (auto k : range(n)) step(k);
  }
  y.store(sum + before * 64.0f + cast<f32>(older + old * 100 + now * 1000));
}
TEST_F(Control, WhatVariablesHeldAnIterationAgo) {
  const auto check = [](auto kernel_of, int n) {
    const auto both = on_both(Placement::Aligned, [&](const Side& side) {
      std::vector<f32> values(32 * 64);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<f32>(i * 7 % 31) - 15;
      auto x = side.input(values, {32, 64});
      auto y = side.output<f32>({1, 64});
      kernel_of(y.lend(), x.view(), n).sync();
      return y.take();
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << n;
  };
  for (const int n : {-1, 0, 1, 2, 3, 9, 30}) check(kernel<held_before<0>>, n);
  check(kernel<held_before<1>>, 1);
  check(kernel<held_before<2>>, 2);
  check(kernel<held_before<3>>, 3);
  check(kernel<held_before<18>>, 18);
}

/// Loops that begin near the largest number, with a body so short that 50 loads are in flight.
void from_the_largest(Mut<i32, 2> y, In<i32, dyn> x, Scalar<i32> lower, Scalar<i32> upper, Scalar<i32> step) {
  auto sum = full<i32, 2>(0), last = full<i32, 2>(7);
  for (auto i : range(lower, upper)) { last = where(iota<i32, 2>() < x.dim(0), x.load_at(shape<2>, i & 7), 0); }
  for (auto i : range(lower, upper, step)) sum = sum * 3 + x.load_at(shape<2>, i & 7);
  y.store(sum * 1000 + last);
}
TEST_F(Control, LoopsFromTheLargestNumbers) {
  const auto values = any_values<i32>(9, 1);
  constexpr i32 low = std::numeric_limits<i32>::min(), high = std::numeric_limits<i32>::max();
  const i32 cases[][3] = {{high - 3, 0, 1},      {high, low, 1},         {high - 3, low + 1, 1},
                          {high - 40, 5, 1},     {high - 9, high, 1},    {high - 9, high, 3},
                          {high, high, 1},       {high - 1, high, high}, {high - 9, high - 8, 1},
                          {high - 200, high, 1}, {1 << 30, 0, 1 << 24},  {2, 5, 1}};
  for (const auto& c : cases) {
    const auto both = on_both(Placement::Aligned, [&](const Side& side) {
      auto x = side.input(values, {9});
      auto y = side.output<i32>({2});
      kernel<from_the_largest>(y.lend(), x.view(), c[0], c[1], c[2]).sync();
      return y.take();
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << c[0] << " " << c[1] << " " << c[2];
  }
}

/// Loads of a loop that compares as unsigned are in flight for more iterations than it has.
void unsigned_sums(Mut<f32, 1, 64> y, In<f32, dyn, dyn> x, Scalar<u32> n) {
  auto X = x.tiles(shape<1, 64>);
  auto [row, column] = y.index();
  auto sum = zeros<f32, 1, 64>();
  for (auto i : range(n)) sum = sum * 0.5f + X.load(cast<i32>(i) + row, column);
  y.store(sum);
}
TEST_F(Control, UnsignedLoopsOfFewIterations) {
  const auto values = any_values<f32>(40 * 64, 1);
  for (const u32 n : {0u, 1u, 2u, 3u, 5u, 17u, 30u}) {
    const auto both = on_both(Placement::Aligned, [&](const Side& side) {
      auto x = side.input(values, {40, 64});
      auto y = side.output<f32>({4, 64});
      kernel<unsigned_sums>(y.lend(), x.view(), n).sync();
      return y.take();
    });
    EXPECT_EQ(exact(both.cpu, both.gpu), "") << n;
  }
}

/// The number of iterations and the last value; a loop that wraps around would go on for good.
template <class T>
void near_the_end(Mut<T, 2> y, Scalar<T> lo, Scalar<T> hi, Scalar<T> step) {
  Tile<T> n = 0, last = 0;
  for (auto i : range(lo, hi, step)) {
    n = n + 1;
    last = i;
  }
  y.store(where(iota<i32, 2>() == 0, n, last));
}
template <class T>
void expect_ends(T lo, T hi, T step, T iterations, T last) {
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto y = side.output<T>({2});
    kernel<near_the_end<T>>(y.lend(), lo, hi, step).sync();
    return y.take();
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "");
  EXPECT_EQ(both.gpu, (std::vector<T>{iterations, last}));
}
TEST_F(Control, LoopsEndAtTheEndOfTheirType) {
  expect_ends<i32>(2147483640, 2147483647, 5, 2, 2147483645);
  expect_ends<i32>(-2147483647 - 1, 2147483647, 2147483647, 3, 2147483646);
  expect_ends<i32>(-2147483647 - 1, -2147483640, -5, 8, -2147483641);  // a step below 1 counts as 1
  expect_ends<u32>(4294967290u, 4294967295u, 4, 2, 4294967294u);
  expect_ends<u32>(0, 4294967295u, 4294967295u, 1, 0);
  expect_ends<i64>(9223372036854775800, 9223372036854775807, 5, 2, 9223372036854775805);
  expect_ends<i32>(0, 1000, 64, 16, 960);  // as always
}

void every_byte(MutTiles<i8, 1> c) {
  for (auto out : c) out.store(full<i8, 1>(1));
}
TEST_F(Control, TilesAreScheduledUpToTheLastThatThereCanBe) {
  const std::int64_t n = 2147483647;
  auto c = kernel<every_byte>(zeros<i8>({n})).sync();
  const auto tail = host(c.slice<0>(n - 1000, n)).sync(), head = host(c.slice<0>(0, 1000)).sync();
  EXPECT_EQ(tail, std::vector<i8>(1000, 1));
  EXPECT_EQ(head, std::vector<i8>(1000, 1));
}

void who_am_i(Mut<i32, 4, 8> y) {
  auto [i, j] = y.index();
  auto [a, b] = y.origin();
  auto [number] = block_id<1>();
  y.store(full<i32, 4, 8>(number * 100000 + num_blocks() * 1000 + i * 100 + j * 10 + a + b + y.dim(0) + y.count(1)));
}
TEST_F(Control, Blocks) {
  const auto both = on_both(Placement::Shifted, [&](const Side& side) {
    auto y = side.output<i32>({15, 30});
    kernel<who_am_i>(y.lend()).sync();
    return y.take();
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "");
}

// Scalars of every type arrive as they are.
void scalars(Mut<f64, 16> y, Scalar<f64> a, Scalar<f32> b, Scalar<f16> c, Scalar<bf16> d, Scalar<i64> e, Scalar<i32> f,
             Scalar<i16> g, Scalar<i8> h, Scalar<u64> i, Scalar<u32> j, Scalar<u16> k, Scalar<u8> l, Scalar<bool> m) {
  auto sum =
      a + cast<f64>(b) * 3.0 + cast<f64>(c) * 5.0 + cast<f64>(d) * 7.0 + cast<f64>(e) * 11.0 + cast<f64>(f) * 13.0;
  sum = sum + cast<f64>(g) * 17.0 + cast<f64>(h) * 19.0 + cast<f64>(i) * 23.0 + cast<f64>(j) * 29.0;
  y.store(full<f64, 16>(sum + cast<f64>(k) * 31.0 + cast<f64>(l) * 37.0 + cast<f64>(m) * 41.0));
}
TEST_F(Control, Scalars) {
  const auto both = on_both(Placement::Aligned, [&](const Side& side) {
    auto y = side.output<f64>({16});
    kernel<scalars>(y.lend(), 1.5, 2.25f, -3.5f, 1.25f, -123456789012LL, -7, -300, -5, 12345678901ULL, 4000000000U,
                    65535, 255, true)
        .sync();
    return y.take();
  });
  EXPECT_EQ(exact(both.cpu, both.gpu), "");
}

// -- checks ----------------------------------------------------------------------------------------------------------

int line_of_check = 0;
void checked(Mut<f32, 64> y, Scalar<f32> limit) {
  line_of_check = __LINE__ + 1;
  check(y.load() < limit, "elements must stay below the limit");
  y.store(y.load() + 1.0f);
}
TEST_F(Control, AFailedCheckIsAnErrorAndTheContextStaysUsable) {
  const Device device = device_under_test();
  auto y = zeros<f32>({1000}).on(Stream::default_of(device));
  for (int round = 0; round < 3; ++round) {
    kernel<checked>(mut(y), 10.0f).sync();
    try {
      kernel<checked>(mut(y), -1.0f).sync();
      ADD_FAILURE() << "a check that fails was not told";
    } catch (const DeviceError& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("elements must stay below the limit"), std::string::npos) << text;
      EXPECT_NE(text.find("control_test.cpp:" + std::to_string(line_of_check)), std::string::npos) << text;
    }
    y = zeros<f32>({1000}).on(Stream::default_of(device));
  }
  kernel<checked>(mut(y), 10.0f).sync();
  EXPECT_EQ(host(y).sync(), std::vector<f32>(1000, 1.0f));
}
TEST_F(Control, AFailedCheckReachesWhatDependsOnItOnly) {
  const Stream a(device_under_test()), b(device_under_test());
  auto y = zeros<f32>({1000}).on(a), z = zeros<f32>({1000}).on(b);
  kernel<checked>(mut(y), -1.0f).on(a);
  kernel<checked>(mut(z), 10.0f).on(b);
  EXPECT_EQ(host(z).sync(), std::vector<f32>(1000, 1.0f));
  EXPECT_THROW((void)host(y).sync(), DeviceError);
}

void printing(Mut<i32, 4> y) {
  y.store(iota<i32, 4>() + 40);
  for (auto i : range(2)) print("gpu print {} of 2: {}", i, y.load());
  print("gpu print {} done", cast<f32>(y.load()) / 4.0f);
}
TEST_F(Control, Prints) {
  testing::internal::CaptureStdout();
  auto y = empty<i32>({4}).on(Stream::default_of(device_under_test()));
  kernel<printing>(mut(y)).sync();
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_NE(text.find("gpu print 0 of 2"), std::string::npos) << text;
  EXPECT_NE(text.find("40"), std::string::npos) << text;
  EXPECT_NE(text.find("done"), std::string::npos) << text;
}

// -- raw pointers ----------------------------------------------------------------------------------------------------

void raw(unsafe_::Ptr<f32> y, unsafe_::Ptr<f32> x, Scalar<i32> n) {
  auto [b] = block_id<1>();
  auto at = iota<i32, 128>() + b * 128;
  auto inside = at < n;
  unsafe_::store(y + at, unsafe_::load(x + at, inside) * 2.0f + 1.0f, inside);
}
TEST_F(Control, RawPointers) {
  const Stream s = Stream::default_of(device_under_test());
  const auto x = values_in<f32>(1000, 1, -9, 9);
  const auto in = from(x, {1000}).on(s);
  auto out = zeros<f32>({1010}).on(s);
  kernel<raw>.blocks(8).on_device(device_under_test())(unsafe_::address(out), unsafe_::address(in), 1000).sync();
  const auto found = host(out).sync();
  for (std::size_t i = 0; i < 1010; ++i) ASSERT_EQ(found[i], i < 1000 ? x[i] * 2.0f + 1.0f : 0.0f) << i;
}

// -- streams and ownership -------------------------------------------------------------------------------------------

void axpy(Mut<f32, 128> y, Scalar<f32> a, In<f32, dyn> x) { y.store(a * x.load_like(y) + y.load()); }

TEST_F(Control, ManyStreamsShareTensors) {
  const Device device = device_under_test();
  const Stream s = Stream::default_of(device);
  constexpr int n = 1 << 20;
  const auto x = ones<f32>({n}).on(s);
  auto y = zeros<f32>({n}).on(s), z = zeros<f32>({n}).on(s);
  f32 wanted_y = 0, wanted_z = 0;
  {
    const Stream a(device), b(device);
    for (int i = 0; i < 50; ++i) {
      y = kernel<axpy>(std::move(y), 1.0f, x).on(a);
      z = kernel<axpy>(std::move(z), 0.5f, y).on(b);
      kernel<axpy>(mut(y), -0.5f, x).on(b);
      wanted_y += 1;
      wanted_z += 0.5f * wanted_y;
      wanted_y -= 0.5f;
    }
  }  // the streams go while their work is in flight
  EXPECT_EQ(host(y).sync(), std::vector<f32>(n, wanted_y));
  EXPECT_EQ(host(z).sync(), std::vector<f32>(n, wanted_z));
}
TEST_F(Control, MemoryOutlivesItsOwners) {
  const Stream a(device_under_test());
  auto z = zeros<f32>({100000}).on(a);
  for (int i = 0; i < 200; ++i) {
    auto temporary = full<f32>({100000}, static_cast<f32>(i)).on(a);
    z = kernel<axpy>(std::move(z), 1.0f, temporary).on(a);
  }
  EXPECT_EQ(host(z).sync(), std::vector<f32>(100000, 19900.0f));
}
TEST_F(Control, ThreadsLaunchTheSameKernel) {
  const Device device = device_under_test();
  const auto x = ones<f32>({5000}).on(Stream::default_of(device));
  std::vector<std::thread> threads;
  std::vector<std::vector<f32>> results(8);
  for (std::size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      const Stream own(device);
      auto y = zeros<f32>({5000}).on(own);
      for (int i = 0; i < 50; ++i) y = kernel<axpy>(std::move(y), static_cast<f32>(t), x).on(own);
      results[t] = host(y).sync();
    });
  }
  for (std::thread& t : threads) t.join();
  for (std::size_t t = 0; t < results.size(); ++t)
    EXPECT_EQ(results[t], std::vector<f32>(5000, 50.0f * static_cast<f32>(t)));
}

}  // namespace
}  // namespace gpu_test
