// Results that many blocks share: sums of columns, histograms, rows added at indices, sums of segments, counts,
// extremes. The tensors that blocks add into (Acc) get their first values in every launch, as PyTorch's results do.
#include <algorithm>
#include <cmath>
#include <limits>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr int kWidth = 128;  // of scattered rows and of segments
constexpr int kBins = 1000;  // of weighted_histogram

template <int BM, int BN>
void column_sums_added(Acc<f32, dyn> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<BM, BN>);
  auto [block] = block_id<1>();
  auto i = block / X.count(1), j = block % X.count(1);
  auto columns = iota<i32, 1, BN>(axis<1>) + j * BN;
  y.add(columns, sum(X.load(i, j), axis<0>));
}

template <int BM, int BN>
void column_sums(Mut<f32, BN> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<BM, BN>);
  auto [j] = y.index();
  auto total = zeros<f32, 1, BN>();
  for (auto i : range(X.count(0))) total += sum(X.load(i, j), axis<0>);
  y.store(reshape(total, shape<BN>));
}

template <int B>
void byte_histogram(Acc<i32, dyn> counts, In<u8, dyn> x) {
  auto [i] = block_id<1>();
  auto bins = cast<i32>(x.tiles(shape<B>).load(i));
  counts.add(where(iota<i32, B>() + i * B < x.dim(0), bins, -1), 1);  // an index outside is dropped
}

template <int B>
void add_rows(Acc<f32, dyn, kWidth> y, In<f32, dyn, kWidth> x, In<i32, dyn> ids) {
  auto [i] = block_id<1>();
  auto rows = reshape(ids.tiles(shape<B>, pad(-1)).load(i), shape<B, 1>);
  y.add(rows, iota<i32, 1, kWidth>(axis<1>), x.tiles(shape<B, kWidth>).load(i, 0));
}

/// Segment s are the rows from limits[s] on, below limits[s + 1].
void segment_sums(Mut<f32, 1, kWidth> y, In<f32, dyn, kWidth> x, In<i32, dyn> limits) {
  auto [s, zero] = y.index();
  auto first = sum(limits.load_at(shape<1>, s)), last = sum(limits.load_at(shape<1>, s + 1));
  auto total = zeros<f32, 1, kWidth>();
  for (auto r : range(first, last)) total += x.load_at(shape<1, kWidth>, r, 0);
  y.store(total);
}

template <int B>
void weighted_histogram(Acc<f32, dyn> y, In<i32, dyn> bins, In<f32, dyn> weights) {
  auto [i] = block_id<1>();
  y.add(bins.tiles(shape<B>, pad(-1)).load(i), weights.tiles(shape<B>).load(i));
}

/// Rows whose label has the largest number.
template <int N>
void accuracy_count(Acc<i32, dyn> count, In<f16, dyn, dyn> x, In<i32, dyn> labels) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto [row] = block_id<1>();
  auto largest = max(x.tiles(shape<1, N>, pad::neg_inf).load(row, 0));
  auto chosen = x.gather(row, labels.gather(row));
  count.add(0, where(chosen == largest, 1, 0));
}

template <int B>
void sum_of_squares(Acc<f32, dyn> y, In<f32, dyn> x) {
  auto [i] = block_id<1>();
  auto t = x.tiles(shape<B>).load(i);
  y.add(0, sum(t * t));
}

template <int B>
void min_max(Acc<i32, dyn> least, Acc<i32, dyn> most, In<i32, dyn> x) {
  auto [i] = block_id<1>();
  least.min(0, min(x.tiles(shape<B>, pad(std::numeric_limits<i32>::max())).load(i)));
  most.max(0, max(x.tiles(shape<B>, pad(std::numeric_limits<i32>::min())).load(i)));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Output<f32, 1> sums_of_columns(const Input<f32, 2>& x) {
  const auto wanted = [=](Size j) {
    double s = 0;
    for (Size i = 0; i < x.dims[0]; ++i) s += x(i, j);
    return s;
  };
  return by_offset<f32>(wanted, x.dims[1]).within(1e-4);  // f32 sums of many rows
}

Plan column_sums_added_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  return plan(
      {bytes_of<f32>(rows * columns)}, outputs(sums_of_columns(x)), inputs(x),
      [=](const Stream& on, auto& y, const auto& from) {
        y = zeros<f32>({columns}).on(on);
        kernel<column_sums_added<64, 128>>.blocks(ceil_div(rows, 64) * ceil_div(columns, 128))(mut(y), from).on(on);
      });
}

Plan column_sums_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  return plan({bytes_of<f32>(rows * columns)}, outputs(sums_of_columns(x)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<column_sums<64, 128>>(mut(y), from).on(on); });
}

Plan byte_histogram_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, n);
  const auto wanted = [=](Size) {
    std::vector<double> counts(256, 0.0);
    for (Size i = 0; i < n; ++i) counts[static_cast<std::size_t>(x.at(i))] += 1;
    return counts;
  };
  return plan({bytes_of<u8>(n)}, outputs(by_line<i32>(wanted, 256)), inputs(x),
              [=](const Stream& on, auto& y, const auto& from) {
                y = zeros<i32>({256}).on(on);
                kernel<byte_histogram<1024>>.blocks(ceil_div(n, 1024))(mut(y), from).on(on);
              });
}

Plan add_rows_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), rows = size_of_case(args, "rows");
  const auto x = normal<f32>(1, n, kWidth);
  const auto ids = whole<i32>(2, 0, rows, n);
  const auto wanted = [=](Size row) {
    std::vector<double> line(kWidth, 0.0);
    for (Size i = 0; i < n; ++i) {
      if (ids(i) != static_cast<double>(row)) continue;
      for (Size j = 0; j < kWidth; ++j) line[static_cast<std::size_t>(j)] += x(i, j);
    }
    return line;
  };
  return plan({bytes_of<f32>((n + rows) * kWidth)}, outputs(by_line<f32>(wanted, rows, kWidth)), inputs(x, ids),
              [=](const Stream& on, auto& y, const auto&... in) {
                y = zeros<f32>({rows, Size{kWidth}}).on(on);
                kernel<add_rows<32>>.blocks(ceil_div(n, 32))(mut(y), in...).on(on);
              });
}

Plan segment_sums_plan(const Args& args) {
  const Size segments = size_of_case(args, "segments"), length = size_of_case(args, "length");
  const auto x = normal<f32>(1, (segments + 1) * length, kWidth);
  const auto limits = steps(2, length, segments + 1);
  const auto wanted = [=](Size s) {
    std::vector<double> line(kWidth, 0.0);
    for (auto r = static_cast<Size>(limits(s)); r < static_cast<Size>(limits(s + 1)); ++r) {
      for (Size j = 0; j < kWidth; ++j) line[static_cast<std::size_t>(j)] += x(r, j);
    }
    return line;
  };
  return plan({bytes_of<f32>(segments * (length + 1) * kWidth)}, outputs(by_line<f32>(wanted, segments, kWidth)),
              inputs(x, limits),
              [](const Stream& on, auto& y, const auto&... in) { kernel<segment_sums>(mut(y), in...).on(on); });
}

Plan weighted_histogram_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto bins = whole<i32>(1, 0, kBins, n);
  const auto weights = uniform<f32>(2, 0, 1, n);
  const auto wanted = [=](Size) {
    std::vector<double> sums(kBins, 0.0);
    for (Size i = 0; i < n; ++i) sums[static_cast<std::size_t>(bins.at(i))] += weights.at(i);
    return sums;
  };
  return plan({2 * bytes_of<f32>(n)}, outputs(by_line<f32>(wanted, kBins).within(1e-3)), inputs(bins, weights),
              [=](const Stream& on, auto& y, const auto&... in) {
                y = zeros<f32>({kBins}).on(on);
                kernel<weighted_histogram<kPiece>>.blocks(ceil_div(n, kPiece))(mut(y), in...).on(on);
              });
}

Plan accuracy_count_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = whole<f16>(1, -1000, 1000, rows, columns);
  const auto labels = whole<i32>(2, 0, columns, rows);
  const auto wanted = [=](Size) {
    double count = 0;
    for (Size i = 0; i < rows; ++i) {
      const double chosen = x(i, static_cast<Size>(labels(i)));
      bool largest = true;
      for (Size j = 0; j < columns && largest; ++j) largest = x(i, j) <= chosen;
      count += largest ? 1 : 0;
    }
    return count;
  };
  return plan({bytes_of<f16>(rows * columns)}, outputs(by_offset<i32>(wanted, 1)), inputs(x, labels),
              [=](const Stream& on, auto& y, const auto&... in) {
                y = zeros<i32>({1}).on(on);
                kernel<accuracy_count<1024>>.blocks(rows)(mut(y), in...).on(on);
              });
}

Plan sum_of_squares_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<f32>(1, -100, 100, n);
  const auto wanted = [=](Size) {
    double s = 0;
    for (Size i = 0; i < n; ++i) s += x.at(i) * x.at(i);
    return s;
  };
  return plan({bytes_of<f32>(n)}, outputs(by_offset<f32>(wanted, 1).within(1e-3)), inputs(x),
              [=](const Stream& on, auto& y, const auto& from) {
                y = zeros<f32>({1}).on(on);
                kernel<sum_of_squares<kPiece>>.blocks(ceil_div(n, kPiece))(mut(y), from).on(on);
              });
}

Plan min_max_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<i32>(1, -1000000, 1000000, n);
  const auto least = [=](Size) {
    double s = INFINITY;
    for (Size i = 0; i < n; ++i) s = std::min(s, x.at(i));
    return s;
  };
  const auto most = [=](Size) {
    double s = -INFINITY;
    for (Size i = 0; i < n; ++i) s = std::max(s, x.at(i));
    return s;
  };
  return plan({bytes_of<i32>(n)}, outputs(by_offset<i32>(least, 1), by_offset<i32>(most, 1)), inputs(x),
              [=](const Stream& on, auto& low, auto& high, const auto& from) {
                low = full<i32>({1}, std::numeric_limits<i32>::max()).on(on);
                high = full<i32>({1}, std::numeric_limits<i32>::min()).on(on);
                kernel<min_max<kPiece>>.blocks(ceil_div(n, kPiece))(mut(low), mut(high), from).on(on);
              });
}

}  // namespace

std::vector<Entry> shared_entries() {
  return {
      entry<column_sums_added_plan>("column_sums_added", "columns",
                                    "rows=65536 columns=4096; rows=200003 columns=1001; rows=3001 columns=50007",
                                    "rows=128 columns=256; rows=100 columns=200"),
      entry<column_sums_plan>("column_sums", "columns",
                              "rows=65536 columns=4096; rows=200003 columns=1001; rows=3001 columns=50007",
                              "rows=128 columns=256; rows=100 columns=200"),
      entry<byte_histogram_plan>("byte_histogram", "scatters", "n=536870912; n=300000001; n=100000007",
                                 "n=8192; n=5000"),
      entry<add_rows_plan>("add_rows", "scatters", "n=1048576 rows=65536; n=800001 rows=10007; n=100003 rows=500009",
                           "n=256 rows=64; n=250 rows=50"),
      entry<segment_sums_plan>("segment_sums", "graphs",
                               "segments=65536 length=16; segments=20001 length=51; segments=200003 length=5",
                               "segments=16 length=16; segments=21 length=5"),
      entry<weighted_histogram_plan>("weighted_histogram", "scatters", "n=67108864; n=50000003; n=20000003",
                                     "n=16384; n=5001"),
      entry<accuracy_count_plan>("accuracy_count", "reductions",
                                 "rows=131072 columns=1000; rows=150001 columns=777; rows=700001 columns=101",
                                 "rows=96 columns=8; rows=50 columns=7"),
      entry<sum_of_squares_plan>("sum_of_squares", "reductions", "n=134217728; n=100000003; n=30000001",
                                 "n=16384; n=5001"),
      entry<min_max_plan>("min_max", "reductions", "n=134217728; n=100000003; n=30000001", "n=16384; n=5001")};
}

}  // namespace generality
