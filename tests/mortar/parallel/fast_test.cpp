// The fast mode: ranks add parts of sums in f32. Its error against numbers that were not rounded is that of one device,
// and tokens are those of one device where the first of them leads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "mortar/parallel/ranks.hpp"
#include "tessera/tessera.hpp"

namespace mortar::test {
namespace THIS_FILE {

using namespace tessera;

std::vector<float> golden_logits(const std::string& model) {
  return host(load_npy<f32, 2>((test_model(model) / "golden/logits.npy").string()).sync()).sync();
}
std::vector<TokenId> golden_ids(const std::string& model) {
  return host(load_npy<i32, 1>((test_model(model) / "golden/ids.npy").string()).sync()).sync();
}

double relative_error(const std::vector<float>& x, const std::vector<float>& exact) {
  EXPECT_EQ(x.size(), exact.size());
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(static_cast<double>(x[i]) - exact[i], 2);
    norm += std::pow(exact[i], 2.0);
  }
  return std::sqrt(error / norm);
}

/// For models with files. Ranks round in the same places as one device: errors differ by chance alone.
constexpr double kByChance = 1.15;

TEST(MortarFast, ErrorsAreThoseOfOneDevice) {
  for (const auto& [shared, ranks] : shared_models()) {
    if (!shared.has_files()) continue;
    SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks");
    const std::vector<float> exact = golden_logits(shared.name);
    const std::vector<TokenId> ids = golden_ids(shared.name);
    Engine one(shared.on_one_device(false), {.prefill_tokens = 32});
    Engine all(shared.on_ranks(ranks, false), {.prefill_tokens = 32});
    const double alone = relative_error(one.logits(ids), exact), together = relative_error(all.logits(ids), exact);
    EXPECT_LE(together, kByChance * alone);
    EXPECT_GT(together, 0);
  }
}

/// What an answer says of its tokens, token by token, is what the whole text says: graphs of one and of several rows,
/// steps over prompts and both together compute the same.
TEST(MortarFast, DecodingAgreesWithPrompts) {
  constexpr float kRounding = 0.06F;  // of log-probabilities, whose logits have a deviation of about 1
  for (const auto& [shared, ranks] : shared_models()) {
    SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks");
    Engine one(shared.on_one_device(false), {});
    Engine all(shared.on_ranks(ranks, false), {.max_batch = 3});
    for (const std::uint32_t together : {1U, 3U}) {
      std::vector<Heard> heard(together);
      std::vector<Request> requests;
      for (std::uint32_t i = 0; i < together; ++i) {
        requests.push_back(some_request(20 + 30 * i, 8, i));
        requests.back().logprobs = 0, requests.back().sampling.greedy = true;
        all.submit(requests.back(), heard[i].listener());
      }
      all.run();
      for (std::uint32_t i = 0; i < together; ++i) {
        std::vector<TokenId> text = requests[i].ids;
        text.insert(text.end(), heard[i].ids.begin(), heard[i].ids.end());
        const std::vector<float> expected = one.log_likelihoods(text);
        ASSERT_EQ(heard[i].tokens.size(), 8U);
        for (std::size_t t = 0; t < 8; ++t)
          EXPECT_NEAR(heard[i].tokens[t].chosen->logprob, expected[requests[i].ids.size() - 1 + t], kRounding)
              << together << " together, token " << t;
      }
    }
  }
}

TEST(MortarFast, GreedyTokensAreThoseOfOneDeviceWhereTheFirstLeads) {
  for (const auto& [shared, ranks] : shared_models()) {
    if (!shared.has_files()) continue;
    SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks");
    const std::vector<float> exact = golden_logits(shared.name);
    const std::vector<TokenId> ids = golden_ids(shared.name);
    Engine one(shared.on_one_device(false), {}), all(shared.on_ranks(ranks, false), {});
    const std::vector<float> alone = one.logits(ids), together = all.logits(ids);
    float error = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) error = std::max(error, std::abs(alone[i] - exact[i]));
    const std::size_t n = exact.size() / ids.size();
    std::size_t compared = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto row = [&](const std::vector<float>& x) { return x.data() + i * n; };
      const float* best = std::max_element(row(alone), row(alone) + n);
      float second = -HUGE_VALF;
      for (const float* x = row(alone); x < row(alone) + n; ++x)
        if (x != best) second = std::max(second, *x);
      if (*best - second < 2 * error) continue;
      ++compared;
      EXPECT_EQ(std::max_element(row(together), row(together) + n) - row(together), best - row(alone)) << i;
    }
    EXPECT_GT(compared, ids.size() / 4);
  }
}

/// One rank that goes through the collectives computes what a device without them does, up to where it rounds.
TEST(MortarFast, OneRank) {
  const SharedModel shared{"dense-tied"};
  Engine one(shared.on_one_device(false), {}), rank(shared.on_ranks(1, false), {});
  const std::vector<TokenId> ids = some_ids(40, 1);
  EXPECT_LT(relative_error(rank.logits(ids), one.logits(ids)), 0.02);
}

}  // namespace THIS_FILE
}  // namespace mortar::test
