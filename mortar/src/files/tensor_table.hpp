// The table of an architecture's tensors: a row for each tensor of a layer and of the model. It is the one list of
// tensors: verification of the files, loading, random weights, the memory plan and the shards of ranks are derived
// from it (layout.hpp, shard.hpp). docs/mortar/architectures.md explains its columns.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "mortar/config.hpp"

namespace mortar::files {

/// The members of Weights and LayerWeights.
enum class Role : std::uint8_t {
  // Of the model.
  Embedding,
  FinalNorm,
  LmHead,
  // Of a layer: vectors,
  AttentionNorm,
  MlpNorm,
  QueryNorm,
  KeyNorm,
  // and matrices.
  Qkv,
  Output,
  GateUp,
  Down,
  Router,
  ExpertGateUp,
  ExpertDown
};

/// The sizes of a spec that shapes are made of. A tensor of One row is a vector in the files.
enum class Extent : std::uint8_t {
  One,
  Vocabulary,
  Hidden,
  HeadDim,
  Queries,  ///< heads * head_dim
  Keys,     ///< kv_heads * head_dim
  Intermediate,
  Experts,
  ExpertIntermediate
};
std::int64_t extent_of(const ModelSpec& spec, Extent extent);

/// Linear: FP8 with scales in FP8 checkpoints; else bf16.
enum class Elements : std::uint8_t { Bf16, Linear };

/// Which layers, or models, have a tensor.
enum class Where : std::uint8_t {
  Always,
  DenseLayers,   ///< layers without experts
  ExpertLayers,  ///< layers with experts
  Untied         ///< untied models; the files of a tied one may have it (Checkpoint::verify)
};

/// What is never cut when ranks share a tensor (shard.hpp).
enum class Unit : std::uint8_t {
  All,         ///< each rank has the whole tensor
  Vocabulary,  ///< some rows; the last rank's part is padded
  Head,        ///< a query head
  KvHead,      ///< a key head; ranks beyond their number share one
  Column,      ///< some columns of the intermediate result
  Expert       ///< blocks of each expert's columns, or else whole experts
};
enum class Axis : std::uint8_t { Rows, Columns };
/// How tensor parallelism divides a tensor of the files, [rows, columns].
struct Sharding {
  Axis axis = Axis::Rows;
  Unit unit = Unit::All;
};
/// Ranks have rows (outputs) of the tensor, and compute a part of the outputs.
constexpr Sharding rows_by(Unit unit) { return {Axis::Rows, unit}; }
/// Ranks have columns (inputs) of the tensor, and compute a summand of all outputs.
constexpr Sharding columns_by(Unit unit) { return {Axis::Columns, unit}; }
inline constexpr Sharding kReplicated{};

/// A tensor of the files. Its name is that of the module, without ".weight"; {layer} and {expert} stand for numbers.
/// Rows that follow each other and have the same role are one matrix on the device, one below the other.
struct TensorRow {
  std::string_view name;
  Role role;
  Extent rows, columns;
  Elements elements;
  Where where;
  Sharding sharding;

  bool in_layers() const { return name.find("{layer}") != name.npos; }
  bool in_experts() const { return name.find("{expert}") != name.npos; }
  bool is_vector() const { return rows == Extent::One; }
};

/// Rows of layers follow each other.
struct TensorTable {
  std::span<const TensorRow> rows;

  /// The row of a role that has one row.
  const TensorRow& of(Role role) const;
};

/// Whether the model, and of tensors of layers the layer `layer`, has the tensor.
bool has_tensor(const ModelSpec& spec, const TensorRow& row, std::int64_t layer);
/// The module's name with numbers.
std::string module_name(const TensorRow& row, std::int64_t layer, std::int64_t expert);
/// How many tensors the files of the model have at least: without the scales of FP8.
std::uint64_t least_tensors(const ModelSpec& spec);

/// Names of the weights and of the scales of a module.
inline constexpr std::string_view kWeight = ".weight", kScales = ".weight_scale_inv";

}  // namespace mortar::files
