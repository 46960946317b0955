// What ranks load: every element of a rank's tensors is that of the files, or of the whole model's random weights, at
// its place, and together the ranks have all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "files/layout.hpp"
#include "files/shard.hpp"
#include "host/expect_error.hpp"
#include "model/load_paths.hpp"
#include "mortar/errors.hpp"
#include "mortar/parallel/ranks.hpp"
#include "tessera/tessera.hpp"

namespace mortar::test {
namespace THIS_FILE {

using files::Role;
using files::Stored;
using files::WeightTensor;

using Bytes = std::vector<std::byte>;
template <class T, int R>
Bytes bytes_of(const tessera::Tensor<T, R>& t) {
  const std::vector<T> values = tessera::host(t).sync();
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <class M>
Bytes bytes_of_matrix(const M& m, Stored stored) {
  EXPECT_EQ(m.is_fp8, stored != Stored::Bf16);
  return stored == Stored::Bf16  ? bytes_of(m.values)
         : stored == Stored::Fp8 ? bytes_of(m.quantized)
                                 : bytes_of(m.scales);
}
/// The elements of a tensor of the layout, row by row.
Bytes bytes_of(const Weights& w, const WeightTensor& t) {
  const LayerWeights& l = w.layers[static_cast<std::size_t>(t.layer)];
  switch (t.role) {
    case Role::Embedding: return bytes_of(w.embedding);
    case Role::FinalNorm: return bytes_of(w.final_norm);
    case Role::LmHead: return bytes_of(w.lm_head);
    case Role::AttentionNorm: return bytes_of(l.attention_norm);
    case Role::MlpNorm: return bytes_of(l.mlp_norm);
    case Role::QueryNorm: return bytes_of(l.query_norm);
    case Role::KeyNorm: return bytes_of(l.key_norm);
    case Role::Qkv: return bytes_of_matrix(l.qkv, t.stored);
    case Role::Output: return bytes_of_matrix(l.output, t.stored);
    case Role::GateUp: return bytes_of_matrix(l.dense->gate_up, t.stored);
    case Role::Down: return bytes_of_matrix(l.dense->down, t.stored);
    case Role::Router: return bytes_of(l.experts->router);
    case Role::ExpertGateUp: return bytes_of_matrix(l.experts->gate_up, t.stored);
    case Role::ExpertDown: return bytes_of_matrix(l.experts->down, t.stored);
  }
  return {};
}

/// Where the elements of one device's tensors are found: by the name in the files.
class Whole {
 public:
  Whole(const ModelSpec& spec, const Weights& weights) {
    for (const WeightTensor& t : files::weight_tensors(spec)) {
      const Bytes all = bytes_of(weights, t);
      std::size_t at = 0;
      for (const files::Part& part : t.parts) {
        const std::size_t size = static_cast<std::size_t>(part.rows * t.columns) * t.element_bytes();
        Tensor& tensor = tensors_[part.name];
        tensor.bytes.assign(all.begin() + static_cast<std::ptrdiff_t>(at),
                            all.begin() + static_cast<std::ptrdiff_t>(at + size));
        tensor.found.resize(size / t.element_bytes());
        at += size;
      }
      EXPECT_EQ(at, all.size());
    }
  }
  /// The elements of a rank are those of the files at their places.
  void expect(const ModelSpec& spec, const Weights& weights, const Ranks& ranks) {
    for (const WeightTensor& t : files::weight_tensors(spec, ranks)) {
      const Bytes own = bytes_of(weights, t);
      const std::size_t element = t.element_bytes(), row = static_cast<std::size_t>(t.columns) * element;
      ASSERT_EQ(own.size(), static_cast<std::size_t>(t.rows) * row);
      std::size_t at = 0;
      for (const files::Part& part : t.parts) {
        Tensor& whole = tensors_.at(part.name);
        for (std::int64_t r = 0; r < part.rows; ++r, at += row) {
          const auto first = static_cast<std::size_t>((part.first_row + r) * part.file_columns + part.first_column);
          ASSERT_EQ(std::memcmp(own.data() + at, whole.bytes.data() + first * element, row), 0) << part.name;
          std::fill_n(whole.found.begin() + static_cast<std::ptrdiff_t>(first), t.columns, true);
        }
      }
    }
  }
  void expect_all_found() const {
    for (const auto& [name, tensor] : tensors_)
      EXPECT_EQ(std::count(tensor.found.begin(), tensor.found.end(), false), 0) << name;
  }

 private:
  struct Tensor {
    Bytes bytes;
    std::vector<bool> found;
  };
  std::map<std::string, Tensor> tensors_;
};

TEST(MortarParallelLoad, RanksTogetherHaveTheFiles) {
  for (const auto& [shared, ranks] : shared_models()) {
    if (!shared.has_files()) continue;
    for (const bool exact : {false, true}) {
      SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks" << (exact ? ", exact" : ""));
      const Checkpoint checkpoint(test_model(shared.name));
      const ModelSpec spec = checkpoint.verify(read_config(test_model(shared.name)));
      Whole whole(spec, load_weights(spec, checkpoint, tessera::Device::cpu()));
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        LoadOptions options;
        options.ranks = {rank, ranks, exact};
        whole.expect(spec, load_weights(spec, checkpoint, tessera::Device::cpu(), options), options.ranks);
        options.threads = 2;
        whole.expect(spec, model::load_staged(spec, checkpoint, tessera::Device::cpu(), options), options.ranks);
      }
      whole.expect_all_found();
    }
  }
}

TEST(MortarParallelLoad, RandomWeightsAreThoseOfOneDevice) {
  for (const auto& [shared, ranks] : shared_models()) {
    if (shared.has_files()) continue;
    for (const bool exact : {false, true}) {
      SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks" << (exact ? ", exact" : ""));
      const ModelSpec spec = parse_config(shared.config.dump(), "config.json");
      Whole whole(spec, random_weights(spec, 9, tessera::Device::cpu()));
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        LoadOptions options;
        options.ranks = {rank, ranks, exact};
        whole.expect(spec, random_weights(spec, 9, tessera::Device::cpu(), options), options.ranks);
      }
      whole.expect_all_found();
    }
  }
}

/// Experts that are not divided: a rank's numbers are those of its experts, not of the first ones.
TEST(MortarParallelLoad, RandomWeightsOfWholeExperts) {
  const ModelSpec spec = read_config(test_model("moe"));
  Whole whole(spec, random_weights(spec, 9, tessera::Device::cpu()));
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    LoadOptions options;
    options.ranks = {rank, 4, false};
    whole.expect(spec, random_weights(spec, 9, tessera::Device::cpu(), options), options.ranks);
  }
  whole.expect_all_found();
}

/// Sizes of a rank: those of its tensors.
TEST(MortarParallelLoad, PlansAreThoseOfARank) {
  for (const auto& [shared, ranks] : shared_models()) {
    SCOPED_TRACE(testing::Message() << shared.name << ", " << ranks << " ranks");
    const Model one = shared.on_one_device(false), all = shared.on_ranks(ranks, false);
    std::uint64_t bytes = 0;
    for (const WeightTensor& t : files::weight_tensors(all.config, {0, ranks})) bytes += t.bytes();
    EXPECT_EQ(static_cast<std::uint64_t>(all.plan.weights.total()), bytes);
    EXPECT_LT(all.plan.weights.attention + all.plan.weights.mlp + all.plan.weights.experts,
              one.plan.weights.attention + one.plan.weights.mlp + one.plan.weights.experts);
    EXPECT_EQ(all.plan.weights.embedding, one.plan.weights.embedding);
    const std::int64_t heads = one.config.attention.kv_heads;
    EXPECT_EQ(all.plan.kv_per_token * heads, one.plan.kv_per_token * std::max<std::int64_t>(1, heads / ranks));
  }
}

TEST(MortarParallelLoad, WhatCannotBeShared) {
  ModelOptions options;
  options.device = tessera::Device::cpu(), options.max_context = 64;
  bool loaded = false;
  options.progress = [&](const LoadProgress&) { loaded = true; };
  const std::string folder = test_model("dense-tied").string();
  options.tensor_parallel = 3;
  EXPECT_ERROR(RequestError, (void)load(folder, options), "query heads that divide equally among 3 ranks", "is 2");
  options.tensor_parallel = 0;
  EXPECT_ERROR(RequestError, (void)load(folder, options), "tensor_parallel: expected 1 to", "found 0");
  options.tensor_parallel = 1;
  options.meshes = tessera::Mesh::threads(2);
  std::swap(options.meshes[0], options.meshes[1]);
  EXPECT_ERROR(RequestError, (void)load(folder, options), "all ranks of one mesh in order");
  options.meshes = {tessera::Mesh::cpu(2)};
  EXPECT_ERROR(RequestError, (void)load(folder, options), "each with one local rank");
  EXPECT_FALSE(loaded);
  options.meshes.clear(), options.tensor_parallel = 2;
  EXPECT_EQ(load(folder, options).parts.size(), 2U);
  EXPECT_TRUE(loaded);
}

TEST(MortarParallelLoad, WhatTheProgressThrowsEndsIt) {
  ModelOptions options;
  options.device = tessera::Device::cpu(), options.max_context = 64, options.tensor_parallel = 2;
  options.progress = [](const LoadProgress&) { throw std::runtime_error("killed"); };
  for (const bool random : {false, true}) {
    if (random) options.random_weights = 1;
    EXPECT_ERROR(std::runtime_error, (void)load(test_model("dense-tied").string(), options), "killed");
  }
}

}  // namespace THIS_FILE
}  // namespace mortar::test
