// Folders of safetensors files: index, shards, and whether the tensors are those of config.json.
#include "mortar/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/expect_error.hpp"
#include "mortar/errors.hpp"
#include "mortar/files/model_files.hpp"

namespace mortar {
namespace {

using nlohmann::json;
constexpr const char* kIndex = "model.safetensors.index.json";

void open_and_verify(const std::filesystem::path& folder) {
  const ModelConfig config = read_config(folder);
  Checkpoint(folder).verify(config);
}

/// Changes the header of model.safetensors and lays its tensors out anew, filled with zeros.
template <class Change>
void change_header(const test::Folder& folder, Change change) {
  const std::string file = folder.read("model.safetensors");
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
  json header = json::parse(file.substr(8, length));
  change(header);
  std::uint64_t end = 0;
  for (auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    std::uint64_t bytes = tensor["dtype"] == "F32" ? 4 : tensor["dtype"] == "F8_E4M3" ? 1 : 2;
    for (const std::uint64_t extent : tensor["shape"]) bytes *= extent;
    // clang 16 does not destroy the old value that `= {...}` swaps into its parameter.
    tensor["data_offsets"] = json::array({end, end + bytes});
    end += bytes;
  }
  folder.write("model.safetensors", test::tensor_file(header.dump(), std::string(end, '\0')));
}

TEST(MortarCheckpoint, TheTestModelsAreVerified) {
  for (const char* name : {"dense-tied", "dense-untied", "dense-yarn", "moe", "fp8", "moe-fp8"})
    EXPECT_NO_THROW(open_and_verify(test::test_model(name))) << name;
  EXPECT_GT(Checkpoint(test::test_model("moe")).files().size(), 1u);
}

TEST(MortarCheckpoint, TiedModelsMayHaveACopyOfTheEmbedding) {
  const test::Folder folder("dense-tied");
  const json head = {{"dtype", "BF16"}, {"shape", {384, 64}}};
  change_header(folder, [&](json& h) { h["lm_head.weight"] = head; });
  EXPECT_NO_THROW(open_and_verify(folder.path()));
  change_header(folder, [&](json& h) { h["lm_head.weight"]["shape"] = json::array({383, 64}); });
  EXPECT_ERROR(ModelError, open_and_verify(folder.path()), "lm_head.weight: expected BF16 [384, 64]",
               "found BF16 [383, 64]");
}

TEST(MortarCheckpoint, WrongTensorsAreNamed) {
  const auto broken = [](const char* model, auto change) {
    const test::Folder folder(model);
    change_header(folder, change);
    open_and_verify(folder.path());
  };
  EXPECT_NO_THROW(broken("fp8", [](json&) {}));
  EXPECT_ERROR(ModelError, broken("dense-tied", [](json& h) { h.erase("model.layers.1.mlp.up_proj.weight"); }),
               "there is no model.layers.1.mlp.up_proj.weight");
  EXPECT_ERROR(ModelError, broken("dense-tied", [](json& h) { h["a.bias"] = h["model.norm.weight"]; }),
               "only tensors of the model", "a.bias");
  EXPECT_ERROR(ModelError, broken("dense-tied", [](json& h) { h["model.norm.weight"]["dtype"] = "F32"; }),
               "model.safetensors: model.norm.weight: expected BF16 [64] (from config.json), found F32 [64]");
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
    json config = json::parse(folder.read("config.json"));
    config.update(changes);
    folder.write("config.json", config.dump());
    open_and_verify(folder.path());
  };
  EXPECT_NO_THROW(with("dense-tied", json::object()));
  EXPECT_ERROR(ModelError, with("dense-tied", {{"tie_word_embeddings", false}}), "there is no lm_head.weight");
  EXPECT_ERROR(ModelError, with("dense-tied", {{"num_hidden_layers", 3}, {"layer_types", json::array()}}),
               "there is no model.layers.2", "and 7 more");
  EXPECT_ERROR(ModelError, with("dense-tied", {{"num_hidden_layers", 512}, {"layer_types", json::array()}}),
               "at least 5634 tensors", "found 24");
  EXPECT_ERROR(ModelError, with("moe", {{"num_experts", 9}}), "expected BF16 [9, 64]");
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

}  // namespace
}  // namespace mortar
