// Sizes of the published models, and what fits into a device's memory.
#include "mortar/plan.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "host/expect_error.hpp"
#include "mortar/errors.hpp"

namespace mortar {
namespace THIS_FILE {

using nlohmann::json;

ModelSpec model(std::int64_t hidden, std::int64_t layers, std::int64_t heads, std::int64_t kv_heads,
                std::int64_t intermediate, bool tied, const json& more = json::object()) {
  json c = {{"architectures", {"Qwen3ForCausalLM"}},
            {"vocab_size", 151936},
            {"hidden_size", hidden},
            {"num_hidden_layers", layers},
            {"num_attention_heads", heads},
            {"num_key_value_heads", kv_heads},
            {"head_dim", 128},
            {"intermediate_size", intermediate},
            {"tie_word_embeddings", tied},
            {"max_position_embeddings", 40960},
            {"rms_norm_eps", 1e-6},
            {"rope_theta", 1e6}};
  c.update(more);
  return parse_config(c.dump(), "config.json");
}
ModelSpec small() { return model(1024, 28, 16, 8, 3072, true); }
ModelSpec large() { return model(4096, 36, 32, 8, 12288, false); }
ModelSpec mixture() {
  return model(2048, 48, 32, 4, 6144, false,
               {{"architectures", {"Qwen3MoeForCausalLM"}},
                {"num_experts", 128},
                {"num_experts_per_tok", 8},
                {"moe_intermediate_size", 768},
                {"norm_topk_prob", true}});
}

TEST(MortarPlan, SizesOfPublishedModels) {
  const ModelSize s = model_size(small());
  EXPECT_EQ(s.parameters, 596'049'920);
  EXPECT_EQ(s.bytes.total(), 2 * s.parameters);
  EXPECT_EQ(s.bytes.lm_head, 0);
  EXPECT_EQ(s.bytes_per_step, s.bytes.total()) << "lm_head reads all of the embedding";
  const ModelSize l = model_size(large());
  EXPECT_EQ(l.parameters, 8'190'735'360);
  EXPECT_EQ(l.bytes_per_step, 2 * (8'190'735'360 - 151936LL * 4096));
  EXPECT_EQ(model_size(model(5120, 64, 64, 8, 25600, false)).parameters, 32'762'123'264);
  const ModelSize m = model_size(mixture());
  EXPECT_EQ(m.parameters, 30'532'122'624);
  EXPECT_NEAR(static_cast<double>(m.bytes_per_step), 6.084e9, 1e6);
  EXPECT_EQ(m.bytes_per_step, 2 * m.active_parameters);
}

TEST(MortarPlan, Fp8HalvesTheLinearLayers) {
  ModelSpec c = large();
  c.fp8.emplace();
  const ModelSize wide = model_size(large()), narrow = model_size(c);
  EXPECT_EQ(narrow.parameters, wide.parameters);
  EXPECT_EQ(narrow.bytes.embedding, wide.bytes.embedding);
  EXPECT_EQ(narrow.bytes.mlp, wide.bytes.mlp / 2 + wide.bytes.mlp / 2 / (128 * 128) * 4);
}

PlanRequest on(std::int64_t available) {
  PlanRequest r;
  r.device = "cuda:0";
  r.memory = {available, available};
  return r;
}

/// A prompt's step dequantizes one matrix after the other: gate and up is the largest.
TEST(MortarPlan, Fp8StepsHoldOneMatrixInBf16) {
  ModelSpec c = large();
  c.fp8.emplace();
  const std::int64_t dequantized = 2 * (2 * 12288) * 4096;
  EXPECT_EQ(estimate_memory(c, on(80'000'000'000)).activations,
            estimate_memory(large(), on(80'000'000'000)).activations + dequantized);
  ModelSpec experts = mixture();
  experts.fp8.emplace();
  const std::int64_t qkv = 2 * (32 + 2 * 4) * 128 * 2048;
  EXPECT_EQ(estimate_memory(experts, on(80'000'000'000)).activations,
            estimate_memory(mixture(), on(80'000'000'000)).activations + qkv);
}

TEST(MortarPlan, BytesOfTheCache) {
  EXPECT_EQ(kv_bytes_per_token(small(), KvType::Bf16), 114'688);
  EXPECT_EQ(kv_bytes_per_token(large(), KvType::Bf16), 147'456);
  EXPECT_EQ(kv_bytes_per_token(large(), KvType::Fp8), 73'728);
}

TEST(MortarPlan, MoreTokensReadMoreExperts) {
  const ModelSpec c = mixture();
  const ModelSize size = model_size(c);
  EXPECT_EQ(bytes_per_step(c, 1), size.bytes_per_step);
  const std::int64_t rest = size.bytes_per_step - size.bytes.experts * c.mlp.experts->per_token / c.mlp.experts->count;
  const double chosen = static_cast<double>(bytes_per_step(c, 8) - rest) / static_cast<double>(size.bytes.experts);
  EXPECT_NEAR(chosen, 1 - std::pow(1 - 8.0 / 128, 8), 0.01);
  EXPECT_NEAR(static_cast<double>(bytes_per_step(c, 4096)), static_cast<double>(rest + size.bytes.experts), 3e7)
      << "the routers, which are no experts, are counted in both";
  EXPECT_EQ(bytes_per_step(large(), 64), model_size(large()).bytes_per_step);
}

TEST(MortarPlan, WhatFitsExactlyFits) {
  PlanRequest r = on(24'000'000'000);
  r.batch = 4;
  const MemoryPlan p = plan_memory(large(), r);
  EXPECT_EQ(p.max_context, p.largest_context) << "as large as fits";
  EXPECT_EQ(p.max_context % r.page_tokens, 0);
  EXPECT_LE(p.total(), p.available);
  EXPECT_GE(p.largest_batch, 4);
  r.max_context = p.largest_context;
  EXPECT_EQ(plan_memory(large(), r).kv_cache, 4 * p.max_context * p.kv_per_token);
  r.max_context += 1;
  const std::string largest = "largest context with 4 sequences is " + std::to_string(p.largest_context);
  EXPECT_ERROR(CapacityError, (void)plan_memory(large(), r), "cuda:0", "24.00 GB", "16.38 GB", "147456 bytes",
               largest.c_str());
}

TEST(MortarPlan, TheLargestBatchFitsAndOneMoreDoesNot) {
  PlanRequest r = on(24'000'000'000);
  r.max_context = 2048;
  const std::int64_t most = plan_memory(large(), r).largest_batch;
  EXPECT_GT(most, 4);
  r.batch = most;
  EXPECT_NO_THROW((void)plan_memory(large(), r));
  r.batch = 2 * most;
  const std::string largest = "largest batch with 2048 tokens is " + std::to_string(most);
  EXPECT_ERROR(CapacityError, (void)plan_memory(large(), r), largest.c_str());
}

TEST(MortarPlan, AtMostTheContextOfTheModel) {
  PlanRequest r = on(80'000'000'000);
  EXPECT_EQ(plan_memory(small(), r).max_context, 40960);
  r.max_context = 40961;
  EXPECT_ERROR(RequestError, (void)plan_memory(small(), r), "40960", "40961");
}

TEST(MortarPlan, WeightsThatDoNotFit) {
  EXPECT_ERROR(CapacityError, (void)plan_memory(large(), on(8'000'000'000)), "weights 16.38 GB", "No context fits");
  PlanRequest r = on(17'500'000'000);
  r.batch = 4096;
  r.max_context = 40960;
  EXPECT_ERROR(CapacityError, (void)plan_memory(large(), r), "The largest context of one sequence is");
}

TEST(MortarPlan, SizesBeyondAllMemoryAreRejectedToo) {
  ModelSpec c = model(1 << 18, 512, 1024, 1024, 1 << 18, false);
  c.max_context = std::int64_t{1} << 30;
  PlanRequest r = on(std::int64_t{1} << 60);
  r.max_context = c.max_context;
  r.batch = 1 << 20;
  EXPECT_ERROR(CapacityError, (void)plan_memory(c, r), "needed");
  r.batch = 0;
  EXPECT_ERROR(RequestError, (void)plan_memory(c, r), "a batch");
}

TEST(MortarPlan, BytesForPeople) {
  EXPECT_EQ(bytes_text(999), "1.0 kB");
  EXPECT_EQ(bytes_text(1'500'000), "1.5 MB");
  EXPECT_EQ(bytes_text(16'381'470'720), "16.38 GB");
}

}  // namespace THIS_FILE
}  // namespace mortar
