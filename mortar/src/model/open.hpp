// What load() checks of a device before it plans memory.
#pragma once
#include "mortar/config.hpp"
#include "mortar/plan.hpp"

namespace mortar {

/// `sm`: of a GPU, 10 * major + minor. Throws RequestError if it has no 8-bit floats and the weights or the KV cache
/// need them.
void check_8_bit_floats(int sm, const ModelSpec& model, KvType kv_type);

}  // namespace mortar
