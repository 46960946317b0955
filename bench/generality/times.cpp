// Recurrences along time: batch, time, channel; a block loops over the whole time of its channels.
#include <cmath>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kLongest = 4096;

template <int C>
void moving_average(Mut<f32, 1, kLongest, C> y, In<f32, dyn, dyn, dyn> x, Scalar<f32> weight) {
  require(x.dim(1) <= kLongest, "all of the time must fit in one piece");
  auto [b, zero, c] = y.origin();
  auto Y = y.sub(shape<1, 1, C>);
  auto s = x.load_at(shape<1, 1, C>, b, 0, c);
  for (auto t : range(x.dim(1))) {
    s = s + weight * (x.load_at(shape<1, 1, C>, b, t, c) - s);
    Y.store(0, t, 0, s);
  }
}

/// h = a h + x
template <int C>
void recurrence(Mut<f32, 1, kLongest, C> y, In<f32, dyn, dyn, dyn> a, In<f32, dyn, dyn, dyn> x) {
  require(x.dim(1) <= kLongest, "all of the time must fit in one piece");
  auto [b, zero, c] = y.origin();
  auto Y = y.sub(shape<1, 1, C>);
  auto h = zeros<f32, 1, 1, C>();
  for (auto t : range(x.dim(1))) {
    h = a.load_at(shape<1, 1, C>, b, t, c) * h + x.load_at(shape<1, 1, C>, b, t, c);
    Y.store(0, t, 0, h);
  }
}

/// h = f h + (1 - f) tanh(c), f = sigmoid of what is given: as a gated unit without a matrix.
template <int C>
void gated_recurrence(Mut<bf16, 1, kLongest, C> y, In<bf16, dyn, dyn, dyn> gates, In<bf16, dyn, dyn, dyn> x) {
  require(x.dim(1) <= kLongest, "all of the time must fit in one piece");
  auto [b, zero, c] = y.origin();
  auto Y = y.sub(shape<1, 1, C>);
  auto h = zeros<f32, 1, 1, C>();
  for (auto t : range(x.dim(1))) {
    auto f = 1.0f / (1.0f + exp(-cast<f32>(gates.load_at(shape<1, 1, C>, b, t, c))));
    h = f * h + (1.0f - f) * tanh(cast<f32>(x.load_at(shape<1, 1, C>, b, t, c)));
    Y.store(0, t, 0, cast<bf16>(h));
  }
}

/// A level and a trend that follow each series (Holt): time, series.
template <int C>
void level_and_trend(Mut<f32, kLongest, C> y, In<f32, dyn, dyn> x) {
  require(x.dim(0) <= kLongest, "all of the time must fit in one piece");
  auto [zero, c] = y.origin();
  auto Y = y.sub(shape<1, C>);
  auto level = x.load_at(shape<1, C>, 0, c), trend = zeros<f32, 1, C>();
  for (auto t : range(x.dim(0))) {
    auto before = level;
    level = 0.3f * x.load_at(shape<1, C>, t, c) + 0.7f * (level + trend);
    trend = 0.1f * (level - before) + 0.9f * trend;
    Y.store(t, 0, level + trend);
  }
}

// -- the cases --------------------------------------------------------------------------------------------------------

struct Times {
  Size batch, length, channels;
  explicit Times(const Args& args)
      : batch(size_of_case(args, "batch")),
        length(size_of_case(args, "length")),
        channels(size_of_case(args, "channels")) {}
  Size count() const { return batch * length * channels; }
};

Plan moving_average_plan(const Args& args) {
  const Times z(args);
  const auto x = normal<f32>(1, z.batch, z.length, z.channels);
  const auto line = [=](Size i) -> Line {
    return [=](Size c) {
      double s = x(i / z.length, 0, c);
      for (Size t = 0; t <= i % z.length; ++t) s += 0.1 * (x(i / z.length, t, c) - s);
      return s;
    };
  };
  return plan(
      {2 * bytes_of<f32>(z.count())}, outputs(output<f32>(line, z.batch, z.length, z.channels)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<moving_average<128>>(mut(y), from, 0.1f).on(on); });
}

Plan recurrence_plan(const Args& args) {
  const Times z(args);
  const auto a = uniform<f32>(1, 0, 1, z.batch, z.length, z.channels);
  const auto x = normal<f32>(2, z.batch, z.length, z.channels);
  const auto line = [=](Size i) -> Line {
    return [=](Size c) {
      double h = 0;
      for (Size t = 0; t <= i % z.length; ++t) h = a(i / z.length, t, c) * h + x(i / z.length, t, c);
      return h;
    };
  };
  return plan({3 * bytes_of<f32>(z.count())}, outputs(output<f32>(line, z.batch, z.length, z.channels)), inputs(a, x),
              [](const Stream& on, auto& y, const auto&... in) { kernel<recurrence<128>>(mut(y), in...).on(on); });
}

Plan gated_recurrence_plan(const Args& args) {
  const Times z(args);
  const auto gates = normal<bf16>(1, z.batch, z.length, z.channels), x = normal<bf16>(2, z.batch, z.length, z.channels);
  const auto line = [=](Size i) -> Line {
    return [=](Size c) {
      double h = 0;
      for (Size t = 0; t <= i % z.length; ++t) {
        const double f = 1 / (1 + std::exp(-gates(i / z.length, t, c)));
        h = f * h + (1 - f) * std::tanh(x(i / z.length, t, c));
      }
      return h;
    };
  };
  return plan(
      {3 * bytes_of<bf16>(z.count())}, outputs(output<bf16>(line, z.batch, z.length, z.channels)), inputs(gates, x),
      [](const Stream& on, auto& y, const auto&... in) { kernel<gated_recurrence<128>>(mut(y), in...).on(on); });
}

Plan level_and_trend_plan(const Args& args) {
  const Size length = size_of_case(args, "length"), series = size_of_case(args, "series");
  const auto x = normal<f32>(1, length, series);
  const auto wanted = [=](Size at) {
    const Size c = at % series;
    double level = x(0, c), trend = 0;
    for (Size t = 0; t <= at / series; ++t) {
      const double before = level;
      level = 0.3 * x(t, c) + 0.7 * (level + trend);
      trend = 0.1 * (level - before) + 0.9 * trend;
    }
    return level + trend;
  };
  return plan({2 * bytes_of<f32>(length * series)}, outputs(by_offset<f32>(wanted, length, series)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<level_and_trend<64>>(mut(y), from).on(on); });
}

}  // namespace

std::vector<Entry> time_entries() {
  return {
      entry<gated_recurrence_plan>(
          "gated_recurrence", "recurrences",
          "batch=16 length=1024 channels=4096; batch=20 length=777 channels=3001; batch=77 length=1001 channels=555",
          "batch=2 length=16 channels=256; batch=2 length=20 channels=200"),
      entry<level_and_trend_plan>("level_and_trend", "recurrences",
                                  "length=1024 series=65536; length=501 series=100003; length=2001 series=20011",
                                  "length=16 series=256; length=21 series=201"),

      entry<moving_average_plan>(
          "moving_average", "recurrences",
          "batch=16 length=1024 channels=4096; batch=20 length=777 channels=3001; batch=77 length=1001 channels=555",
          "batch=2 length=16 channels=256; batch=2 length=20 channels=200"),
      entry<recurrence_plan>(
          "recurrence", "recurrences",
          "batch=16 length=1024 channels=4096; batch=20 length=777 channels=3001; batch=77 length=1001 channels=555",
          "batch=2 length=16 channels=256; batch=2 length=20 channels=200")};
}

}  // namespace generality
