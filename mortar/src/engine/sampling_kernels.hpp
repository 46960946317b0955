// Choosing the next token of each row of logits on the device.
//
//   1. largest_logits: a block per chunk of a row finds the largest logits. Greedy rows need first_of_largest alone.
//   2. find_candidates: a block per chunk collects the logits that may be kept, and sums weights.
//   3. draw_from_candidates: a block per row finds the limits among the candidates and draws.
//   4. draw_from_row: the same for rows whose limits are not among the candidates, or that have none.
//
// Which logits are candidates is a guess: draw_from_candidates verifies that they hold all that the limits keep.
#pragma once
#include "engine/logits.hpp"

namespace mortar {

/// Groups of a chunk, whose largest logits are known, and the candidates that a chunk can have.
inline constexpr int kGroups = 64, kGroup = kChunk / kGroups, kCandidates = 64;
/// Logits of a step where one block reads a row.
inline constexpr int kScanned = 1024;

/// What is chosen of a row without a largest finite logit.
inline constexpr int kNoToken = -1;
inline Scalar<bool> is_finite(const Scalar<f32>& top) { return top > -infinity<f32> && top < infinity<f32>; }

/// The sums of the first 1, 2, ... N elements, by comparing all places with all: N is small, and a scan would be a
/// loop.
template <class T, int N>
Tile<T, 1, N> running_sums(const Tile<T, N, 1>& x) {
  return sum(where(iota<i32, N, 1>(axis<0>) <= iota<i32, 1, N>(axis<1>), x, 0), axis<0>);
}

/// The largest logit of each group and of each chunk, and the first token that has the latter.
inline void largest_logits(Mut<f32, 1, 1, kGroups> of_groups, Mut<f32, 1, 1> of_chunk, Mut<i32, 1, 1> first,
                           In<f32, dyn, dyn> logits, Scalar<i32> valid) {
  require(valid >= 1 && valid <= logits.dim(1), "valid tokens are columns of the logits");
  auto [row, chunk] = of_chunk.index();
  auto x = LogitRow<kChunk>{logits, row, valid}.load(chunk);
  auto groups = max(reshape(x, shape<kGroups, kGroup>), axis<1>);
  auto top = max(groups);
  of_groups.store(reshape(groups, shape<1, 1, kGroups>));
  of_chunk.store(full<f32, 1, 1>(top));
  first.store(full<i32, 1, 1>(min(where(x == top, LogitRow<kChunk>::columns(chunk), kNoColumn))));
}

/// The largest of the chunks' largest logits, and the first token that has it.
template <int Chunks>
std::pair<Scalar<f32>, Scalar<i32>> best_of(const In<f32, dyn, dyn>& of_chunk, const In<i32, dyn, dyn>& first,
                                            const Scalar<i32>& row) {
  auto chunks = of_chunk.tiles(shape<1, Chunks>, pad::neg_inf).load(row, 0);
  auto firsts = first.tiles(shape<1, Chunks>, pad(kNoColumn)).load(row, 0);
  auto top = max(chunks);
  return {top, min(where(chunks == top, firsts, kNoColumn))};
}

template <int Chunks>
void first_of_largest(Mut<i32, 1> tokens, In<f32, dyn, dyn> of_chunk, In<i32, dyn, dyn> first) {
  require(of_chunk.dim(1) <= Chunks, "the chunks must fit in one tile");
  auto [row] = tokens.index();
  auto [top, token] = best_of<Chunks>(of_chunk, first, row);
  tokens.store(full<i32, 1>(where(is_finite(top), token, kNoToken)));
}

/// The order from which on the logits of a chunk are candidates, where the limit has to be searched for: a little more
/// groups than top_k asks for have a logit of that order. Raised where the candidates would be too many.
inline Scalar<i32> candidates_from(const RowLimits& limits, const auto& groups, const Tile<f32, 1, kChunk>& x) {
  constexpr int kNucleus = 256;  // candidates for top_p alone
  auto orders = order_of(groups);
  auto least = min(where(orders >= limits.lowest, orders, kNoColumn));
  auto finite = sum(cast<i32>(orders >= limits.lowest));
  auto wanted = where(limits.by_count, limits.top_k, kNucleus);
  const auto none = Scalar<i64>(0);
  Bracket bracket{least, limits.end, {finite, none}, 0};
  bracket.narrow(
      [&](const Scalar<i32>& order) {
        return Share{sum(cast<i32>(orders >= order)), none};
      },
      [&](const Share& s) { return s.count >= wanted; }, wanted + wanted / 4);
  auto from = where(finite >= wanted, bracket.low, limits.lowest);
  auto mine = order_of(x);
  auto count = sum(cast<i32>(mine >= from));
  tile_if (count > kCandidates) {
    Bracket raised{from, limits.end, {count, none}, 0};
    raised.narrow(
        [&](const Scalar<i32>& order) {
          return Share{sum(cast<i32>(mine >= order)), none};
        },
        [](const Share& s) { return s.count > kCandidates; }, 0);
    from = raised.high;
  }
  return from;
}

template <int... D>
Tile<i32, D...> bits_in(Tile<u64, D...> x) {  // Warren, Hacker's Delight, 5-1
  x = x - ((x >> 1) & 0x5555555555555555U);
  x = (x & 0x3333333333333333U) + ((x >> 2) & 0x3333333333333333U);
  x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fU;
  return cast<i32>((x * 0x0101010101010101U) >> 56);
}
/// The place of the bit before which `rank` bits are set.
template <int... D>
Tile<i32, D...> place_of_bit(Tile<u64, D...> x, Tile<i32, D...> rank) {
  auto place = zeros<i32, D...>();
  for (int width = 32; width > 0; width /= 2) {
    auto below = bits_in(x & ((std::uint64_t{1} << width) - 1));
    auto above = rank >= below;
    x = where(above, x >> width, x);
    rank = where(above, rank - below, rank);
    place = where(above, place + width, place);
  }
  return place;
}

/// The places in a chunk of the elements that are true, in order; kChunk if there are no more.
inline Tile<i32, 1, kCandidates> places_of(const Tile<bool, kGroups, kGroup>& chosen) {
  auto bit = full<u64, 1, kGroup>(1) << iota<u64, 1, kGroup>(axis<1>);
  auto bits = sum(where(chosen, bit, 0), axis<1>);
  auto counts = bits_in(bits);
  auto ends = reshape(running_sums(counts), shape<kGroups, 1>);
  auto number = iota<i32, 1, kCandidates>(axis<1>);
  auto before = ends <= number;
  auto group = sum(cast<i32>(before), axis<0>);
  auto rank = number - sum(where(before, counts, 0), axis<0>);
  auto mine = sum(where(iota<i32, kGroups, 1>(axis<0>) == group, bits, 0), axis<0>);
  return where(group < kGroups, group * kGroup + place_of_bit(mine, rank), kChunk);
}

/// The candidates of each chunk in the order of their ids, padded with -infinity; `complete`, the order from which on
/// they are all that there are; the weight of the chunk's logits: of all from the limit on if that is known, else of
/// all.
template <int Chunks>
void find_candidates(Mut<f32, 1, 1, kCandidates> values, Mut<i32, 1, 1, kCandidates> columns, Mut<i32, 1, 1> complete,
                     Mut<i64, 1, 1> weights, In<f32, dyn, dyn> logits, In<f32, dyn, dyn, dyn> of_groups,
                     In<i32, dyn, dyn> options, Scalar<i32> valid) {
  require(of_groups.dim(1) <= Chunks, "the chunks must fit in one tile");
  auto [row, chunk] = weights.index();
  tile_if (number_of(options, row, kTemperature) > 0.0f) {
    auto groups = of_groups.tiles(shape<1, Chunks, kGroups>, pad::neg_inf).load(row, 0, 0);
    const RowLimits limits(max(groups), options, row, valid);
    auto x = LogitRow<kChunk>{logits, row, valid}.load(chunk);
    auto counted = where(limits.search(), limits.lowest, limits.floor);
    weights.store(full<i64, 1, 1>(sum(limits.weights(x, counted))));
    tile_if (limits.search()) {
      auto least = candidates_from(limits, groups, x);
      auto place = places_of(reshape(order_of(x) >= least, shape<kGroups, kGroup>));
      auto column = place + chunk * kChunk;
      values.store(
          reshape(where(place < kChunk, logits.gather(row, column), -infinity<f32>), shape<1, 1, kCandidates>));
      columns.store(reshape(column, shape<1, 1, kCandidates>));
      complete.store(full<i32, 1, 1>(least));
    }
  }
}

/// The random number of a row, by its seed and position, as a part of `total`.
inline Scalar<i64> random_part(const In<i32, dyn, dyn>& options, const Scalar<i32>& row, const Scalar<i64>& total) {
  auto seed = (cast<u64>(cast<u32>(field(options, row, kSeedHigh))) << 32) |
              cast<u64>(cast<u32>(field(options, row, kSeedLow)));
  auto u = random::uniform<f32>(seed, cast<i64>(field(options, row, kPosition)));
  return cast<i64>(cast<f64>(u) * cast<f64>(total));
}

/// The part of parts in order on which `goal` falls, and where in it; number N if it falls on none.
template <int N>
std::pair<Scalar<i32>, Scalar<i64>> part_at(const Scalar<i64>& goal, const Tile<i64, N, 1>& weights) {
  auto ends = running_sums(weights);
  return {sum(cast<i32>(ends <= goal)), goal - max(where(ends <= goal, ends, 0))};
}
/// The token of a row on which `goal` falls, among the logits of at least `limit`; `weights`: theirs of each chunk.
template <int Chunks>
Scalar<i32> token_at(const LogitRow<kChunk>& all, const RowLimits& limits, const Scalar<i32>& limit,
                     const Tile<i64, Chunks, 1>& weights, const Scalar<i64>& goal) {
  auto [chunk, in_chunk] = part_at(goal, weights);
  auto [group, in_group] =
      part_at(in_chunk, sum(limits.weights(reshape(all.load(chunk), shape<kGroups, kGroup>), limit), axis<1>));
  const LogitRow<kGroup> groups{all.logits, all.row, all.valid};
  auto step = chunk * kGroups + group;
  auto [at, rest] = part_at(in_group, reshape(limits.weights(groups.load(step), limit), shape<kGroup, 1>));
  return where(chunk < Chunks, step * kGroup + at, kNoColumn);
}

/// The limit of a row, found by reading it over and over.
inline Scalar<i32> limit_of_row(const LogitRow<kScanned>& row, const RowLimits& limits, const Scalar<i64>& all) {
  return limit_from(limits, limits.lowest, Share{row.valid, all}, all, [&](const Scalar<i32>& order) {
    auto n = zeros<i32, 1, kScanned>();
    auto w = zeros<i64, 1, kScanned>();
    for (auto step : row.steps()) {
      auto x = row.load(step);
      n = n + cast<i32>(order_of(x) >= order);
      w = w + limits.weights(x, order);
    }
    return Share{sum(n), sum(w)};
  });
}

/// The token of each row of logits, [rows, vocabulary]: the most likely one, or drawn by the options of the row. The
/// tokens in the order of their ids share the interval from 0 to 1 by their weight; a uniform random number, by seed
/// and position, falls on one of them. Rows whose token is not among the candidates are `open`, and get their most
/// likely token.
template <int Chunks>
void draw_from_candidates(Mut<i32, 1> tokens, Mut<i32, 1> open, In<f32, dyn, dyn> of_chunk, In<i32, dyn, dyn> first,
                          In<f32, dyn, dyn, dyn> values, In<i32, dyn, dyn, dyn> columns, In<i32, dyn, dyn> complete,
                          In<i64, dyn, dyn> weights, In<i32, dyn, dyn> options, Scalar<i32> valid) {
  require(of_chunk.dim(1) <= Chunks, "the chunks must fit in one tile");
  auto [row] = tokens.index();
  auto [top, token] = best_of<Chunks>(of_chunk, first, row);
  const RowLimits limits(top, options, row, valid);
  token = where(is_finite(top), token, kNoToken);
  auto is_open = number_of(options, row, kTemperature) > 0.0f && is_finite(top);
  tile_if (is_open && limits.search()) {
    auto x =
        reshape(values.tiles(shape<1, Chunks, kCandidates>, pad::neg_inf).load(row, 0, 0), shape<Chunks, kCandidates>);
    auto least = max(complete.tiles(shape<1, Chunks>, pad(-kNoColumn)).load(row, 0));
    auto total = sum(weights.tiles(shape<1, Chunks>).load(row, 0));
    auto orders = order_of(x);
    auto w = limits.weights(x, limits.lowest);
    const auto share_from = [&](const Scalar<i32>& order) {
      return Share{sum(cast<i32>(orders >= order)), sum(where(orders >= order, w, 0))};
    };
    Share known = share_from(least);
    tile_if ((limits.by_count && known.count >= limits.top_k) ||
             (!limits.by_count && known.weight >= limits.wanted_of(total))) {
      auto limit = max(limit_from(limits, least, known, total, share_from), limits.floor);
      auto kept = sum(where(orders >= limit, w, 0), axis<1>);
      auto [chunk, rest] = part_at(random_part(options, row, sum(kept)), kept);
      auto mine = values.tiles(shape<1, 1, kCandidates>, pad::neg_inf).load(row, chunk, 0);
      auto [at, nothing] = part_at(rest, reshape(limits.weights(mine, limit), shape<kCandidates, 1>));
      // No weight at all, as at a temperature of 1e-40: the most likely token.
      token = where(chunk < Chunks, columns.gather(row, chunk, at), token);
      is_open = Scalar<bool>(false);
    }
  }
  tokens.store(full<i32, 1>(token));
  open.store(full<i32, 1>(where(is_open, 1, 0)));
}

/// The token of each row that is open. Where the limit has to be searched for, the row is read over and over.
template <int Chunks>
void draw_from_row(Mut<i32, 1> tokens, In<i32, dyn> open, In<f32, dyn, dyn> logits, In<f32, dyn, dyn> of_chunk,
                   In<i64, dyn, dyn> weights, In<i32, dyn, dyn> options, Scalar<i32> valid) {
  require(of_chunk.dim(1) <= Chunks, "the chunks must fit in one tile");
  auto [row] = tokens.index();
  tile_if (open.gather(row) != 0) {
    const RowLimits limits(max(of_chunk.tiles(shape<1, Chunks>, pad::neg_inf).load(row, 0)), options, row, valid);
    const LogitRow<kScanned> all{logits, row, valid};
    auto chunk_weights = reshape(weights.tiles(shape<1, Chunks>).load(row, 0), shape<Chunks, 1>);
    auto limit = limits.floor;
    tile_if (limits.search()) {
      limit = max(limit_of_row(all, limits, sum(chunk_weights)), limits.floor);
      for (auto step : all.steps()) {
        auto here = sum(limits.weights(all.load(step), limit));
        auto chunk = iota<i32, Chunks, 1>(axis<0>);
        // The first part of a chunk replaces what was known of it.
        auto before = where(step % (kChunk / kScanned) == 0, zeros<i64, Chunks, 1>(), chunk_weights);
        chunk_weights = where(chunk == step / (kChunk / kScanned), before + here, chunk_weights);
      }
    }
    auto token = token_at<Chunks>({logits, row, valid}, limits, limit, chunk_weights,
                                  random_part(options, row, sum(chunk_weights)));
    tokens.store(where(token < kNoColumn, full<i32, 1>(token), tokens.load()));
  }
}

/// log(sum(exp(logits))) of each row, and the logit of one token of it.
inline void score_rows(Mut<f32, 1> sums, Mut<f32, 1> chosen, In<f32, dyn, dyn> logits, In<i32, dyn> tokens,
                       Scalar<i32> valid) {
  auto [row] = sums.index();
  const LogitRow<kScanned> x{logits, row, valid};
  auto most = full<f32, 1, kScanned>(-infinity<f32>);
  for (auto step : x.steps()) most = max(most, x.load(step));
  auto top = max(most);
  auto w = zeros<f32, 1, kScanned>();
  for (auto step : x.steps()) w = w + exp(x.load(step) - top, precise);
  sums.store(full<f32, 1>(top + log(sum(w))));
  chosen.store(full<f32, 1>(logits.gather(row, tokens.gather(row))));
}

}  // namespace mortar
