// Advice about what a user could change to make a kernel faster: the last part of `tessera explain`.
#pragma once
#include <string>
#include <vector>

#include "jit/compile/pipeline.hpp"

namespace tessera::jit {

/// One sentence or two for each thing, with the user's line; each thing of a line once. Of the code of one GPU.
std::vector<std::string> advice(const Prepared& prepared);

/// What the largest tile of the kernel takes of the registers, and which piece takes half: for kernels that spill.
/// Empty if it has no tile.
std::string largest_tile(const Prepared& prepared);

/// "softmax.cpp:18"; empty if it is not known.
std::string place(const SourceLocation& where);

}  // namespace tessera::jit
