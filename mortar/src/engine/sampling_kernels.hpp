// Choosing the next token of each row of logits, on the device.
#pragma once
#include <limits>

#include "engine/sampling_fields.hpp"
#include "tessera/lang/lang.hpp"

namespace mortar {

using namespace tessera;  // NOLINT: the language of kernels

inline Scalar<f32> number_of(const In<i32, dyn, dyn>& options, const Scalar<i32>& row, SamplingField field) {
  return bitcast<f32>(options.gather(row, static_cast<int>(field)));
}

/// An integer that orders as the float does: -infinity is the least, NaN with a sign bit below it.
template <int... D>
Tile<i32, D...> order_of(const Tile<f32, D...>& x) {
  auto bits = bitcast<i32>(x + 0.0f);  // -0 becomes 0
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

struct Share {
  Scalar<i32> count;
  Scalar<f32> weight;
};

/// A row of logits, C at a time. Tokens from `valid` on are as unlikely as possible.
template <int C>
struct LogitRow {
  In<f32, dyn, dyn> logits;
  Scalar<i32> row, valid;

  auto steps() const { return range(ceil_div(valid, C)); }
  Tile<i32, 1, C> columns(const Scalar<i32>& step) const { return iota<i32, 1, C>(axis<1>) + step * C; }
  Tile<f32, 1, C> load(const Scalar<i32>& step) const {
    auto x = logits.tiles(shape<1, C>).load(row, step);
    return where(columns(step) < valid && x == x, x, -infinity<f32>);
  }
  /// The largest logit, and the first token that has it.
  std::pair<Tile<f32, 1, 1>, Scalar<i32>> best() const {
    auto most = full<f32, 1, C>(-infinity<f32>);
    auto at = zeros<i32, 1, C>();
    for (auto step : steps()) {
      auto x = load(step);
      at = where(x > most, step, at);
      most = max(most, x);
    }
    auto top = max(most, axis<1>);
    auto token = min(where(most == top, at * C + iota<i32, 1, C>(axis<1>), 0x7fffffff));
    return {top, token};
  }
  /// The logits of at least this order: how many they are, and the sum of exp((x - top) * scale).
  Share share_from(const Scalar<i32>& least, const Tile<f32, 1, 1>& top, const Scalar<f32>& scale) const {
    auto n = zeros<i32, 1, C>();
    auto w = zeros<f32, 1, C>();
    for (auto step : steps()) {
      auto t = load(step);
      n = n + cast<i32>(order_of(t) >= least && columns(step) < valid);
      w = w + weights(t, least, top, scale);
    }
    return {sum(n), sum(w)};
  }
  static Tile<f32, 1, C> weights(const Tile<f32, 1, C>& x, const Scalar<i32>& least, const Tile<f32, 1, 1>& top,
                                 const Scalar<f32>& scale) {
    return where(order_of(x) >= least, exp((x - top) * scale, precise), 0.0f);
  }
};

/// The logits from an order on.
struct Limit {
  Scalar<i32> order, count;
};
/// The highest limit from `low` on whose share is enough; that of `low` is, and there are no logits from `end` on. Ends
/// early when no logit but one is left between the bounds. `share`: of an order.
template <class Shares, class Enough>
Limit last_that_holds(Limit low, const Scalar<i32>& end, Shares share, Enough enough) {
  auto high = end, count_above = Scalar<i32>(0);
  tile_while(low.order < high - 1 && low.count > count_above + 1) {
    auto middle = (low.order & high) + ((low.order ^ high) >> 1);  // the mean, without overflow
    auto found = share(middle);
    auto holds = enough(found);
    high = where(holds, high, middle);
    count_above = where(holds, count_above, found.count);
    low.order = where(holds, middle, low.order);
    low.count = where(holds, found.count, low.count);
  }
  return low;
}

/// The token of each row of logits, [rows, vocabulary]: the most likely one, or drawn by the options of the row. The
/// tokens in the order of their ids share the interval from 0 to 1 by their probability; a uniform random number, by
/// seed and position, falls on one of them.
template <int C>
void choose_tokens(Mut<i32, 1> tokens, In<f32, dyn, dyn> logits, In<i32, dyn, dyn> options, Scalar<i32> valid) {
  require(valid >= 1 && valid <= logits.dim(1), "valid tokens are columns of the logits");
  auto [row] = tokens.index();
  const LogitRow<C> x{logits, row, valid};
  auto [top, token] = x.best();
  auto temperature = number_of(options, row, kTemperature);
  tile_if (temperature > 0.0f && max(top) > -infinity<f32>) {
    auto scale = 1.0f / temperature;
    auto end = max(order_of(top)) + 1;
    auto share = [&](const auto& order) { return x.share_from(order, top, scale); };
    Limit limit{max(order_of(full<f32, 1, 1>(std::numeric_limits<f32>::lowest()))), valid};
    auto top_k = options.gather(row, static_cast<int>(kTopK));
    tile_if (top_k > 0 && top_k < valid) {
      auto near = max(order_of(top - 64.0f));  // usually far below the limit, and a shorter way to it
      auto counted = share(near);
      tile_if (counted.count >= top_k) { limit = Limit{near, counted.count}; }
      limit = last_that_holds(limit, end, share, [&](const auto& found) { return found.count >= top_k; });
    }
    auto top_p = number_of(options, row, kTopP), min_p = number_of(options, row, kMinP);
    tile_if (top_p < 1.0f) {
      auto wanted = top_p * share(limit.order).weight;
      limit = last_that_holds(limit, end, share, [&](const auto& found) { return found.weight >= wanted; });
    }
    auto least = limit.order;
    tile_if (min_p > 0.0f) { least = max(least, max(order_of(top + log(min_p) * temperature))); }
    least = min(least, end - 1);  // the most likely token always remains
    auto seed = (cast<u64>(cast<u32>(options.gather(row, static_cast<int>(kSeedHigh)))) << 32) |
                cast<u64>(cast<u32>(options.gather(row, static_cast<int>(kSeedLow))));
    auto position = cast<i64>(options.gather(row, static_cast<int>(kPosition)));
    auto goal = random::uniform<f32>(seed, position) * share(least).weight;
    auto before = Scalar<f32>(0.0f);  // the weight of the steps before
    auto found = Scalar<i32>(0);
    for (auto step : x.steps()) {
      auto w = LogitRow<C>::weights(x.load(step), least, top, scale);
      auto here = sum(w);
      tile_if (found == 0 && here > 0.0f) {
        auto columns = x.columns(step);
        auto hit = min(where(before + cumsum(w, axis<1>) > goal && w > 0.0f, columns, 0x7fffffff));
        found = cast<i32>(before + here > goal);
        // Sums in another order may end below the goal: then it is the last token with a weight.
        token = where(hit < 0x7fffffff, hit, max(where(w > 0.0f, columns, 0)));
      }
      before = before + here;
    }
  }
  tokens.store(full<i32, 1>(token));
}

/// Logits after the penalties of each row.
template <int C>
void apply_penalties(Mut<f32, 1, C> adjusted, In<f32, dyn, dyn> logits, In<i8, dyn, dyn> marks,
                     In<i32, dyn, dyn> options) {
  require(marks.dim(1) == logits.dim(1), "a mark for each token");
  auto [row, part] = adjusted.index();
  auto x = logits.load_like(adjusted);
  auto mark = marks.tiles(shape<1, C>).load(options.gather(row, static_cast<int>(kSlot)), part);
  auto repetition = number_of(options, row, kRepetition);
  auto penalised = where(x > 0.0f, x / repetition, x * repetition);
  x = where(mark != kUnseen, penalised, x);
  x = where(mark == kInAnswer, x - number_of(options, row, kPresence), x);
  adjusted.store(x);
}

/// Adds the biases of each row's slot; unused places have the token -1.
template <int N>
void add_biases(Acc<f32, dyn, dyn> logits, In<i32, dyn, dyn> tokens, In<f32, dyn, dyn> biases,
                In<i32, dyn, dyn> options) {
  auto row = block_id<1>();
  auto slot = options.gather(row, static_cast<int>(kSlot));
  logits.add(full<i32, 1, 1>(row), tokens.tiles(shape<1, N>, pad(-1)).load(slot, 0),
             biases.tiles(shape<1, N>).load(slot, 0));
}

/// Marks the chosen tokens as parts of their answers. `rows` has the row of each slot, -1 if it has none.
template <int Whole>
void mark_chosen(Mut<i8, 1, Whole> marks, In<i32, dyn> tokens, In<i32, dyn> rows) {
  auto [slot, zero] = marks.index();
  auto row = rows.gather(slot);
  auto token = where(row >= 0 && row < tokens.dim(0), tokens.gather(row), -1);
  marks.scatter(0, token, full<i8>(kInAnswer));
}

/// The marks of a sequence that begins: `ids`, of which the first `prompt` are its prompt.
template <int Whole>
void mark_sequence(Mut<i8, 1, Whole> marks, In<i32, dyn> ids, Scalar<i32> prompt) {
  constexpr int kClear = 4096, kIds = 64;
  auto parts = marks.sub(shape<1, kClear>);
  for (auto part : range(ceil_div(marks.dim(1), kClear))) parts.store(0, part, zeros<i8, 1, kClear>());
  for (auto step : range(ceil_div(ids.dim(0), kIds))) {
    auto id = ids.load_at(shape<kIds>, step * kIds, pad(-1));
    auto in_answer = iota<i32, kIds>() + step * kIds >= prompt;
    marks.scatter(0, id, where(in_answer, full<i8, kIds>(kInAnswer), full<i8, kIds>(kInPrompt)));
  }
}

/// log(sum(exp(logits))) of each row, and the logit of one token of it.
template <int C>
void score_rows(Mut<f32, 1> sums, Mut<f32, 1> chosen, In<f32, dyn, dyn> logits, In<i32, dyn> tokens,
                Scalar<i32> valid) {
  auto [row] = sums.index();
  const LogitRow<C> x{logits, row, valid};
  auto [top, token] = x.best();
  auto least = max(order_of(full<f32, 1, 1>(std::numeric_limits<f32>::lowest())));
  sums.store(reshape(top, shape<1>) + log(x.share_from(least, top, 1.0f).weight));
  chosen.store(full<f32, 1>(logits.gather(row, tokens.gather(row))));
}

}  // namespace mortar
