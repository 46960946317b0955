// The warm-up: what it computes leaves nothing behind. warm_up_test.py shows that nothing is compiled after it.
#include "engine/warm_up.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <stdexcept>
#include <vector>

#include "base/rounds.hpp"
#include "engine/runners.hpp"
#include "mortar/engine/test_engine.hpp"
#include "tessera/runtime/memory.hpp"

namespace mortar::test {
namespace THIS_FILE {

std::vector<Request> some_requests() {
  std::vector<Request> requests;
  for (std::uint32_t i = 0; i < 6; ++i) {
    Request r = some_request(5 + 37 * i, 12, i);
    r.sampling.greedy = i % 2 == 0;
    if (i == 3) r.sampling.frequency_penalty = 0.5F, r.sampling.logit_bias = {{7, 2.5F}};
    if (i == 4) r.logprobs = 3;
    requests.push_back(std::move(r));
  }
  return requests;
}

std::vector<std::vector<TokenId>> answers(Engine& engine) {
  const std::vector<Request> requests = some_requests();
  std::vector<Heard> heard(requests.size());
  for (std::size_t i = 0; i < requests.size(); ++i) engine.submit(requests[i], heard[i].listener());
  engine.run();
  std::vector<std::vector<TokenId>> ids;
  for (const Heard& h : heard) ids.push_back(h.ids);
  return ids;
}

class MortarWarmUp : public testing::TestWithParam<const char*> {};

TEST_P(MortarWarmUp, LeavesTheEngineAsItWas) {
  const EngineOptions options{.max_batch = 4, .prefill_tokens = 40, .kv_tokens = 12 * 64};
  Engine cold(load_test_model(GetParam()), options);
  const auto expected = answers(cold);

  Engine engine(load_test_model(GetParam()), options);
  const std::size_t before = tessera::memory_stats(tessera::Device::cpu()).in_use;
  std::int64_t last = 0, all = 0;
  engine.warm_up([&](std::int64_t done, std::int64_t of) {
    EXPECT_EQ(done, last + 1);
    last = done;
    all = of;
  });
  EXPECT_EQ(last, all);
  EXPECT_GT(all, 10);
  EXPECT_EQ(tessera::memory_stats(tessera::Device::cpu()).in_use, before);
  EXPECT_EQ(engine.stats().steps, 0);
  EXPECT_EQ(engine.free_pages(), engine.total_pages());
  EXPECT_EQ(answers(engine), expected);
}
INSTANTIATE_TEST_SUITE_P(Models, MortarWarmUp, testing::Values("dense-tied", "fp8", "moe", "llama-untied"));

TEST(MortarWarmUp, IsMadeByAllRanks) {
  for (const bool exact : {false, true}) {
    if (tessera::test::kSanitizer && !exact) continue;  // a minute each
    ModelOptions options;
    options.device = tessera::Device::cpu();
    options.max_context = 256;
    options.exact = exact;
    options.tensor_parallel = 2;
    const auto load_ranks = [&] { return load(test_model("moe").string(), options); };
    Engine cold(load_ranks(), {.max_batch = 4, .prefill_tokens = 40});
    Engine engine(load_ranks(), {.max_batch = 4, .prefill_tokens = 40});
    engine.warm_up();
    EXPECT_EQ(answers(engine), answers(cold));
  }
}

TEST(MortarWarmUp, EndsByAnExceptionOfItsListener) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 2});
  int heard = 0;
  const auto stop = [&](std::int64_t, std::int64_t) {
    if (++heard == 3) throw std::runtime_error("stop");
  };
  EXPECT_THROW(engine.warm_up(stop), std::runtime_error);
  EXPECT_EQ(heard, 3);
  EXPECT_EQ(answer(engine, some_request(9, 5)).ids.size(), 5U) << "the engine answers";
}

TEST(MortarWarmUp, AFunctionOfASequenceMustNotCallIt) {
  Engine engine(load_test_model("dense-tied"), {.max_batch = 2});
  bool rejected = false;
  engine.submit(some_request(3, 1), [&](const Token&) {
    try {
      engine.warm_up();
    } catch (const RequestError&) { rejected = true; }
  });
  engine.run();
  EXPECT_TRUE(rejected);
}

// The weights are read by many threads at a time, each with a cache of its own; too little memory leaves steps to the
// last pass.
TEST(MortarWarmUp, CompilesInThreads) {
  std::uint64_t number = 0;
  for (const std::int64_t memory : {std::int64_t{1} << 30, std::int64_t{400'000}, std::int64_t{0}}) {
    for (const char* name : {"dense-tied", "moe"}) {
      if (number++ % tessera::test::one_in(5) != 0) continue;
      Model model = load_test_model(name);
      Runners runners(model, {}, 4);
      std::int64_t done = 0;
      runners.warm_up({.batch = 4, .prefill = 40, .pages = 4, .memory = memory, .compiling = {}},
                      [&](std::int64_t now, std::int64_t) { done = now; });
      EXPECT_GT(done, 10);
    }
  }
}

/// Steps that are rounded to extents of the list take kernels that were prepared.
TEST(WarmUpSteps, CoverEverySmallStep) {
  const WarmUpLimits limits{.batch = 100, .prefill = 512, .pages = 200, .memory = 0};
  const auto steps = steps_to_prepare(limits, kQueryTile, kGpuRounding);
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto prompts = static_cast<std::int64_t>(random() % 3), answers = static_cast<std::int64_t>(random() % 101);
    if (prompts + answers == 0) continue;
    std::vector<TokenId> ids(1 + random() % 512 / 2);
    const std::vector<PageId> pages(1 + random() % 200);
    std::vector<RowPlan> rows;
    for (std::int64_t r = 0; r < prompts + answers; ++r) {
      RowPlan row;
      row.ids = r < prompts ? TokenRange(ids) : TokenRange(ids).subrange(0, 1);
      row.pages = pages;
      row.wants_token = true;
      rows.push_back(row);
    }
    const StepShape s = shape_of(rows, static_cast<std::size_t>(prompts), kQueryTile, kGpuRounding);
    EXPECT_TRUE(std::ranges::any_of(steps, [&](const StepShape& p) { return p.tokens == s.tokens; })) << s.tokens;
    if (!s.decode()) continue;
    EXPECT_TRUE(std::ranges::any_of(
        steps, [&](const StepShape& p) { return p.decode() && p.rows == s.rows && p.pages == s.pages; }))
        << s.rows << " rows, " << s.pages << " pages";
  }
  const auto choices = choices_to_prepare(100, kGpuRounding);
  for (std::int64_t n = 1; n <= 100; ++n) {
    const std::int64_t rounded = n < kGpuRounding ? static_cast<std::int64_t>(std::bit_ceil(static_cast<unsigned>(n)))
                                                  : (n + kGpuRounding - 1) / kGpuRounding * kGpuRounding;
    EXPECT_NE(std::ranges::find(choices, rounded), choices.end()) << rounded;
  }
}

TEST(WarmUpSteps, BeginSmallAndAreFewForLongPrompts) {
  const auto steps = steps_to_prepare({.batch = 256, .prefill = 1 << 20, .pages = 1000, .memory = 0}, kQueryTile, 16);
  EXPECT_EQ(steps.front().tokens, 1);
  EXPECT_LT(steps.size(), 450U);
}

}  // namespace THIS_FILE
}  // namespace mortar::test
