// Masks, penalties and biases of logits, and the marks of the tokens that a sequence has seen.
#pragma once
#include "engine/logits.hpp"

namespace mortar {

/// Logits of tokens that the mask of the row does not allow become -infinity. Bit i % 32 of word i / 32 is token i's; a
/// row without a mask reads padding, which allows all.
template <int C>
void apply_masks(Mut<f32, 1, C> allowed, In<f32, dyn, dyn> logits, In<i32, dyn, dyn> masks, In<i32, dyn, dyn> options) {
  constexpr int kBits = 32;
  require(masks.dim(1) * kBits >= logits.dim(1), "a bit for each token");
  auto [row, part] = allowed.index();
  auto words = masks.tiles(shape<1, C / kBits>, pad(-1)).load(field(options, row, kMask), part);
  auto bits = (reshape(words, shape<C / kBits, 1>) >> iota<i32, 1, kBits>(axis<1>)) & 1;
  allowed.store(where(reshape(bits, shape<1, C>) != 0, logits.load_like(allowed), -infinity<f32>));
}

/// Logits after the penalties of each row.
template <int C>
void apply_penalties(Mut<f32, 1, C> adjusted, In<f32, dyn, dyn> logits, In<i8, dyn, dyn> marks,
                     In<i32, dyn, dyn> options) {
  require(marks.dim(1) == logits.dim(1), "a mark for each token");
  auto [row, part] = adjusted.index();
  auto x = logits.load_like(adjusted);
  auto mark = marks.tiles(shape<1, C>).load(field(options, row, kSlot), part);
  auto repetition = number_of(options, row, kRepetition);
  auto penalised = where(x > 0.0f, x / repetition, x * repetition);
  x = where(mark != kUnseen, penalised, x);
  x = where(mark == kInAnswer, x - number_of(options, row, kPresence), x);
  adjusted.store(x);
}

/// Adds the biases of each row's slot, in which no token is twice; unused places have the token -1.
template <int N>
void add_biases(Acc<f32, dyn, dyn> logits, In<i32, dyn, dyn> tokens, In<f32, dyn, dyn> biases,
                In<i32, dyn, dyn> options) {
  auto row = block_id<1>();
  auto slot = field(options, row, kSlot);
  logits.add(full<i32, 1, 1>(row), tokens.tiles(shape<1, N>, pad(-1)).load(slot, 0),
             biases.tiles(shape<1, N>).load(slot, 0));
}

/// Subtracts the frequency penalty of each row as often as its answer has the token.
template <int C>
void subtract_frequencies(Mut<f32, 1, C> adjusted, In<i32, dyn, dyn> counts, In<i32, dyn, dyn> options) {
  require(counts.dim(1) == adjusted.dim(1), "a count for each token");
  auto [row, part] = adjusted.index();
  auto count = cast<f32>(counts.tiles(shape<1, C>).load(field(options, row, kSlot), part));
  adjusted.store(adjusted.load() - number_of(options, row, kFrequency) * count);
}

/// Counts the chosen tokens in the slots of their rows.
inline void count_chosen(Acc<i32, dyn, dyn> counts, In<i32, dyn> tokens, In<i32, dyn, dyn> options) {
  auto row = block_id<1>();
  counts.add(full<i32, 1, 1>(field(options, row, kSlot)), full<i32, 1, 1>(tokens.gather(row)), full<i32, 1, 1>(1));
}

/// Marks the chosen tokens as parts of their answers.
template <int Whole>
void mark_chosen(Mut<i8, 1, Whole> marks, In<i32, dyn> tokens, In<i32, dyn, dyn> options) {
  constexpr int kRows = 64;
  auto [slot, zero] = marks.index();
  auto token = Scalar<i32>(-1);
  for (auto part : range(ceil_div(tokens.dim(0), kRows))) {
    auto row = iota<i32, kRows>() + part * kRows;
    auto mine = row < tokens.dim(0) && options.gather(row, static_cast<int>(kSlot)) == slot;
    token = max(token, max(where(mine, tokens.gather(row), -1)));
  }
  marks.scatter(0, token, full<i8>(kInAnswer));
}

inline constexpr int kMarkedIds = 64;  ///< ids that mark_sequence stores at a time
/// The marks of a sequence that begins: `ids`, of which the first `prompt` are its prompt. After it gave way to another
/// sequence, an id may be in the prompt and in the answer, which comes after it: of equal indices the last one is
/// stored, and a later scatter comes after an earlier one (docs/language.md).
template <int Whole>
void mark_sequence(Mut<i8, 1, Whole> marks, In<i32, dyn> ids, Scalar<i32> prompt) {
  constexpr int kClear = 4096, kIds = kMarkedIds;
  auto parts = marks.sub(shape<1, kClear>);
  for (auto part : range(ceil_div(marks.dim(1), kClear))) parts.store(0, part, zeros<i8, 1, kClear>());
  for (auto step : range(ceil_div(ids.dim(0), kIds))) {
    auto id = ids.load_at(shape<kIds>, step * kIds, pad(-1));
    auto in_answer = iota<i32, kIds>() + step * kIds >= prompt;
    marks.scatter(0, id, where(in_answer, full<i8, kIds>(kInAnswer), full<i8, kIds>(kInPrompt)));
  }
}

}  // namespace mortar
