// Is this a cubin? Asked before the driver sees it: a damaged one can crash inside the driver instead of being refused.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace tessera::runtime::cuda {

/// What is wrong with the image, in one clause ("it ends in the middle of ..."); empty if it is a whole ELF file for
/// NVIDIA GPUs whose headers, sections and segments all lie inside it.
std::string image_fault(std::span<const std::byte> image);

}  // namespace tessera::runtime::cuda
