// The forward pass against the logits that Hugging Face transformers computed (tests/mortar/data): our error against
// its f32 run may not exceed that of its own run with rounded numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "mortar/engine/test_engine.hpp"
#include "tessera/tessera.hpp"

namespace mortar::test {
namespace THIS_FILE {

using namespace tessera;

std::vector<float> golden_floats(const std::string& model, const std::string& file) {
  return host(load_npy<f32, 2>((test_model(model) / "golden" / file).string()).sync()).sync();
}

bool has_bf16_run(const std::string& model) {
  return std::filesystem::exists(test_model(model) / "golden/logits_bf16.npy");
}
std::vector<float> golden_bf16(const std::string& model) {
  std::vector<float> values;
  for (const u16 bits : host(load_npy<u16, 2>((test_model(model) / "golden/logits_bf16.npy").string()).sync()).sync())
    values.push_back(static_cast<float>(std::bit_cast<bf16>(bits)));
  return values;
}
/// The run that transformers rounded: in bf16, or with the inputs of FP8 products in FP8.
std::vector<float> golden_rounded(const std::string& model) {
  return has_bf16_run(model) ? golden_bf16(model) : golden_floats(model, "logits_fp8.npy");
}

std::vector<TokenId> golden_ids(const std::string& model) {
  return host(load_npy<i32, 1>((test_model(model) / "golden/ids.npy").string()).sync()).sync();
}

/// A GPU where there is one: its logits are held to the same bound.
Model on_default_device(const std::string& model) { return load_test_model(model, 256, 1, default_device()); }

class MortarParity : public testing::TestWithParam<const char*> {};

TEST_P(MortarParity, TeacherForcedLogitsAreAsCloseAsTransformers) {
  const std::string name = GetParam();
  const std::vector<float> exact = golden_floats(name, "logits.npy");
  const double theirs = relative_error(golden_rounded(name), exact);
  for (const bool strict : {false, true}) {
    Engine engine(on_default_device(name), {.prefill_tokens = 32, .strict = strict});  // several chunks
    const double ours = relative_error(engine.logits(golden_ids(name)), exact);
    RecordProperty(strict ? "strict" : "error", std::to_string(ours));
    EXPECT_LE(ours, strict ? 1.25 * theirs : theirs);  // strict: the same roundings, after sums in another order
  }
}

// On a GPU, chunks of few tokens at late positions have their keys split over blocks; one whole step has not.
TEST(MortarChunks, LateChunksComputeWhatOneStepDoes) {
  constexpr std::int64_t kTokens = 1000;
  std::vector<TokenId> ids;
  for (std::int64_t i = 0; i < kTokens; ++i) ids.push_back(static_cast<TokenId>(i * 37 % 300));
  for (const KvType type : {KvType::Bf16, KvType::Fp8}) {
    const auto logits = [&](std::int64_t chunk) {
      Engine engine(load_test_model("dense-tied", kTokens + 1, 1, default_device(), type), {.prefill_tokens = chunk});
      return engine.logits(ids);
    };
    const std::vector<float> whole = logits(kTokens);
    // A key that is computed otherwise by a unit of bf16 may round to another number of three bits.
    const double most = type == KvType::Bf16 ? 0.02 : 0.04;
    for (const std::int64_t chunk : {48, 64}) EXPECT_LT(relative_error(logits(chunk), whole), most) << chunk;
  }
}

TEST(MortarFp8Activations, LogitsAreAsCloseAsTransformers) {
  for (const char* name : {"fp8", "moe-fp8"}) {
    const std::vector<float> exact = golden_floats(name, "logits.npy");
    const auto error = [&](bool rounded) {
      Engine engine(on_default_device(name), {.fp8_activations = rounded});
      return relative_error(engine.logits(golden_ids(name)), exact);
    };
    const double theirs = relative_error(golden_rounded(name), exact), ours = error(true);
    EXPECT_LE(ours, 1.25 * theirs) << name << ": the same roundings, and those of bf16 between";
    // The experts of a mixture keep their inputs.
    EXPECT_GT(ours, (std::string_view(name) == "fp8" ? 2 : 1) * error(false)) << name;
  }
}

TEST(MortarFp8Activations, AreRejectedWhereTheyMeanNothing) {
  const auto error = [](const char* model, const EngineOptions& options) -> std::string {
    try {
      Engine engine(load_test_model(model), options);
    } catch (const RequestError& e) { return e.what(); }
    return "";
  };
  EXPECT_THAT(error("dense-tied", {.fp8_activations = true}), testing::HasSubstr("expected a model with FP8 weights"));
  EXPECT_THAT(error("fp8", {.strict = true, .fp8_activations = true}), testing::HasSubstr("neither strict nor"));
  EXPECT_EQ(error("fp8", {.fp8_activations = true}), "");
}

/// The index and the lead of the largest of n numbers.
std::pair<std::size_t, float> best_of(const float* x, std::size_t n) {
  const std::size_t best = static_cast<std::size_t>(std::max_element(x, x + n) - x);
  float second = -HUGE_VALF;
  for (std::size_t i = 0; i < n; ++i)
    if (i != best) second = std::max(second, x[i]);
  return {best, x[best] - second};
}

// Strict mode has the roundings of transformers in bf16: where its first logit leads by four units in the last place,
// it is ours too.
TEST_P(MortarParity, StrictModeDecidesAsTransformersInBf16) {
  const std::string name = GetParam();
  if (!has_bf16_run(name)) GTEST_SKIP() << "transformers has no bf16 run of FP8 checkpoints";
  const std::vector<float> theirs = golden_bf16(name);
  const std::vector<TokenId> ids = golden_ids(name);
  Engine engine(on_default_device(name), {.strict = true});
  const std::vector<float> ours = engine.logits(ids);
  const std::size_t n = theirs.size() / ids.size();
  std::size_t compared = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto [token, lead] = best_of(theirs.data() + i * n, n);
    const float ulp = std::ldexp(1.0F, std::ilogb(theirs[i * n + token]) - 7);
    if (lead < 4 * ulp) continue;
    ++compared;
    EXPECT_EQ(best_of(ours.data() + i * n, n).first, token) << "position " << i << ", lead " << lead;
  }
  EXPECT_GT(compared, ids.size() / 2);
}

// Where the first logit leads by more than the roundings can turn around, greedy tokens are those of the f32 run.
TEST_P(MortarParity, GreedyTokensAgreeUntilTheFirstCloseDecision) {
  const std::string name = GetParam();
  const nlohmann::json greedy = nlohmann::json::parse(read_file(test_model(name) / "golden/greedy.json"));
  const auto ids = greedy["ids"].get<std::vector<TokenId>>();
  const auto gaps = greedy["gaps"].get<std::vector<float>>();
  Engine engine(on_default_device(name), {});
  Request request;
  request.ids = greedy["prompt"].get<std::vector<TokenId>>();
  request.max_tokens = static_cast<std::int64_t>(ids.size());
  request.sampling.greedy = true;
  request.ignore_eos = true;
  const Heard heard = answer(engine, request);
  ASSERT_EQ(heard.ids.size(), ids.size());
  const auto same =
      static_cast<std::size_t>(std::mismatch(ids.begin(), ids.end(), heard.ids.begin()).first - ids.begin());
  // Logits are about 2 to 8, where four units in the last place of bf16 are at most 0.125.
  if (same < ids.size()) { EXPECT_LT(gaps[same], 0.125) << "after " << same << " equal tokens"; }
}

INSTANTIATE_TEST_SUITE_P(Models, MortarParity,
                         testing::Values("dense-tied", "dense-untied", "dense-yarn", "moe", "fp8", "moe-fp8",
                                         "llama-tied", "llama-untied"));

}  // namespace THIS_FILE
}  // namespace mortar::test
