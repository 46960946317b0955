// Weights of the test checkpoints on the CPU, through both ways of loading, against the bytes of the files.
#include "mortar/load.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <tessera/tessera.hpp>

#include "files/layout.hpp"
#include "host/expect_error.hpp"
#include "host/far_device.hpp"
#include "model/load_paths.hpp"
#include "mortar/errors.hpp"
#include "mortar/files/model_files.hpp"
#include "mortar/mortar.hpp"

namespace mortar {
namespace THIS_FILE {

using tessera::Device;

/// The elements of a tensor of the files as f32.
std::vector<float> from_file(const Checkpoint& checkpoint, const std::string& name) {
  const Checkpoint::Entry& entry = *checkpoint.find(name);
  std::vector<std::byte> bytes(entry.tensor->bytes);
  entry.file->read(entry.tensor->begin, bytes);
  std::vector<float> values;
  const auto as = [&]<class T>(T element) {
    for (std::size_t i = 0; i < bytes.size(); i += sizeof(T)) {
      std::memcpy(&element, bytes.data() + i, sizeof(T));
      values.push_back(static_cast<float>(element));
    }
  };
  if (entry.tensor->type == FileType::BF16) as(tessera::bf16{});
  if (entry.tensor->type == FileType::F8_E4M3) as(tessera::f8e4m3{});
  if (entry.tensor->type == FileType::F32) as(0.0f);
  return values;
}
std::vector<float> joined(const Checkpoint& checkpoint, const std::vector<std::string>& names) {
  std::vector<float> values;
  for (const std::string& name : names) {
    const auto more = from_file(checkpoint, name);
    values.insert(values.end(), more.begin(), more.end());
  }
  return values;
}
template <class T, int R>
std::vector<float> values_of(const tessera::Tensor<T, R>& t) {
  const auto elements = host(t).sync();
  return {elements.begin(), elements.end()};
}

/// The members of a Matrix or ExpertMatrices against tensors of the files.
template <class M>
void expect_matrix(const M& m, const Checkpoint& c, std::vector<std::string> modules) {
  std::vector<std::string> weights, scales;
  for (const std::string& module : modules) {
    weights.push_back(module + ".weight");
    scales.push_back(module + ".weight_scale_inv");
  }
  if (!m.is_fp8) {
    EXPECT_EQ(values_of(m.values), joined(c, weights)) << modules[0];
    return;
  }
  EXPECT_EQ(values_of(m.quantized), joined(c, weights)) << modules[0];
  EXPECT_EQ(values_of(m.scales), joined(c, scales)) << modules[0];
}

void expect_weights(const Weights& w, const ModelSpec& model, const Checkpoint& c) {
  EXPECT_EQ(values_of(w.embedding), from_file(c, "model.embed_tokens.weight"));
  EXPECT_EQ(values_of(w.final_norm), from_file(c, "model.norm.weight"));
  EXPECT_EQ(w.tied, model.tied);
  if (!model.tied) { EXPECT_EQ(values_of(w.lm_head), from_file(c, "lm_head.weight")); }
  ASSERT_EQ(static_cast<std::int64_t>(w.layers.size()), model.layers);
  for (std::size_t i = 0; i < w.layers.size(); ++i) {
    const LayerWeights& l = w.layers[i];
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    EXPECT_EQ(values_of(l.attention_norm), from_file(c, prefix + "input_layernorm.weight"));
    EXPECT_EQ(values_of(l.mlp_norm), from_file(c, prefix + "post_attention_layernorm.weight"));
    if (model.attention.head_norms) {
      EXPECT_EQ(values_of(l.query_norm), from_file(c, prefix + "self_attn.q_norm.weight"));
      EXPECT_EQ(values_of(l.key_norm), from_file(c, prefix + "self_attn.k_norm.weight"));
    }
    expect_matrix(l.qkv, c, {prefix + "self_attn.q_proj", prefix + "self_attn.k_proj", prefix + "self_attn.v_proj"});
    EXPECT_EQ(l.qkv.is_fp8, model.fp8.has_value());
    expect_matrix(l.output, c, {prefix + "self_attn.o_proj"});
    if (!model.mlp.experts) {
      expect_matrix(l.dense->gate_up, c, {prefix + "mlp.gate_proj", prefix + "mlp.up_proj"});
      expect_matrix(l.dense->down, c, {prefix + "mlp.down_proj"});
      continue;
    }
    std::vector<std::string> gate_up, down;
    for (std::int64_t e = 0; e < model.mlp.experts->count; ++e) {
      const std::string expert = prefix + "mlp.experts." + std::to_string(e) + ".";
      gate_up.insert(gate_up.end(), {expert + "gate_proj", expert + "up_proj"});
      down.push_back(expert + "down_proj");
    }
    EXPECT_EQ(values_of(l.experts->router), from_file(c, prefix + "mlp.gate.weight"));
    expect_matrix(l.experts->gate_up, c, gate_up);
    expect_matrix(l.experts->down, c, down);
    const auto dims =
        l.experts->gate_up.is_fp8 ? l.experts->gate_up.quantized.dims() : l.experts->gate_up.values.dims();
    EXPECT_EQ(dims, (tessera::Dims<3>({model.mlp.experts->count, 2 * model.mlp.experts->intermediate, model.hidden})));
  }
}

class MortarLoad : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models, MortarLoad,
                         testing::Values("dense-tied", "dense-untied", "moe", "fp8", "moe-fp8", "llama-untied"));

TEST_P(MortarLoad, EveryElementArrives) {
  const auto folder = test::test_model(GetParam());
  const ModelSpec model = read_config(folder);
  Weights mapped;
  {
    const Checkpoint checkpoint(folder);
    EXPECT_EQ(checkpoint.verify(model).tied, model.tied);
    mapped = load_weights(model, checkpoint, Device::cpu());
  }  // tensors in mapped files outlive the checkpoint
  const Checkpoint checkpoint(folder);
  expect_weights(mapped, model, checkpoint);
  for (const int threads : {1, 3}) {
    const Weights staged = model::load_staged(model, checkpoint, Device::cpu(), {.progress = {}, .threads = threads});
    expect_weights(staged, model, checkpoint);
  }
}

/// config.json says that lm_head is the embedding, but the files have another one.
TEST(MortarLoad, AnotherHeadThanTheEmbeddingIsUsed) {
  const test::Folder folder("dense-untied");
  test::change_config(folder, {{"tie_word_embeddings", true}});
  std::vector<std::string> warnings;
  ModelOptions options;
  options.device = Device::cpu(), options.max_context = 256;
  options.warning = [&](const std::string& text) { warnings.push_back(text); };
  Model model = load(folder.path().string(), options);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], testing::HasSubstr("lm_head.weight is used"));
  EXPECT_FALSE(model.config.tied);
  Model untied = load(test::test_model("dense-untied").string(), options);
  EXPECT_EQ(warnings.size(), 1u);
  EXPECT_EQ(model.plan.weights.lm_head, untied.plan.weights.lm_head);
  EXPECT_EQ(model.plan.total(), untied.plan.total());
  const Checkpoint checkpoint(folder.path());
  EXPECT_EQ(values_of(model.weights.head()), from_file(checkpoint, "lm_head.weight"));
  const std::vector<TokenId> ids{5, 42, 79, 3};
  EXPECT_EQ(Engine(std::move(model), {}).logits(ids), Engine(std::move(untied), {}).logits(ids));
  options.random_weights = 1;
  EXPECT_TRUE(load(folder.path().string(), options).config.tied) << "without files, config.json decides";
}

TEST(MortarLoad, ADeviceWithMemoryOfItsOwn) {
  tessera::runtime::FarDevice far;
  const auto folder = test::test_model("dense-tied");
  const ModelSpec model = read_config(folder);
  const Checkpoint checkpoint(folder);
  const Weights w = load_weights(model, checkpoint, Device(far));
  EXPECT_EQ(w.embedding.device(), Device(far));
  const auto back = host(w.layers[1].qkv.values).sync(tessera::Stream::default_of(Device(far)));
  const std::string prefix = "model.layers.1.self_attn.";
  EXPECT_EQ((std::vector<float>{back.begin(), back.end()}),
            joined(checkpoint, {prefix + "q_proj.weight", prefix + "k_proj.weight", prefix + "v_proj.weight"}));
}

/// The same checkpoint with its data one byte further on: no tensor is aligned.
TEST(MortarLoad, DataAtOddAddresses) {
  const test::Folder folder("fp8");
  const std::string file = folder.read("model.safetensors");
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
  folder.write("model.safetensors", test::tensor_file(file.substr(8, length) + " ", file.substr(8 + length)));
  const ModelSpec model = read_config(folder.path());
  const Checkpoint checkpoint(folder.path());
  ASSERT_EQ(checkpoint.find("model.norm.weight")->tensor->begin % 2, 1u);
  expect_weights(load_weights(model, checkpoint, Device::cpu()), model, Checkpoint(test::test_model("fp8")));
}

TEST(MortarLoad, ProgressEndsWithAllBytes) {
  const auto folder = test::test_model("moe-fp8");
  const ModelSpec model = read_config(folder);
  const Checkpoint checkpoint(folder);
  LoadProgress last;
  int calls = 0;
  const LoadOptions options{.progress = [&](const LoadProgress& p) { last = p, ++calls; }, .threads = 0};
  (void)load_weights(model, checkpoint, Device::cpu(), options);
  EXPECT_GE(calls, 1);
  EXPECT_EQ(last.bytes, last.total);
  EXPECT_EQ(static_cast<std::int64_t>(last.total), model_size(model).bytes.total());
  last = {};
  (void)model::load_staged(model, checkpoint, Device::cpu(), options);
  EXPECT_EQ(last.bytes, last.total);
}

struct Stop {};

TEST(MortarLoad, WhatTheCallbackThrowsEndsLoading) {
  const auto folder = test::test_model("dense-tied");
  const ModelSpec model = read_config(folder);
  const Checkpoint checkpoint(folder);
  const auto before = tessera::memory_stats(Device::cpu()).in_use;
  const LoadOptions options{.progress = [](const LoadProgress&) { throw Stop{}; }, .threads = 2};
  EXPECT_THROW((void)load_weights(model, checkpoint, Device::cpu(), options), Stop);
  EXPECT_THROW((void)model::load_staged(model, checkpoint, Device::cpu(), options), Stop);
  EXPECT_THROW((void)random_weights(model, 1, Device::cpu(), options), Stop);
  EXPECT_EQ(tessera::memory_stats(Device::cpu()).in_use, before);
  EXPECT_NO_THROW((void)load_weights(model, checkpoint, Device::cpu()));
}

/// It sees all but the weights, and what it throws ends load() before they are read.
TEST(MortarLoad, WhatIsCalledBeforeTheWeights) {
  const std::string folder = test::test_model("dense-tied").string();
  int calls = 0, progress = 0;
  ModelOptions options;
  options.device = Device::cpu(), options.max_context = 100;
  options.progress = [&](const LoadProgress&) { ++progress; };
  options.before_weights = [&](const Model& model) {
    ++calls;
    EXPECT_EQ(model.plan.max_context, 100);
    EXPECT_TRUE(model.tokenizer && model.config.vocabulary > 0 && model.folder == folder);
    EXPECT_EQ(progress, 0);
    check({.prefill_tokens = 64}, model);
    EXPECT_ERROR(RequestError, check({.fp8_activations = true}, model), "fp8_activations", "FP8 weights");
  };
  (void)load(folder, options);
  EXPECT_EQ(calls, 1);
  EXPECT_GT(progress, 0);
  progress = 0;
  options.before_weights = [](const Model&) { throw Stop{}; };
  EXPECT_THROW((void)load(folder, options), Stop);
  options.tensor_parallel = 2;
  EXPECT_THROW((void)load(folder, options), Stop);
  EXPECT_EQ(progress, 0);
}

TEST(MortarLoad, ATokenizerThatIsNotNeeded) {
  const test::Folder folder("dense-tied");
  ModelOptions options;
  options.device = Device::cpu(), options.max_context = 100;
  const auto has_tokenizer = [&](TokenizerFile file) {
    options.tokenizer = file;
    return load(folder.path().string(), options).tokenizer.has_value();
  };
  EXPECT_TRUE(has_tokenizer(TokenizerFile::Needed) && has_tokenizer(TokenizerFile::IfThere));
  EXPECT_FALSE(has_tokenizer(TokenizerFile::Unread));
  folder.write("tokenizer.json", "damaged");
  EXPECT_ERROR(ModelError, (void)has_tokenizer(TokenizerFile::IfThere), "tokenizer.json");
  EXPECT_FALSE(has_tokenizer(TokenizerFile::Unread));
  std::filesystem::remove(folder.path() / "tokenizer.json");
  EXPECT_FALSE(has_tokenizer(TokenizerFile::IfThere));
  EXPECT_ERROR(ModelError, (void)has_tokenizer(TokenizerFile::Needed), "tokenizer.json");
}

/// A file that became shorter after it was verified.
TEST(MortarLoad, AFileThatCannotBeReadAnyMore) {
  const test::Folder folder("dense-untied");
  const ModelSpec model = read_config(folder.path());
  const Checkpoint checkpoint(folder.path());
  for (const auto& file : checkpoint.files()) std::filesystem::resize_file(file->path(), 4096);
  EXPECT_ERROR(ModelError, (void)model::load_staged(model, checkpoint, Device::cpu(), {}), ".safetensors",
               "more bytes");
}

TEST(MortarLoad, TooLittleMemoryIsACapacityError) {
  const auto folder = test::test_model("dense-tied");
  const ModelSpec model = read_config(folder);
  const auto in_use = tessera::memory_stats(Device::cpu()).in_use;
  tessera::set_memory_limit(Device::cpu(), in_use + 100'000);
  EXPECT_LE(device_memory(Device::cpu()).available, 100'000);
  EXPECT_ERROR(CapacityError, (void)random_weights(model, 1, Device::cpu()), "do not fit", "cpu");
  tessera::set_memory_limit(Device::cpu(), tessera::kNoMemoryLimit);
  EXPECT_GT(device_memory(Device::cpu()).available, 1'000'000);
  EXPECT_NO_THROW((void)random_weights(model, 1, Device::cpu()));
}

double deviation_of(const std::vector<float>& values) {
  double sum = 0;
  for (const float v : values) sum += static_cast<double>(v) * v;
  return std::sqrt(sum / static_cast<double>(values.size()));
}

TEST(MortarRandomWeights, ScaledAndTheSameForTheSameSeed) {
  const ModelSpec model = read_config(test::test_model("moe-fp8"));
  const Weights w = random_weights(model, 7, Device::cpu()), same = random_weights(model, 7, Device::cpu()),
                other = random_weights(model, 8, Device::cpu());
  EXPECT_EQ(values_of(w.embedding), values_of(same.embedding));
  EXPECT_NE(values_of(w.embedding), values_of(other.embedding));
  EXPECT_NEAR(deviation_of(values_of(w.embedding)), 1 / std::sqrt(128.0), 1e-3);
  EXPECT_EQ(deviation_of(values_of(w.final_norm)), 1);
  const auto& gate_up = w.layers[0].experts->gate_up;
  const double scale = values_of(gate_up.scales)[0];
  EXPECT_NEAR(deviation_of(values_of(gate_up.quantized)) * scale, 1 / std::sqrt(128.0), 2e-3);
  EXPECT_NE(values_of(gate_up.quantized), values_of(w.layers[0].experts->down.quantized));
}

/// A seed names the same weights on every device: what was computed on the CPU can be compared with a GPU.
TEST(MortarRandomWeights, AreThoseOfTheCpuOnTheDefaultDevice) {
  const Device device = tessera::default_device();
  if (device == Device::cpu()) GTEST_SKIP() << "the default device is the CPU";
  for (const char* name : {"dense-tied", "moe-fp8"}) {
    const ModelSpec model = read_config(test::test_model(name));
    const Weights there = random_weights(model, 7, device), here = random_weights(model, 7, Device::cpu());
    EXPECT_EQ(values_of(there.embedding), values_of(here.embedding)) << name;
    EXPECT_EQ(values_of(there.final_norm), values_of(here.final_norm)) << name;
    for (std::size_t i = 0; i < here.layers.size(); ++i) {
      if (!here.layers[i].experts) continue;
      EXPECT_EQ(values_of(there.layers[i].experts->gate_up.quantized),
                values_of(here.layers[i].experts->gate_up.quantized));
      EXPECT_EQ(values_of(there.layers[i].experts->gate_up.scales), values_of(here.layers[i].experts->gate_up.scales));
      EXPECT_EQ(values_of(there.layers[i].experts->down.quantized), values_of(here.layers[i].experts->down.quantized));
    }
  }
}

}  // namespace THIS_FILE
}  // namespace mortar
