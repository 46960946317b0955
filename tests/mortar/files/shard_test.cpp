// The parts of ranks, for published configurations: together they are each tensor, once or as often as it is
// replicated; they are equally large, and cut no unit; queries are where their keys are; scales follow their weights.
#include "files/shard.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/layout.hpp"
#include "host/expect_error.hpp"
#include "mortar/errors.hpp"
#include "mortar/files/model_files.hpp"

namespace mortar::files {
namespace THIS_FILE {

using nlohmann::json;

json published(const std::string& name) {
  return json::parse(test::read_file(std::filesystem::path(MORTAR_TEST_DATA) / "configs" / (name + ".json")));
}
ModelSpec spec_of(const json& config) { return parse_config(config.dump(), "config.json"); }
ModelSpec spec_named(const std::string& name) { return spec_of(published(name)); }

std::vector<std::string> all_published() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(MORTAR_TEST_DATA) / "configs"))
    names.push_back(entry.path().stem().string());
  return names;
}

bool can_divide(const ModelSpec& spec, std::int64_t ranks) {
  try {
    check_ranks(spec, ranks);
    return true;
  } catch (const RequestError&) { return false; }
}

bool has_row(const ModelSpec& spec, const TensorRow& row) {
  if (!row.in_layers()) return has_tensor(spec, row, 0);
  for (std::int64_t layer = 0; layer < spec.layers; ++layer)
    if (has_tensor(spec, row, layer)) return true;
  return false;
}

/// How often the ranges have each of `extent` elements; -1 if not equally often.
std::int64_t times_covered(const std::vector<Range>& ranges, std::int64_t extent) {
  std::vector<std::int64_t> change(static_cast<std::size_t>(extent) + 1);
  for (const Range& r : ranges) {
    if (r.begin < 0 || r.end > extent || r.size() <= 0) return -1;
    ++change[static_cast<std::size_t>(r.begin)], --change[static_cast<std::size_t>(r.end)];
  }
  std::int64_t times = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(extent); ++i) {
    times += change[i];
    if (i > 0 && change[i] != 0 && times != change[0]) return -1;
  }
  return change[0];
}

/// The ranges of each axis, of all ranks.
struct Ranges {
  std::vector<Range> experts, rows, columns;
  void add(const Shard& s) { experts.push_back(s.experts), rows.push_back(s.rows), columns.push_back(s.columns); }
};

/// The product of how often the axes are covered counts each element once for each rank that has it, because at most
/// one axis is divided: the others are covered by each rank.
void expect_covered(const Ranges& r, std::int64_t experts, std::int64_t rows, std::int64_t columns,
                    std::int64_t copies) {
  const auto ranks = std::ssize(r.rows);
  std::int64_t divided = 0;
  const auto axis = [&](const std::vector<Range>& ranges, std::int64_t extent) {
    const std::int64_t times = times_covered(ranges, extent);
    if (times == ranks) return;
    EXPECT_EQ(times, copies);
    ++divided;
  };
  if (experts > 0) axis(r.experts, experts);
  axis(r.rows, rows);
  axis(r.columns, columns);
  if (divided == 0) { EXPECT_EQ(copies, ranks); }
  EXPECT_LE(divided, 1);
}

std::int64_t unit_of(const ModelSpec& spec, const TensorRow& row) {
  const std::int64_t block = spec.fp8 && row.elements == Elements::Linear ? kScaleBlock : 8;
  switch (row.sharding.unit) {
    case Unit::Head:
    case Unit::KvHead: return spec.attention.head_dim;
    case Unit::Expert: return kScaleBlock;
    default: return block;
  }
}

void expect_row_divides(const ModelSpec& spec, const TensorRow& row, std::int64_t ranks) {
  Ranges weights, scales;
  const Shard first = shard_of(spec, row, 0, ranks);
  const std::int64_t rows = extent_of(spec, row.rows), columns = extent_of(spec, row.columns);
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const Shard s = shard_of(spec, row, rank, ranks);
    weights.add(s);
    scales.add(scales_of(s));
    EXPECT_EQ(s.copies, first.copies);
    EXPECT_EQ(s.rows.size() + s.padding, first.rows.size() + first.padding) << "equally large";
    EXPECT_EQ(s.columns.size(), first.columns.size());
    EXPECT_EQ(s.experts.size(), first.experts.size());
    EXPECT_TRUE(s.padding == 0 || row.sharding.unit == Unit::Vocabulary);
    for (const auto& [range, extent] : {std::pair(s.rows, rows), std::pair(s.columns, columns)}) {
      if (range.size() == extent) continue;
      const std::int64_t unit = unit_of(spec, row);
      EXPECT_EQ(range.begin % unit, 0);
      EXPECT_TRUE(range.end % unit == 0 || range.end == extent);
      if (spec.fp8 && row.elements == Elements::Linear) { EXPECT_EQ(range.begin % kScaleBlock, 0); }
    }
  }
  const std::int64_t experts = row.in_experts() ? spec.mlp.experts->count : 0;
  expect_covered(weights, experts, rows, columns, first.copies);
  if (!spec.fp8 || row.elements != Elements::Linear) return;
  const auto blocks = [](std::int64_t n) { return (n + kScaleBlock - 1) / kScaleBlock; };
  expect_covered(scales, experts, blocks(rows), blocks(columns), first.copies);
}

class MortarShards : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Published, MortarShards, testing::ValuesIn(all_published()), [](const auto& name) {
  std::string text = name.param;
  for (char& c : text)
    if (c == '-' || c == '.') c = '_';
  return text;
});

TEST_P(MortarShards, TogetherAreEachTensor) {
  const ModelSpec spec = spec_named(GetParam());
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    // 9728 columns of the MLP are 76 blocks of scales.
    const bool expected = !(GetParam() == "Qwen3-4B-FP8" && ranks == 8);
    ASSERT_EQ(can_divide(spec, ranks), expected) << ranks;
    if (!expected) continue;
    for (const TensorRow& row : spec.tensors->rows) {
      if (!has_row(spec, row)) continue;
      SCOPED_TRACE(testing::Message() << row.name << ", " << ranks << " ranks");
      expect_row_divides(spec, row, ranks);
    }
  }
}

TEST_P(MortarShards, QueriesAreWhereTheirKeysAre) {
  const ModelSpec spec = spec_named(GetParam());
  const TensorRow *query = nullptr, *key = nullptr, *output = nullptr;
  for (const TensorRow& row : spec.tensors->rows) {
    if (row.name.ends_with("q_proj")) query = &row;
    if (row.name.ends_with("v_proj")) key = &row;
    if (row.name.ends_with("o_proj")) output = &row;
  }
  const AttentionSpec& a = spec.attention;
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Range queries = shard_of(spec, *query, rank, ranks).rows, keys = shard_of(spec, *key, rank, ranks).rows;
      const std::int64_t group = a.heads / a.kv_heads;
      EXPECT_EQ(keys.begin / a.head_dim, queries.begin / a.head_dim / group);
      EXPECT_EQ(keys.end / a.head_dim - 1, (queries.end / a.head_dim - 1) / group);
      EXPECT_EQ(shard_of(spec, *output, rank, ranks).columns, queries);
    }
  }
}

const TensorRow& row_named(const ModelSpec& spec, std::string_view end) {
  for (const TensorRow& row : spec.tensors->rows)
    if (row.name.ends_with(end)) return row;
  throw std::runtime_error("no such row");
}

TEST(MortarShard, KeyHeadsFewerThanRanksAreShared) {
  const ModelSpec spec = spec_named("Qwen3-30B-A3B");  // 4 key heads
  const TensorRow& keys = row_named(spec, "k_proj");
  EXPECT_EQ(shard_of(spec, keys, 3, 4).copies, 1);
  EXPECT_EQ(shard_of(spec, keys, 5, 8).copies, 2);
  EXPECT_EQ(shard_of(spec, keys, 4, 8).rows, (Range{256, 384}));
  EXPECT_EQ(shard_of(spec, keys, 5, 8).rows, (Range{256, 384}));
  EXPECT_EQ(shard_of(spec, row_named(spec, "q_proj"), 5, 8).rows, (Range{20 * 128, 24 * 128}));
}

TEST(MortarShard, ExpertsAreDividedByBlocksOrGivenWhole) {
  const ModelSpec spec = spec_named("Qwen3-30B-A3B-FP8");  // 6 blocks of 128 columns
  const TensorRow &up = row_named(spec, "up_proj"), &gate = row_named(spec, "{expert}.up_proj");
  EXPECT_EQ(up.sharding.unit, Unit::Column) << "of dense layers, of which this model has none";
  const Shard half = shard_of(spec, gate, 1, 2), whole = shard_of(spec, gate, 1, 4);
  EXPECT_EQ(half.experts, (Range{0, 128}));
  EXPECT_EQ(half.rows, (Range{384, 768}));
  EXPECT_EQ(scales_of(half).rows, (Range{3, 6}));
  EXPECT_EQ(whole.experts, (Range{32, 64}));
  EXPECT_EQ(whole.rows, (Range{0, 768}));
  EXPECT_EQ(shard_of(spec, row_named(spec, "{expert}.down_proj"), 1, 2).columns, (Range{384, 768}));
}

TEST(MortarShard, ScalesOfBlocksThatAreNotFull) {
  json config = published("Qwen3-8B-FP8");
  config["hidden_size"] = 1000;
  const ModelSpec spec = spec_of(config);
  for (const TensorRow& row : spec.tensors->rows)
    if (has_row(spec, row)) expect_row_divides(spec, row, 8);
  EXPECT_EQ(scales_of(shard_of(spec, row_named(spec, "q_proj"), 1, 8)).columns, (Range{0, 8}));
}

TEST(MortarShard, TheVocabularyIsPadded) {
  json config = published("Qwen3-8B");
  config["vocab_size"] = 151669;
  const ModelSpec spec = spec_of(config);
  const TensorRow& head = spec.tensors->of(Role::LmHead);
  const Shard first = shard_of(spec, head, 0, 4), last = shard_of(spec, head, 3, 4);
  EXPECT_EQ(first.rows, (Range{0, 37920}));
  EXPECT_EQ(first.padding, 0);
  EXPECT_EQ(last.rows, (Range{3 * 37920, 151669}));
  EXPECT_EQ(last.padding, 4 * 37920 - 151669);
  expect_row_divides(spec, head, 4);
  EXPECT_EQ(shard_of(spec, head, 0, 1).padding, 0);
}

TEST(MortarShard, WhatDoesNotFitIsNamedWithWhatDoes) {
  const auto divide = [](const json& config, std::int64_t ranks) { check_ranks(spec_of(config), ranks); };
  const json large = published("Qwen3-8B"), fp8 = published("Qwen3-4B-FP8");
  const auto with = [](json config, const json& changes) {
    config.update(changes);
    return config;
  };
  EXPECT_NO_THROW(divide(fp8, 4));
  EXPECT_ERROR(RequestError, divide(fp8, 8), "model.layers.0.mlp.gate_proj.weight: rows:", "blocks of 128 (FP8 scales)",
               "among 8 ranks, found 76", "The nearest number of ranks that works is 4");
  EXPECT_NO_THROW(divide(published("Qwen3-4B"), 8)) << "bf16 has no blocks of scales";
  EXPECT_NO_THROW(divide(large, 16)) << "each key head for two ranks";
  EXPECT_ERROR(RequestError, divide(large, 3), "self_attn.q_proj.weight: rows: expected query heads",
               "among 3 ranks, found 32", "works is 2");
  EXPECT_ERROR(RequestError, divide(with(large, {{"num_key_value_heads", 2}, {"num_attention_heads", 12}}), 3),
               "k_proj.weight: rows: expected key heads", "found 2", "works is 2");
  EXPECT_ERROR(RequestError, divide(with(large, {{"intermediate_size", 12296}}), 4),
               "gate_proj.weight: rows: expected blocks of 8 (16 bytes)", "found 1537", "works is 1");
  EXPECT_ERROR(RequestError, divide(with(large, {{"vocab_size", 9}}), 4),
               "embed_tokens.weight: rows: expected at least 8 ids", "found 9", "works is 2");
  json halves = with(published("Qwen3-8B-FP8"), {{"head_dim", 64}});
  EXPECT_NO_THROW(divide(halves, 4));
  EXPECT_ERROR(RequestError, divide(halves, 8), "k_proj.weight: rows: expected key heads of 64 for each of 8 ranks",
               "whole blocks of 128", "found 1", "works is 4");
  const json experts = with(published("Qwen3-30B-A3B"), {{"num_experts", 36}});
  EXPECT_NO_THROW(divide(experts, 4));
  EXPECT_ERROR(RequestError, divide(experts, 8),
               "layers.0.mlp.experts.0.gate_proj.weight: rows: expected whole experts", "width 768", "found 36",
               "works is 4");
  EXPECT_ERROR(RequestError, divide(with(experts, {{"mlp_only_layers", {0, 1}}}), 8),
               "model.layers.2.mlp.experts.0.gate_proj.weight: ");  // the first one that the files have
  EXPECT_ERROR(RequestError, (void)shard_of(spec_of(large), spec_of(large).tensors->rows[0], 2, 2), "rank 2 of 2");
  EXPECT_ERROR(RequestError, divide(large, 0), "of 0");
}

/// The tensors of the files are the rows of the table, each as often as it has layers and experts.
TEST(MortarTensorTable, IsWhatFilesHave) {
  for (const std::string& name : all_published()) {
    const ModelSpec spec = spec_named(name);
    std::uint64_t weights = 0, scales = 0;
    for (const WeightTensor& t : weight_tensors(spec))
      (t.stored == Stored::Scales ? scales : weights) += t.parts.size();
    EXPECT_EQ(weights, least_tensors(spec)) << name;
    EXPECT_EQ(scales > 0, spec.fp8.has_value()) << name;
  }
  const ModelSpec llama = spec_named("Llama-3.1-405B");
  EXPECT_EQ(least_tensors(llama), 126U * 9 + 3);
  EXPECT_EQ(least_tensors(spec_named("Llama-3.2-1B")), 16U * 9 + 2) << "tied";
  EXPECT_EQ(module_name(row_named(spec_named("Qwen3-30B-A3B"), "{expert}.up_proj"), 3, 17),
            "model.layers.3.mlp.experts.17.up_proj");
}

}  // namespace THIS_FILE
}  // namespace mortar::files
