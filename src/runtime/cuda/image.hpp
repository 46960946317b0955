// Validates a cubin before it is passed to the driver: a damaged one can crash inside the driver.
#pragma once
#include <cstddef>
#include <span>
#include <string>

namespace tessera::runtime::cuda {

/// What is wrong with the image, in one clause ("it has no sections"); empty if it is a complete ELF file for NVIDIA
/// GPUs whose headers, sections and segments all lie inside it.
std::string image_fault(std::span<const std::byte> image);

/// True if the code of a valid image waits for the preceding work of its stream (PTX griddepcontrol.wait). Only such a
/// kernel may use programmatic dependent launch.
bool waits_for_predecessor(std::span<const std::byte> image);

}  // namespace tessera::runtime::cuda
