// Running sums and other scans along an axis that is not the last one, and from the end: some columns for each block.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kMost = 1 << 24;  // rows of a piece that is walked through

template <int R, int C>
void column_prefix_sum(Mut<f32, kMost, C> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<R, C>);
  auto [zero, column] = y.index();
  auto parts = y.sub(shape<R, C>);
  auto before = zeros<f32, 1, C>();
  for (auto k : range(X.count(0))) {
    auto t = X.load(k, column);
    parts.store(k, 0, cumsum(t, axis<0>) + before);
    before += sum(t, axis<0>);
  }
}

/// Batch, time, channel: along the time.
template <int T, int C>
void time_prefix_sum(Mut<f32, 1, kMost, C> y, In<bf16, dyn, dyn, dyn> x) {
  auto X = x.tiles(shape<1, T, C>);
  auto [batch, zero, channel] = y.index();
  auto parts = y.sub(shape<1, T, C>);
  auto before = zeros<f32, 1, 1, C>();
  for (auto t : range(X.count(1))) {
    auto sums = cumsum(cast<f32>(X.load(batch, t, channel)), axis<1>) + before;
    parts.store(0, t, 0, sums);
    before = extract(sums, shape<1, 1, C>, 0, T - 1, 0);
  }
}

/// The largest number so far.
template <int R, int C>
void column_running_max(Mut<i32, kMost, C> y, In<i32, dyn, dyn> x) {
  auto X = x.tiles(shape<R, C>, pad(std::numeric_limits<i32>::min()));
  auto [zero, column] = y.index();
  auto parts = y.sub(shape<R, C>);
  auto best = full<i32, 1, C>(std::numeric_limits<i32>::min());
  for (auto k : range(X.count(0))) {
    auto t =
        scan(X.load(k, column), axis<0>, std::numeric_limits<i32>::min(), [](auto a, auto b) { return max(a, b); });
    t = max(t, best);
    parts.store(k, 0, t);
    best = max(t, axis<0>);
  }
}

/// log of the running sum of exponentials, row after row.
template <int C>
void column_log_cumsum_exp(Mut<f32, kMost, C> y, In<f32, dyn, dyn> x) {
  auto [zero, column] = y.index();
  auto X = x.tiles(shape<1, C>);
  auto parts = y.sub(shape<1, C>);
  auto total = full<f32, 1, C>(-1e30f);
  for (auto k : range(x.dim(0))) {
    auto t = X.load(k, column);
    auto top = max(total, t);
    total = top + log(exp(total - top) + exp(t - top));
    parts.store(k, 0, total);
  }
}

/// What is still to come of each reward, from the end: time, agent.
template <int C>
void discounted_returns(Mut<f32, kMost, C> y, In<f32, dyn, dyn> rewards, In<bool, dyn, dyn> last,
                        Scalar<f32> discount) {
  auto [zero, column] = y.index();
  auto R = rewards.tiles(shape<1, C>);
  auto L = last.tiles(shape<1, C>);
  auto parts = y.sub(shape<1, C>);
  auto total = zeros<f32, 1, C>();
  for (auto k : range(rewards.dim(0))) {
    auto t = rewards.dim(0) - 1 - k;
    total = R.load(t, column) + where(L.load(t, column), 0.0f, discount * total);
    parts.store(t, 0, total);
  }
}

template <int N>
void row_sums_so_far(Mut<f32, 1, N> y, In<u8, dyn, dyn> x) {
  auto X = x.tiles(shape<1, 1024>);
  auto [row, zero] = y.index();
  auto parts = y.sub(shape<1, 1024>);
  auto before = zeros<f32, 1, 1>();
  for (auto k : range(X.count(1))) {
    auto t = cast<f32>(X.load(row, k));
    parts.store(0, k, cumsum(t, axis<1>) + before);
    before += sum(t, axis<1>);
  }
}

/// Where the elements of each bin begin: sums of the counts of the rows before, for each column.
template <int N, int C>
void exclusive_offsets(Mut<i32, N, C> y, In<i32, dyn, dyn> counts) {
  require(counts.dim(0) <= N, "a column must fit in one piece");
  auto t = counts.load_like(y);
  y.store(cumsum(t, axis<0>) - t);
}

/// The sum of each place and all after it, along the middle axis of a tile: images, rows, columns.
template <int N, int C>
void suffix_sums(Mut<f32, 1, N, C> y, In<f32, dyn, dyn, dyn> x) {
  require(x.dim(1) <= N, "a column must fit in one piece");
  y.store(cumsum(x.load_like(y), axis<1>, backward));
}

// -- the cases --------------------------------------------------------------------------------------------------------

/// Results of walking down each column: step(state, i, j) gives the state and what is stored of each row.
template <class F>
std::function<double(Size)> down_columns(Size rows, Size columns, double start, bool from_end, F step) {
  auto known = std::make_shared<std::vector<std::vector<double>>>(static_cast<std::size_t>(columns));
  return [=](Size at) {
    auto& column = (*known)[static_cast<std::size_t>(at % columns)];
    if (column.empty()) {
      column.resize(static_cast<std::size_t>(rows));
      double state = start;
      for (Size k = 0; k < rows; ++k) {
        const Size i = from_end ? rows - 1 - k : k;
        column[static_cast<std::size_t>(i)] = state = step(state, i, at % columns);
      }
    }
    return column[static_cast<std::size_t>(at / columns)];
  };
}

struct Rows {
  Size rows, columns;
  explicit Rows(const Args& args) : rows(size_of_case(args, "rows")), columns(size_of_case(args, "columns")) {}
};

Plan column_prefix_sum_plan(const Args& args) {
  const Rows p(args);
  const auto x = uniform<f32>(1, 0, 1, p.rows, p.columns);
  const auto wanted = down_columns(p.rows, p.columns, 0, false, [=](double s, Size i, Size j) { return s + x(i, j); });
  return plan({2 * bytes_of<f32>(p.rows * p.columns)}, outputs(by_offset<f32>(wanted, p.rows, p.columns).within(1e-4)),
              inputs(x), [](const Stream& on, auto& y, const auto& from) {
                kernel<column_prefix_sum<32, 64>>(mut(y), from).on(on);
              });
}

Plan time_prefix_sum_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), length = size_of_case(args, "length"),
             channels = size_of_case(args, "channels");
  const auto x = uniform<bf16>(1, 0, 1, batch, length, channels);
  auto lines = std::make_shared<std::vector<std::function<double(Size)>>>();
  for (Size b = 0; b < batch; ++b)
    lines->push_back(
        down_columns(length, channels, 0, false, [=](double s, Size t, Size c) { return s + x(b, t, c); }));
  const auto wanted = [=](Size at) {
    return (*lines)[static_cast<std::size_t>(at / (length * channels))](at % (length * channels));
  };
  return plan(
      {6.0 * static_cast<double>(batch * length * channels)},
      outputs(by_offset<f32>(wanted, batch, length, channels).within(1e-4)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<time_prefix_sum<64, 64>>(mut(y), from).on(on); });
}

Plan column_running_max_plan(const Args& args) {
  const Rows p(args);
  const auto x = whole<i32>(1, -1000000, 1000000, p.rows, p.columns);
  const auto wanted =
      down_columns(p.rows, p.columns, -INFINITY, false, [=](double s, Size i, Size j) { return std::max(s, x(i, j)); });
  return plan(
      {2 * bytes_of<i32>(p.rows * p.columns)}, outputs(by_offset<i32>(wanted, p.rows, p.columns)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<column_running_max<64, 32>>(mut(y), from).on(on); });
}

Plan column_log_cumsum_exp_plan(const Args& args) {
  const Rows p(args);
  const auto x = normal<f32>(1, p.rows, p.columns);
  const auto wanted = down_columns(p.rows, p.columns, -INFINITY, false, [=](double s, Size i, Size j) {
    const double t = x(i, j), top = std::max(s, t);
    return top + std::log(std::exp(s - top) + std::exp(t - top));
  });
  return plan({2 * bytes_of<f32>(p.rows * p.columns)}, outputs(by_offset<f32>(wanted, p.rows, p.columns).within(1e-4)),
              inputs(x), [](const Stream& on, auto& y, const auto& from) {
                kernel<column_log_cumsum_exp<128>>(mut(y), from).on(on);
              });
}

Plan discounted_returns_plan(const Args& args) {
  const Rows p(args);
  const auto rewards = normal<f32>(1, p.rows, p.columns);
  const auto last = whole<bool>(2, 0, 2, p.rows, p.columns);
  const auto wanted = down_columns(p.rows, p.columns, 0, true, [=](double s, Size i, Size j) {
    return rewards(i, j) + (last(i, j) != 0 ? 0 : static_cast<double>(0.99f) * s);
  });
  return plan({9.0 * static_cast<double>(p.rows * p.columns)}, outputs(by_offset<f32>(wanted, p.rows, p.columns)),
              inputs(rewards, last), [](const Stream& on, auto& y, const auto&... in) {
                kernel<discounted_returns<128>>(mut(y), in..., 0.99f).on(on);
              });
}

/// Sums of all pixels above and to the left: along the rows, then down the columns.
Plan integral_image_plan(const Args& args) {
  const Rows p(args);
  const auto x = whole<u8>(1, 0, 256, p.rows, p.columns);
  auto sums = std::make_shared<std::vector<double>>();
  const auto wanted = [=](Size at) {
    if (sums->empty()) {
      sums->resize(static_cast<std::size_t>(p.rows * p.columns));
      for (Size i = 0; i < p.rows; ++i) {
        double row = 0;
        for (Size j = 0; j < p.columns; ++j) {
          row += x(i, j);
          const auto here = static_cast<std::size_t>(i * p.columns + j);
          (*sums)[here] = row + (i > 0 ? (*sums)[here - static_cast<std::size_t>(p.columns)] : 0);
        }
      }
    }
    return (*sums)[static_cast<std::size_t>(at)];
  };
  return plan({13.0 * static_cast<double>(p.rows * p.columns)},
              outputs(by_offset<f32>(wanted, p.rows, p.columns).within(1e-4)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) {
                auto along = empty_like(y).on(on);
                kernel<row_sums_so_far<1 << 20>>(mut(along), from).on(on);
                kernel<column_prefix_sum<32, 64>>(mut(y), along).on(on);
              });
}

Plan exclusive_offsets_plan(const Args& args) {
  const Rows p(args);
  const auto counts = whole<i32>(1, 0, 1000, p.rows, p.columns);
  const auto total =
      down_columns(p.rows, p.columns, 0, false, [=](double s, Size i, Size j) { return s + counts(i, j); });
  const auto wanted = [=](Size at) { return total(at) - counts.at(at); };
  return plan(
      {2 * bytes_of<i32>(p.rows * p.columns)}, outputs(by_offset<i32>(wanted, p.rows, p.columns)), inputs(counts),
      [](const Stream& on, auto& y, const auto& from) { kernel<exclusive_offsets<1024, 16>>(mut(y), from).on(on); });
}

Plan suffix_sums_plan(const Args& args) {
  const Size images = size_of_case(args, "images"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = uniform<f32>(1, 0, 1, images, m, n);
  const auto wanted = [=](Size at) {
    const Size image = at / (m * n), first = at / n % m;
    return sum_over(m - first, [=](Size i) { return x(image, first + i, at % n); });
  };
  return plan({2 * bytes_of<f32>(images * m * n)}, outputs(by_offset<f32>(wanted, images, m, n).within(1e-4)),
              inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<suffix_sums<256, 32>>(mut(y), from).on(on); });
}

}  // namespace

std::vector<Entry> axis_scan_entries() {
  return {
      entry<column_prefix_sum_plan>("column_prefix_sum", "scans",
                                    "rows=8192 columns=16384; rows=3001 columns=30001; rows=5003 columns=9001",
                                    "rows=96 columns=128; rows=77 columns=101"),
      entry<time_prefix_sum_plan>(
          "time_prefix_sum", "scans",
          "batch=16 length=2048 channels=2048; batch=77 length=777 channels=1001; batch=3 length=5003 channels=3000",
          "batch=2 length=128 channels=128; batch=3 length=77 channels=101"),
      entry<column_running_max_plan>("column_running_max", "scans",
                                     "rows=8192 columns=16384; rows=3001 columns=30001; rows=5003 columns=9001",
                                     "rows=128 columns=96; rows=77 columns=101"),
      entry<column_log_cumsum_exp_plan>("column_log_cumsum_exp", "scans",
                                        "rows=1024 columns=65536; rows=501 columns=100003; rows=777 columns=30001",
                                        "rows=16 columns=256; rows=21 columns=201"),
      entry<discounted_returns_plan>("discounted_returns", "recurrences",
                                     "rows=1024 columns=65536; rows=501 columns=100003; rows=777 columns=30001",
                                     "rows=16 columns=256; rows=21 columns=201"),
      entry<integral_image_plan>("integral_image", "scans",
                                 "rows=8192 columns=8192; rows=3001 columns=11003; rows=9001 columns=2002",
                                 "rows=32 columns=2048; rows=21 columns=1501"),
      entry<exclusive_offsets_plan>("exclusive_offsets", "scans",
                                    "rows=1024 columns=65536; rows=777 columns=50001; rows=333 columns=30003",
                                    "rows=1024 columns=32; rows=333 columns=21"),
      entry<suffix_sums_plan>("suffix_sums", "scans",
                              "images=512 m=256 n=512; images=301 m=211 n=333; images=3001 m=77 n=99",
                              "images=2 m=256 n=64; images=3 m=77 n=41")};
}

}  // namespace generality
