// One call of NVIDIA's assembler, without any cache.
#pragma once
#include <cstddef>
#include <span>
#include <string>

#include "tessera/codegen/tileiras/tileiras.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/jit/disk_cache.hpp"

namespace tessera::jit {

/// The cubin of bytecode that this assembler reads. Errors as make_cubin(), each with the kernel's name.
CachedCubin assemble(std::span<const std::byte> bytecode, const std::string& gpu, const std::string& label,
                     const tileiras::Assembler& assembler, const Effort& effort);

}  // namespace tessera::jit
