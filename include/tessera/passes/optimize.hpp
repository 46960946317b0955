// The passes between a recording whose claims are applied and code generation, as one call.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/ir/operation.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::passes {

/// How an access reaches memory. docs/compiler/choose_access_paths.md says when which is chosen.
enum class AccessPath : std::uint8_t {
  Tma,      ///< a view, with the hardware's tensor copies where the assembler can
  View,     ///< a view, with plain loads and stores
  Pointer,  ///< a tile of pointers, with masks along the axes that are not in bounds
};

/// Whether launches start before their predecessor in the stream has ended (programmatic dependent launch), and whether
/// they tell: their blocks execute PTX griddepcontrol.launch_dependents, which lets the device schedule their successor
/// beside them (docs/compiler/overlap_launches.md). What starts early also waits (griddepcontrol.wait).
enum class Overlap : std::uint8_t {
  Never,
  WhereItPays,  ///< starts early; tells if its blocks have one step and move much, or if the launch asks for it
  Always,       ///< starts early and tells
  WaitOnly,     ///< starts early
};

/// What a tuner or a user overrides. What is not set is decided by the passes.
struct Tuning {
  std::optional<int> warps;          ///< warps per CTA: 1, 2, 4, 8, 16, 32
  std::optional<int> ctas;           ///< CTAs per cluster: 1, 2, 4, 8, 16 (1 below sm_90)
  std::optional<int> occupancy;      ///< CTAs per multiprocessor to compile for: 1 to 32
  std::optional<int> latency;        ///< of loads that feed products, 1 to 10: how far ahead they are issued
  std::optional<int> ahead;          ///< which loads of loops go one iteration ahead: 0 none, 1 narrow ones, 2 all
  int spread = 1;                    ///< times as many warps as would be chosen: 1, 2, 4
  std::optional<int> guards;         ///< 1: code without masks for blocks that lie inside
  std::optional<int> pieces;         ///< neighbouring pieces that a block takes, where it can: 1, 2, 4, 8, 16, 32
  std::optional<AccessPath> access;  ///< of every load and store that may take it
  std::optional<AccessPath> stores;  ///< of every store that may take it; stronger than access
  bool pipeline_mma = true;
  bool split_loops = true;
  bool order_blocks = true;
  bool combine_atomics = true;  ///< equal indices of a tile, where few are likely
  bool unmask = true;           ///< of rows that nearly fill their tile
  bool choose_hints = true;     ///< false: warps, CTAs, occupancy and latency are left to the assembler unless set here
  Overlap overlap = Overlap::WhereItPays;
  bool early_reads = true;  ///< with overlap: the launch says what may be read before the wait, and when to tell
  bool operator==(const Tuning&) const = default;
};

/// The launch word, what a launch knows and the code does not: an i32 that is never negative. Bit n: nothing that may
/// still run writes the n-th tensor of Choices::early_reads. Bit kTellBit: the kernel shall tell (see Overlap), because
/// the next kernel of the stream is expected to gain by being scheduled beside this one. tessera/runtime/cuda.hpp has
/// the same numbers for the launcher; src/jit/cuda_work.cpp asserts that they are equal.
inline constexpr int kTellBit = 30;
inline constexpr std::size_t kMostEarlyReads = kTellBit;  ///< the bits below kTellBit

/// What was decided for a kernel.
struct Choices {
  int warps = 0;      ///< per CTA; 0: left to the assembler
  int ctas = 1;       ///< per cluster: one tile block runs on so many
  int occupancy = 0;  ///< CTAs per multiprocessor to compile for; 0: left to the assembler
  int latency = 0;    ///< of the loads that feed products; 0: left to the assembler
  /// Neighbouring pieces that a block takes: the grid has one block for so many (coarsen_blocks). Block n takes those
  /// from n * pieces on.
  int pieces = 1;
  /// Tile blocks that fill the machine once: the grid of kernels that deal their work out themselves. At least 1.
  int persistent_blocks = 1;
  /// The kernel waits by itself for what precedes it in its stream, so it may be launched before that has ended.
  bool overlaps = false;
  /// The entry has one more argument, the launch word.
  bool launch_word = false;
  /// Entry arguments, each the address of a tensor. Where the launch word has the bits of all of them, the entry reads
  /// these tensors before it waits. At most kMostEarlyReads; empty without a launch word.
  std::vector<int> early_reads = {};
  bool operator==(const Choices&) const = default;
};

/// Optimizes every entry of `module` for `target`, after apply_claims; for the CPU that is clean-up alone. It verifies
/// afterwards and computes the same numbers (in approximate arithmetic: within its bounds); operations of bytecode 13.4
/// come in only if `target` reads them. `tuning` null: defaults. Throws CompileError if an override is out of range.
Choices optimize(ir::Module& module, const Target& target, const Tuning* tuning = nullptr);

}  // namespace tessera::passes
