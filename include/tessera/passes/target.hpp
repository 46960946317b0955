// The machine that code is generated for, as far as passes know it.
#pragma once

namespace tessera::passes {

/// The first bytecode 13.<minor> with gdc_wait_tko, by which a kernel waits for its predecessor.
inline constexpr int kFirstWaitMinor = 4;
/// The first with the `inbounds` attribute of accesses.
inline constexpr int kFirstInboundsMinor = 4;

struct Target {
  int sm = 0;              ///< compute capability, 90 for 9.0; 0: the CPU
  int num_sms = 1;         ///< SMs, or hardware threads of the CPU
  int bytecode_minor = 4;  ///< newest bytecode 13.<minor> that the assembler reads
  bool is_gpu() const noexcept { return sm != 0; }
};

}  // namespace tessera::passes
