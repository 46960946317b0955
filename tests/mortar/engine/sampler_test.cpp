// Chosen tokens against a reference in f64.
#include "engine/sampler.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "tessera/base/philox.hpp"

namespace mortar {
namespace THIS_FILE {

using namespace tessera;

struct Case {
  std::vector<float> logits;
  Sampling sampling;
  std::uint64_t seed = 0;
  std::int64_t position = 0;
};

SamplingRow row_of(const Case& c) {
  const auto bits = [](float x) { return std::bit_cast<i32>(x); };
  SamplingRow row{};
  row[kTemperature] = bits(c.sampling.temperature);
  row[kTopK] = static_cast<i32>(c.sampling.top_k);
  row[kTopP] = bits(c.sampling.top_p);
  row[kMinP] = bits(c.sampling.min_p);
  row[kRepetition] = bits(c.sampling.repetition_penalty);
  row[kPresence] = bits(c.sampling.presence_penalty);
  row[kSeedLow] = static_cast<i32>(static_cast<std::uint32_t>(c.seed));
  row[kSeedHigh] = static_cast<i32>(static_cast<std::uint32_t>(c.seed >> 32));
  row[kPosition] = static_cast<i32>(c.position);
  return row;
}

/// The probabilities of the tokens that the limits keep. `slack` above 0 widens the limits by that much, below 0
/// narrows them: where both give the same set, rounding cannot matter.
std::vector<double> kept(const Case& c, double slack) {
  const std::size_t n = c.logits.size();
  const double top = *std::max_element(c.logits.begin(), c.logits.end());
  std::vector<double> p(n);
  for (std::size_t i = 0; i < n; ++i) p[i] = std::exp((c.logits[i] - top) / c.sampling.temperature);
  std::vector<float> sorted = c.logits;
  std::sort(sorted.rbegin(), sorted.rend());
  double least = -HUGE_VAL;
  if (c.sampling.top_k > 0 && c.sampling.top_k < static_cast<std::int64_t>(n))
    least = sorted[static_cast<std::size_t>(c.sampling.top_k) - 1];
  if (c.sampling.top_p < 1) {
    double total = 0, sum = 0;
    for (std::size_t i = 0; i < n; ++i) total += c.logits[i] >= least ? p[i] : 0;
    for (std::size_t i = 0; i < n; ++i) {
      sum += std::exp((sorted[i] - top) / c.sampling.temperature);
      const bool last_equal = i + 1 == n || sorted[i + 1] != sorted[i];
      if (last_equal && sum >= (c.sampling.top_p + slack) * total) {
        least = std::max<double>(least, sorted[i]);
        break;
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i)
    if (c.logits[i] < least || p[i] < c.sampling.min_p * (1 - slack)) p[i] = 0;
  return p;
}

/// The token that the random number falls on; none if it falls near a border, or rounding may change the limits.
std::optional<i32> expected(const Case& c) {
  constexpr double kNear = 2e-6;
  const std::vector<double> p = kept(c, 0);
  if (kept(c, kNear) != p || kept(c, -kNear) != p) return std::nullopt;
  const double total = std::accumulate(p.begin(), p.end(), 0.0);
  const double goal = uniform_at<f32>(c.seed, static_cast<std::uint64_t>(c.position)) * total;
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    const double before = sum;
    sum += p[i];
    if (sum <= goal) continue;
    if (goal - before < kNear * total && before > 0) return std::nullopt;
    if (sum - goal < kNear * total) return std::nullopt;
    return static_cast<i32>(i);
  }
  return std::nullopt;
}

std::vector<i32> chosen(const std::vector<Case>& cases, std::int64_t valid, bool greedy = false) {
  const auto rows = static_cast<std::int64_t>(cases.size()), n = static_cast<std::int64_t>(cases[0].logits.size());
  std::vector<float> logits;
  std::vector<i32> options;
  for (const Case& c : cases) {
    const SamplingRow row = row_of(c);
    logits.insert(logits.end(), c.logits.begin(), c.logits.end());
    options.insert(options.end(), row.begin(), row.end());
  }
  const Stream stream(Device::cpu());
  const auto x = from(std::span(logits), {rows, n}).sync(stream);
  const auto o = from(std::span(options), {rows, std::int64_t{kSamplingFields}}).sync(stream);
  return host(choose(x, o.view(), {.greedy = greedy}, valid).sync(stream)).sync(stream);
}

/// Compares the tokens of cases with the reference's, and each of a few with the token that it has alone.
void expect_as_reference(const std::vector<Case>& cases, int at_least) {
  const auto n = static_cast<std::int64_t>(cases[0].logits.size());
  const std::vector<i32> found = chosen(cases, n);
  int compared = 0;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (i % 8 == 3) { EXPECT_EQ(chosen({cases[i]}, n)[0], found[i]) << n << " tokens, case " << i << " alone"; }
    const auto wanted = expected(cases[i]);
    if (!wanted) continue;
    ++compared;
    EXPECT_EQ(found[i], *wanted) << n << " tokens, case " << i;
  }
  EXPECT_GE(compared, at_least) << n;
}

TEST(MortarSampler, DrawsAsTheReferenceDoes) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal(0, 3);
  for (const std::int64_t n : {5, 384, 9001, 151936}) {
    std::vector<Case> cases(n > 10000 ? 8 : 60);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      Case& c = cases[i];
      c.logits.resize(static_cast<std::size_t>(n));
      for (float& x : c.logits) x = std::round(normal(random) * 16) / 16;  // equal ones occur
      c.sampling.temperature = i % 4 == 0 ? 1.0F : 0.3F + 0.1F * static_cast<float>(i % 10);
      if (i % 2 == 1) c.sampling.top_k = 1 + static_cast<std::int64_t>(random() % 40);
      if (i % 3 == 1) c.sampling.top_p = 0.05F + 0.9F * static_cast<float>(random() % 100) / 100;
      if (i % 5 == 1) c.sampling.min_p = 0.05F;
      c.seed = (std::uint64_t{random()} << 32) | random();
      c.position = static_cast<std::int64_t>(random() % 100000);
    }
    expect_as_reference(cases, n > 10000 ? 6 : 54);
  }
}

// Where nearly all tokens remain, many are equal, or the largest are close together, the candidates of the first pass
// do not suffice.
TEST(MortarSampler, DrawsFromDistributionsOfEveryShape) {
  std::mt19937 random(8);
  constexpr std::size_t kTokens = 9001;
  std::vector<Case> cases;
  const auto add = [&](const std::vector<float>& logits, std::int64_t top_k, float top_p, float min_p) {
    cases.push_back({logits, {}, random(), static_cast<std::int64_t>(random() % 1000)});
    cases.back().sampling.temperature = 0.8F;
    cases.back().sampling.top_k = top_k;
    cases.back().sampling.top_p = top_p;
    cases.back().sampling.min_p = min_p;
  };
  std::vector<float> nearly_flat(kTokens), clustered(kTokens), steep(kTokens), two_levels(kTokens);
  for (std::size_t i = 0; i < kTokens; ++i) {
    nearly_flat[i] = static_cast<float>(random() % 1000) * 1e-4F;
    clustered[i] = (i >= 5000 && i < 5600 ? 4.0F : -4.0F) + static_cast<float>(random() % 1000) * 1e-3F;
    steep[i] = static_cast<float>(random() % 100000) * -1e-2F;
    two_levels[i] = i % 3 == 0 ? 1.0F : -1.0F;
  }
  const std::vector<float> extreme = [&] {
    std::vector<float> x(kTokens, -3e38F);
    x[77] = 1e-40F, x[78] = -1e-40F, x[8000] = 3e38F, x[8001] = 2.9e38F;
    return x;
  }();
  for (const std::vector<float>& logits : {nearly_flat, clustered, steep, two_levels, extreme}) {
    add(logits, 0, 0.999F, 0);
    add(logits, 0, 1, 0);
    add(logits, 0, 1, 0.3F);
    add(logits, 1, 1, 0);
    add(logits, kTokens, 0.5F, 0);
    add(logits, kTokens - 1, 1, 0);
    add(logits, 50, 0.9F, 0.01F);
    add(logits, 400, 0.97F, 0);
    add(logits, 0, 1e-6F, 0);
  }
  expect_as_reference(cases, 40);
}

// All weights are equal, so the token is known exactly.
TEST(MortarSampler, EqualLogitsAreAllKept) {
  constexpr std::int64_t kTokens = 20000;
  std::vector<Case> cases(6);
  for (std::size_t i = 0; i < cases.size(); ++i) {
    cases[i] = {std::vector<float>(kTokens, 1.5F), {}, 3, static_cast<std::int64_t>(i)};
    cases[i].sampling.temperature = 1;
  }
  cases[1].sampling.top_k = 1;
  cases[2].sampling.top_p = 0.999F;
  cases[3].sampling.top_p = 0.001F;
  cases[4].sampling.min_p = 1;
  cases[5].sampling.top_k = 7, cases[5].sampling.top_p = 0.5F, cases[5].sampling.min_p = 0.5F;
  const std::vector<i32> found = chosen(cases, kTokens - 9);
  for (std::size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(found[i], static_cast<i32>(static_cast<double>(uniform_at<f32>(3, i)) * (kTokens - 9))) << i;
}

TEST(MortarSampler, LogitsThatAreNoNumbers) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<Case> cases(6);
  for (Case& c : cases) c.logits.assign(5000, -kInf), c.sampling.temperature = 1, c.seed = 5;
  cases[1].logits[4321] = -50;
  cases[1].sampling.top_k = 20;
  cases[2].logits[4321] = cases[2].logits[4444] = kInf, cases[2].logits[17] = 3;
  cases[2].sampling.top_p = 0.9F;
  for (std::size_t i = 0; i < 5000; ++i) cases[3].logits[i] = i == 4500 ? 0.0F : std::nanf("");
  cases[3].sampling.top_p = 0.9F;
  cases[4] = cases[3];
  cases[4].sampling.top_p = 1;
  cases[5].logits[100] = 1, cases[5].logits[4100] = 1.0001F;
  cases[5].sampling.temperature = 1e-40F;  // no logit has a weight
  EXPECT_EQ(chosen(cases, 5000), (std::vector<i32>{-1, 4321, -1, 4500, 4500, 4100})) << "-1: the largest is not finite";
}

TEST(MortarSampler, GreedyTakesTheFirstOfTheLargest) {
  std::vector<Case> cases(4);
  for (Case& c : cases) c.logits.assign(9000, -1.0F), c.sampling.temperature = 0;
  cases[0].logits[8500] = cases[0].logits[4097] = 3;
  cases[1].logits[8999] = 3;
  cases[2].logits[10] = std::nanf("");
  cases[2].logits[20] = 1;
  cases[3].logits.assign(9000, -std::numeric_limits<float>::infinity());
  for (const bool all_greedy : {false, true}) {
    EXPECT_EQ(chosen(cases, 9000, all_greedy), (std::vector<i32>{4097, 8999, 20, -1}));
    EXPECT_EQ(chosen(cases, 8999, all_greedy)[1], 0) << "ids that are no tokens are not chosen";
  }
}

TEST(MortarSampler, MasksLeaveTheTokensThatTheyAllow) {
  constexpr std::int64_t kIds = 5000, kWords = (kIds + 31) / 32, kMasks = 3, kRows = 4;
  const Stream stream(default_device());
  std::mt19937 random(5);
  std::vector<float> logits(kRows * kIds);
  for (float& x : logits) x = static_cast<float>(random() % 100000) / 1000;
  std::vector<i32> masks(kMasks * kWords), options(kRows * kSamplingFields);
  for (i32& word : masks) word = static_cast<i32>(random() & random() & random() & random());
  masks[2 * kWords] |= 1 << 31;
  for (std::int64_t word = 2 * kWords + 1; word < 3 * kWords; ++word) masks[static_cast<std::size_t>(word)] = 0;
  const std::vector<i32> mask_of = {1, -1, 0, 2};
  std::vector<i32> expected;
  for (std::size_t row = 0; row < kRows; ++row) {
    options[row * kSamplingFields + kMask] = mask_of[row];
    options[row * kSamplingFields + kSlot] = -1;
    const float* const x = logits.data() + row * kIds;
    const i32* const mask = mask_of[row] < 0 ? nullptr : masks.data() + mask_of[row] * kWords;
    i32 best = -1;
    for (i32 id = 0; id < kIds; ++id)
      if ((mask == nullptr || (static_cast<std::uint32_t>(mask[id / 32]) >> (id % 32) & 1U) != 0) &&
          (best < 0 || x[id] > x[best]))
        best = id;
    expected.push_back(best);
  }
  const auto x = from(std::span(logits), {kRows, kIds}).sync(stream);
  const auto o = from(std::span(options), {kRows, std::int64_t{kSamplingFields}}).sync(stream);
  const auto m = from(std::span(masks), {kMasks, kWords}).sync(stream);
  const auto chosen = host(choose(x, o.view(), {.greedy = true}, kIds, &m).sync(stream)).sync(stream);
  EXPECT_EQ(chosen, expected);
  EXPECT_LT(chosen[3], 32) << "one or two bits";
  for (std::size_t row = 0; row < kRows; ++row)
    options[row * kSamplingFields + kTemperature] = std::bit_cast<i32>(1e9F);
  const auto drawn = from(std::span(options), {kRows, std::int64_t{kSamplingFields}}).sync(stream);
  const auto any = host(choose(x, drawn.view(), {}, kIds, &m).sync(stream)).sync(stream);
  for (std::size_t row = 0; row < kRows; ++row) {
    if (mask_of[row] < 0) continue;
    const auto word =
        static_cast<std::uint32_t>(masks[static_cast<std::size_t>(mask_of[row] * kWords + any[row] / 32)]);
    EXPECT_EQ(word >> (any[row] % 32) & 1U, 1U) << "row " << row << ", token " << any[row];
  }
}

TEST(MortarSampler, PenaltiesAndBiasesChangeTheLogits) {
  const Stream stream(Device::cpu());
  SlotState slots(3, 6, stream);
  Case c{{2.0F, 1.9F, -1.0F, 0.5F, 0, 0}, {}, 0, 0};
  c.sampling.temperature = 0;
  c.sampling.repetition_penalty = 2;
  c.sampling.presence_penalty = 0.75F;
  const auto pick = [&](const std::vector<TokenId>& ids, std::int64_t prompt, Sampling s) {
    slots.begin(1, ids, prompt, s, stream);
    SamplingRow row = row_of(c);
    row[kSlot] = 1;
    const auto x = from(std::span(c.logits), {1, 6}).sync(stream);
    const auto o = from(std::span(row), {1, std::int64_t{kSamplingFields}}).sync(stream);
    return host(choose(x, o.view(), {.slots = &slots, .greedy = true}, 6).sync(stream)).sync(stream)[0];
  };
  EXPECT_EQ(pick({3}, 1, c.sampling), 0);
  EXPECT_EQ(pick({0}, 1, c.sampling), 1) << "2.0 / 2 < 1.9";
  EXPECT_EQ(pick({0, 1}, 1, c.sampling), 0) << "1.9 / 2 - 0.75 < 2.0 / 2";
  Sampling biased = c.sampling;
  biased.logit_bias = {{4, 5.0F}, {0, -3.0F}};
  EXPECT_EQ(pick({3}, 1, biased), 4);
  const std::vector<i8> marks = host(slots.marks).sync(stream);
  EXPECT_EQ(marks[6 + 3], kInPrompt);
  EXPECT_EQ(marks[6 + 4], kInAnswer) << "the chosen token is a part of the answer";
  EXPECT_EQ(marks[6 + 0], kUnseen) << "a new sequence begins without marks";
}

/// A sequence that gave way begins again with a prompt and an answer, which have tokens in common: within the ids that
/// are marked at the same time, and beyond.
TEST(MortarSampler, TokensOfPromptAndAnswerAreMarkedAsTheAnswers) {
  const Stream stream(default_device());
  constexpr std::int64_t kVocabulary = 40, kIds = 150;
  SlotState slots(2, kVocabulary, stream);
  std::mt19937 random(3);
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < kIds; ++i) ids.push_back(static_cast<TokenId>(random() % (kVocabulary - 1)));
  for (const std::vector<TokenId>& all : {ids, std::vector<TokenId>{5, 9, 5}, std::vector<TokenId>{5, 5}}) {
    const std::int64_t n = std::ssize(all);
    for (const std::int64_t prompt : {std::int64_t{0}, std::int64_t{1}, n / 2, n - 1, n}) {
      slots.begin(1, all, prompt, {}, stream);
      std::vector<i8> expected(kVocabulary, kUnseen);
      for (std::int64_t i = 0; i < n; ++i)
        expected[static_cast<std::size_t>(all[static_cast<std::size_t>(i)])] = i < prompt ? kInPrompt : kInAnswer;
      const std::vector<i8> marks = host(slots.marks.slice<0>(1, 2)).sync(stream);
      EXPECT_EQ(marks, expected) << n << " ids, of which the first " << prompt << " are the prompt";
    }
  }
}

/// Sums of three numbers of f32 that depend on the order: the biases of one token are added in theirs.
TEST(MortarSampler, BiasesOfOneTokenAreAddedInTheirOrder) {
  const Stream stream(default_device());
  SlotState slots(1, 4, stream);
  const auto sum_of = [&](const std::vector<float>& biases) {
    Sampling s;
    for (const float bias : biases) s.logit_bias.emplace_back(2, bias);
    slots.begin(0, std::vector<TokenId>{1}, 1, s, stream);
    const std::vector<i32> tokens = host(slots.bias_tokens).sync(stream);
    const std::vector<f32> values = host(slots.bias_values).sync(stream);
    EXPECT_EQ(std::ranges::count(tokens, 2), 1);
    return values[static_cast<std::size_t>(std::ranges::find(tokens, 2) - tokens.begin())];
  };
  EXPECT_EQ(sum_of({1e9F, -1e9F, 1}), 1);
  EXPECT_EQ(sum_of({1e9F, 1, -1e9F}), 0);
}

}  // namespace THIS_FILE
}  // namespace mortar
