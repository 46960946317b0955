// Loops whose length depends on the data: neighbours in a graph by rows of a list (CSR), sequences of many lengths,
// chains of references, places of a hash table.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cases.hpp"
#include "row_references.hpp"

namespace generality {
namespace {

constexpr int kWidth = 64;  // features of a node
constexpr int kDense = 32;  // columns of csr_times_dense
constexpr int kPiece = 1024;

/// One number of a vector.
auto number(const In<i32, dyn>& x, const Scalar<i32>& i) { return sum(x.load_at(shape<1>, i)); }

/// The mean of each node's neighbours, eight rows at a time.
template <int C>
void neighbour_mean(Mut<f32, 1, kWidth> y, In<bf16, dyn, kWidth> x, In<i32, dyn> limits, In<i32, dyn> neighbours) {
  auto [node, zero] = y.index();
  auto first = number(limits, node), last = number(limits, node + 1);
  auto total = zeros<f32, 1, kWidth>();
  for (auto at : range(first, last, C)) {
    auto ids = where(iota<i32, C>() + at < last, neighbours.load_at(shape<C>, at), -1);
    total += sum(cast<f32>(x.gather(axis<0>, reshape(ids, shape<C, 1>))), axis<0>);
  }
  y.store(total / cast<f32>(max(last - first, 1)));
}

/// The largest feature of the neighbours, one after the other.
void neighbour_max(Mut<bf16, 1, kWidth> y, In<bf16, dyn, kWidth> x, In<i32, dyn> limits, In<i32, dyn> neighbours) {
  auto [node, zero] = y.index();
  auto largest = cast<f32>(x.load_like(y));
  for (auto at : range(number(limits, node), number(limits, node + 1)))
    largest = max(largest, cast<f32>(x.load_at(shape<1, kWidth>, neighbours.gather(at), 0)));
  y.store(cast<bf16>(largest));
}

/// A sparse matrix by rows times a dense one of 32 columns.
template <int C>
void csr_times_dense(Mut<f32, 1, kDense> y, In<i32, dyn> limits, In<i32, dyn> columns, In<f32, dyn> values,
                     In<f32, dyn, kDense> x) {
  auto [row, zero] = y.index();
  auto first = number(limits, row), last = number(limits, row + 1);
  auto total = zeros<f32, 1, kDense>();
  for (auto at : range(first, last, C)) {
    auto inside = iota<i32, C, 1>(axis<0>) + at < last;
    auto rows = x.gather(axis<0>, reshape(columns.load_at(shape<C>, at), shape<C, 1>));
    total += sum(where(inside, reshape(values.load_at(shape<C>, at), shape<C, 1>) * rows, 0.0f), axis<0>);
  }
  y.store(total);
}

/// log sum exp of each segment of a vector.
template <int C>
void ragged_log_sum_exp(Mut<f32, 1> y, In<f32, dyn> x, In<i32, dyn> limits) {
  auto [s] = y.index();
  auto first = number(limits, s), last = number(limits, s + 1);
  auto m = Scalar<f32>(-1e30f), l = Scalar<f32>(0.0f);
  for (auto at : range(first, last, C)) {
    auto t = where(iota<i32, C>() + at < last, x.load_at(shape<C>, at), -1e30f);
    auto top = max(m, max(t));
    l = l * exp(m - top) + sum(where(iota<i32, C>() + at < last, exp(t - top), 0.0f));
    m = top;
  }
  y.store(full<f32, 1>(m + log(l)));
}

/// Attention over the neighbours of each node: scores are products of features; one pass.
template <int C>
void graph_attention(Mut<f32, 1, kWidth> y, In<f32, dyn, kWidth> q, In<f32, dyn, kWidth> x, In<i32, dyn> limits,
                     In<i32, dyn> neighbours) {
  auto [node, zero] = y.index();
  auto first = number(limits, node), last = number(limits, node + 1);
  auto query = q.load_like(y) * 0.125f;
  auto m = full<f32, 1, 1>(-1e30f), l = zeros<f32, 1, 1>();
  auto total = zeros<f32, 1, kWidth>();
  for (auto at : range(first, last, C)) {
    auto inside = iota<i32, C, 1>(axis<0>) + at < last;
    auto rows = x.gather(axis<0>, reshape(neighbours.load_at(shape<C>, at), shape<C, 1>));
    auto s = where(inside, sum(rows * query, axis<1>), -1e30f);
    auto top = max(m, max(s, axis<0>));
    auto w = where(inside, exp(s - top), 0.0f);
    auto less = exp(m - top);
    l = l * less + sum(w, axis<0>);
    total = total * less + sum(w * rows, axis<0>);
    m = top;
  }
  y.store(total / max(l, 1e-30f));
}

/// One step of PageRank, pulled along the edges that arrive.
template <int C>
void page_rank_step(Mut<f32, 1> y, In<f32, dyn> ranks, In<f32, dyn> shares, In<i32, dyn> limits, In<i32, dyn> sources,
                    Scalar<f32> damping) {
  auto [node] = y.index();
  auto first = number(limits, node), last = number(limits, node + 1);
  auto total = zeros<f32, C>();
  for (auto at : range(first, last, C)) {
    auto from = sources.load_at(shape<C>, at);
    total += where(iota<i32, C>() + at < last, ranks.gather(from) * shares.gather(from), 0.0f);
  }
  y.store(full<f32, 1>(1.0f - damping + damping * sum(total)));
}

/// The mean of the first rows of each sequence: batch, time, channel.
template <int T, int C>
void mean_of_sequence(Mut<f32, 1, C> y, In<bf16, dyn, dyn, dyn> x, In<i32, dyn> lengths) {
  auto [sequence, channel] = y.index();
  auto X = x.tiles(shape<1, T, C>);
  auto length = lengths.gather(sequence);
  auto total = zeros<f32, 1, C>();
  for (auto t : range(ceil_div(length, T))) {
    auto inside = iota<i32, T, 1>(axis<0>) + t * T < length;
    total += sum(where(inside, cast<f32>(reshape(X.load(sequence, t, channel), shape<T, C>)), 0.0f), axis<0>);
  }
  y.store(total / cast<f32>(length));
}

/// How many steps each number takes to 0, where step i divides it by what a table has for it.
template <int B>
void chain_lengths(Mut<i32, B> y, In<i32, dyn> divisors) {
  auto [first] = y.origin();
  auto at = iota<i32, B>() + first;
  at = where(at < y.dim(0), at, 0);
  auto steps = zeros<i32, B>();
  tile_while(any(at > 0)) {
    steps = where(at > 0, steps + 1, steps);
    at = at / divisors.gather(at);
  }
  y.store(steps);
}

/// Where each key is in a table with open addressing: the next places until it or an empty one is found.
template <int B>
void hash_lookup(Mut<i32, B> y, In<i32, dyn> keys, In<i32, dyn> table) {
  auto key = keys.load_like(y);
  auto size = table.dim(0);
  auto place = cast<i32>((cast<u32>(key) * 0x9E3779B1u) % cast<u32>(size));
  auto found = table.gather(place);
  auto searching = found != key && found >= 0;
  tile_while(any(searching)) {
    place = where(searching, (place + 1) % size, place);
    found = table.gather(place);
    searching = found != key && found >= 0;
  }
  y.store(where(found == key, place, -1));
}

/// The bytes before the first 0 of each row, a piece at a time until there is one.
template <int C>
void string_lengths(Mut<i32, 1> y, In<u8, dyn, dyn> x) {
  auto X = x.tiles(shape<1, C>);
  auto [row] = y.index();
  auto k = Scalar<i32>(0), length = Scalar<i32>(0);
  auto ended = length > 0;
  tile_while(!ended && k < X.count(1)) {
    auto before = min(where(X.load(row, k) == 0, iota<i32, 1, C>(axis<1>), C));
    length += before;
    ended = before < C;
    k += 1;
  }
  y.store(full<i32, 1>(min(length, x.dim(1))));
}

// -- the cases --------------------------------------------------------------------------------------------------------

/// A graph by rows: node i has the neighbours from limits[i] on, below limits[i + 1]; `degree` on average.
struct Graph {
  Size nodes, degree, all;
  Input<i32, 1> limits, neighbours;
  explicit Graph(const Args& args)
      : nodes(size_of_case(args, "nodes")),
        degree(size_of_case(args, "degree")),
        all((nodes + 1) * degree),
        limits(steps(1, degree, nodes + 1)),
        neighbours(whole<i32>(2, 0, nodes, all)) {}
  /// The sum of f(edge, neighbour) over the neighbours of node i.
  template <class F>
  double sum_of(Size i, F f) const {
    double s = 0;
    for (auto k = first(i); k < first(i + 1); ++k) s += f(k, static_cast<Size>(neighbours(k)));
    return s;
  }
  Size first(Size i) const { return static_cast<Size>(limits(i)); }
  /// Bytes of the lists, and of `width` bytes for each edge and node.
  Cost cost(double width) const { return {4.0 * static_cast<double>(all) + width * static_cast<double>(all + nodes)}; }
};

Plan neighbour_mean_plan(const Args& args) {
  const Graph g(args);
  const auto x = normal<bf16>(3, g.nodes, kWidth);
  const auto wanted = [=](Size at) {
    const Size i = at / kWidth, count = g.first(i + 1) - g.first(i);
    return g.sum_of(i, [=](Size, Size other) { return x(other, at % kWidth); }) /
           static_cast<double>(std::max<Size>(count, 1));
  };
  return plan(g.cost(2 * kWidth), outputs(by_offset<f32>(wanted, g.nodes, kWidth)), inputs(x, g.limits, g.neighbours),
              [](const Stream& on, auto& y, const auto&... in) { kernel<neighbour_mean<8>>(mut(y), in...).on(on); });
}

Plan neighbour_max_plan(const Args& args) {
  const Graph g(args);
  const auto x = normal<bf16>(3, g.nodes, kWidth);
  const auto wanted = [=](Size at) {
    double largest = x.at(at);
    g.sum_of(at / kWidth, [&](Size, Size other) { return largest = std::max(largest, x(other, at % kWidth)); });
    return largest;
  };
  return plan(g.cost(2 * kWidth), outputs(by_offset<bf16>(wanted, g.nodes, kWidth)), inputs(x, g.limits, g.neighbours),
              [](const Stream& on, auto& y, const auto&... in) { kernel<neighbour_max>(mut(y), in...).on(on); });
}

Plan csr_times_dense_plan(const Args& args) {
  const Graph g(args);
  const auto values = normal<f32>(3, g.all);
  const auto x = normal<f32>(4, g.nodes, kDense);
  const auto wanted = [=](Size at) {
    return g.sum_of(at / kDense, [=](Size k, Size other) { return values(k) * x(other, at % kDense); });
  };
  return plan(g.cost(4 * kDense + 4), outputs(by_offset<f32>(wanted, g.nodes, kDense)),
              inputs(g.limits, g.neighbours, values, x),
              [](const Stream& on, auto& y, const auto&... in) { kernel<csr_times_dense<16>>(mut(y), in...).on(on); });
}

Plan ragged_log_sum_exp_plan(const Args& args) {
  const Size segments = size_of_case(args, "segments"), length = size_of_case(args, "length");
  const auto x = normal<f32>(1, (segments + 1) * length);
  const auto limits = steps(2, length, segments + 1);
  const auto wanted = [=](Size s) {
    double total = 0;
    for (auto k = static_cast<Size>(limits(s)); k < static_cast<Size>(limits(s + 1)); ++k) total += std::exp(x(k));
    return std::log(total);
  };
  return plan(
      {bytes_of<f32>((segments + 1) * (length + 2))}, outputs(by_offset<f32>(wanted, segments)), inputs(x, limits),
      [](const Stream& on, auto& y, const auto&... in) { kernel<ragged_log_sum_exp<128>>(mut(y), in...).on(on); });
}

Plan graph_attention_plan(const Args& args) {
  const Graph g(args);
  const auto q = normal<f32>(3, g.nodes, kWidth), x = normal<f32>(4, g.nodes, kWidth);
  const auto wanted = [=](Size i) {
    const auto weight = [=](Size, Size other) {
      return std::exp(0.125 * sum_over(kWidth, [=](Size d) { return q(i, d) * x(other, d); }));
    };
    const double total = std::max(g.sum_of(i, weight), 1e-30);
    std::vector<double> y(kWidth, 0.0);
    for (Size d = 0; d < kWidth; ++d)
      y[static_cast<std::size_t>(d)] =
          g.sum_of(i, [=](Size k, Size other) { return weight(k, other) * x(other, d); }) / total;
    return y;
  };
  return plan(g.cost(4 * kWidth), outputs(by_line<f32>(wanted, g.nodes, kWidth).within(1e-4)),
              inputs(q, x, g.limits, g.neighbours),
              [](const Stream& on, auto& y, const auto&... in) { kernel<graph_attention<8>>(mut(y), in...).on(on); });
}

Plan page_rank_plan(const Args& args) {
  const Graph g(args);
  const auto ranks = uniform<f32>(3, 0, 2, g.nodes), shares = uniform<f32>(4, 0.01, 1, g.nodes);
  const auto wanted = [=](Size i) {
    return 1 - static_cast<double>(0.85f) +
           static_cast<double>(0.85f) * g.sum_of(i, [=](Size, Size from) { return ranks(from) * shares(from); });
  };
  return plan(
      g.cost(8), outputs(by_offset<f32>(wanted, g.nodes)), inputs(ranks, shares, g.limits, g.neighbours),
      [](const Stream& on, auto& y, const auto&... in) { kernel<page_rank_step<32>>(mut(y), in..., 0.85f).on(on); });
}

Plan mean_of_sequence_plan(const Args& args) {
  const Size batch = size_of_case(args, "batch"), length = size_of_case(args, "length"),
             channels = size_of_case(args, "channels");
  const auto x = normal<bf16>(1, batch, length, channels);
  const auto lengths = whole<i32>(2, 1, length + 1, batch);
  const auto wanted = [=](Size at) {
    const Size b = at / channels, count = static_cast<Size>(lengths(b));
    return sum_over(count, [=](Size t) { return x(b, t, at % channels); }) / static_cast<double>(count);
  };
  return plan({bytes_of<bf16>(batch * length * channels / 2)}, outputs(by_offset<f32>(wanted, batch, channels)),
              inputs(x, lengths), [](const Stream& on, auto& y, const auto&... in) {
                kernel<mean_of_sequence<32, 128>>(mut(y), in...).on(on);
              });
}

Plan chain_lengths_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto divisors = whole<i32>(1, 2, 5, n);
  const auto wanted = [=](Size i) {
    double steps = 0;
    for (Size at = i; at > 0; at /= static_cast<Size>(divisors(at))) steps += 1;
    return steps;
  };
  return plan({2 * bytes_of<i32>(n)}, outputs(by_offset<i32>(wanted, n)), inputs(divisors),
              [](const Stream& on, auto& y, const auto& from) { kernel<chain_lengths<kPiece>>(mut(y), from).on(on); });
}

Plan string_lengths_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), bytes = size_of_case(args, "bytes");
  const auto x = whole<u8>(1, 0, 256, rows, bytes);
  const auto wanted = [=](Size row) {
    Size k = 0;
    while (k < bytes && x(row, k) != 0) ++k;
    return static_cast<double>(k);
  };
  return plan({bytes_of<u8>(rows * std::min<Size>(bytes, 256))}, outputs(by_offset<i32>(wanted, rows)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<string_lengths<128>>(mut(y), from).on(on); });
}

/// Half of the places are empty: they have a negative number.
Plan hash_lookup_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), places = size_of_case(args, "places");
  const auto keys = whole<i32>(1, 0, 4 * places, n);
  const auto table = whole<i32>(2, -2 * places, 2 * places, places);
  const auto wanted = [=](Size i) {
    const auto key = static_cast<std::uint32_t>(keys(i));
    auto place = static_cast<Size>(key * 0x9E3779B1u % static_cast<std::uint32_t>(places));
    while (table(place) != static_cast<double>(key) && table(place) >= 0) place = (place + 1) % places;
    return table(place) == static_cast<double>(key) ? static_cast<double>(place) : -1.0;
  };
  return plan({2 * bytes_of<i32>(n) + bytes_of<i32>(places)}, outputs(by_offset<i32>(wanted, n)), inputs(keys, table),
              [](const Stream& on, auto& y, const auto&... in) { kernel<hash_lookup<256>>(mut(y), in...).on(on); });
}

}  // namespace

std::vector<Entry> ragged_entries() {
  return {
      entry<neighbour_mean_plan>("neighbour_mean", "graphs",
                                 "nodes=100000 degree=32; nodes=300007 degree=9; nodes=20011 degree=101",
                                 "nodes=64 degree=8; nodes=77 degree=5"),
      entry<neighbour_max_plan>("neighbour_max", "graphs",
                                "nodes=200000 degree=16; nodes=300007 degree=7; nodes=20011 degree=51",
                                "nodes=64 degree=8; nodes=77 degree=5"),
      entry<csr_times_dense_plan>("csr_times_dense", "graphs",
                                  "nodes=100000 degree=32; nodes=300007 degree=9; nodes=20011 degree=101",
                                  "nodes=64 degree=16; nodes=77 degree=5"),
      entry<ragged_log_sum_exp_plan>("ragged_log_sum_exp", "graphs",
                                     "segments=65536 length=512; segments=300007 length=77; segments=5003 length=9001",
                                     "segments=32 length=64; segments=21 length=5"),
      entry<graph_attention_plan>("graph_attention", "graphs",
                                  "nodes=100000 degree=16; nodes=200003 degree=7; nodes=20011 degree=51",
                                  "nodes=64 degree=8; nodes=77 degree=5"),
      entry<page_rank_plan>("page_rank_step", "graphs",
                            "nodes=1000000 degree=16; nodes=2000003 degree=5; nodes=100003 degree=101",
                            "nodes=64 degree=16; nodes=77 degree=5"),
      entry<mean_of_sequence_plan>(
          "mean_of_sequence", "graphs",
          "batch=256 length=2048 channels=512; batch=1001 length=333 channels=777; batch=77 length=9001 channels=333",
          "batch=4 length=64 channels=256; batch=3 length=77 channels=101"),
      entry<chain_lengths_plan>("chain_lengths", "graphs", "n=16777216; n=10000019; n=5000011", "n=8192; n=5001"),
      entry<string_lengths_plan>("string_lengths", "strings",
                                 "rows=262144 bytes=1024; rows=500009 bytes=333; rows=300007 bytes=2001",
                                 "rows=16 bytes=1024; rows=21 bytes=333"),
      entry<hash_lookup_plan>("hash_lookup", "gathers",
                              "n=16777216 places=4194304; n=20000003 places=100003; n=3000017 places=40000003",
                              "n=4096 places=1024; n=1001 places=333")};
}

}  // namespace generality
