// Columns of data: groups, masks, places of extremes, runs, dates, sorts, medians, distances of bits, text, means,
// histograms, long sums.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr int kGroups = 64;
constexpr int kHigh = 100, kWide = 120;          // bins of histogram_2d
constexpr int kDistance = 1024, kSorted = 4096;  // of bitonic_step

/// How many elements each group has, and the sum of their values; the group is in the lowest bits of the key.
template <int B>
void group_sums(Acc<i32, dyn> counts, Acc<f32, dyn> sums, In<i32, dyn> keys, In<f32, dyn> values) {
  auto [i] = block_id<1>();
  auto inside = iota<i32, B>() + i * B < keys.dim(0);
  auto group = where(inside, keys.tiles(shape<B>).load(i) & (kGroups - 1), -1);  // an index outside is dropped
  counts.add(group, 1);
  sums.add(group, values.tiles(shape<B>).load(i));
}

template <int B>
void masked_sum(Acc<f32, dyn> total, Acc<i32, dyn> count, In<f32, dyn> x, In<bool, dyn> mask) {
  auto [i] = block_id<1>();
  auto chosen = mask.tiles(shape<B>).load(i);
  total.add(0, sum(where(chosen, x.tiles(shape<B>).load(i), 0.0f)));
  count.add(0, sum(cast<i32>(chosen)));
}

/// The largest number and its place as one number of 64 bits: above, bits in the order of the numbers; below, the
/// distance from the largest place, so that the first of equal ones wins.
template <int B>
void largest_key(Acc<i64, dyn> best, In<f32, dyn> x) {
  auto [i] = block_id<1>();
  auto bits = bitcast<i32>(x.tiles(shape<B>, pad::neg_inf).load(i));
  auto ordered = where(bits < 0, bits ^ 0x7FFFFFFF, bits);
  auto place = 0x7FFFFFFF - (iota<i32, B>() + i * B);
  best.max(0, max((cast<i64>(ordered) << 32) | cast<i64>(place)));
}

void split_key(Mut<f32, 1> value, Mut<i32, 1> place, In<i64, dyn> best) {
  auto key = best.load_like(value);
  auto ordered = cast<i32>(key >> 32);
  value.store(bitcast<f32>(where(ordered < 0, ordered ^ 0x7FFFFFFF, ordered)));
  place.store(0x7FFFFFFF - cast<i32>(key & 0x7FFFFFFF));
}

/// The number of each element's run of equal ones in its row, from 0.
template <int N>
void run_numbers(Mut<i32, 1, N> y, In<i32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto [row, zero] = y.index();
  auto before = x.load_at(shape<1, N>, row, -1);
  auto starts = iota<i32, 1, N>(axis<1>) > 0 && x.load_like(y) != before;
  y.store(cumsum(cast<i32>(starts), axis<1>));
}

/// Days since 1970-01-01 as year * 10000 + month * 100 + day.
template <int B>
void civil_dates(Mut<i32, B> y, In<i32, dyn> days) {
  auto z = days.load_like(y) + 719468;  // days since 0000-03-01
  auto era = z / 146097;
  auto day_of_era = z % 146097;
  auto year = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  auto day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
  auto place = (5 * day_of_year + 2) / 153;  // of the month, from March
  auto day = day_of_year - (153 * place + 2) / 5 + 1;
  auto month = where(place < 10, place + 3, place - 9);
  year = year + era * 400 + where(month <= 2, 1, 0);
  y.store(year * 10000 + month * 100 + day);
}

/// A step of a bitonic sort: elements at a distance change places where they are in the wrong order.
template <int B>
void bitonic_step(Mut<f32, B> y, In<f32, dyn> x, Scalar<i32> distance, Scalar<i32> sorted) {
  auto [start] = y.origin();
  auto i = iota<i32, B>() + start;
  auto mine = x.load_like(y), other = x.gather(i ^ distance);
  auto smaller = ((i & distance) == 0) == ((i & sorted) == 0);
  y.store(where(smaller, min(mine, other), max(mine, other)));
}

/// A step inside rows: pairs at the distance J, whose runs of K rise and fall in turns.
template <int K, int J, int R, int N>
Tile<f32, R, N> exchanged(const Tile<f32, R, N>& t) {
  auto pairs = reshape(t, shape<R, N / (2 * J), 2, J>);
  auto a = extract(pairs, shape<R, N / (2 * J), 1, J>, 0, 0, 0, 0);
  auto b = extract(pairs, shape<R, N / (2 * J), 1, J>, 0, 0, 1, 0);
  auto rising = ((iota<i32, 1, N / (2 * J), 1, 1>(axis<1>) * (2 * J)) & K) == 0;
  auto low = min(a, b), high = max(a, b);
  return reshape(cat(where(rising, low, high), where(rising, high, low), axis<2>), shape<R, N>);
}

template <int K, int J, int R, int N>
Tile<f32, R, N> sorted_from(const Tile<f32, R, N>& t) {
  auto next = exchanged<K, J>(t);
  if constexpr (J > 1)
    return sorted_from<K, J / 2>(next);
  else if constexpr (K < N)
    return sorted_from<2 * K, K>(next);
  else
    return next;
}

/// Every row in rising order, by a bitonic network.
template <int R, int N>
void sort_rows(Mut<f32, R, N> y, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  y.store(sorted_from<2, 1>(x.load_like(y, pad::pos_inf)));
}

/// The median of every row (the lower one of two): the least number that half of the row does not exceed, by bisection.
template <int R, int N>
void row_medians(Mut<f32, R> y, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one tile");
  auto [i] = y.index();
  auto t = x.tiles(shape<R, N>, pad::pos_inf).load(i, 0);
  auto half = (x.dim(1) + 1) / 2;
  auto low = full<f32, R, 1>(-16.0f), high = full<f32, R, 1>(16.0f);
  for (auto step : range(40)) {
    (void)step;
    auto middle = 0.5f * (low + high);
    auto enough = sum(cast<i32>(t <= middle), axis<1>) >= half;
    high = where(enough, middle, high);
    low = where(enough, low, middle);
  }
  y.store(reshape(high, shape<R>));
}

/// How many bits of two rows of bytes differ.
template <int R, int N>
void hamming_distances(Mut<i32, R> y, In<u8, dyn, dyn> a, In<u8, dyn, dyn> b) {
  require(a.dim(1) <= N, "a row must fit in one tile");
  auto [i] = y.index();
  auto different = a.tiles(shape<R, N>).load(i, 0) ^ b.tiles(shape<R, N>).load(i, 0);
  auto count = zeros<i32, R, N>();
  for (int bit = 0; bit < 8; ++bit) count += cast<i32>((different >> bit) & 1);
  y.store(reshape(sum(count, axis<1>), shape<R>));
}

template <int B>
void upper_case(Mut<u8, B> y, In<u8, dyn> text) {
  auto t = text.load_like(y);
  y.store(where(t >= 'a' && t <= 'z', t - 32, t));
}

template <int B>
void mean_of_all(Acc<f64, dyn> y, In<f32, dyn> x) {
  auto [i] = block_id<1>();
  y.add(0, sum(cast<f64>(x.tiles(shape<B>).load(i))) / cast<f64>(x.dim(0)));
}

template <int B>
void histogram_2d(Acc<i32, dyn, dyn> counts, In<f32, dyn> x, In<f32, dyn> y) {
  auto [i] = block_id<1>();
  auto row = floor(x.tiles(shape<B>, pad(-1.0f)).load(i) * cast<f32>(counts.dim(0)));
  auto column = floor(y.tiles(shape<B>, pad(-1.0f)).load(i) * cast<f32>(counts.dim(1)));
  counts.add(cast<i32>(row), cast<i32>(column), 1);
}

/// Running sums of rows that are longer than a tile.
template <int N, int C>
void long_prefix_sum(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto [row, zero] = y.index();
  auto X = x.tiles(shape<1, C>);
  auto parts = y.sub(shape<1, C>);
  auto before = zeros<f32, 1, 1>();
  for (auto k : range(X.count(1))) {
    auto t = X.load(row, k);
    parts.store(0, k, cumsum(t, axis<1>) + before);
    before += sum(t, axis<1>);
  }
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan group_sums_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto keys = whole<i32>(1, 0, 1000000, n);
  const auto values = uniform<f32>(2, 0, 1, n);
  const auto totals = [=](bool counted) {
    const auto wanted = [=](Size) {
      std::vector<double> sums(kGroups, 0.0);
      for (Size i = 0; i < n; ++i) {
        sums[static_cast<std::size_t>(keys.at(i)) % kGroups] += counted ? 1 : values.at(i);
      }
      return sums;
    };
    return wanted;
  };
  return plan({2 * bytes_of<f32>(n)},
              outputs(by_line<i32>(totals(true), kGroups), by_line<f32>(totals(false), kGroups).within(1e-3)),
              inputs(keys, values), [=](const Stream& on, auto& counts, auto& sums, const auto&... in) {
                counts = zeros<i32>({kGroups}).on(on);
                sums = zeros<f32>({kGroups}).on(on);
                kernel<group_sums<kPiece>>.blocks(ceil_div(n, kPiece))(mut(counts), mut(sums), in...).on(on);
              });
}

Plan masked_sum_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = uniform<f32>(1, 0, 1, n);
  const auto mask = whole<bool>(2, 0, 2, n);
  const auto totals = [=](bool counted) {
    return [=](Size) {
      double s = 0;
      for (Size i = 0; i < n; ++i) s += mask.at(i) * (counted ? 1 : x.at(i));
      return s;
    };
  };
  return plan({bytes_of<f32>(n) + bytes_of<bool>(n)},
              outputs(by_offset<f32>(totals(false), 1).within(1e-3), by_offset<i32>(totals(true), 1)), inputs(x, mask),
              [=](const Stream& on, auto& total, auto& count, const auto&... in) {
                total = zeros<f32>({1}).on(on);
                count = zeros<i32>({1}).on(on);
                kernel<masked_sum<kPiece>>.blocks(ceil_div(n, kPiece))(mut(total), mut(count), in...).on(on);
              });
}

Plan first_maximum_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f32>(1, n);
  const auto place = [=](Size) {
    Size best = 0;
    double largest = x.at(0);
    for (Size i = 1; i < n; ++i) {
      const double t = x.at(i);
      if (t > largest) largest = t, best = i;
    }
    return static_cast<double>(best);
  };
  const auto value = [=](Size) { return x.at(static_cast<Size>(place(0))); };
  return plan({bytes_of<f32>(n)}, outputs(by_offset<f32>(value, 1).within(0), by_offset<i32>(place, 1)), inputs(x),
              [=](const Stream& on, auto& most, auto& where_it_is, const auto& from) {
                auto best = full<i64>({1}, std::numeric_limits<i64>::min()).on(on);
                kernel<largest_key<kPiece>>.blocks(ceil_div(n, kPiece))(mut(best), from).on(on);
                kernel<split_key>(mut(most), mut(where_it_is), best).on(on);
              });
}

Plan run_numbers_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = whole<i32>(1, 0, 3, rows, columns);
  const auto wanted = [=](Size i) {
    std::vector<double> line{0.0};
    for (Size j = 1; j < columns; ++j) line.push_back(line.back() + (x(i, j) != x(i, j - 1) ? 1 : 0));
    return line;
  };
  return plan({2 * bytes_of<i32>(rows * columns)}, outputs(by_line<i32>(wanted, rows, columns)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<run_numbers<4096>>(mut(y), from).on(on); });
}

Plan civil_dates_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto days = whole<i32>(1, 0, 60000, n);
  const auto wanted = [=](Size i) {
    using namespace std::chrono;
    const year_month_day date{sys_days{std::chrono::days{static_cast<int>(days(i))}}};
    return static_cast<double>(static_cast<int>(date.year()) * 10000 +
                               static_cast<int>(static_cast<unsigned>(date.month())) * 100 +
                               static_cast<int>(static_cast<unsigned>(date.day())));
  };
  return plan({2 * bytes_of<i32>(n)}, outputs(by_offset<i32>(wanted, n)), inputs(days),
              [](const Stream& on, auto& y, const auto& from) { kernel<civil_dates<kPiece>>(mut(y), from).on(on); });
}

Plan bitonic_step_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f32>(1, n);
  const auto wanted = [=](Size i) {
    const double mine = x(i), other = x(i ^ kDistance);
    return ((i & kDistance) == 0) == ((i & kSorted) == 0) ? std::min(mine, other) : std::max(mine, other);
  };
  return plan({2 * bytes_of<f32>(n)}, outputs(by_offset<f32>(wanted, n).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) {
                kernel<bitonic_step<kPiece>>(mut(y), from, kDistance, kSorted).on(on);
              });
}

Plan sort_rows_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  const auto wanted = [=](Size i) {
    auto line = row_of(x, i);
    std::sort(line.begin(), line.end());
    return line;
  };
  return plan({2 * bytes_of<f32>(rows * columns)}, outputs(by_line<f32>(wanted, rows, columns).within(0)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<sort_rows<4, 64>>(mut(y), from).on(on); });
}

Plan row_medians_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  const auto wanted = [=](Size i) {
    auto line = row_of(x, i);
    std::sort(line.begin(), line.end());
    return line[static_cast<std::size_t>((columns - 1) / 2)];
  };
  return plan({bytes_of<f32>(rows * (columns + 1))}, outputs(by_offset<f32>(wanted, rows)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<row_medians<8, 256>>(mut(y), from).on(on); });
}

Plan hamming_distances_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), bytes = size_of_case(args, "bytes");
  const auto a = whole<u8>(1, 0, 256, rows, bytes), b = whole<u8>(2, 0, 256, rows, bytes);
  const auto wanted = [=](Size i) {
    double count = 0;
    for (Size j = 0; j < bytes; ++j) {
      for (auto d = static_cast<unsigned>(a(i, j)) ^ static_cast<unsigned>(b(i, j)); d != 0; d >>= 1) count += d & 1;
    }
    return count;
  };
  return plan(
      {bytes_of<u8>(2 * rows * bytes) + bytes_of<i32>(rows)}, outputs(by_offset<i32>(wanted, rows)), inputs(a, b),
      [](const Stream& on, auto& y, const auto&... in) { kernel<hamming_distances<32, 128>>(mut(y), in...).on(on); });
}

Plan upper_case_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto text = whole<u8>(1, 32, 127, n);
  const auto wanted = [=](Size i) { return text(i) >= 'a' && text(i) <= 'z' ? text(i) - 32 : text(i); };
  return plan({2 * bytes_of<u8>(n)}, outputs(by_offset<u8>(wanted, n)), inputs(text),
              [](const Stream& on, auto& y, const auto& from) { kernel<upper_case<4096>>(mut(y), from).on(on); });
}

Plan mean_of_all_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = uniform<f32>(1, 0, 1, n);
  const auto wanted = [=](Size) {
    double s = 0;
    for (Size i = 0; i < n; ++i) s += x.at(i);
    return s / static_cast<double>(n);
  };
  return plan({bytes_of<f32>(n)}, outputs(by_offset<f64>(wanted, 1).within(1e-10)), inputs(x),
              [=](const Stream& on, auto& y, const auto& from) {
                y = zeros<f64>({1}).on(on);
                kernel<mean_of_all<kPiece>>.blocks(ceil_div(n, kPiece))(mut(y), from).on(on);
              });
}

Plan histogram_2d_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = uniform<f32>(1, 0, 1, n), y = uniform<f32>(2, 0, 1, n);
  auto counts = std::make_shared<std::vector<double>>();
  const auto wanted = [=](Size at) {
    if (counts->empty()) {
      counts->assign(std::size_t{kHigh} * kWide, 0.0);
      for (Size i = 0; i < n; ++i) {
        const auto row = static_cast<std::size_t>(static_cast<float>(x.at(i)) * float{kHigh});
        const auto column = static_cast<std::size_t>(static_cast<float>(y.at(i)) * float{kWide});
        if (row < kHigh && column < kWide) (*counts)[row * kWide + column] += 1;
      }
    }
    return (*counts)[static_cast<std::size_t>(at)];
  };
  return plan({2 * bytes_of<f32>(n)}, outputs(by_offset<i32>(wanted, kHigh, kWide)), inputs(x, y),
              [=](const Stream& on, auto& bins, const auto&... in) {
                bins = zeros<i32>({kHigh, kWide}).on(on);
                kernel<histogram_2d<kPiece>>.blocks(ceil_div(n, kPiece))(mut(bins), in...).on(on);
              });
}

Plan long_prefix_sum_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  const auto wanted = [=](Size i) {
    std::vector<double> line;
    double s = 0;
    for (Size j = 0; j < columns; ++j) line.push_back(s += x(i, j));
    return line;
  };
  return plan(
      {2 * bytes_of<f32>(rows * columns)}, outputs(by_line<f32>(wanted, rows, columns)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<long_prefix_sum<131072, 1024>>(mut(y), from).on(on); });
}

}  // namespace

std::vector<Entry> table_entries() {
  return {
      entry<group_sums_plan>("group_sums", "scatters", "n=67000000; n=50000003; n=20000003", "n=16064; n=5001"),
      entry<masked_sum_plan>("masked_sum", "reductions", "n=100000000; n=80000003; n=30000001", "n=16128; n=5001"),
      entry<first_maximum_plan>("first_maximum", "reductions", "n=100000000; n=80000003; n=30000001",
                                "n=16128; n=5001"),
      entry<run_numbers_plan>("run_numbers", "scans",
                              "rows=25000 columns=3000; rows=50001 columns=1333; rows=15001 columns=2001",
                              "rows=4 columns=3000; rows=3 columns=777"),
      entry<civil_dates_plan>("civil_dates", "arithmetic", "n=100000000; n=80000003; n=9000001", "n=8448; n=5001"),
      entry<bitonic_step_plan>("bitonic_step", "sorting", "n=67108864; n=50000003; n=20000003", "n=16384; n=5001"),
      entry<sort_rows_plan>("sort_rows", "sorting",
                            "rows=1000000 columns=60; rows=900001 columns=41; rows=300007 columns=57",
                            "rows=64 columns=60; rows=33 columns=17"),
      entry<row_medians_plan>("row_medians", "sorting",
                              "rows=300000 columns=200; rows=250001 columns=177; rows=500003 columns=99",
                              "rows=64 columns=200; rows=33 columns=97"),
      entry<hamming_distances_plan>("hamming_distances", "distances",
                                    "rows=2000000 bytes=96; rows=1500001 bytes=77; rows=3000001 bytes=41",
                                    "rows=64 bytes=96; rows=33 bytes=77"),
      entry<upper_case_plan>("upper_case", "strings", "n=300000000; n=250000003; n=100000001", "n=16128; n=5001"),
      entry<mean_of_all_plan>("mean_of_all", "reductions", "n=200000000; n=150000001; n=20000003", "n=16896; n=5001"),
      entry<histogram_2d_plan>("histogram_2d", "scatters", "n=50000000; n=40000003; n=20000003", "n=16000; n=5001"),
      entry<long_prefix_sum_plan>("long_prefix_sum", "scans",
                                  "rows=800 columns=100000; rows=3001 columns=20011; rows=777 columns=50009",
                                  "rows=2 columns=10016; rows=3 columns=3333")};
}

}  // namespace generality
