// What data sheets say about GPUs: one row for each compute capability, src/machine/machines.def. No other file has
// numbers of SMs, registers or shared memory.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::machine {

/// Operations per clock and SM, two for a multiply-add; 0: not known.
struct Rates {
  double f64 = 0, f32 = 0, tf32 = 0, f16 = 0, f8 = 0, i8 = 0;
};

/// The GPUs of one compute capability. docs/machine.md.
struct Machine {
  int sm = 0;                      ///< 90 for 9.0
  const char* gpu = "";            ///< the largest of them
  int num_sms = 0;                 ///< of the largest of them
  int shared_kib = 0;              ///< of an SM
  int warps = 0;                   ///< that an SM holds
  int accumulators = 0;            ///< of a thread, from which on more warps are better
  bool clusters = false;           ///< a tile may be computed by the CTAs of a cluster
  double instructions_a_byte = 0;  ///< of a thread, that are issued while memory moves a byte
  Rates rates;
};

/// Warps among which NVIDIA's assembler divides the registers of an SM at least: a block of fewer counts as so many.
inline constexpr int kFewestSharingWarps = 4;
inline constexpr int kRegisters = 65536;       ///< of an SM, every generation since sm_30
inline constexpr int kRegistersAThread = 255;  ///< the most that a thread can have
inline constexpr int kRegisterGranule = 8;     ///< registers of a thread are allocated so many at a time
inline constexpr int kPartitions = 4;          ///< of an SM, each with a scheduler and its share of the registers
inline constexpr int kThreadsAWarp = 32;
inline constexpr int kMaxWarps = 64;          ///< of an SM, of any generation
inline constexpr int kMaxBlocks = 32;         ///< of an SM, of any generation
inline constexpr int kReservedShared = 1024;  ///< bytes of shared memory of each block, by CUDA
/// The SMs of a GPU of which nothing is known.
inline constexpr int kUsualSms = 128;

/// The only generation with warpgroup products (wgmma), whose accumulators are in registers while they are in flight.
inline constexpr int kWarpgroupProducts = 90;
inline constexpr int kTensorCopies = 90;     ///< the first generation with tensor copies (TMA)
inline constexpr int kDependentLaunch = 90;  ///< the first with griddepcontrol (PTX ISA, "Target ISA notes")

/// All rows, by `sm`.
std::span<const Machine> machines() noexcept;
/// The row of `sm`; null if there is none.
const Machine* find_machine(int sm) noexcept;
/// The row of `sm`, else that of the newest generation before it; the first for all before that.
const Machine& machine_of(int sm) noexcept;
/// The rate for an element type by its name ("f16", "bf16"); 0: not known.
double rate_of(const Machine& machine, std::string_view element) noexcept;

/// "sm_90" for 90.
std::string gpu_name(int sm);

/// Blocks of `threads` threads, `registers` a thread and `shared` bytes of shared memory, as a cubin states them, that
/// an SM of compute capability `sm` holds at once; 0: one block does not fit. What is 0 is not known, and no limit.
int resident_blocks(int sm, unsigned registers, unsigned threads, std::uint64_t shared) noexcept;

}  // namespace tessera::machine
