// Random numbers with logarithms, for each element: exponential and normal noise, choices from logits, rounding by
// chance, paths of prices.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr int kSteps = 32;  // of a path
constexpr u64 kSeed = 11;

/// x - log(u) / rate.
template <int B>
void exponential_noise(Mut<f32, B> y, In<f32, dyn> x, Scalar<f32> rate, Scalar<u64> seed) {
  auto u = random::uniform<f32>(seed, y.offsets());
  y.store(x.load_like(y) - log(1.0f - u) / rate);
}

template <int B>
void normal_noise(Mut<bf16, B> y, In<bf16, dyn> x, Scalar<f32> deviation, Scalar<u64> seed) {
  y.store(cast<bf16>(cast<f32>(x.load_like(y)) + deviation * random::normal<f32>(seed, y.offsets())));
}

/// Laplace noise by inversion: the sign of u - 1/2 times log(1 - 2 |u - 1/2|).
template <int B>
void laplace_noise(Mut<f64, B> y, In<f64, dyn> x, Scalar<u64> seed) {
  auto u = random::uniform<f64>(seed, y.offsets()) - 0.5;
  auto size = log(1.0 - 2.0 * abs(u));
  y.store(x.load_like(y) + where(u < 0.0, size, -size));
}

/// A class of each row with the probabilities of its softmax: the largest of logits and Gumbel noise.
template <int N>
void gumbel_choice(Mut<i32, 1> y, In<f32, dyn, dyn> x, Scalar<u64> seed) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto [row] = y.index();
  auto places = iota<i32, 1, N>(axis<1>);
  auto u = random::uniform<f32>(seed, cast<i64>(row) * cast<i64>(x.dim(1)) + cast<i64>(places));
  auto noisy = x.tiles(shape<1, N>, pad::neg_inf).load(row, 0) - log(-log(max(u, 1e-20f)));
  auto [value, place] = argmax(noisy, axis<1>);
  y.store(reshape(place, shape<1>));
}

/// Rounded up as often as the fraction says.
template <int B>
void round_by_chance(Mut<i8, B> y, In<f32, dyn> x, Scalar<f32> scale, Scalar<u64> seed) {
  auto u = random::uniform<f32>(seed, y.offsets());
  y.store(cast<i8>(clamp(floor(x.load_like(y) * scale + u), -127.0f, 127.0f)));
}

/// The last price of each path of geometric Brownian motion.
template <int B>
void price_paths(Mut<f32, B> y, In<f32, dyn> start, Scalar<f32> drift, Scalar<f32> deviation, Scalar<u64> seed) {
  auto price = start.load_like(y);
  for (auto k : range(kSteps)) {
    auto z = random::normal<f32>(seed, y.offsets() * i64{kSteps} + cast<i64>(k));
    price = price * exp(drift + deviation * z);
  }
  y.store(price);
}

/// Whole rows of a batch are left out; the others are divided by how likely they stay.
template <int B>
void drop_paths(Mut<bf16, 1, B> y, In<bf16, dyn, dyn> x, In<bf16, dyn, dyn> residual, Scalar<f32> keep,
                Scalar<u64> seed) {
  auto [row, column] = y.index();
  auto u = random::uniform<f32>(seed, reshape(cast<i64>(row), shape<1, 1>));
  auto branch = where(u < keep, cast<f32>(x.load_like(y)) / keep, 0.0f);
  y.store(cast<bf16>(cast<f32>(residual.load_like(y)) + branch));
}

/// Points of the Weibull distribution: scale (-log u)^(1 / shape), both per column.
template <int B>
void weibull(Mut<f32, 1, B> y, In<f32, dyn> scale, In<f32, dyn> form, Scalar<u64> seed) {
  auto u = 1.0f - random::uniform<f32>(seed, y.offsets());
  y.store(scale.load_like(y, axes<1>) * pow(-log(u), 1.0f / form.load_like(y, axes<1>)));
}

// -- the cases --------------------------------------------------------------------------------------------------------

double drawn(Size offset) { return uniform_at<f32>(kSeed, static_cast<std::uint64_t>(offset)); }

Plan exponential_noise_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f32>(1, n);
  const auto wanted = [=](Size i) { return x.at(i) - std::log(1 - drawn(i)) / 0.5; };
  return plan({2 * bytes_of<f32>(n)}, outputs(by_offset<f32>(wanted, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) {
                kernel<exponential_noise<kPiece>>(mut(y), from, 0.5f, kSeed).on(on);
              });
}

Plan normal_noise_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<bf16>(1, n);
  const auto wanted = [=](Size i) {
    return x.at(i) + 0.25 * static_cast<double>(normal_at<f32>(kSeed, static_cast<std::uint64_t>(i)));
  };
  return plan({2 * bytes_of<bf16>(n)}, outputs(by_offset<bf16>(wanted, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) {
                kernel<normal_noise<kPiece>>(mut(y), from, 0.25f, kSeed).on(on);
              });
}

Plan laplace_noise_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f64>(1, n);
  const auto wanted = [=](Size i) {
    const double u = uniform_at<f64>(kSeed, static_cast<std::uint64_t>(i)) - 0.5;
    const double size = std::log(1 - 2 * std::abs(u));
    return x.at(i) + (u < 0 ? size : -size);
  };
  return plan(
      {2 * bytes_of<f64>(n)}, outputs(by_offset<f64>(wanted, n)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<laplace_noise<kPiece>>(mut(y), from, kSeed).on(on); });
}

Plan gumbel_choice_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  const auto wanted = [=](Size row) {
    Size best = 0;
    double top = -INFINITY;
    for (Size j = 0; j < columns; ++j) {
      const double t = x(row, j) - std::log(-std::log(std::max(drawn(row * columns + j), 1e-20)));
      if (t > top) top = t, best = j;
    }
    return static_cast<double>(best);
  };
  return plan(
      {bytes_of<f32>(rows * columns)}, outputs(by_offset<i32>(wanted, rows)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<gumbel_choice<4096>>(mut(y), from, kSeed).on(on); });
}

Plan round_by_chance_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f32>(1, n);
  const auto wanted = [=](Size i) {
    // As the kernel rounds: sums that are nearly whole may fall on either side.
    return std::clamp(
        static_cast<double>(std::floor(static_cast<float>(x.at(i)) * 20.0f + static_cast<float>(drawn(i)))), -127.0,
        127.0);
  };
  return plan({bytes_of<f32>(n) + bytes_of<i8>(n)}, outputs(by_offset<i8>(wanted, n).within(1e-3)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) {
                kernel<round_by_chance<kPiece>>(mut(y), from, 20.0f, kSeed).on(on);
              });
}

Plan price_paths_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto start = uniform<f32>(1, 50, 150, n);
  const auto wanted = [=](Size i) {
    double price = start.at(i);
    for (Size k = 0; k < kSteps; ++k) {
      const double z = normal_at<f32>(kSeed, static_cast<std::uint64_t>(i * kSteps + k));
      price *= std::exp(static_cast<double>(0.001f) + static_cast<double>(0.02f) * z);
    }
    return price;
  };
  return plan({2 * bytes_of<f32>(n)}, outputs(by_offset<f32>(wanted, n).within(1e-4)), inputs(start),
              [](const Stream& on, auto& y, const auto& from) {
                kernel<price_paths<kPiece>>(mut(y), from, 0.001f, 0.02f, kSeed).on(on);
              });
}

Plan drop_paths_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<bf16>(1, rows, columns), residual = normal<bf16>(2, rows, columns);
  const auto wanted = [=](Size at) {
    return residual.at(at) + (drawn(at / columns) < static_cast<double>(0.8f) ? x.at(at) / 0.8 : 0);
  };
  return plan({3 * bytes_of<bf16>(rows * columns)}, outputs(by_offset<bf16>(wanted, rows, columns)),
              inputs(x, residual), [](const Stream& on, auto& y, const auto&... in) {
                kernel<drop_paths<kPiece>>(mut(y), in..., 0.8f, kSeed).on(on);
              });
}

Plan weibull_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto scale = uniform<f32>(1, 1, 2, columns), form = uniform<f32>(2, 1, 3, columns);
  const auto wanted = [=](Size at) {
    const Size j = at % columns;
    return scale(j) * std::pow(-std::log(1 - drawn(at)), 1 / form(j));
  };
  return plan({bytes_of<f32>(rows * columns)}, outputs(by_offset<f32>(wanted, rows, columns).within(1e-4)),
              inputs(scale, form),
              [](const Stream& on, auto& y, const auto&... in) { kernel<weibull<512>>(mut(y), in..., kSeed).on(on); });
}

}  // namespace

std::vector<Entry> draw_entries() {
  return {entry<exponential_noise_plan>("exponential_noise", "random", "n=134217728; n=100000007; n=9999991",
                                        "n=8192; n=5001"),
          entry<normal_noise_plan>("normal_noise", "random", "n=134217728; n=100000007; n=30000001", "n=8192; n=5001"),
          entry<laplace_noise_plan>("laplace_noise", "random", "n=33554432; n=20000003; n=7000003", "n=8192; n=5001"),
          entry<gumbel_choice_plan>("gumbel_choice", "random",
                                    "rows=32768 columns=4096; rows=60001 columns=1777; rows=9001 columns=3003",
                                    "rows=16 columns=4096; rows=5 columns=1001"),
          entry<round_by_chance_plan>("round_by_chance", "random", "n=134217728; n=100000007; n=30000001",
                                      "n=8192; n=5001"),
          entry<price_paths_plan>("price_paths", "random", "n=8388608; n=5000011; n=1500007", "n=2048; n=1501"),
          entry<drop_paths_plan>("drop_paths", "random",
                                 "rows=32768 columns=4096; rows=50001 columns=1777; rows=3001 columns=10009",
                                 "rows=16 columns=1024; rows=5 columns=1777"),
          entry<weibull_plan>("weibull", "random",
                              "rows=16384 columns=4096; rows=50001 columns=777; rows=333 columns=100003",
                              "rows=16 columns=512; rows=5 columns=777")};
}

}  // namespace generality
