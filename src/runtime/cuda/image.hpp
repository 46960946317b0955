// Is this a cubin? Asked before the driver sees it: a damaged one can crash inside the driver instead of being refused.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace tessera::runtime::cuda {

/// What is wrong with the image, in one clause ("it ends in the middle of ..."); empty if it is a whole ELF file for
/// NVIDIA GPUs whose headers, sections and segments all lie inside it.
std::string image_fault(std::span<const std::byte> image);

/// True if the code of a whole image waits for the work before it in its stream (PTX griddepcontrol.wait). Only such a
/// kernel may be launched before that work has ended.
bool waits_for_predecessor(std::span<const std::byte> image);

}  // namespace tessera::runtime::cuda
