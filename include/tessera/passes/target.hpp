// The machine that code is generated for, as far as passes know it.
#pragma once
#include <cstdint>

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

/// Blocks of `threads` threads, `registers` a thread and `shared` bytes of shared memory, as a cubin states them, that
/// an SM of compute capability `sm` holds at once; 0: one block does not fit. What is 0 is not known, and no limit.
int resident_blocks(int sm, unsigned registers, unsigned threads, std::uint64_t shared) noexcept;

}  // namespace tessera::passes
