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

/// Logits of a step where their sum is taken token by token.
inline constexpr int kScanned = 1024;

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

/// The logits that a row's options keep are those from some order on. It is found by bisection, first for top_k and
/// then for top_p; each step reads the row once. One loop does all steps, because each read is much code.
template <int C>
class KeptLogits {
 public:
  KeptLogits(const LogitRow<C>& row, const Tile<f32, 1, 1>& top, const In<i32, dyn, dyn>& options)
      : x_(row),
        top_(top),
        scale_(1.0f / number_of(options, row.row, kTemperature)),
        top_k_(options.gather(row.row, static_cast<int>(kTopK))),
        top_p_(number_of(options, row.row, kTopP)),
        min_p_(number_of(options, row.row, kMinP)) {
    auto first = where(top_k_ > 0 && top_k_ < x_.valid, Scalar<i32>(kSearchTopK), after_top_k());
    enter(first);
    tile_while(phase_ != kDone) { step(); }
  }
  Scalar<i32> order() const { return low_; }
  Scalar<f32> weight() const { return total_; }  ///< of all that are kept, exp((x - top) / temperature) each
  Scalar<f32> scale() const { return scale_; }

 private:
  static constexpr int kSearchTopK = 0, kBeginTopP = 1, kSearchTopP = 2, kSum = 3, kDone = 4;  // phases
  Scalar<i32> after_top_k() const { return where(top_p_ < 1.0f, Scalar<i32>(kBeginTopP), Scalar<i32>(kSum)); }
  /// Before the sum, min_p; the most likely token always remains.
  void enter(const Scalar<i32>& phase) {
    phase_ = phase;
    tile_if (phase == kSum && min_p_ > 0.0f) { low_ = max(low_, max(order_of(top_ + log(min_p_) / scale_))); }
    low_ = min(low_, end_ - 1);
    high_ = end_;
    above_ = 0;
  }
  void step() {
    auto searching = phase_ == kSearchTopK || phase_ == kSearchTopP;
    auto middle = (low_ & high_) + ((low_ ^ high_) >> 1);  // the mean, without overflow
    // The first limit to try is usually far below the one that is looked for, and far above the lowest.
    auto near = max(order_of(top_ - 64.0f));
    middle = where(low_ == lowest_ && high_ > near, near, middle);
    auto order = where(searching, middle, low_);
    auto found = x_.share_from(order, top_, scale_);
    tile_if (searching) {
      auto enough =
          (phase_ == kSearchTopK && found.count >= top_k_) || (phase_ != kSearchTopK && found.weight >= wanted_);
      high_ = where(enough, high_, order);
      above_ = where(enough, above_, found.count);
      low_ = where(enough, order, low_);
      count_ = where(enough, found.count, count_);
      // The end: no order, or no logit but one, is left between the bounds.
      tile_if (low_ >= high_ - 1 || count_ <= above_ + 1) {
        enter(where(phase_ == kSearchTopK, after_top_k(), Scalar<i32>(kSum)));
      }
    } else tile_if (phase_ == kBeginTopP) {
      wanted_ = top_p_ * found.weight;
      phase_ = kSearchTopP;
    } else {
      total_ = found.weight;
      phase_ = kDone;
    }
  }

  LogitRow<C> x_;
  Tile<f32, 1, 1> top_;
  Scalar<f32> scale_;
  Scalar<i32> top_k_;
  Scalar<f32> top_p_, min_p_;
  Scalar<i32> lowest_ = max(order_of(full<f32, 1, 1>(std::numeric_limits<f32>::lowest())));
  Scalar<i32> end_ = max(order_of(top_)) + 1;
  Scalar<i32> phase_ = 0, low_ = lowest_, count_ = x_.valid, high_ = end_, above_ = 0;  ///< count_: logits from low_ on
  Scalar<f32> wanted_ = 0.0f, total_ = 0.0f;
};

/// The token of each row of logits, [rows, vocabulary]: the most likely one, or drawn by the options of the row. The
/// tokens in the order of their ids share the interval from 0 to 1 by their probability; a uniform random number, by
/// seed and position, falls on one of them.
template <int C>
void choose_tokens(Mut<i32, 1> tokens, In<f32, dyn, dyn> logits, In<i32, dyn, dyn> options, Scalar<i32> valid) {
  require(valid >= 1 && valid <= logits.dim(1), "valid tokens are columns of the logits");
  auto [row] = tokens.index();
  const LogitRow<C> x{logits, row, valid};
  auto [top, token] = x.best();
  tile_if (number_of(options, row, kTemperature) > 0.0f && max(top) > -infinity<f32>) {
    const KeptLogits<C> kept(x, top, options);
    auto seed = (cast<u64>(cast<u32>(options.gather(row, static_cast<int>(kSeedHigh)))) << 32) |
                cast<u64>(cast<u32>(options.gather(row, static_cast<int>(kSeedLow))));
    auto position = cast<i64>(options.gather(row, static_cast<int>(kPosition)));
    auto goal = random::uniform<f32>(seed, position) * kept.weight();
    auto before = Scalar<f32>(0.0f);  // the weight of the steps before
    const LogitRow<kScanned> scanned{logits, row, valid};
    auto step = Scalar<i32>(0), last = ceil_div(valid, kScanned);
    tile_while(step < last) {
      auto w = LogitRow<kScanned>::weights(scanned.load(step), kept.order(), top, kept.scale());
      auto here = sum(w);
      tile_if (here > 0.0f) {
        auto columns = scanned.columns(step);
        auto hit = min(where(before + cumsum(w, axis<1>) > goal && w > 0.0f, columns, 0x7fffffff));
        // Sums in another order may end below the goal: then it is the last token with a weight.
        token = where(hit < 0x7fffffff, hit, max(where(w > 0.0f, columns, 0)));
      }
      step = where(before + here > goal, last, step + 1);
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
