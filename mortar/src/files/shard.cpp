// A tensor is divided along one axis into equal numbers of units; what does not fit is said in words.
#include "files/shard.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"

namespace mortar::files {
namespace {

using tessera::concat;

/// Rows of the vocabulary, and columns of bf16, are given away by so many: 16 bytes of bf16.
constexpr std::int64_t kEight = 8;

/// How ranks share a tensor.
struct Division {
  Axis axis = Axis::Rows;
  std::int64_t each = 0;    ///< elements of the axis that a rank has; 0: all
  std::int64_t copies = 1;  ///< neighbouring ranks that have the same part
  bool experts = false;     ///< `each` are whole experts
  std::string problem;      ///< why it cannot be divided: "expected ..., found ..."
};

std::int64_t round_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

class Divider {
 public:
  Divider(const ModelSpec& spec, const TensorRow& tensor, std::int64_t ranks)
      : spec_(spec), tensor_(tensor), ranks_(ranks), extent_(axis_extent()) {
    made_.axis = tensor.sharding.axis;
    made_.copies = ranks;
    if (ranks == 1) return;
    switch (tensor.sharding.unit) {
      case Unit::All: break;
      case Unit::Vocabulary: vocabulary(); break;
      case Unit::Head: heads(spec.attention.heads, "query heads"); break;
      case Unit::KvHead: key_heads(); break;
      case Unit::Column: columns(); break;
      case Unit::Expert: experts(); break;
    }
  }
  const Division& made() const { return made_; }

 private:
  std::int64_t axis_extent() const {
    return extent_of(spec_, tensor_.sharding.axis == Axis::Rows ? tensor_.rows : tensor_.columns);
  }
  bool has_blocks() const { return spec_.fp8.has_value() && tensor_.elements == Elements::Linear; }
  void divide(std::int64_t each, std::int64_t copies = 1) { made_.each = each, made_.copies = copies; }
  void reject(const std::string& expected, std::int64_t found) {
    made_.problem = concat(made_.axis == Axis::Rows ? "rows" : "columns", ": expected ", expected, ", found ", found);
  }
  std::string among() const { return concat(" that divide equally among ", ranks_, " ranks"); }

  void vocabulary() {
    const std::int64_t each = round_up((extent_ + ranks_ - 1) / ranks_, kEight);
    if (each * (ranks_ - 1) >= extent_)
      return reject(concat("at least ", kEight, " ids of the vocabulary for each of ", ranks_, " ranks"), extent_);
    divide(each);
  }

  void heads(std::int64_t count, const char* name) {
    if (count % ranks_ != 0) return reject(name + among(), count);
    whole_blocks(count / ranks_, name, 1);
  }
  /// A number of heads for each rank, which in FP8 models must be whole blocks of scales.
  void whole_blocks(std::int64_t count, const char* name, std::int64_t copies) {
    const std::int64_t each = count * spec_.attention.head_dim;
    if (has_blocks() && each % kScaleBlock != 0)
      return reject(concat(name, " of ", spec_.attention.head_dim, " for each of ", ranks_,
                           " ranks that fill whole blocks of ", kScaleBlock, " (FP8 scales)"),
                    count);
    divide(each, copies);
  }

  void key_heads() {
    const std::int64_t count = spec_.attention.kv_heads;
    if (ranks_ <= count) return heads(count, "key heads");
    if (ranks_ % count != 0) return reject(concat("key heads", among(), ", or of which each has equally many"), count);
    whole_blocks(1, "key heads", ranks_ / count);
  }

  void columns() {
    const std::int64_t block = has_blocks() ? kScaleBlock : kEight;
    if (extent_ % (block * ranks_) != 0)
      return reject(concat("blocks of ", block, has_blocks() ? " (FP8 scales)" : " (16 bytes)", among()),
                    extent_ % block == 0 ? extent_ / block : extent_);
    divide(extent_ / ranks_);
  }

  void experts() {
    if (extent_ % (kScaleBlock * ranks_) == 0) return divide(extent_ / ranks_);
    const std::int64_t count = spec_.mlp.experts->count;
    if (count % ranks_ != 0)
      return reject(
          concat("whole experts", among(), " (their width ", extent_, " has no blocks of ", kScaleBlock, " that do)"),
          count);
    made_.experts = true;
    divide(count / ranks_);
  }

  const ModelSpec& spec_;
  const TensorRow& tensor_;
  std::int64_t ranks_, extent_;
  Division made_;
};

bool has_row(const ModelSpec& spec, const TensorRow& row) {
  for (std::int64_t layer = 0; layer < (row.in_layers() ? spec.layers : 1); ++layer)
    if (has_tensor(spec, row, layer)) return true;
  return false;
}

bool fits(const ModelSpec& spec, std::int64_t ranks) {
  return std::all_of(spec.tensors->rows.begin(), spec.tensors->rows.end(), [&](const TensorRow& row) {
    return !has_row(spec, row) || Divider(spec, row, ranks).made().problem.empty();
  });
}

/// The nearest number of ranks that fits; of two, the smaller. One always does.
std::int64_t nearest(const ModelSpec& spec, std::int64_t ranks) {
  for (std::int64_t distance = 1; distance < ranks; ++distance) {
    if (fits(spec, ranks - distance)) return ranks - distance;
    if (fits(spec, ranks + distance)) return ranks + distance;
  }
  return 1;
}

[[noreturn]] void reject(const ModelSpec& spec, const TensorRow& row, const std::string& problem, std::int64_t ranks) {
  std::int64_t layer = 0;
  while (layer + 1 < spec.layers && !has_tensor(spec, row, layer)) ++layer;
  throw RequestError(concat(module_name(row, layer, 0), kWeight, ": ", problem,
                            ". The nearest number of ranks that works is ", nearest(spec, ranks), "."));
}

}  // namespace

Shard shard_of(const ModelSpec& spec, const TensorRow& tensor, std::int64_t rank, std::int64_t ranks) {
  constexpr std::int64_t kMaxRanks = 4096;
  if (ranks < 1 || ranks > kMaxRanks || rank < 0 || rank >= ranks)
    throw RequestError(concat("expected a rank of 1 to ", kMaxRanks, " ranks, found rank ", rank, " of ", ranks));
  const Division division = Divider(spec, tensor, ranks).made();
  if (!division.problem.empty()) reject(spec, tensor, division.problem, ranks);
  Shard shard;
  shard.copies = division.copies;
  if (tensor.in_experts()) shard.experts = {0, extent_of(spec, Extent::Experts)};
  shard.rows = {0, extent_of(spec, tensor.rows)};
  shard.columns = {0, extent_of(spec, tensor.columns)};
  if (division.each == 0) return shard;
  Range& range = division.experts ? shard.experts : division.axis == Axis::Rows ? shard.rows : shard.columns;
  const std::int64_t extent = range.end, part = rank / division.copies;
  range.begin = part * division.each;
  range.end = std::min(extent, range.begin + division.each);
  shard.padding = division.each - range.size();
  return shard;
}

Shard part_of(const ModelSpec& spec, const TensorRow& tensor, const Ranks& ranks) {
  Shard shard = shard_of(spec, tensor, ranks.rank, ranks.ranks);
  if (tensor.role == Role::Embedding) {
    shard.rows = {0, spec.vocabulary}, shard.padding = 0, shard.copies = ranks.ranks;
  } else if (tensor.role == Role::LmHead) {
    shard.rows.begin -= std::exchange(shard.padding, 0);
  } else if (ranks.exact && shard.columns.size() != extent_of(spec, tensor.columns)) {
    const std::int64_t rows = extent_of(spec, tensor.rows), each = rows / ranks.ranks;
    const bool scaled = spec.fp8 && tensor.elements == Elements::Linear;
    const bool divides = rows % (ranks.ranks * (scaled ? kScaleBlock : kEight)) == 0;
    shard.columns = {0, extent_of(spec, tensor.columns)};
    if (divides) shard.rows = {ranks.rank * each, (ranks.rank + 1) * each};
    shard.copies = divides ? 1 : ranks.ranks;
  }
  return shard;
}

Shard scales_of(const Shard& weights) {
  const auto blocks = [](const Range& r) {
    return Range{r.begin / kScaleBlock, (r.end + kScaleBlock - 1) / kScaleBlock};
  };
  Shard scales = weights;
  scales.rows = blocks(weights.rows), scales.columns = blocks(weights.columns);
  return scales;
}

void check_ranks(const ModelSpec& spec, std::int64_t ranks) {
  for (const TensorRow& row : spec.tensors->rows)
    if (has_row(spec, row)) (void)shard_of(spec, row, 0, ranks);
}

}  // namespace mortar::files

namespace mortar {

ModelSpec local_spec(const ModelSpec& model, const Ranks& ranks) {
  if (!ranks.several()) return model;
  ModelSpec local = model;
  local.attention.heads = model.attention.heads / ranks.ranks;
  local.attention.kv_heads = std::max<std::int64_t>(1, model.attention.kv_heads / ranks.ranks);
  local.mlp.intermediate = model.mlp.intermediate / ranks.ranks;
  if (model.mlp.experts) {
    const files::Shard of_expert =
        files::part_of(model, model.tensors->of(files::Role::ExpertDown), {ranks.rank, ranks.ranks});
    local.mlp.experts->intermediate = of_expert.columns.size();
  }
  return local;
}

}  // namespace mortar
