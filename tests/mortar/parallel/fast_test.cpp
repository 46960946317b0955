// The fast mode: the sums of the ranks are added in f32. Its error against numbers that were not rounded is that of one
// device, and tokens are those of one device where the first of them leads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "mortar/parallel/ranks.hpp"
#include "mortar/parallel/router_ties.hpp"
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

/// For models with files. Ranks round in the same places as one device: errors differ by chance alone.
constexpr double kByChance = 1.15;

TEST(MortarFast, ErrorsAreThoseOfOneDevice) {
  for (const auto& [shared, ranks] : shared_models()) {
    if (!shared.has_files()) continue;
    SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks");
    const std::vector<float> exact = golden_logits(shared.name);
    const std::vector<TokenId> ids = golden_ids(shared.name);
    Engine one(shared.on_one_device(false, ranks), {.prefill_tokens = 32});
    Engine all(shared.on_ranks(ranks, false), {.prefill_tokens = 32});
    const double alone = relative_error(one.logits(ids), exact), together = relative_error(all.logits(ids), exact);
    EXPECT_LE(together, kByChance * alone);
    EXPECT_GT(together, 0);
  }
}

/// What an answer says of its tokens, token by token, is what the whole text says: graphs of one and of several rows,
/// steps over prompts and both together compute the same. A token at which a router has a near tie may have another
/// expert: there one device that decodes several sequences differs from a prompt as well.
TEST(MortarFast, DecodingAgreesWithPrompts) {
  constexpr float kRounding = 0.06F;  // of log-probabilities, whose logits have a deviation of about 1
  constexpr std::size_t kTokens = 8;
  for (const auto& [shared, ranks] : shared_models()) {
    SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks");
    Engine one(shared.on_one_device(false, ranks), {});
    Engine all(shared.on_ranks(ranks, false), {.max_batch = 3});
    RouterTies routers(shared.on_the_cpu());
    for (const std::uint32_t together : {1U, 3U}) {
      std::vector<Heard> heard(together);
      std::vector<Request> requests;
      for (std::uint32_t i = 0; i < together; ++i) {
        requests.push_back(some_request(20 + 30 * i, static_cast<std::int64_t>(kTokens), i));
        requests.back().logprobs = 0, requests.back().sampling.greedy = true;
        all.submit(requests.back(), heard[i].listener());
      }
      all.run();
      std::size_t compared = 0;
      for (std::uint32_t i = 0; i < together; ++i) {
        std::vector<TokenId> text = requests[i].ids;
        text.insert(text.end(), heard[i].ids.begin(), heard[i].ids.end());
        const std::vector<float> expected = one.log_likelihoods(text);
        const std::vector<bool> ties = routers.of(text);
        ASSERT_EQ(heard[i].tokens.size(), kTokens);
        for (std::size_t t = 0; t < kTokens; ++t) {
          const std::size_t before = requests[i].ids.size() - 1 + t;
          if (ties[before]) continue;
          ++compared;
          EXPECT_NEAR(heard[i].tokens[t].chosen->logprob, expected[before], kRounding)
              << together << " together, sequence " << i << ", token " << t;
        }
      }
      EXPECT_GE(compared, kTokens * together * 3 / 5);
    }
  }
}

/// The index and the lead of the largest of n numbers.
std::pair<std::size_t, float> best_of(const float* x, std::size_t n) {
  const auto best = static_cast<std::size_t>(std::max_element(x, x + n) - x);
  float second = -HUGE_VALF;
  for (std::size_t i = 0; i < n; ++i)
    if (i != best) second = std::max(second, x[i]);
  return {best, x[best] - second};
}

/// Where no router has a near tie, and the first logit of one device leads by twice its largest error there.
TEST(MortarFast, GreedyTokensAreThoseOfOneDeviceWhereTheFirstLeads) {
  for (const auto& [shared, ranks] : shared_models()) {
    if (!shared.has_files()) continue;
    SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks");
    const std::vector<float> exact = golden_logits(shared.name);
    const std::vector<TokenId> ids = golden_ids(shared.name);
    Engine one(shared.on_one_device(false, ranks), {}), all(shared.on_ranks(ranks, false), {});
    const std::vector<float> alone = one.logits(ids), together = all.logits(ids);
    const std::vector<bool> ties = RouterTies(shared.on_the_cpu()).of(ids);
    const std::size_t n = exact.size() / ids.size();
    float error = 0;
    for (std::size_t i = 0; i < exact.size(); ++i)
      if (!ties[i / n]) error = std::max(error, std::abs(alone[i] - exact[i]));
    std::size_t compared = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto [best, lead] = best_of(alone.data() + i * n, n);
      if (ties[i] || lead < 2 * error) continue;
      ++compared;
      EXPECT_EQ(best_of(together.data() + i * n, n).first, best) << "position " << i << ", lead " << lead;
    }
    EXPECT_GT(compared, ids.size() / 4) << "errors are up to " << error;
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
