// Reading a row of logits in kernels: the order and the weight of a logit, the options of a row, searches for a limit.
//
// The weight of a logit is exp((x - top) / temperature) as an integer in units of 2^-40. Sums of integers do not depend
// on the order, so every way to find a token, by many blocks or by one, finds the same.
#pragma once
#include <limits>
#include <utility>

#include "engine/sampling_fields.hpp"
#include "tessera/lang/lang.hpp"

namespace mortar {

using namespace tessera;  // NOLINT: the language of kernels

/// Logits that a block reads at a time.
inline constexpr int kChunk = 4096;
inline constexpr int kNoColumn = 0x7fffffff;

inline Scalar<i32> field(const In<i32, dyn, dyn>& options, const Scalar<i32>& row, SamplingField name) {
  return options.gather(row, static_cast<int>(name));
}
inline Scalar<f32> number_of(const In<i32, dyn, dyn>& options, const Scalar<i32>& row, SamplingField name) {
  return bitcast<f32>(field(options, row, name));
}

/// An integer that orders as the float does: -infinity is the least, NaN with a sign bit below it.
template <int... D>
Tile<i32, D...> order_of(const Tile<f32, D...>& x) {
  auto bits = bitcast<i32>(x + 0.0f);  // -0 becomes 0
  return bits ^ ((bits >> 31) & 0x7fffffff);
}
/// The float of an order.
inline Scalar<f32> value_of(const Scalar<i32>& order) { return bitcast<f32>(order ^ ((order >> 31) & 0x7fffffff)); }

/// How many logits, and the sum of their weights.
struct Share {
  Scalar<i32> count;
  Scalar<i64> weight;
};

/// A row of logits, C at a time. Tokens from `valid` on, and NaN, are as unlikely as possible.
template <int C>
struct LogitRow {
  In<f32, dyn, dyn> logits;
  Scalar<i32> row, valid;

  auto steps() const { return range(ceil_div(valid, C)); }
  static Tile<i32, 1, C> columns(const Scalar<i32>& step) { return iota<i32, 1, C>(axis<1>) + step * C; }
  Tile<f32, 1, C> load(const Scalar<i32>& step) const {
    auto x = logits.tiles(shape<1, C>).load(row, step);
    return where(columns(step) < valid && x == x, x, -infinity<f32>);
  }
};

/// The options of a row that limit which tokens can be drawn: those whose logits have at least some order. top_k asks
/// for a number of logits from that order on, top_p for a share of the weight of those that top_k keeps.
struct RowLimits {
  Scalar<f32> top, scale, top_p;
  Scalar<i32> top_k;
  Scalar<i32> lowest;  ///< the order of the lowest finite number
  Scalar<i32> end;     ///< above all logits
  Scalar<i32> floor;   ///< the limit of min_p
  Scalar<bool> by_count, by_weight;

  RowLimits(const Scalar<f32>& largest, const In<i32, dyn, dyn>& options, const Scalar<i32>& row,
            const Scalar<i32>& valid)
      : top(largest),
        scale(1.0f / number_of(options, row, kTemperature)),
        top_p(number_of(options, row, kTopP)),
        top_k(field(options, row, kTopK)),
        lowest(order_of(Scalar<f32>(std::numeric_limits<f32>::lowest()))),
        end(order_of(largest) + 1),
        floor(lowest),
        by_count(top_k > 0 && top_k < valid),
        by_weight(top_p < 1.0f) {
    auto min_p = number_of(options, row, kMinP);
    // The most likely token always remains.
    floor = where(min_p > 0.0f, min(max(lowest, order_of(top + log(min_p) / scale)), end - 1), lowest);
  }
  /// Whether the limit has to be searched for: else it is `floor`.
  Scalar<bool> search() const { return by_count || by_weight; }
  /// The weights of logits of at least this order; 0 for others.
  template <int... D>
  Tile<i64, D...> weights(const Tile<f32, D...>& x, const Scalar<i32>& least) const {
    return where(order_of(x) >= least, cast<i64>(exp((x - top) * scale, precise) * 0x1p40f), 0);
  }
  /// The weight that top_p asks for, of `all`.
  Scalar<i64> wanted_of(const Scalar<i64>& all) const { return cast<i64>(ceil(cast<f64>(all) * cast<f64>(top_p))); }
};

/// The bounds of a search: `low` is enough, `high` is not.
struct Bracket {
  Scalar<i32> low, high;
  Share at_low;         ///< of the logits from low on
  Scalar<i32> at_high;  ///< how many there are from high on

  /// Narrows the bounds until no more than one logit is between them, or no more than `close` are from low on. The
  /// interval is halved in turn by value, which is fast where logits lie close together, and by order, which ends after
  /// 32 times whatever they are. `share_from(order)`: the share of the logits from `order` on.
  template <class ShareFrom, class Enough>
  void narrow(const ShareFrom& share_from, const Enough& enough, const Scalar<i32>& close) {
    auto by_value = Scalar<bool>(true);
    tile_while(low < high - 1 && at_low.count > max(at_high + 1, close)) {
      auto value = order_of(value_of(low) * 0.5f + value_of(high) * 0.5f);
      auto middle = where(by_value && value > low && value < high, value, (low & high) + ((low ^ high) >> 1));
      by_value = !by_value;
      Share found = share_from(middle);
      auto is_enough = enough(found);
      low = where(is_enough, middle, low);
      at_low.count = where(is_enough, found.count, at_low.count);
      at_low.weight = where(is_enough, found.weight, at_low.weight);
      high = where(is_enough, high, middle);
      at_high = where(is_enough, at_high, found.count);
    }
  }
};

/// The limit of top_k and then top_p, at least `low`. `known`: the share from there on, enough for both; `all`: the
/// weight of all logits.
template <class ShareFrom>
Scalar<i32> limit_from(const RowLimits& limits, const Scalar<i32>& low, const Share& known, const Scalar<i64>& all,
                       const ShareFrom& share_from) {
  Bracket bracket{low, limits.end, known, 0};
  for (auto turn : range(2)) {  // a loop, so that the code of share_from, which may be much, is there once
    auto counts = turn == 0;
    tile_if ((counts && limits.by_count) || (!counts && limits.by_weight)) {
      auto wanted = limits.wanted_of(where(limits.by_count, bracket.at_low.weight, all));
      bracket.high = limits.end;
      bracket.at_high = 0;
      bracket.narrow(
          share_from,
          [&](const Share& s) { return (counts && s.count >= limits.top_k) || (!counts && s.weight >= wanted); }, 0);
    }
  }
  return bracket.low;
}

}  // namespace mortar
