// The forward pass against the logits that Hugging Face transformers computed (tests/mortar/data): our error against its
// f32 run may not exceed that of its own run with rounded numbers.
#include <gtest/gtest.h>

#include "mortar/engine/test_engine.hpp"
#include "tessera/host/all.hpp"

namespace mortar::test {
namespace {

using namespace tessera;

std::vector<float> golden_floats(const std::string& model, const std::string& file) {
  return host(load_npy<f32, 2>((test_model(model) / "golden" / file).string()).sync()).sync();
}

/// The run that transformers rounded: in bf16, or with the inputs of FP8 products in FP8.
std::vector<float> golden_rounded(const std::string& model) {
  if (!std::filesystem::exists(test_model(model) / "golden/logits_bf16.npy")) return golden_floats(model, "logits_fp8.npy");
  std::vector<float> values;
  for (const u16 bits : host(load_npy<u16, 2>((test_model(model) / "golden/logits_bf16.npy").string()).sync()).sync())
    values.push_back(static_cast<float>(std::bit_cast<bf16>(bits)));
  return values;
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

nlohmann::json golden_greedy(const std::string& model) {
  return nlohmann::json::parse(read_file(test_model(model) / "golden/greedy.json"));
}

class MortarParity : public testing::TestWithParam<const char*> {};

TEST_P(MortarParity, TeacherForcedLogitsAreAsCloseAsTransformers) {
  const std::string name = GetParam();
  const std::vector<float> exact = golden_floats(name, "logits.npy");
  const double theirs = relative_error(golden_rounded(name), exact);
  for (const bool strict : {false, true}) {
    Engine engine(load_test_model(name), {.prefill_tokens = 32, .strict = strict});  // several chunks
    const double ours = relative_error(engine.logits(golden_ids(name)), exact);
    std::printf("%s%s: error %.5f, transformers' %.5f\n", name.c_str(), strict ? " strict" : "", ours, theirs);
    if (strict)
      EXPECT_LT(ours, 1.25 * theirs);  // the same roundings: as large, in another order of additions
    else
      EXPECT_LE(ours, theirs);
  }
}

// Where the first logit leads by more than the roundings can turn around, greedy tokens are those of the f32 run.
TEST_P(MortarParity, GreedyTokensAgreeUntilTheFirstCloseDecision) {
  const std::string name = GetParam();
  const nlohmann::json greedy = golden_greedy(name);
  const auto ids = greedy["ids"].get<std::vector<TokenId>>();
  const auto gaps = greedy["gaps"].get<std::vector<float>>();
  for (const bool strict : {false, true}) {
    Engine engine(load_test_model(name), {.strict = strict});
    Request request;
    request.ids = greedy["prompt"].get<std::vector<TokenId>>();
    request.max_tokens = static_cast<std::int64_t>(ids.size());
    request.sampling.greedy = true;
    request.ignore_eos = true;
    const Heard heard = answer(engine, request);
    ASSERT_EQ(heard.ids.size(), ids.size());
    std::size_t same = 0;
    while (same < ids.size() && heard.ids[same] == ids[same]) ++same;
    std::printf("%s%s: %zu of %zu tokens%s\n", name.c_str(), strict ? " strict" : "", same, ids.size(),
                same < ids.size() ? (", then a gap of " + std::to_string(gaps[same])).c_str() : "");
    // Logits are about 2 to 8, where four units in the last place of bf16 are at most 0.125.
    if (same < ids.size()) EXPECT_LT(gaps[same], 0.125);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, MortarParity,
                         testing::Values("dense-tied", "dense-untied", "dense-yarn", "moe", "fp8", "moe-fp8"));

}  // namespace
}  // namespace mortar::test
