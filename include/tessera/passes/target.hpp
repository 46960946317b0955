// What passes may know about the machine that the code is for.
#pragma once

namespace tessera::passes {

/// The first bytecode 13.<minor> in which a kernel can wait for its predecessor by itself (gdc_wait_tko).
inline constexpr int kFirstWaitMinor = 4;
/// The first in which an access can be said to be in bounds.
inline constexpr int kFirstInboundsMinor = 4;

struct Target {
  int sm = 0;               ///< compute capability, 90 for 9.0; 0: the CPU
  int multiprocessors = 1;  ///< SMs, or hardware threads of the CPU
  int bytecode_minor = 4;   ///< newest bytecode 13.<minor> that the assembler reads
  bool is_gpu() const noexcept { return sm != 0; }
};

}  // namespace tessera::passes
