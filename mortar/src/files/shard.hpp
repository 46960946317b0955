// Which part of a tensor each rank of tensor parallelism has. The table of the architecture says how a tensor is
// divided (tensor_table.hpp, the column "ranks have"); here the units become ranges, for any number of ranks that the
// units allow:
//
//   Unit::Vocabulary  rows in eights: each rank has equally many, the last one with padding
//   Unit::Head        whole query heads, equally many
//   Unit::KvHead      whole key heads, equally many; with more ranks than heads, neighbouring ranks have the same one
//   Unit::Column      equal parts in steps of 8 columns (16 bytes of bf16), in FP8 models of 128 (a block of scales)
//   Unit::Expert      a part of each expert's columns where that is a multiple of 128 (a block of scales, and a tile of
//                     grouped products), else whole experts, equally many
//
// In FP8 models no part of an axis that is divided begins or ends within a block of 128.
#pragma once
#include <cstdint>

#include "files/tensor_table.hpp"
#include "mortar/plan.hpp"

namespace mortar::files {

/// [begin, end)
struct Range {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

/// The part of a tensor of the files that a rank has.
struct Shard {
  Range experts;             ///< of tensors of experts: those that the rank has (all of the ranges below); else empty
  Range rows, columns;       ///< of each
  std::int64_t padding = 0;  ///< rows without elements in the files behind `rows`, so that all ranks have equally many
  std::int64_t copies = 1;   ///< ranks that have exactly this part
};

/// The part of `tensor`, a row of the model's table, that rank `rank` of `ranks` has. Throws RequestError if the tensor
/// cannot be divided so, with its name, dimension and unit and the nearest number of ranks by which the whole model
/// can be divided; and for a rank out of range.
Shard shard_of(const ModelSpec& spec, const TensorRow& tensor, std::int64_t rank, std::int64_t ranks);
/// What a rank has on its device: shard_of, and instead
///   the embedding        the whole tensor, because a token's row is found without the other ranks
///   lm_head              no padding: the last rank's part begins earlier, in the part of the rank before
///   in the exact mode    of tensors that are divided by columns equally many whole rows, in eights or blocks of
///   scales;
///                        all of them where these do not divide equally. Whole experts stay whole.
Shard part_of(const ModelSpec& spec, const TensorRow& tensor, const Ranks& ranks);
/// The part of its FP8 scales, [ceil(rows / 128), ceil(columns / 128)].
Shard scales_of(const Shard& weights);

/// Throws RequestError unless every tensor of the model can be divided.
void check_ranks(const ModelSpec& spec, std::int64_t ranks);

}  // namespace mortar::files
