// Folders of safetensors files: index, shards, and whether the tensors are those of config.json.
#include "mortar/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "host/expect_error.hpp"
#include "mortar/errors.hpp"
#include "mortar/files/model_files.hpp"
#include "mortar/plan.hpp"

namespace mortar {
namespace THIS_FILE {

using nlohmann::json;
constexpr const char* kIndex = "model.safetensors.index.json";

using test::change_header;

ModelSpec open_and_verify(const std::filesystem::path& folder, const OnWarning& warn = {}) {
  return Checkpoint(folder).verify(read_config(folder), warn);
}

/// What verify() makes of a folder.
struct Verified {
  explicit Verified(const std::filesystem::path& folder) {
    model = open_and_verify(folder, [&](const std::string& text) { warnings.push_back(text); });
  }
  ModelSpec model;
  std::vector<std::string> warnings;
};

TEST(MortarCheckpoint, TheTestModelsAreVerified) {
  for (const char* name :
       {"dense-tied", "dense-untied", "dense-yarn", "moe", "fp8", "moe-fp8", "llama-tied", "llama-untied"})
    EXPECT_NO_THROW((void)open_and_verify(test::test_model(name))) << name;
  EXPECT_GT(Checkpoint(test::test_model("moe")).files().size(), 1u);
}

constexpr const char* kEmbedding = "model.embed_tokens.weight";
constexpr const char* kHead = "lm_head.weight";

/// A tied model whose files have an lm_head: the embedding's bytes are 1, those of lm_head too, but for `other`, which
/// counts from the end if it is negative.
Verified tied_with_head(const char* model, std::int64_t vocabulary, std::optional<std::int64_t> other) {
  const test::Folder folder(model);
  test::change_config(folder, {{"vocab_size", vocabulary}, {"tie_word_embeddings", true}});
  change_header(
      folder,
      [&](json& h) {
        h[kEmbedding]["shape"][0] = vocabulary;
        h[kHead] = h[kEmbedding];
      },
      [&](const std::string& name, std::string& data) {
        if (name != kEmbedding && name != kHead) return;
        std::fill(data.begin(), data.end(), '\1');
        if (name == kHead && other)
          data[static_cast<std::size_t>(*other < 0 ? std::ssize(data) + *other : *other)] = '\2';
      });
  return Verified(folder.path());
}

TEST(MortarCheckpoint, ACopyOfTheEmbeddingIsNotUsed) {
  for (const char* model : {"dense-tied", "fp8", "moe-fp8"}) {
    SCOPED_TRACE(model);
    const Verified copy = tied_with_head(model, 384, std::nullopt);
    EXPECT_TRUE(copy.model.tied);
    EXPECT_EQ(model_size(copy.model).bytes.lm_head, 0);
    EXPECT_THAT(copy.warnings, testing::IsEmpty());
  }
}

TEST(MortarCheckpoint, AnotherHeadThanTheEmbeddingIsUsed) {
  for (const char* model : {"dense-tied", "fp8", "moe-fp8"}) {
    for (const std::int64_t other : {0, 20001, -1}) {
      SCOPED_TRACE(testing::Message() << model << ' ' << other);
      const Verified v = tied_with_head(model, 384, other);
      EXPECT_FALSE(v.model.tied);
      EXPECT_EQ(model_size(v.model).bytes.lm_head, model_size(v.model).bytes.embedding);
      ModelSpec tied = v.model;
      tied.tied = true;
      EXPECT_EQ(model_size(v.model).parameters, model_size(tied).parameters + tied.vocabulary * tied.hidden);
      ASSERT_EQ(v.warnings.size(), 1u);
      EXPECT_THAT(v.warnings[0],
                  testing::AllOf(testing::HasSubstr("config.json: tie_word_embeddings is true, but lm_head.weight in "),
                                 testing::HasSubstr("model.safetensors differs from model.embed_tokens.weight")));
    }
  }
}

/// Tensors of some megabytes, which are read in parts: a difference may be in any of them.
TEST(MortarCheckpoint, LargeHeadsAreComparedToTheEnd) {
  constexpr std::int64_t kVocabulary = 20000;
  EXPECT_TRUE(tied_with_head("dense-tied", kVocabulary, std::nullopt).model.tied);
  for (const std::int64_t other : {std::int64_t{1} << 20, (std::int64_t{2} << 20) - 1, std::int64_t{-1}})
    EXPECT_FALSE(tied_with_head("dense-tied", kVocabulary, other).model.tied) << other;
}

TEST(MortarCheckpoint, AnotherHeadInAShardOfItsOwn) {
  for (const char* model : {"dense-untied", "moe"}) {
    const test::Folder folder(model);
    EXPECT_THAT(Verified(folder.path()).warnings, testing::IsEmpty());
    test::change_config(folder, {{"tie_word_embeddings", true}});
    const Verified v(folder.path());
    EXPECT_FALSE(v.model.tied);
    ASSERT_EQ(v.warnings.size(), 1u);
    EXPECT_THAT(v.warnings[0], testing::ContainsRegex("lm_head.weight in .*model-0000[1-3]-of-00003.safetensors"));
    EXPECT_FALSE(open_and_verify(folder.path()).tied) << "also without a function for warnings";
  }
}

TEST(MortarCheckpoint, HeadsOfTiedModelsAreVerified) {
  const auto with = [](const char* model, auto change) {
    const test::Folder folder(model);
    change_header(folder, [&](json& h) {
      h[kHead] = h[kEmbedding];
      change(h);
    });
    return open_and_verify(folder.path());
  };
  EXPECT_TRUE(with("dense-tied", [](json&) {}).tied);
  EXPECT_ERROR(ModelError, (void)with("dense-tied", [](json& h) { h[kHead]["shape"][0] = 383; }),
               "model.safetensors: lm_head.weight: expected BF16 or F32 or F16 [384, 64]", "found BF16 [383, 64]");
  EXPECT_ERROR(ModelError, (void)with("fp8", [](json& h) { h[kHead]["dtype"] = "F8_E4M3"; }),
               "model.safetensors: lm_head.weight: expected BF16 or F32 or F16 [384", "found F8_E4M3 [384");
  EXPECT_ERROR(ModelError, (void)with("fp8", [](json& h) { h["lm_head.weight_scale_inv"] = h["model.norm.weight"]; }),
               "only tensors of the model", "lm_head.weight_scale_inv");
  EXPECT_ERROR(ModelError, (void)with("dense-tied", [](json& h) { h.erase(kEmbedding); }),
               "there is no model.embed_tokens.weight");
}

/// Tensors that other models have: nothing is left out of the computation without a word.
TEST(MortarCheckpoint, NoTensorIsIgnored) {
  const auto with = [](const char* model, const std::string& name) {
    const test::Folder folder(model);
    change_header(folder, [&](json& h) { h[name] = h["model.norm.weight"]; });
    return open_and_verify(folder.path());
  };
  const auto expect_named = [&](const char* model, const std::string& name) {
    EXPECT_ERROR(ModelError, (void)with(model, name), "only tensors of the model of config.json", name.c_str());
  };
  EXPECT_NO_THROW((void)with("dense-tied", "model.norm.weight"));
  const std::string layer = "model.layers.0.";
  for (const char* name : {"self_attn.q_proj.bias", "self_attn.o_proj.bias", "self_attn.sinks", "mlp.up_proj.bias",
                           "mlp.up_proj.weight_scale_inv", "mlp.gate.weight", "mlp.experts.0.up_proj.weight",
                           "input_layernorm.bias", "self_attn.k_scale"})
    expect_named("dense-tied", layer + name);
  for (const char* name : {"model.layers.2.input_layernorm.weight", "lm_head.bias", "score.weight", "model.norm.bias",
                           "embed_tokens.weight"})
    expect_named("dense-tied", name);
  for (const char* name :
       {"self_attn.q_proj.input_scale", "mlp.up_proj.weight_scale", "input_layernorm.weight_scale_inv"})
    expect_named("fp8", layer + name);
  for (const char* name : {"self_attn.q_norm.weight", "mlp.gate.weight"}) expect_named("llama-tied", layer + name);
  for (const char* name : {"mlp.experts.8.up_proj.weight", "mlp.up_proj.weight", "mlp.gate.e_score_correction_bias",
                           "mlp.shared_expert.up_proj.weight", "mlp.gate.weight_scale_inv"})
    expect_named("moe-fp8", layer + name);
}

/// Older versions of transformers saved what config.json says anyway.
TEST(MortarCheckpoint, FrequenciesOfTheRotationAreNotNeeded) {
  for (const char* name : {"model.rotary_emb.inv_freq", "model.layers.0.self_attn.rotary_emb.inv_freq"}) {
    const test::Folder folder("llama-tied");
    change_header(folder, [&](json& h) { h[name] = {{"dtype", "F32"}, {"shape", {8}}}; });
    EXPECT_THAT(Verified(folder.path()).warnings, testing::IsEmpty()) << name;
  }
}

/// Weights of other types are rounded, with a word.
TEST(MortarCheckpoint, TypesThatAreRoundedAreNamed) {
  const test::Folder one("dense-tied");
  change_header(one, [](json& h) { h["model.norm.weight"]["dtype"] = "F32"; });
  const Verified v(one.path());
  ASSERT_EQ(v.warnings.size(), 1u);
  EXPECT_THAT(v.warnings[0], testing::HasSubstr("1 tensor is F32 and is rounded to BF16: model.norm.weight."));
  const test::Folder all("dense-tied");
  change_header(all, [](json& h) {
    for (auto& [name, tensor] : h.items())
      if (name != "__metadata__") tensor["dtype"] = "F16";
  });
  const Verified w(all.path());
  ASSERT_EQ(w.warnings.size(), 1u);
  EXPECT_THAT(w.warnings[0],
              testing::ContainsRegex("[0-9]+ tensors are F16 and are rounded to BF16: .* and [0-9]+ more"));
  const test::Folder wrong("dense-tied");
  change_header(wrong, [](json& h) { h["model.norm.weight"]["dtype"] = "I16"; });
  EXPECT_ERROR(ModelError, (void)open_and_verify(wrong.path()), "model.norm.weight: expected BF16 or F32 or F16 [64]",
               "found I16 [64]");
}

TEST(MortarCheckpoint, OtherWeightsAreNamedWithWhatToDo) {
  const auto opened = [](const char* file, const std::string& text) {
    const test::Folder folder;
    folder.write(file, text);
    return Checkpoint(folder.path());
  };
  EXPECT_ERROR(ModelError, opened("pytorch_model.bin", ""), "found pytorch_model.bin alone", "save_pretrained");
  EXPECT_ERROR(ModelError, opened("model-Q4_K_M.gguf", "GGUF"), "found model-Q4_K_M.gguf alone",
               "GGUF files are not read");
  for (const char* other : {"README.md", "training_args.bin", "optimizer.pt"})
    EXPECT_ERROR(ModelError, opened(other, ""), "expected model.safetensors or", "found neither");
  EXPECT_ERROR(ModelError, opened("model-00001-of-00002.safetensors", ""),
               "found model-00001-of-00002.safetensors without the index", "model.safetensors.index.json");
  EXPECT_ERROR(ModelError,
               opened("model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"),
               "model.safetensors: expected a safetensors file", "a pointer of Git LFS", "git lfs pull");
}

/// What people name instead of a folder.
TEST(MortarCheckpoint, WhatIsNoFolderIsNamedWithWhatToDo) {
  const test::Folder folder("dense-tied");
  folder.write("model.gguf", "GGUF\3");
  folder.write("notes.txt", "some notes");
  const auto read = [&](const char* name) { return read_config(folder.path() / name); };
  EXPECT_ERROR(ModelError, read("model.safetensors"), "is one file of a model", folder.path().c_str());
  EXPECT_ERROR(ModelError, read("model.gguf"), "is a GGUF file", "safetensors");
  EXPECT_ERROR(ModelError, read("notes.txt"), "is a file. Mortar reads a folder");
  EXPECT_ERROR(ModelError, read("nothing"), "there is no folder");
  EXPECT_ERROR(ModelError, read_config("Qwen/Qwen3-0.6B"), "Mortar downloads nothing",
               "hf download Qwen/Qwen3-0.6B --local-dir Qwen3-0.6B");
  folder.write("config.json", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n");
  EXPECT_ERROR(ModelError, read_config(folder.path()), "a pointer of Git LFS");
}

TEST(MortarCheckpoint, FilesThatAreNotReadAreNamed) {
  const test::Folder one("dense-tied");
  one.write("model-00001-of-00002.safetensors", "");
  one.write("adapter_model.safetensors", "");
  one.write("pytorch_model.bin", "");
  one.write(kIndex, "{}");
  const Verified v(one.path());
  ASSERT_EQ(v.warnings.size(), 1u);
  EXPECT_THAT(v.warnings[0],
              testing::HasSubstr("not read: adapter_model.safetensors, model-00001-of-00002.safetensors. "
                                 "The weights are those of model.safetensors."));
  const test::Folder shards("moe");
  shards.write("model-00004-of-00004.safetensors", "");
  const Verified w(shards.path());
  ASSERT_EQ(w.warnings.size(), 1u);
  EXPECT_THAT(w.warnings[0], testing::HasSubstr("not read: model-00004-of-00004.safetensors. The weights are those of "
                                                "model.safetensors.index.json."));
}

TEST(MortarCheckpoint, WrongTensorsAreNamed) {
  const auto broken = [](const char* model, auto change) {
    const test::Folder folder(model);
    change_header(folder, change);
    (void)open_and_verify(folder.path());
  };
  EXPECT_NO_THROW(broken("fp8", [](json&) {}));
  EXPECT_ERROR(ModelError, broken("dense-tied", [](json& h) { h.erase("model.layers.1.mlp.up_proj.weight"); }),
               "there is no model.layers.1.mlp.up_proj.weight");
  EXPECT_ERROR(ModelError, broken("dense-tied", [](json& h) { h["a.bias"] = h["model.norm.weight"]; }),
               "only tensors of the model", "a.bias");
  EXPECT_ERROR(
      ModelError, broken("dense-tied", [](json& h) { h["model.norm.weight"]["dtype"] = "I16"; }),
      "model.safetensors: model.norm.weight: expected BF16 or F32 or F16 [64] (from config.json), found I16 [64]");
  EXPECT_ERROR(ModelError,
               broken("dense-tied",
                      [](json& h) {
                        h["model.norm.weight"]["shape"] = json::array({8, 8});
                      }),
               "model.norm.weight", "found BF16 [8, 8]");
  EXPECT_ERROR(ModelError, broken("fp8", [](json& h) { h.erase("model.layers.0.mlp.up_proj.weight_scale_inv"); }),
               "there is no model.layers.0.mlp.up_proj.weight_scale_inv");
  EXPECT_NO_THROW(broken("fp8", [](json& h) { h["model.layers.0.mlp.up_proj.weight_scale_inv"]["dtype"] = "BF16"; }));
  EXPECT_ERROR(ModelError,
               broken("fp8",
                      [](json& h) {
                        h["model.layers.0.mlp.up_proj.weight_scale_inv"]["shape"] = json::array({1, 2});
                      }),
               "expected F32 or BF16 [2, 1]", "F32 [1, 2]");
}

TEST(MortarCheckpoint, ConfigAndFilesThatDisagree) {
  const auto with = [](const char* model, const json& changes) {
    const test::Folder folder(model);
    test::change_config(folder, changes);
    (void)open_and_verify(folder.path());
  };
  EXPECT_NO_THROW(with("dense-tied", json::object()));
  EXPECT_ERROR(ModelError, with("dense-tied", {{"tie_word_embeddings", false}}), "there is no lm_head.weight");
  EXPECT_ERROR(ModelError, with("dense-tied", {{"num_hidden_layers", 3}, {"layer_types", json::array()}}),
               "there is no model.layers.2", "and 7 more");
  EXPECT_ERROR(ModelError, with("dense-tied", {{"num_hidden_layers", 512}, {"layer_types", json::array()}}),
               "at least 5634 tensors", "found 24");
  EXPECT_ERROR(ModelError, with("moe", {{"num_experts", 9}}), "expected BF16 or F32 or F16 [9, 64]");
  EXPECT_ERROR(ModelError, with("fp8", {{"quantization_config", nullptr}}), "expected BF16", "F8_E4M3");
  const auto excluded = [&](const char* module) {
    with("fp8", {{"quantization_config",
                  {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}, {"modules_to_not_convert", {module}}}}});
  };
  EXPECT_NO_THROW(excluded("lm_head"));
  EXPECT_ERROR(ModelError, excluded("model.layers.0.self_attn.k_proj"), "modules_to_not_convert", "both or neither");
}

TEST(MortarCheckpoint, IndexAndShardsThatDisagree) {
  const auto with = [](auto change) {
    const test::Folder folder("moe");
    json index = json::parse(folder.read(kIndex));
    change(index["weight_map"]);
    folder.write(kIndex, index.dump());
    (void)Checkpoint(folder.path());
  };
  const std::string first = "model.embed_tokens.weight";
  EXPECT_NO_THROW(with([](json&) {}));
  EXPECT_ERROR(ModelError, with([&](json& map) { map[first] = "../a.safetensors"; }), first.c_str(), "the same folder",
               "../a.safetensors");
  EXPECT_ERROR(ModelError, with([&](json& map) { map[first] = 3; }), "the same folder", "3");
  EXPECT_ERROR(ModelError, with([&](json& map) { map[first] = "a.safetensors"; }), "a.safetensors", "a file");
  EXPECT_ERROR(ModelError, with([&](json& map) { map["x"] = map[first]; }), "weight_map.x", "found none");
  EXPECT_ERROR(ModelError,
               with([&](json& map) { map[first] = map["lm_head.weight"], map["model.norm.weight"] = map[first]; }),
               "weight_map.", "the tensor in");
  EXPECT_ERROR(ModelError, with([&](json& map) { map.erase(first); }), first.c_str(), "it here alone");
  EXPECT_ERROR(ModelError, with([&](json& map) { map = json::object(); }), "at least one tensor");
}

TEST(MortarCheckpoint, FoldersWithoutAModel) {
  const test::Folder folder;
  EXPECT_ERROR(ModelError, (void)Checkpoint(folder.path()), "model.safetensors or model.safetensors.index.json",
               "neither");
  EXPECT_ERROR(ModelError, (void)Checkpoint(folder.path() / "none"), "a folder with a model");
}

}  // namespace THIS_FILE
}  // namespace mortar
