// The tensors of a model on one device: which tensors of the files each is made of, and where their elements go. It is
// the architecture's table (tensor_table.hpp) with its layers and experts counted out; verification, memory plan,
// loading and random weights walk through it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "files/tensor_table.hpp"

namespace mortar::files {

/// What is stored: bf16 or FP8 elements, or the f32 scales of FP8 blocks.
enum class Stored : std::uint8_t { Bf16, Fp8, Scales };

/// A tensor of the files: [rows, columns], or [columns] for norms.
struct Part {
  std::string name;
  std::int64_t rows;
};

/// A tensor on the device, [rows, columns]: the parts one below the other. With experts, those of expert 0 come first;
/// the device's tensor is then [experts, rows / experts, columns].
struct WeightTensor {
  Role role;
  std::int64_t layer;  ///< 0 for those of the model
  Stored stored;
  std::int64_t rows, columns;
  bool vector;     ///< [columns] in the files
  bool of_expert;  ///< a token reads the rows of its experts alone
  std::vector<Part> parts;

  bool is_vector() const { return vector; }
  std::uint64_t element_bytes() const { return stored == Stored::Fp8 ? 1 : stored == Stored::Bf16 ? 2 : 4; }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(rows * columns) * element_bytes(); }
};

/// All tensors of the model on the device. Throws ModelError if only some of the projections that become one matrix are
/// excluded from FP8.
std::vector<WeightTensor> weight_tensors(const ModelSpec& spec);

}  // namespace mortar::files
