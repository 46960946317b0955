// Columns and graphs: largest values of groups, joins, dictionaries, sums of chosen rows, deltas, dates in text,
// base64, the best of each row, sums and softmax over the edges of a graph.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr float kLeast = 0.05f, kMost = 0.07f;  // discounts of chosen_revenue
constexpr int kGroups = 1000;                   // of group_maximum
constexpr int kApart = 4;                       // how far the keys of join_by_key lie apart
constexpr int kBlock = 120;                     // numbers of a block of delta_decode
constexpr int kBest = 8;                        // of best_of_rows
constexpr int kFeatures = 64;                   // of a node of edge_sums

template <int B>
void group_maximum(Acc<f32, dyn> most, In<i32, dyn> keys, In<f32, dyn> values) {
  auto [i] = block_id<1>();
  most.max(keys.tiles(shape<B>, pad(-1)).load(i), values.tiles(shape<B>).load(i));
}

/// A table of the row of each key.
template <int B>
void rows_by_key(Acc<i32, dyn> table, In<i32, dyn> keys) {
  auto [i] = block_id<1>();
  table.max(keys.tiles(shape<B>, pad(-1)).load(i), iota<i32, B>() + i * B);
}

/// The row whose key is looked for, and its value; -1 and 0 where there is none.
template <int B>
void look_up(Mut<i32, B> rows, Mut<f32, B> found, In<i32, dyn> table, In<f32, dyn> values, In<i32, dyn> wanted) {
  auto row = table.gather(wanted.load_like(rows));
  rows.store(row);
  found.store(values.gather(row));
}

/// Numbers from the first one of each block and differences of 8 bits.
template <int R, int N>
void delta_decode(Mut<i32, R, N> y, In<i32, dyn> first, In<i8, dyn, dyn> deltas) {
  require(y.dim(1) <= N, "a block must fit in one piece");
  y.store(cumsum(cast<i32>(deltas.load_like(y)), axis<1>) + first.load_like(y, axes<0>));
}

/// Days since 1970-01-01 of dates as text: YYYY-MM-DD.
template <int B>
void parse_dates(Mut<i32, B> y, In<u8, dyn, 10> text) {
  auto [i] = y.index();
  auto letters = text.tiles(shape<B, 1>);
  auto digit = [&](int k) { return reshape(cast<i32>(letters.load(i, k)), shape<B>) - '0'; };
  auto year = 1000 * digit(0) + 100 * digit(1) + 10 * digit(2) + digit(3);
  auto month = 10 * digit(5) + digit(6), day = 10 * digit(8) + digit(9);
  year = where(month <= 2, year - 1, year);  // which begins in March
  auto place = where(month <= 2, month + 9, month - 3);
  y.store(365 * year + year / 4 - year / 100 + year / 400 + (153 * place + 2) / 5 + day - 1 - 719468);
}

/// Three bytes as four letters.
template <int B>
void base64(Mut<u8, B, 4> y, In<u8, dyn, 3> x) {
  auto [i, zero] = y.index();
  auto bytes = x.tiles(shape<B, 1>);
  auto a = cast<i32>(bytes.load(i, 0)), b = cast<i32>(bytes.load(i, 1)), c = cast<i32>(bytes.load(i, 2));
  auto bits = (a << 16) | (b << 8) | c;
  auto six = (bits >> (18 - 6 * iota<i32, 1, 4>(axis<1>))) & 63;
  auto sign = where(six == 62, '+', full<i32, B, 4>('/'));
  auto letter = where(six < 26, six + 'A', where(six < 52, six - 26 + 'a', where(six < 62, six - 52 + '0', sign)));
  y.store(cast<u8>(letter));
}

/// The largest numbers of each row and their places, in falling order.
template <int R, int N>
void best_of_rows(Mut<f32, R, kBest> values, Mut<i32, R, kBest> places, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one tile");
  auto [i, zero] = values.index();
  auto t = x.tiles(shape<R, N>, pad::neg_inf).load(i, 0);
  auto all_values = values.sub(shape<R, 1>);
  auto all_places = places.sub(shape<R, 1>);
  for (auto k : range(kBest)) {
    auto [value, place] = argmax(t, axis<1>);
    all_values.store(0, k, value);
    all_places.store(0, k, place);
    t = where(iota<i32, 1, N>(axis<1>) == place, -infinity<f32>, t);
  }
}

/// For each node the sum of the features of the nodes whose edges lead to it, and the number of these edges.
template <int B>
void edge_sums(Acc<f32, dyn, kFeatures> sums, Acc<i32, dyn> degrees, In<f32, dyn, kFeatures> x, In<i32, dyn> from,
               In<i32, dyn> to) {
  auto [i] = block_id<1>();
  auto target = to.tiles(shape<B>, pad(-1)).load(i);
  auto features = x.gather(axis<0>, reshape(from.tiles(shape<B>, pad(-1)).load(i), shape<B, 1>));
  sums.add(reshape(target, shape<B, 1>), iota<i32, 1, kFeatures>(axis<1>), features);
  degrees.add(target, 1);
}

template <int B>
void edge_maximum(Acc<f32, dyn> most, In<i32, dyn> to, In<f32, dyn> scores) {
  auto [i] = block_id<1>();
  most.max(to.tiles(shape<B>, pad(-1)).load(i), scores.tiles(shape<B>).load(i));
}

template <int B>
void edge_totals(Acc<f32, dyn> totals, In<i32, dyn> to, In<f32, dyn> scores, In<f32, dyn> most) {
  auto [i] = block_id<1>();
  auto target = to.tiles(shape<B>, pad(-1)).load(i);
  totals.add(target, exp(scores.tiles(shape<B>).load(i) - most.gather(target)));
}

template <int B>
void edge_shares(Mut<f32, B> y, In<i32, dyn> to, In<f32, dyn> scores, In<f32, dyn> most, In<f32, dyn> totals) {
  auto target = to.load_like(y);
  y.store(exp(scores.load_like(y) - most.gather(target)) / totals.gather(target));
}

/// The word of each code; 0 where there is none.
template <int B>
void dictionary_decode(Mut<f64, B> y, In<f64, dyn> words, In<i16, dyn> codes, In<bool, dyn> known) {
  y.store(where(known.load_like(y), words.gather(codes.load_like(y)), 0.0));
}

/// The sum of price * discount over the rows of some days, discounts and quantities.
template <int B>
void chosen_revenue(Acc<f64, dyn> total, In<i32, dyn> days, In<f32, dyn> discounts, In<i32, dyn> quantities,
                    In<f32, dyn> prices) {
  auto [i] = block_id<1>();
  auto day = days.tiles(shape<B>).load(i), quantity = quantities.tiles(shape<B>).load(i);
  auto discount = discounts.tiles(shape<B>).load(i);
  auto chosen = day >= 365 && day < 730 && discount >= kLeast && discount <= kMost && quantity < 24;
  auto revenue = cast<f64>(prices.tiles(shape<B>).load(i)) * cast<f64>(discount);
  total.add(0, sum(where(chosen, revenue, 0.0)));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan group_maximum_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto keys = whole<i32>(1, 0, kGroups, n);
  const auto values = normal<f32>(2, n);
  const auto wanted = [=](Size) {
    std::vector<double> most(kGroups, -std::numeric_limits<double>::infinity());
    for (Size i = 0; i < n; ++i) {
      double& t = most[static_cast<std::size_t>(keys.at(i))];
      t = std::max(t, values.at(i));
    }
    return most;
  };
  return plan({2 * bytes_of<f32>(n)}, outputs(by_line<f32>(wanted, kGroups).within(0)), inputs(keys, values),
              [=](const Stream& on, auto& most, const auto&... in) {
                most = full<f32>({kGroups}, -infinity<f32>).on(on);
                kernel<group_maximum<kPiece>>.blocks(ceil_div(n, kPiece))(mut(most), in...).on(on);
              });
}

Plan join_by_key_plan(const Args& args) {
  const Size count = size_of_case(args, "rows"), n = size_of_case(args, "n");
  const auto keys = steps(1, kApart, count);
  const auto values = normal<f32>(2, count);
  const auto searched = whole<i32>(3, 0, kApart * count, n);
  const auto row = [=](Size i) {
    const auto key = static_cast<Size>(searched(i));
    return static_cast<Size>(keys(key / kApart)) == key ? key / kApart : -1;
  };
  const auto value = [=](Size i) { return row(i) < 0 ? 0.0 : values(row(i)); };
  return plan({bytes_of<i32>(2 * count + 3 * n)},
              outputs(by_offset<i32>([=](Size i) { return static_cast<double>(row(i)); }, n),
                      by_offset<f32>(value, n).within(0)),
              inputs(keys, values, searched),
              [=](const Stream& on, auto& rows, auto& found, const auto& key, const auto& value_of, const auto& want) {
                auto table = full<i32>({kApart * count}, -1).on(on);
                kernel<rows_by_key<kPiece>>.blocks(ceil_div(count, kPiece))(mut(table), key).on(on);
                kernel<look_up<kPiece>>(mut(rows), mut(found), table, value_of, want).on(on);
              });
}

Plan delta_decode_plan(const Args& args) {
  const Size blocks = size_of_case(args, "blocks");
  const auto first = whole<i32>(1, -100000, 100000, blocks);
  const auto deltas = whole<i8>(2, -128, 128, blocks, kBlock);
  const auto wanted = [=](Size i) {
    auto line = row_of(deltas, i);
    line[0] += first(i);
    std::partial_sum(line.begin(), line.end(), line.begin());
    return line;
  };
  return plan(
      {bytes_of<i8>(blocks * kBlock) + bytes_of<i32>(blocks * (kBlock + 1))},
      outputs(by_line<i32>(wanted, blocks, kBlock)), inputs(first, deltas),
      [](const Stream& on, auto& y, const auto&... in) { kernel<delta_decode<16, 128>>(mut(y), in...).on(on); });
}

Plan parse_dates_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto text = whole<u8>(1, '0', '9' + 1, n, 10);  // months and days may be any numbers
  const auto wanted = [=](Size i) {
    const auto number = [&](Size from, Size count) {
      Size t = 0;
      for (Size k = from; k < from + count; ++k) t = 10 * t + static_cast<Size>(text(i, k)) - '0';
      return t;
    };
    const Size month = number(5, 2), year = number(0, 4) - (month <= 2 ? 1 : 0);
    const Size place = month <= 2 ? month + 9 : month - 3;
    const Size days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * place + 2) / 5 + number(8, 2) - 1;
    return static_cast<double>(days - 719468);
  };
  return plan({bytes_of<u8>(10 * n) + bytes_of<i32>(n)}, outputs(by_offset<i32>(wanted, n)), inputs(text),
              [](const Stream& on, auto& y, const auto& from) { kernel<parse_dates<kPiece>>(mut(y), from).on(on); });
}

Plan base64_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<u8>(1, 0, 256, n, 3);
  const auto wanted = [=](Size at) {
    constexpr const char* kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const Size i = at / 4;
    const Size bits =
        static_cast<Size>(x(i, 0)) * 65536 + static_cast<Size>(x(i, 1)) * 256 + static_cast<Size>(x(i, 2));
    return static_cast<double>(kLetters[(bits >> (18 - 6 * (at % 4))) & 63]);
  };
  return plan({bytes_of<u8>(7 * n)}, outputs(by_offset<u8>(wanted, n, 4)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<base64<kPiece>>(mut(y), from).on(on); });
}

Plan best_of_rows_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), columns = size_of_case(args, "columns");
  const auto x = normal<f32>(1, rows, columns);
  const auto places = [=](Size i) {
    std::vector<Size> order(static_cast<std::size_t>(columns));
    std::iota(order.begin(), order.end(), Size{0});
    std::stable_sort(order.begin(), order.end(), [&](Size a, Size b) { return x(i, a) > x(i, b); });
    return std::vector<double>(order.begin(), order.begin() + kBest);
  };
  const auto values = [=](Size i) {
    auto best = places(i);
    for (double& t : best) t = x(i, static_cast<Size>(t));
    return best;
  };
  return plan({bytes_of<f32>(rows * (columns + 2 * kBest))},
              outputs(by_line<f32>(values, rows, kBest).within(0), by_line<i32>(places, rows, kBest)), inputs(x),
              [](const Stream& on, auto& v, auto& p, const auto& from) {
                kernel<best_of_rows<4, 512>>(mut(v), mut(p), from).on(on);
              });
}

Plan edge_sums_plan(const Args& args) {
  const Size nodes = size_of_case(args, "nodes"), edges = size_of_case(args, "edges");
  const auto x = normal<f32>(1, nodes, kFeatures);
  const auto from = whole<i32>(2, 0, nodes, edges), to = whole<i32>(3, 0, nodes, edges);
  const auto sums = [=](Size node) {
    std::vector<double> line(kFeatures, 0.0);
    for (Size e = 0; e < edges; ++e) {
      if (static_cast<Size>(to.at(e)) != node) continue;
      for (Size k = 0; k < kFeatures; ++k) line[static_cast<std::size_t>(k)] += x(static_cast<Size>(from(e)), k);
    }
    return line;
  };
  const auto degree = [=](Size) {
    std::vector<double> counts(static_cast<std::size_t>(nodes), 0.0);
    for (Size e = 0; e < edges; ++e) counts[static_cast<std::size_t>(to.at(e))] += 1;
    return counts;
  };
  return plan({bytes_of<f32>(edges * (kFeatures + 2) + nodes * (kFeatures + 1))},
              outputs(by_line<f32>(sums, nodes, kFeatures), by_line<i32>(degree, nodes)), inputs(x, from, to),
              [=](const Stream& on, auto& total, auto& count, const auto&... in) {
                total = zeros<f32>({nodes, kFeatures}).on(on);
                count = zeros<i32>({nodes}).on(on);
                kernel<edge_sums<32>>.blocks(ceil_div(edges, 32))(mut(total), mut(count), in...).on(on);
              });
}

Plan edge_softmax_plan(const Args& args) {
  const Size nodes = size_of_case(args, "nodes"), edges = size_of_case(args, "edges");
  const auto to = whole<i32>(1, 0, nodes, edges);
  const auto scores = normal<f32>(2, edges);
  auto totals = std::make_shared<std::vector<double>>();
  const auto wanted = [=](Size e) {
    if (totals->empty()) {
      totals->assign(static_cast<std::size_t>(nodes), 0.0);
      for (Size i = 0; i < edges; ++i) (*totals)[static_cast<std::size_t>(to.at(i))] += std::exp(scores.at(i));
    }
    return std::exp(scores.at(e)) / (*totals)[static_cast<std::size_t>(to.at(e))];
  };
  return plan({bytes_of<f32>(3 * edges)}, outputs(by_offset<f32>(wanted, edges)), inputs(to, scores),
              [=](const Stream& on, auto& y, const auto& target, const auto& score) {
                auto most = full<f32>({nodes}, -infinity<f32>).on(on);
                auto total = zeros<f32>({nodes}).on(on);
                const auto blocks = ceil_div(edges, kPiece);
                kernel<edge_maximum<kPiece>>.blocks(blocks)(mut(most), target, score).on(on);
                kernel<edge_totals<kPiece>>.blocks(blocks)(mut(total), target, score, most).on(on);
                kernel<edge_shares<kPiece>>(mut(y), target, score, most, total).on(on);
              });
}

Plan dictionary_decode_plan(const Args& args) {
  const Size count = size_of_case(args, "words"), n = size_of_case(args, "n");
  const auto words = normal<f64>(1, count);
  const auto codes = whole<i16>(2, 0, count, n);
  const auto known = whole<bool>(3, 0, 4, n);
  const auto wanted = [=](Size i) { return known(i) != 0 ? words(static_cast<Size>(codes(i))) : 0.0; };
  return plan(
      {bytes_of<f64>(n + count) + 3 * bytes_of<u8>(n)}, outputs(by_offset<f64>(wanted, n)), inputs(words, codes, known),
      [](const Stream& on, auto& y, const auto&... in) { kernel<dictionary_decode<kPiece>>(mut(y), in...).on(on); });
}

Plan chosen_revenue_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto days = whole<i32>(1, 0, 2500, n);
  const auto discounts = uniform<f32>(2, 0, 0.1, n);
  const auto quantities = whole<i32>(3, 1, 51, n);
  const auto prices = uniform<f32>(4, 1000, 100000, n);
  const auto wanted = [=](Size) {
    double total = 0;
    for (Size i = 0; i < n; ++i) {
      const double day = days.at(i), discount = discounts.at(i);
      const bool near = discount >= static_cast<double>(kLeast) && discount <= static_cast<double>(kMost);
      if (day >= 365 && day < 730 && near && quantities.at(i) < 24) total += prices.at(i) * discount;
    }
    return total;
  };
  return plan({4 * bytes_of<f32>(n)}, outputs(by_offset<f64>(wanted, 1).within(1e-10)),
              inputs(days, discounts, quantities, prices), [=](const Stream& on, auto& total, const auto&... in) {
                total = zeros<f64>({1}).on(on);
                kernel<chosen_revenue<kPiece>>.blocks(ceil_div(n, kPiece))(mut(total), in...).on(on);
              });
}

}  // namespace

std::vector<Entry> dataset_entries() {
  return {
      entry<group_maximum_plan>("group_maximum", "scatters", "n=60000000; n=40000003; n=20000003", "n=32064; n=15001"),
      entry<join_by_key_plan>("join_by_key", "gathers",
                              "rows=5000000 n=30000000; rows=300007 n=20000001; rows=40000003 n=5000003",
                              "rows=1088 n=4160; rows=333 n=1001"),
      entry<delta_decode_plan>("delta_decode", "scans", "blocks=800000; blocks=500001; blocks=233333",
                               "blocks=48; blocks=33"),
      entry<parse_dates_plan>("parse_dates", "strings", "n=20000000; n=15000001; n=7000003", "n=4160; n=1001"),
      entry<base64_plan>("base64", "strings", "n=40000000; n=30000001; n=11000003", "n=4160; n=1001"),
      entry<best_of_rows_plan>("best_of_rows", "sorting",
                               "rows=200000 columns=500; rows=300001 columns=333; rows=500007 columns=101",
                               "rows=32 columns=500; rows=33 columns=77"),
      entry<edge_sums_plan>("edge_sums", "graphs",
                            "nodes=200000 edges=2000000; nodes=1000003 edges=1500001; nodes=20011 edges=800003",
                            "nodes=40 edges=320; nodes=33 edges=333"),
      entry<edge_softmax_plan>("edge_softmax", "graphs",
                               "nodes=1000000 edges=20000000; nodes=100003 edges=15000001; nodes=3000001 edges=6000007",
                               "nodes=40 edges=4160; nodes=33 edges=1001"),
      entry<dictionary_decode_plan>("dictionary_decode", "gathers",
                                    "words=20000 n=50000000; words=999983 n=40000001; words=257 n=9000001",
                                    "words=1000 n=8320; words=77 n=1001"),
      entry<chosen_revenue_plan>("chosen_revenue", "reductions", "n=30000000; n=20000003; n=4000001",
                                 "n=16512; n=5001")};
}

}  // namespace generality
