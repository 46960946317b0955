// Recurrences along time: batch, time, channel; a block loops over the whole time of its channels.
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

}  // namespace

std::vector<Entry> time_entries() {
  return {
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
