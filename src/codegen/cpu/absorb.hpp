// Conversions that become part of the instruction that reads their result.
#pragma once
#include "codegen/cpu/plan.hpp"

namespace tessera::cpu {

/// An elementwise conversion to f32 with one reader, an elementwise instruction in the same straight line of code,
/// becomes part of that: what is converted is not written. Only where each element is read once.
void absorb_conversions(std::vector<BufferInfo>& buffers, Code& uniform, Code& block);

}  // namespace tessera::cpu
