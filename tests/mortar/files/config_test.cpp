// config.json and generation_config.json: spellings, defaults, and what is rejected with which message.
#include "mortar/config.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "host/expect_error.hpp"
#include "mortar/errors.hpp"
#include "mortar/files/model_files.hpp"

namespace mortar {
namespace THIS_FILE {

using nlohmann::json;
using testing::ElementsAre;

/// Qwen3-0.6B as published.
json dense() {
  return {{"architectures", {"Qwen3ForCausalLM"}},
          {"attention_bias", false},
          {"attention_dropout", 0.0},
          {"bos_token_id", 151643},
          {"eos_token_id", 151645},
          {"head_dim", 128},
          {"hidden_act", "silu"},
          {"hidden_size", 1024},
          {"initializer_range", 0.02},
          {"intermediate_size", 3072},
          {"max_position_embeddings", 40960},
          {"max_window_layers", 28},
          {"model_type", "qwen3"},
          {"num_attention_heads", 16},
          {"num_hidden_layers", 28},
          {"num_key_value_heads", 8},
          {"rms_norm_eps", 1e-06},
          {"rope_scaling", nullptr},
          {"rope_theta", 1000000},
          {"sliding_window", nullptr},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"},
          {"transformers_version", "4.51.0"},
          {"use_cache", true},
          {"use_sliding_window", false},
          {"vocab_size", 151936}};
}
json experts() {
  json c = dense();
  c.update({{"architectures", {"Qwen3MoeForCausalLM"}},
            {"model_type", "qwen3_moe"},
            {"decoder_sparse_step", 1},
            {"mlp_only_layers", json::array()},
            {"moe_intermediate_size", 768},
            {"norm_topk_prob", true},
            {"num_experts", 128},
            {"num_experts_per_tok", 8}});
  return c;
}
json fp8() {
  json c = dense();
  c["quantization_config"] = {
      {"activation_scheme", "dynamic"},
      {"fmt", "e4m3"},
      {"quant_method", "fp8"},
      {"modules_to_not_convert", {"lm_head", "model.layers.1.mlp", "layers.2.self_attn.o_proj"}},
      {"weight_block_size", {128, 128}}};
  return c;
}
json with(json c, const json& changes) {
  c.update(changes);
  return c;
}
json without(json c, const char* field) {
  c.erase(field);
  return c;
}
ModelSpec parsed(const json& c) { return parse_config(c.dump(), "config.json"); }

TEST(MortarConfig, OlderSpelling) {
  const ModelSpec c = parsed(dense());
  EXPECT_EQ(c.architecture, "Qwen3ForCausalLM");
  EXPECT_EQ(c.vocabulary, 151936);
  EXPECT_EQ(c.hidden, 1024);
  EXPECT_EQ(c.mlp.intermediate, 3072);
  EXPECT_EQ(c.layers, 28);
  EXPECT_EQ(c.attention.heads, 16);
  EXPECT_EQ(c.attention.kv_heads, 8);
  EXPECT_EQ(c.attention.head_dim, 128) << "not hidden / heads";
  EXPECT_EQ(c.max_context, 40960);
  EXPECT_EQ(c.norm_epsilon, 1e-6);
  EXPECT_EQ(c.attention.rotary.base, 1e6);
  EXPECT_TRUE(c.tied);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(c.attention.rotary.scaling));
  EXPECT_TRUE(c.attention.head_norms);
  EXPECT_EQ(c.attention.scale, 1 / std::sqrt(128.0F));
  EXPECT_FALSE(c.mlp.experts || c.fp8);
  EXPECT_THAT(c.eos_ids, ElementsAre(151645));
}

TEST(MortarConfig, NewerSpelling) {
  json j = without(without(without(dense(), "rope_theta"), "rope_scaling"), "torch_dtype");
  j.update({{"rope_parameters", {{"rope_theta", 5e6}, {"rope_type", "default"}}},
            {"dtype", "bfloat16"},
            {"eos_token_id", {151645, 151643}},
            {"layer_types", std::vector<std::string>(28, "full_attention")}});
  const ModelSpec c = parsed(j);
  EXPECT_EQ(c.attention.rotary.base, 5e6);
  EXPECT_TRUE(std::holds_alternative<std::monostate>(c.attention.rotary.scaling));
  EXPECT_THAT(c.eos_ids, ElementsAre(151645, 151643));
}

TEST(MortarConfig, ExpertsInBothSpellings) {
  const ModelSpec c = parsed(experts());
  ASSERT_TRUE(c.mlp.experts);
  EXPECT_EQ(c.mlp.experts->count, 128);
  EXPECT_EQ(c.mlp.experts->per_token, 8);
  EXPECT_EQ(c.mlp.experts->intermediate, 768);
  EXPECT_TRUE(c.mlp.experts->normalize);
  EXPECT_TRUE(c.has_experts(0));
  const ModelSpec newer = parsed(with(without(experts(), "num_experts"), {{"num_local_experts", 64}}));
  EXPECT_EQ(newer.mlp.experts->count, 64);
  const ModelSpec mixed = parsed(with(experts(), {{"decoder_sparse_step", 2}, {"mlp_only_layers", {3}}}));
  EXPECT_FALSE(mixed.has_experts(0));
  EXPECT_TRUE(mixed.has_experts(1));
  EXPECT_FALSE(mixed.has_experts(3));
  EXPECT_FALSE(parsed(dense()).has_experts(1));
}

TEST(MortarConfig, Fp8AndWhatIsExcluded) {
  const ModelSpec c = parsed(fp8());
  EXPECT_TRUE(c.is_fp8("model.layers.0.mlp.up_proj"));
  EXPECT_FALSE(c.is_fp8("lm_head"));
  EXPECT_FALSE(c.is_fp8("model.layers.1.mlp.up_proj")) << "contained in an excluded module";
  EXPECT_TRUE(c.is_fp8("model.layers.11.mlp.up_proj"));
  EXPECT_FALSE(c.is_fp8("model.layers.2.self_attn.o_proj")) << "ends with an excluded name";
  EXPECT_TRUE(c.is_fp8("model.layers.12.self_attn.o_proj"));
  EXPECT_FALSE(parsed(dense()).is_fp8("model.layers.0.mlp.up_proj"));
}

TEST(MortarConfig, YarnStretchesTheContext) {
  const json scaling = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 32768}};
  const ModelSpec c = parsed(with(dense(), {{"rope_scaling", scaling}}));
  ASSERT_TRUE(std::holds_alternative<YarnScaling>(c.attention.rotary.scaling));
  EXPECT_EQ(c.max_context, 131072);
  const RopeAngles a = rope_angles(c);
  ASSERT_EQ(a.inverse_frequencies.size(), 64u);
  EXPECT_FLOAT_EQ(a.attention_factor, 1.1386294f);
  // Of Hugging Face transformers 5.23.0 for this configuration.
  EXPECT_FLOAT_EQ(a.inverse_frequencies[0], 1.0f);
  EXPECT_FLOAT_EQ(a.inverse_frequencies[10], 0.115478203f);
  EXPECT_FLOAT_EQ(a.inverse_frequencies[30], 0.00106436096f);
  EXPECT_FLOAT_EQ(a.inverse_frequencies[63], 3.10234441e-07f);
  const RopeAngles unscaled = rope_angles(parsed(dense()));
  EXPECT_EQ(unscaled.attention_factor, 1.0f);
  EXPECT_FLOAT_EQ(unscaled.inverse_frequencies[63], 1.24093776e-06f);
}

/// Llama-3.2-1B as published.
json llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"attention_bias", false},
          {"bos_token_id", 128000},
          {"eos_token_id", {128001, 128008, 128009}},
          {"head_dim", 64},
          {"hidden_act", "silu"},
          {"hidden_size", 2048},
          {"intermediate_size", 8192},
          {"max_position_embeddings", 131072},
          {"mlp_bias", false},
          {"model_type", "llama"},
          {"num_attention_heads", 32},
          {"num_hidden_layers", 16},
          {"num_key_value_heads", 8},
          {"pretraining_tp", 1},
          {"rms_norm_eps", 1e-05},
          {"rope_scaling",
           {{"factor", 32.0},
            {"high_freq_factor", 4.0},
            {"low_freq_factor", 1.0},
            {"original_max_position_embeddings", 8192},
            {"rope_type", "llama3"}}},
          {"rope_theta", 500000.0},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"},
          {"vocab_size", 128256}};
}

TEST(MortarConfig, Llama) {
  const ModelSpec c = parsed(llama());
  EXPECT_EQ(c.architecture, "LlamaForCausalLM");
  EXPECT_FALSE(c.attention.head_norms);
  EXPECT_EQ(c.attention.head_dim, 64);
  EXPECT_EQ(c.attention.scale, 0.125F);
  EXPECT_EQ(c.max_context, 131072) << "not stretched again";
  EXPECT_TRUE(c.tied);
  EXPECT_THAT(c.eos_ids, ElementsAre(128001, 128008, 128009));
  const auto scaling = std::get<Llama3Scaling>(c.attention.rotary.scaling);
  EXPECT_EQ(scaling.factor, 32);
  EXPECT_EQ(scaling.original_context, 8192);
  const RopeAngles a = rope_angles(c);
  EXPECT_EQ(a.attention_factor, 1);
  // Hugging Face transformers 5.23.0 for this configuration: kept, interpolated and divided frequencies.
  ASSERT_EQ(a.inverse_frequencies.size(), 32u);
  EXPECT_FLOAT_EQ(a.inverse_frequencies[0], 1.0f);
  EXPECT_FLOAT_EQ(a.inverse_frequencies[10], 0.0165604409f);
  EXPECT_FLOAT_EQ(a.inverse_frequencies[16], 0.000429556705f);
  EXPECT_FLOAT_EQ(a.inverse_frequencies[17], 9.70828623e-05f);
  EXPECT_FLOAT_EQ(a.inverse_frequencies[31], 9.41830649e-08f);
}

TEST(MortarConfig, LlamaWithoutFieldsThatHaveDefaults) {
  const ModelSpec c = parsed(
      without(without(without(without(llama(), "head_dim"), "num_key_value_heads"), "rope_theta"), "rope_scaling"));
  EXPECT_EQ(c.attention.head_dim, 2048 / 32);
  EXPECT_EQ(c.attention.kv_heads, 32);
  EXPECT_EQ(c.attention.rotary.base, 1e4);
  EXPECT_EQ(parsed(without(with(llama(), {{"hidden_size", 4096}}), "head_dim")).attention.head_dim, 128);
  EXPECT_ERROR(ModelError, (void)parsed(without(with(llama(), {{"hidden_size", 2050}}), "head_dim")), "hidden_size",
               "an even multiple of num_attention_heads, which is 32", "2050");
  EXPECT_ERROR(ModelError, (void)parsed(without(with(llama(), {{"hidden_size", 8192}}), "head_dim")), "hidden_size",
               "8192");
}

TEST(MortarConfig, LinearScalingDividesFrequencies) {
  const json scaling = {{"rope_type", "linear"}, {"factor", 4.0}};
  const RopeAngles plain = rope_angles(parsed(with(llama(), {{"rope_scaling", nullptr}}))),
                   scaled = rope_angles(parsed(with(llama(), {{"rope_scaling", scaling}})));
  EXPECT_EQ(scaled.attention_factor, 1);
  for (std::size_t i = 0; i < 32; ++i)
    EXPECT_FLOAT_EQ(scaled.inverse_frequencies[i], plain.inverse_frequencies[i] / 4) << i;
}

TEST(MortarConfig, WhatIsWrongInLlamaIsNamed) {
  const auto expect = [](const char* field, const json& value, const char* expected) {
    json c = llama();
    c["rope_scaling"][field] = value;
    EXPECT_ERROR(ModelError, (void)parsed(c), "config.json: rope_scaling.", field, expected);
  };
  expect("high_freq_factor", 1.0, "more than low_freq_factor, which is 1");
  expect("factor", 0.5, "a number from 1");
  expect("original_max_position_embeddings", nullptr, "an integer");
  expect("rope_type", "longrope", "\"llama3\"");
  const auto reject = [](const json& changes, const char* field) {
    EXPECT_ERROR(ModelError, (void)parsed(with(llama(), changes)), field);
  };
  reject({{"mlp_bias", true}}, "mlp_bias: expected false");
  reject({{"attention_bias", true}}, "attention_bias: expected false");
  reject({{"model_type", "qwen3"}}, "model_type: expected \"llama\"");
}

/// What transformers takes where a config.json has no such field.
TEST(MortarConfig, FieldsThatHaveDefaults) {
  json few = dense();
  for (const char* field : {"head_dim", "rms_norm_eps", "rope_theta", "max_position_embeddings"}) few.erase(field);
  const ModelSpec c = parsed(few);
  EXPECT_EQ(c.attention.head_dim, 128);
  EXPECT_EQ(c.norm_epsilon, 1e-6);
  EXPECT_EQ(c.attention.rotary.base, 1e4);
  EXPECT_EQ(c.max_context, 32768);
  EXPECT_EQ(parsed(without(experts(), "head_dim")).attention.head_dim, 1024 / 16) << "no default of experts' models";
  EXPECT_EQ(parsed(without(llama(), "max_position_embeddings")).max_context, 2048);
}

TEST(MortarConfig, TypesOfTheWeights) {
  for (const char* type : {"bfloat16", "float16", "float32"})
    for (const char* field : {"torch_dtype", "dtype"}) EXPECT_NO_THROW(parsed(with(dense(), {{field, type}})));
}

TEST(MortarConfig, TheBaseWithinTheScaling) {
  const json scaling = {
      {"rope_type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 32768}, {"rope_theta", 5e5}};
  const ModelSpec c = parsed(with(without(dense(), "rope_theta"), {{"rope_scaling", scaling}}));
  EXPECT_EQ(c.attention.rotary.base, 5e5);
  EXPECT_TRUE(std::holds_alternative<YarnScaling>(c.attention.rotary.scaling));
  EXPECT_ERROR(ModelError, parsed(with(dense(), {{"rope_scaling", scaling}})), "rope_theta", "as in rope_scaling",
               "1000000");
}

TEST(MortarConfig, TheEndOfTheTokenizer) {
  const test::Folder folder;
  EXPECT_EQ(read_eos_token(folder.path()), std::nullopt);
  for (const char* text :
       {R"({"eos_token": "<|im_end|>"})", R"({"eos_token": {"content": "<|im_end|>", "lstrip": false}})"}) {
    folder.write("tokenizer_config.json", text);
    EXPECT_EQ(read_eos_token(folder.path()), "<|im_end|>") << text;
  }
  folder.write("tokenizer_config.json", R"({"eos_token": null})");
  EXPECT_EQ(read_eos_token(folder.path()), std::nullopt);
  folder.write("tokenizer_config.json", R"({"eos_token": 7})");
  EXPECT_ERROR(ModelError, read_eos_token(folder.path()), "tokenizer_config.json: eos_token: expected a text",
               "found 7");
}

TEST(MortarConfig, WhatIsNotSupportedIsNamed) {
  const auto expect = [](const json& c, const char* field, const char* expected, const char* found) {
    EXPECT_ERROR(ModelError, parsed(c), "config.json", field, expected, found);
  };
  expect(with(dense(), {{"architectures", {"GemmaForCausalLM"}}}), "architectures",
         "Qwen3ForCausalLM, Qwen3MoeForCausalLM or LlamaForCausalLM", "GemmaForCausalLM");
  expect(with(dense(), {{"model_type", "qwen2"}}), "model_type", "qwen3", "qwen2");
  expect(without(without(dense(), "architectures"), "model_type"), "model_type", "qwen3_moe", "no such field");
  expect(with(dense(), {{"use_sliding_window", true}}), "use_sliding_window", "false", "true");
  expect(with(dense(), {{"layer_types", {"sliding_attention"}}}), "layer_types", "full_attention", "sliding_attention");
  expect(with(dense(), {{"attention_bias", true}}), "attention_bias", "false", "true");
  expect(with(dense(), {{"hidden_act", "gelu"}}), "hidden_act", "silu", "gelu");
  expect(with(dense(), {{"torch_dtype", "float64"}}), "torch_dtype", "bfloat16", "float64");
  expect(with(dense(), {{"rope_scaling", {{"type", "dynamic"}, {"factor", 2}}}}), "rope_scaling.type",
         "\"default\", \"linear\", \"yarn\" or \"llama3\"", "dynamic");
  expect(with(dense(), {{"partial_rotary_factor", 0.5}}), "partial_rotary_factor", "1", "0.5");
  expect(with(fp8(), {{"quantization_config", {{"quant_method", "gptq"}}}}), "quantization_config.quant_method", "fp8",
         "gptq");
  json blocks = fp8();
  blocks["quantization_config"]["weight_block_size"] = json::array({64, 64});
  expect(blocks, "quantization_config.weight_block_size", "[128, 128]", "a list of 2");
  expect(with(fp8(), {{"intermediate_size", 3000}}), "intermediate_size", "a multiple of 128", "3000");
  expect(with(fp8(), {{"head_dim", 10}}), "num_attention_heads", "a multiple of 128", "160");
}

TEST(MortarConfig, WrongValuesAreNamed) {
  const auto expect = [](const json& c, const char* field, const char* expected, const char* found) {
    EXPECT_ERROR(ModelError, parsed(c), "config.json", field, expected, found);
  };
  expect(without(dense(), "hidden_size"), "hidden_size", "an integer", "no such field");
  expect(with(dense(), {{"hidden_size", "1024"}}), "hidden_size", "an integer", "\"1024\"");
  expect(with(dense(), {{"hidden_size", 1024.5}}), "hidden_size", "an integer", "1024.5");
  expect(with(dense(), {{"hidden_size", 0}}), "hidden_size", "from 1", "0");
  expect(with(dense(), {{"hidden_size", std::uint64_t{1} << 63}}), "hidden_size", "an integer", "9223372036854775808");
  expect(with(dense(), {{"num_key_value_heads", 5}}), "num_key_value_heads", "a divisor", "5");
  expect(with(dense(), {{"head_dim", 127}}), "head_dim", "even", "127");
  expect(with(dense(), {{"head_dim", 256}}), "head_dim", "to 128", "256");
  expect(with(dense(), {{"num_attention_heads", 130}, {"num_key_value_heads", 2}}), "num_key_value_heads",
         "at least one key head for 64 query heads", "2");
  EXPECT_NO_THROW(
      parsed(with(dense(), {{"num_attention_heads", 128}, {"num_key_value_heads", 2}, {"pad_token_id", -1}})));
  expect(with(dense(), {{"rms_norm_eps", "1e-6"}}), "rms_norm_eps", "a number", "1e-6");
  expect(with(dense(), {{"tie_word_embeddings", 1}}), "tie_word_embeddings", "true or false", "1");
  expect(with(dense(), {{"eos_token_id", {1, 151936}}}), "eos_token_id", "151935", "151936");
  expect(with(dense(), {{"rope_parameters", {{"rope_theta", 1e4}}}}), "rope_theta", "10000", "1000000");
  expect(with(experts(), {{"num_experts_per_tok", 129}}), "num_experts_per_tok", "to 16", "129");
  expect(with(experts(), {{"num_local_experts", 64}}), "num_experts", "64", "128");
}

TEST(MortarConfig, WhatIsNoJsonObject) {
  const auto parse = [](const std::string& text) { (void)parse_config(text, "config.json"); };
  EXPECT_ERROR(ModelError, parse(""), "config.json", "JSON");
  EXPECT_ERROR(ModelError, parse("[1]"), "a JSON object", "a list");
  EXPECT_ERROR(ModelError, parse("{\"a\": 1,}"), "JSON", "at byte 9");
  EXPECT_ERROR(ModelError, parse("{\"hidden_size\": 1, \"hidden_size\": 2}"), "hidden_size", "twice");
  EXPECT_ERROR(ModelError, parse(std::string(100000, '[')), "JSON");
  EXPECT_ERROR(ModelError, parse("{\"rope_theta\": 1e999}"), "JSON", "a number that is too large");
  EXPECT_ERROR(ModelError, read_config("/nonexistent"), "/nonexistent/config.json", "a file");
}

TEST(MortarConfig, TheTestModelsAreRead) {
  for (const char* name :
       {"dense-tied", "dense-untied", "dense-yarn", "moe", "fp8", "moe-fp8", "llama-tied", "llama-untied"}) {
    const ModelSpec c = read_config(test::test_model(name));
    EXPECT_EQ(c.vocabulary, 384) << name;
    const GenerationConfig g = read_generation_config(test::test_model(name), c);
    EXPECT_TRUE(g.sample) << name;
    EXPECT_EQ(g.eos_ids.size(), 2u) << name;
  }
}

TEST(MortarGenerationConfig, FileDefaultsAndErrors) {
  const ModelSpec model = parsed(dense());
  const GenerationConfig g = parse_generation_config(
      R"({"do_sample": true, "eos_token_id": [151645, 151643], "temperature": 0.6, "top_k": 20, "top_p": 0.95})", "g",
      model);
  EXPECT_TRUE(g.sample);
  EXPECT_EQ(g.temperature, 0.6);
  EXPECT_EQ(g.top_k, 20);
  EXPECT_EQ(g.top_p, 0.95);
  EXPECT_EQ(g.min_p, 0);
  EXPECT_THAT(g.eos_ids, ElementsAre(151645, 151643));

  const test::Folder folder;
  const GenerationConfig none = read_generation_config(folder.path(), model);
  EXPECT_FALSE(none.sample);
  EXPECT_EQ(none.temperature, 1);
  EXPECT_EQ(none.top_k, 0);
  EXPECT_THAT(none.eos_ids, ElementsAre(151645)) << "of config.json";

  const auto parse = [&](const char* text) { (void)parse_generation_config(text, "g.json", model); };
  EXPECT_ERROR(ModelError, parse(R"({"temperature": -1})"),
               "g.json: temperature: expected a number from 0 to 100, found -1");
  EXPECT_ERROR(ModelError, parse(R"({"top_p": 1.5})"), "top_p", "1.5");
  EXPECT_EQ(parse_generation_config(R"({"top_k": -1})", "g", model).top_k, 0) << "all tokens";
  EXPECT_ERROR(ModelError, parse(R"({"top_k": -2})"), "top_k", "-1", "-2");
  EXPECT_ERROR(ModelError, parse(R"({"top_k": 2.5})"), "top_k", "an integer", "2.5");
  EXPECT_ERROR(ModelError, parse(R"({"eos_token_id": [-1]})"), "eos_token_id", "-1");
}

}  // namespace THIS_FILE
}  // namespace mortar
