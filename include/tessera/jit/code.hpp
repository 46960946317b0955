// Compiled code as a launch takes it.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "tessera/abi/kernel_abi.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/runtime/backend.hpp"

namespace tessera::jit {

/// What one launch runs.
struct Code {
  std::shared_ptr<const runtime::Launchable> work;
  calling::KernelAbi abi;
  std::shared_ptr<const CodeNotes> notes;  ///< null on the CPU
  Form form = Form::Chosen;                ///< a fallback one if the assembler rejected what was chosen
  std::optional<CacheKey> cubin = {};      ///< its name in the disk cache, where it has one
  std::uint64_t predicates = 0;            ///< the obligations that it was made for; launches may fulfil more
};

}  // namespace tessera::jit
