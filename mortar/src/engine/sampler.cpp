// Sampling options and their checks, the state of penalties, the launches of the sampling kernels.
#include "engine/sampler.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string>

#include "engine/penalty_kernels.hpp"
#include "engine/sampling_kernels.hpp"
#include "mortar/config.hpp"
#include "mortar/engine.hpp"
#include "mortar/errors.hpp"
#include "tessera/kernels/top_k.hpp"

namespace mortar {

using namespace tessera;

namespace {

constexpr float kLeastTopP = 1e-6F;  ///< for 0 in a file: no more than the most likely token
constexpr int kColumns = 2048;       ///< logits of a block of penalties
constexpr int kBiases = static_cast<int>(kMaxBiases);
constexpr int kWholeRow = kernels::kWholeRow;

[[noreturn]] void out_of_range(const char* option, const char* expected, double found) {
  throw RequestError(std::string("sampling: ") + option + ": expected " + expected + ", found " +
                     std::to_string(found));
}

}  // namespace

Sampling sampling_of(const GenerationConfig& c) {
  Sampling s;
  s.greedy = !c.sample;
  s.temperature = static_cast<float>(c.temperature);
  s.top_k = c.top_k;
  s.top_p = std::max(static_cast<float>(c.top_p), kLeastTopP);
  s.min_p = static_cast<float>(c.min_p);
  s.repetition_penalty = static_cast<float>(c.repetition_penalty);
  s.presence_penalty = static_cast<float>(c.presence_penalty);
  return s;
}

void check(const Sampling& s, std::int64_t vocabulary) {
  if (!(s.temperature >= 0 && s.temperature <= 100)) out_of_range("temperature", "0 to 100", s.temperature);
  if (s.top_k < 0) out_of_range("top_k", "at least 0", static_cast<double>(s.top_k));
  if (!(s.top_p > 0 && s.top_p <= 1)) out_of_range("top_p", "more than 0, at most 1", s.top_p);
  if (!(s.min_p >= 0 && s.min_p <= 1)) out_of_range("min_p", "0 to 1", s.min_p);
  if (!(s.repetition_penalty > 0 && s.repetition_penalty <= 100))
    out_of_range("repetition_penalty", "more than 0, at most 100", s.repetition_penalty);
  if (!(std::abs(s.presence_penalty) <= 100)) out_of_range("presence_penalty", "-100 to 100", s.presence_penalty);
  if (!(std::abs(s.frequency_penalty) <= 100)) out_of_range("frequency_penalty", "-100 to 100", s.frequency_penalty);
  if (s.logit_bias.size() > kMaxBiases)
    out_of_range("logit_bias", ("at most " + std::to_string(kMaxBiases) + " tokens").c_str(),
                 static_cast<double>(s.logit_bias.size()));
  for (const auto& [token, bias] : s.logit_bias) {
    if (token < 0 || token >= vocabulary) out_of_range("logit_bias", "ids of the vocabulary", token);
    if (!std::isfinite(bias)) out_of_range("logit_bias", "finite numbers", bias);
  }
}

SlotState::SlotState(std::int64_t slots, std::int64_t vocabulary, const Stream& stream)
    : marks(zeros<i8>({slots, vocabulary}).sync(stream)),
      bias_tokens(full<i32>({slots, std::int64_t{kBiases}}, -1).sync(stream)),
      bias_values(zeros<f32>({slots, std::int64_t{kBiases}}).sync(stream)) {}

void SlotState::begin(std::int64_t slot, const TokenRange& ids, std::int64_t prompt, const Sampling& sampling,
                      const Stream& stream) {
  // In whole steps of the kernel, which ignores -1: what divides the extent would choose its code.
  constexpr std::size_t kIds = kMarkedIds;
  std::vector<i32> all((ids.size() + kIds - 1) / kIds * kIds, -1);
  ids.copy_to(all.begin());
  kernel<mark_sequence<kWholeRow>>(mut(marks).slice<0>(slot, slot + 1),
                                   from(std::span(all), {static_cast<std::int64_t>(all.size())}),
                                   static_cast<std::int32_t>(prompt))
      .sync(stream);
  std::vector<i32> tokens(kMaxBiases, -1);
  std::vector<f32> values(kMaxBiases, 0.0f);
  std::map<i32, f32> biases;  // one for each token: a kernel would add those of one token in any order
  for (const auto& [token, bias] : sampling.logit_bias) biases[token] += bias;
  std::size_t used = 0;
  for (const auto& [token, bias] : biases) tokens[used] = token, values[used++] = bias;
  copy_into(mut(bias_tokens).slice<0>(slot, slot + 1), from(std::span(tokens), {1, kBiases})).sync(stream);
  copy_into(mut(bias_values).slice<0>(slot, slot + 1), from(std::span(values), {1, kBiases})).sync(stream);
  if (sampling.frequency_penalty == 0) return;
  const std::int64_t vocabulary = marks.dim(1);
  if (!counts) counts = zeros<i32>({marks.dim(0), vocabulary}).sync(stream);
  std::vector<i32> frequencies(static_cast<std::size_t>(vocabulary));
  for (const i32 id : std::span(all).first(ids.size()).subspan(static_cast<std::size_t>(prompt)))
    ++frequencies[static_cast<std::size_t>(id)];
  copy_into(mut(*counts).slice<0>(slot, slot + 1), from(std::span(frequencies), {1, vocabulary})).sync(stream);
}

namespace {

/// f with a number of chunks that suffices as a constant.
template <class F>
auto with_chunks(std::int64_t chunks, F&& f) {
  return kernels::with_constant<2>(chunks <= 4 ? 0 : 1, [&](auto size) {
    return f(std::integral_constant < int, size == 0 ? 4 : kMaxVocabulary / kChunk > {});
  });
}

Flow<Tensor<i32, 1>> choose_from(const Tensor<f32, 2>& logits, View<i32, 2> options, bool greedy, std::int32_t valid) {
  const std::int64_t rows = logits.dim(0), chunks = ceil_div(std::int64_t{valid}, std::int64_t{kChunk});
  const Dims<2> parts({rows, chunks});
  const Dims<3> groups({rows, chunks, std::int64_t{kGroups}}), found({rows, chunks, std::int64_t{kCandidates}});
  auto [of_groups, of_chunk, first] =
      co_await kernel<largest_logits>(empty<f32>(groups), empty<f32>(parts), empty<i32>(parts), logits, valid);
  if (greedy) {
    co_return co_await with_chunks(
        chunks, [&](auto n) { return kernel<first_of_largest<n>>(empty<i32>({rows}), of_chunk, first); });
  }
  auto [values, columns, complete, weights] = co_await with_chunks(chunks, [&](auto n) {
    return kernel<find_candidates<n>>(empty<f32>(found), empty<i32>(found), empty<i32>(parts), empty<i64>(parts),
                                      logits, of_groups, options, valid);
  });
  auto [tokens, open] = co_await with_chunks(chunks, [&](auto n) {
    return kernel<draw_from_candidates<n>>(empty<i32>({rows}), empty<i32>({rows}), of_chunk, first, values, columns,
                                           complete, weights, options, valid);
  });
  co_return co_await with_chunks(chunks, [&](auto n) {
    return kernel<draw_from_row<n>>(std::move(tokens), open, logits, of_chunk, weights, options, valid);
  });
}

}  // namespace

bool is_greedy(const SamplingRow& row) { return !(std::bit_cast<float>(row[kTemperature]) > 0); }

namespace {

Flow<Tensor<i32, 1>> choose_penalised(const Tensor<f32, 2>& logits, View<i32, 2> options, Choosing how,
                                      std::int32_t valid) {
  SlotState& slots = *how.slots;
  auto adjusted = co_await kernel<apply_penalties<kColumns>>(empty<f32>(logits.dims()), logits, slots.marks, options);
  if (how.counted) co_await kernel<subtract_frequencies<kColumns>>(mut(adjusted), *slots.counts, options);
  co_await kernel<add_biases<kBiases>>.blocks(logits.dim(0))(mut(adjusted), slots.bias_tokens, slots.bias_values,
                                                             options);
  auto tokens = co_await choose_from(adjusted, options, how.greedy, valid);
  co_await kernel<mark_chosen<kWholeRow>>(mut(slots.marks), tokens, options);
  if (how.counted) co_await kernel<count_chosen>.blocks(logits.dim(0))(mut(*slots.counts), tokens, options);
  co_return tokens;
}

Flow<Tensor<i32, 1>> choose_unmasked(const Tensor<f32, 2>& logits, View<i32, 2> options, Choosing how,
                                     std::int32_t valid) {
  if (how.slots == nullptr) return choose_from(logits, std::move(options), how.greedy, valid);
  return choose_penalised(logits, std::move(options), how, valid);
}

}  // namespace

Flow<Tensor<i32, 1>> choose(const Tensor<f32, 2>& logits, View<i32, 2> options, Choosing how, std::int64_t valid,
                            const Tensor<i32, 2>* masks) {
  const auto limit = static_cast<std::int32_t>(valid);
  if (masks == nullptr) co_return co_await choose_unmasked(logits, options, how, limit);
  const auto allowed = co_await kernel<apply_masks<kColumns>>(empty<f32>(logits.dims()), logits, *masks, options);
  co_return co_await choose_unmasked(allowed, options, how, limit);
}

RowScores score(const Tensor<f32, 2>& logits, const Tensor<i32, 1>& tokens, std::int64_t count, std::int64_t valid,
                const Stream& stream) {
  constexpr int kMost = 32, kChunk = 8192, kCandidates = 1024;
  const std::int64_t rows = logits.dim(0), chunks = ceil_div(valid, std::int64_t{kChunk});
  auto [sums, chosen] = kernel<score_rows>(empty<f32>({rows}), empty<f32>({rows}), logits, tokens,
                                           static_cast<std::int32_t>(logits.dim(1)))
                            .sync(stream);
  RowScores scores;
  scores.count = std::min(count, valid);
  const std::vector<f32> total = host(sums).sync(stream);
  scores.chosen = host(chosen).sync(stream);
  for (std::size_t r = 0; r < total.size(); ++r) scores.chosen[r] -= total[r];
  if (scores.count == 0) return scores;
  // Always as many as a request may have: the code of these kernels depends on what divides the number.
  const std::int64_t computed = std::min(kMaxLogprobs, valid);
  const Dims<3> parts({rows, chunks, computed});
  const Dims<2> candidates({rows, chunks * computed}), top({rows, computed});
  auto [values, at] =
      kernel<kernels::top_k_chunk<f32, kMost, kChunk>>(empty<f32>(parts), empty<i32>(parts), logits.slice<1>(0, valid))
          .sync(stream);
  auto [best, ids] =
      kernel<kernels::top_k_merge<f32, kMost, kCandidates>>(
          empty<f32>(top), empty<i32>(top), reshape(values.view(), candidates), reshape(at.view(), candidates))
          .sync(stream);
  const std::vector<f32> all = host(best).sync(stream);
  const std::vector<i32> all_tokens = host(ids).sync(stream);
  for (std::size_t r = 0; r < total.size(); ++r) {
    for (std::int64_t k = 0; k < scores.count; ++k) {
      const std::size_t i = r * static_cast<std::size_t>(computed) + static_cast<std::size_t>(k);
      scores.top.push_back(all[i] - total[r]);
      scores.top_tokens.push_back(all_tokens[i]);
    }
  }
  return scores;
}

}  // namespace mortar
