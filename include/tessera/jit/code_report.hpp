// A report about a kernel's compiled code, for the tuner and tools.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera::jit {

/// Names code: a SHA-256 over everything that it depends on.
using CacheKey = std::array<std::byte, 32>;

/// What a kernel is compiled as; forms.cpp has the table, which says what each is for. Where several serve equally, the
/// first is taken.
enum class Form : std::uint8_t {
  Chosen,                ///< as the passes choose
  Registers96,           ///< where registers are limited for the sake of more warps: at most 96 of a thread
  Registers128,          ///< at most 128
  TwoVectors,            ///< where a thread is to have several vectors: at most two, in more warps
  OneVector,             ///< one
  Unlimited,             ///< registers are not limited for the sake of more warps
  TwoBlocksFewerSteps,   ///< with products: for at least two blocks of an SM, loads of at most two steps are in flight
  MoreBlocks,            ///< compiled for as many blocks of an SM as have 64 registers for each thread
  ThreeBlocks,           ///< compiled for at most three blocks of an SM
  TwoBlocks,             ///< two
  OneBlock,              ///< one
  FewerSteps,            ///< loads of at most two steps of a loop are in flight
  PlainStores,           ///< tiles are stored from registers, not through shared memory
  TensorCopies,          ///< every load and store is a tensor copy through shared memory
  MoreWarps,             ///< twice as many warps
  MoreWarpsPlainStores,  ///< both
  OneBlockMoreWarps,     ///< one block on an SM, twice as many warps
  OnePiece,              ///< a block takes one piece
  Views,                 ///< loads and stores through views, without tensor copies
  Pointers,              ///< loads and stores by pointers and masks, without views
  MoreWarpsPointers,     ///< and twice as many warps
  WithoutHints,          ///< warps, CTAs, occupancy and latency are left to the assembler
  RolledMoreWarps,       ///< products without tensor cores are loops over k; twice as many warps
  Fallback,              ///< no software pipelining of products or loads; a block takes one piece
  RolledFallback,        ///< and products without tensor cores are loops over k
  Bare,                  ///< as Fallback; warps, CTAs, occupancy and latency are left to the assembler
  Quick,                 ///< and products are loops; the assembler's lowest effort
};

/// What a cubin declares.
struct CubinResources {
  unsigned registers = 0, stack = 0;  ///< per thread; stack in bytes: registers that are spilled
  std::uint64_t shared = 0;           ///< bytes of static shared memory of a block
  unsigned threads = 0;               ///< of a block
  /// setmaxnreg, by which warps with different roles trade registers: the most that a thread asks for, the fewest that
  /// one keeps, and the number of instructions that give some away. 0: none.
  unsigned asked_registers = 0, kept_registers = 0, releases = 0;
  std::uint64_t instructions = 0;    ///< of the code; without loops each warp executes at most these
  std::uint64_t local_accesses = 0;  ///< loads and stores of spilled registers among them
  bool loops = false;
  std::uint64_t shared_loads = 0;  ///< loads from shared memory (LDS), through which threads exchange elements
  bool copies_ahead = false;       ///< it copies to shared memory while it computes (LDGSTS, UTMALDG)
};
/// Of the last entry of a cubin; what is not there is 0. Safe on any bytes.
CubinResources resources_of(std::span<const std::byte> cubin);
/// True if the block's registers cannot be enough for those that ask for more: they would wait forever. The roles of a
/// block's warps have equally many threads. One of them asks for registers; the others release some, each at least
/// once, and each has at least one group of 128 threads.
inline bool waits_for_registers(const CubinResources& r) noexcept {
  if (r.asked_registers == 0 || r.threads == 0) return false;
  const unsigned groups = r.threads < 128 ? 1 : r.threads / 128;
  const unsigned roles = 1 + r.releases < groups ? 1 + r.releases : groups;
  return r.asked_registers + (roles - 1) * r.kept_registers > roles * r.registers;
}

/// Messages of the assembler about the code.
struct CodeNotes {
  CubinResources resources;
  std::string warnings;            ///< what the assembler said, one message a line
  bool register_pressure = false;  ///< it warned of register pressure: such code is slow
};

/// One specialization of a kernel for one device.
struct CodeReport {
  std::string kernel;            ///< its label
  std::string hash, predicates;  ///< as in TuningRecord
  std::string device;            ///< empty: compiled for a GPU that is not here
  std::string gpu, assembler;
  std::string code;  ///< hash of the bytecode without source lines: equal hashes mean equal code
  CodeNotes notes;   ///< empty on the CPU
  Form form = Form::Chosen;
};

}  // namespace tessera::jit
