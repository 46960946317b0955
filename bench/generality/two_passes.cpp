// Norms that go through their elements twice: groups and rows that do not fit a tile, channels of a batch.
#include <cmath>
#include <vector>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kMost = 1 << 24;  // elements of a piece that is walked through
constexpr float kSmall = 1e-5f;

/// Groups of channels with their places one after the other: image, group, element.
template <int C>
void long_group_norm(Mut<bf16, 1, 1, kMost> y, In<bf16, dyn, dyn, dyn> x, In<f32, dyn, dyn> weight,
                     In<f32, dyn, dyn> bias, Scalar<f32> eps) {
  auto [image, group, zero] = y.index();
  auto X = x.tiles(shape<1, 1, C>);
  auto parts = y.sub(shape<1, 1, C>);
  auto n = cast<f32>(x.dim(2));
  auto places = x.dim(2) / weight.dim(1);
  auto total = Scalar<f32>(0.0f), squares = Scalar<f32>(0.0f);
  for (auto k : range(X.count(2))) {
    auto t = cast<f32>(X.load(image, group, k));
    total += sum(t);
    squares += sum(t * t);
  }
  auto mean = total / n;
  auto scale = rsqrt(squares / n - mean * mean + eps);
  for (auto k : range(X.count(2))) {
    auto channel = (iota<i32, 1, 1, C>(axis<2>) + k * C) / places;
    auto normed = (cast<f32>(X.load(image, group, k)) - mean) * scale;
    parts.store(0, 0, k, cast<bf16>(normed * weight.gather(group, channel) + bias.gather(group, channel)));
  }
}

/// Channels last: image, place, group, channel of the group.
template <int P, int C>
void group_norm_last(Mut<f16, 1, kMost, 1, C> y, In<f16, dyn, dyn, dyn, C> x, In<f32, dyn, C> weight,
                     In<f32, dyn, C> bias, Scalar<f32> eps) {
  auto [image, zero, group, none] = y.index();
  auto X = x.tiles(shape<1, P, 1, C>);
  auto parts = y.sub(shape<1, P, 1, C>);
  auto n = cast<f32>(x.dim(1) * C);
  auto total = zeros<f32, 1, 1, 1, C>(), squares = zeros<f32, 1, 1, 1, C>();
  for (auto k : range(X.count(1))) {
    auto t = cast<f32>(X.load(image, k, group, 0));
    total += sum(t, axis<1>);
    squares += sum(t * t, axis<1>);
  }
  auto mean = sum(total) / n;
  auto scale = rsqrt(sum(squares) / n - mean * mean + eps);
  auto w = reshape(weight.load_at(shape<1, C>, group, 0), shape<1, 1, 1, C>) * scale;
  auto b = reshape(bias.load_at(shape<1, C>, group, 0), shape<1, 1, 1, C>);
  for (auto k : range(X.count(1)))
    parts.store(0, k, 0, 0, cast<f16>((cast<f32>(X.load(image, k, group, 0)) - mean) * w + b));
}

/// Means and variances of the channels: image, channel, place.
template <int P>
void channel_statistics(Mut<f32, 1> mean, Mut<f32, 1> variance, In<f32, dyn, dyn, dyn> x) {
  auto [channel] = mean.index();
  auto X = x.tiles(shape<1, 1, P>);
  auto n = cast<f32>(x.dim(0)) * cast<f32>(x.dim(2));
  auto total = zeros<f32, 1, 1, P>(), squares = zeros<f32, 1, 1, P>();
  for (auto image : range(x.dim(0))) {
    for (auto k : range(X.count(2))) {
      auto t = X.load(image, channel, k);
      total += t;
      squares += t * t;
    }
  }
  auto m = sum(total) / n;
  mean.store(full<f32, 1>(m));
  variance.store(full<f32, 1>(sum(squares) / n - m * m));
}

template <int P>
void apply_statistics(Mut<f32, 1, 1, P> y, In<f32, dyn, dyn, dyn> x, In<f32, dyn> mean, In<f32, dyn> variance,
                      Scalar<f32> eps) {
  auto m = mean.load_like(y, axes<1>), v = variance.load_like(y, axes<1>);
  y.store((x.load_like(y) - m) * rsqrt(v + eps));
}

template <int C>
void long_rms_norm(Mut<f32, 1, kMost> y, In<f32, dyn, dyn> x, In<f32, dyn> weight, Scalar<f32> eps) {
  auto [row, zero] = y.index();
  auto X = x.tiles(shape<1, C>);
  auto W = weight.tiles(shape<C>);
  auto parts = y.sub(shape<1, C>);
  auto squares = zeros<f32, 1, C>();
  for (auto k : range(X.count(1))) {
    auto t = X.load(row, k);
    squares += t * t;
  }
  auto scale = rsqrt(sum(squares) / cast<f32>(x.dim(1)) + eps);
  for (auto k : range(X.count(1))) parts.store(0, k, X.load(row, k) * scale * reshape(W.load(k), shape<1, C>));
}

/// Each column less its mean, by its standard deviation.
template <int R, int C>
void standardised_columns(Mut<f32, kMost, C> y, In<f32, dyn, dyn> x) {
  auto [zero, column] = y.index();
  auto X = x.tiles(shape<R, C>);
  auto parts = y.sub(shape<R, C>);
  auto n = cast<f32>(x.dim(0));
  auto total = zeros<f32, 1, C>(), squares = zeros<f32, 1, C>();
  for (auto k : range(X.count(0))) {
    auto t = X.load(k, column);
    total += sum(t, axis<0>);
    squares += sum(t * t, axis<0>);
  }
  auto mean = total / n;
  auto scale = rsqrt(squares / n - mean * mean);
  for (auto k : range(X.count(0))) parts.store(k, 0, (X.load(k, column) - mean) * scale);
}

/// Weights of length g in each row.
template <int C>
void weight_norm(Mut<bf16, 1, kMost> y, In<bf16, dyn, dyn> v, In<f32, dyn> g) {
  auto [row, zero] = y.index();
  auto V = v.tiles(shape<1, C>);
  auto parts = y.sub(shape<1, C>);
  auto squares = Scalar<f32>(0.0f);
  for (auto k : range(V.count(1))) {
    auto t = cast<f32>(V.load(row, k));
    squares += sum(t * t);
  }
  auto scale = g.gather(row) * rsqrt(squares);
  for (auto k : range(V.count(1))) parts.store(0, k, cast<bf16>(cast<f32>(V.load(row, k)) * scale));
}

// -- the cases --------------------------------------------------------------------------------------------------------

/// The mean, and 1 / sqrt(variance + eps), of f(0) to f(n - 1).
template <class F>
std::pair<double, double> moments(Size n, double eps, F f) {
  const double mean = sum_over(n, f) / static_cast<double>(n);
  const double square = sum_over(n, [&](Size k) { return (f(k) - mean) * (f(k) - mean); }) / static_cast<double>(n);
  return {mean, 1 / std::sqrt(square + eps)};
}

Plan long_group_norm_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), groups = size_of_case(args, "groups"),
             channels = size_of_case(args, "channels"), places = size_of_case(args, "places"), n = channels * places;
  const auto x = normal<bf16>(1, images, groups, n);
  const auto weight = uniform<f32>(2, 0.5, 1.5, groups, channels), bias = normal<f32>(3, groups, channels);
  const auto wanted = [=](Size line) -> Line {
    const auto m = moments(n, static_cast<double>(kSmall), [=](Size k) { return x.at(line * n + k); });
    return [=, g = line % groups](Size k) {
      return (x.at(line * n + k) - m.first) * m.second * weight(g, k / places) + bias(g, k / places);
    };
  };
  return plan({3 * bytes_of<bf16>(images * groups * n)}, outputs(output<bf16>(wanted, images, groups, n)),
              inputs(x, weight, bias), [](const Stream& on, auto& y, const auto&... in) {
                kernel<long_group_norm<2048>>(mut(y), in..., kSmall).on(on);
              });
}

Plan group_norm_last_plan(const Args& args) {
  constexpr Size kChannels = 16;
  const Size images = size_of_case(args, "images"), places = size_of_case(args, "places"),
             groups = size_of_case(args, "groups");
  const auto x = normal<f16>(1, images, places, groups, kChannels);
  const auto weight = uniform<f32>(2, 0.5, 1.5, groups, kChannels), bias = normal<f32>(3, groups, kChannels);
  auto known = std::make_shared<std::vector<std::pair<double, double>>>(static_cast<std::size_t>(images * groups));
  const auto wanted = [=](Size at) {
    const Size c = at % kChannels, g = at / kChannels % groups, image = at / (kChannels * groups * places);
    auto& m = (*known)[static_cast<std::size_t>(image * groups + g)];
    if (m.second == 0) {
      m = moments(places * kChannels, static_cast<double>(kSmall),
                  [=](Size k) { return x(image, k / kChannels, g, k % kChannels); });
    }
    return (x.at(at) - m.first) * m.second * weight(g, c) + bias(g, c);
  };
  return plan({3 * bytes_of<f16>(images * places * groups * kChannels)},
              outputs(by_offset<f16>(wanted, images, places, groups, kChannels)), inputs(x, weight, bias),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<group_norm_last<64, 16>>(mut(y), in..., kSmall).on(on);
              });
}

Plan batch_norm_training_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), channels = size_of_case(args, "channels"),
             places = size_of_case(args, "places");
  const auto x = normal<f32>(1, images, channels, places);
  auto known = std::make_shared<std::vector<std::pair<double, double>>>(static_cast<std::size_t>(channels));
  const auto wanted = [=](Size at) {
    const Size c = at / places % channels;
    auto& m = (*known)[static_cast<std::size_t>(c)];
    if (m.second == 0) {
      m = moments(images * places, static_cast<double>(kSmall), [=](Size k) { return x(k / places, c, k % places); });
    }
    return (x.at(at) - m.first) * m.second;
  };
  return plan({3 * bytes_of<f32>(images * channels * places)},
              outputs(by_offset<f32>(wanted, images, channels, places).within(1e-4)), inputs(x),
              [=](const Stream& on, auto& y, const auto& from) {
                auto mean = empty<f32>({channels}).on(on), variance = empty<f32>({channels}).on(on);
                kernel<channel_statistics<1024>>(mut(mean), mut(variance), from).on(on);
                kernel<apply_statistics<1024>>(mut(y), from, mean, variance, kSmall).on(on);
              });
}

Plan long_rms_norm_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  const auto weight = normal<f32>(2, columns);
  const auto wanted = [=](Size i) -> Line {
    const double square = sum_over(columns, [=](Size j) { return x(i, j) * x(i, j); }) / static_cast<double>(columns);
    return [=, scale = 1 / std::sqrt(square + static_cast<double>(kSmall))](Size j) {
      return x(i, j) * scale * weight(j);
    };
  };
  return plan(
      {3 * bytes_of<f32>(rows * columns)}, outputs(output<f32>(wanted, rows, columns)), inputs(x, weight),
      [](const Stream& on, auto& y, const auto&... in) { kernel<long_rms_norm<2048>>(mut(y), in..., kSmall).on(on); });
}

Plan standardised_columns_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  auto known = std::make_shared<std::vector<std::pair<double, double>>>(static_cast<std::size_t>(columns));
  const auto wanted = [=](Size at) {
    auto& m = (*known)[static_cast<std::size_t>(at % columns)];
    if (m.second == 0) m = moments(rows, 0, [=](Size i) { return x(i, at % columns); });
    return (x.at(at) - m.first) * m.second;
  };
  return plan(
      {3 * bytes_of<f32>(rows * columns)}, outputs(by_offset<f32>(wanted, rows, columns).within(1e-4)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<standardised_columns<64, 64>>(mut(y), from).on(on); });
}

Plan weight_norm_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto v = normal<bf16>(1, rows, columns);
  const auto g = uniform<f32>(2, 0.5, 2, rows);
  const auto wanted = [=](Size i) -> Line {
    const double scale = g(i) / std::sqrt(sum_over(columns, [=](Size j) { return v(i, j) * v(i, j); }));
    return [=](Size j) { return v(i, j) * scale; };
  };
  return plan({3 * bytes_of<bf16>(rows * columns)}, outputs(output<bf16>(wanted, rows, columns)), inputs(v, g),
              [](const Stream& on, auto& y, const auto&... in) { kernel<weight_norm<1024>>(mut(y), in...).on(on); });
}

}  // namespace

std::vector<Entry> two_pass_entries() {
  return {
      entry<long_group_norm_plan>("long_group_norm", "norms",
                                  "images=32 groups=32 channels=16 places=4096; images=20 groups=33 channels=10 "
                                  "places=3721; images=3 groups=8 channels=67 places=30003",
                                  "images=1 groups=2 channels=4 places=1024; images=2 groups=3 channels=5 places=333"),
      entry<group_norm_last_plan>(
          "group_norm_last", "norms",
          "images=32 places=4096 groups=32; images=77 places=1777 groups=21; images=200 places=333 groups=33",
          "images=2 places=128 groups=4; images=3 places=77 groups=5"),
      entry<batch_norm_training_plan>(
          "batch_norm_training", "norms",
          "images=64 channels=256 places=4096; images=77 channels=333 places=1777; images=20 channels=1001 places=3001",
          "images=2 channels=4 places=1024; images=3 channels=5 places=333"),
      entry<long_rms_norm_plan>("long_rms_norm", "norms",
                                "rows=1024 columns=65536; rows=777 columns=70001; rows=3001 columns=10007",
                                "rows=2 columns=4096; rows=3 columns=3001"),
      entry<standardised_columns_plan>("standardised_columns", "norms",
                                       "rows=8192 columns=8192; rows=3001 columns=20003; rows=20011 columns=1777",
                                       "rows=128 columns=128; rows=77 columns=101"),
      entry<weight_norm_plan>("weight_norm", "norms",
                              "rows=8192 columns=16384; rows=9001 columns=9001; rows=50001 columns=2002",
                              "rows=4 columns=2048; rows=3 columns=1501")};
}

}  // namespace generality
