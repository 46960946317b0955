// Runs a recording through the normal way of a launch on the default device: specialization, passes, the assembler, the
// disk cache, the stream.
#pragma once
#include <span>
#include <vector>

#include "tessera/codegen/cpu/program.hpp"
#include "tessera/jit/kernel.hpp"

namespace tessera::generate {

/// `initial`: the memory of the launch. `slots`: its arguments, with addresses counted from 0 for the slots in
/// `addresses`. Returns the memory as the launch has left it.
std::vector<std::byte> run_on_device(jit::Kernel& kernel, std::span<const std::byte> initial,
                                     std::vector<std::uint64_t> slots, std::span<const std::size_t> addresses,
                                     cpu::Grid grid);

}  // namespace tessera::generate
