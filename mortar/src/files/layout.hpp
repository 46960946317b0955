// The tensors of a model on one device: which tensors of the files each is made of, and where their elements go. It is
// the architecture's table (tensor_table.hpp) with its layers and experts counted out; verification, memory plan,
// loading and random weights walk through it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "files/tensor_table.hpp"
#include "mortar/plan.hpp"

namespace mortar::files {

/// What is stored: bf16 or FP8 elements, or the f32 scales of FP8 blocks.
enum class Stored : std::uint8_t { Bf16, Fp8, Scales };

/// What a device has of a tensor of the files, which is [file_rows, file_columns], or [file_columns] for norms: some
/// rows of it, and of these as many columns as the device's tensor has.
struct Part {
  std::string name;
  std::int64_t rows;
  std::int64_t first_row, first_column;  ///< of the tensor of the files
  std::int64_t file_rows, file_columns;
  std::int64_t whole_row;  ///< where `first_row` is in the tensor that one device has of the whole model

  bool whole() const { return rows == file_rows && first_column == 0; }
};

/// A tensor on the device, [rows, columns]: the parts one below the other. With experts, those of expert 0 come first;
/// the device's tensor is then [experts, rows / experts, columns].
struct WeightTensor {
  Role role;
  std::int64_t layer;  ///< 0 for those of the model
  Stored stored;
  std::int64_t rows, columns;
  bool vector;           ///< [columns] in the files
  bool of_expert;        ///< a token reads the rows of its experts alone
  std::int64_t experts;  ///< that the device has; 1 for tensors without experts
  std::vector<Part> parts;

  bool is_vector() const { return vector; }
  std::uint64_t element_bytes() const { return stored == Stored::Fp8 ? 1 : stored == Stored::Bf16 ? 2 : 4; }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(rows * columns) * element_bytes(); }
};

/// All tensors of the model on the device, or on that of a rank: every rank has as many, in the same order. Throws
/// ModelError if only some of the projections that become one matrix are excluded from FP8, RequestError if the ranks
/// cannot share the model.
std::vector<WeightTensor> weight_tensors(const ModelSpec& spec, const Ranks& ranks = {});

}  // namespace mortar::files
