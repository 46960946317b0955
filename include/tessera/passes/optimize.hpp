// Runs the passes on a module as one call, and defines what tuning can override and what the passes report.
#pragma once
#include <cstdint>
#include <optional>

#include "tessera/abi/kernel_abi.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/passes/features.hpp"
#include "tessera/passes/target.hpp"

namespace tessera::passes {

/// How an access reaches memory. docs/compiler/choose_access_paths.md says when which is chosen.
enum class AccessPath : std::uint8_t {
  Tma,      ///< a view, with the hardware's tensor copies where the assembler can
  View,     ///< a view, with plain loads and stores
  Pointer,  ///< a tile of pointers, with masks along the axes that are not in bounds
};

/// Whether a kernel may be launched with programmatic dependent launch (PDL), and whether it triggers its dependents:
/// its blocks execute PTX griddepcontrol.launch_dependents, which lets the device schedule the next kernel while this
/// one runs (docs/compiler/overlap_launches.md). A kernel with PDL always waits (griddepcontrol.wait).
enum class Overlap : std::uint8_t {
  Never,
  WhereItPays,  ///< PDL; triggers if its blocks have no loop and move much data, or if the launch flags ask for it
  Always,       ///< PDL; triggers
  WaitOnly,     ///< PDL; does not trigger
};

/// Choices that a tuner or a user overrides. The passes decide the others.
struct Tuning {
  std::optional<int> warps;          ///< warps per CTA: 1, 2, 4, 8, 16, 32
  std::optional<int> ctas;           ///< CTAs per cluster: 1, 2, 4, 8, 16 (1 below sm_90)
  std::optional<int> occupancy;      ///< CTAs per SM to compile for: 1 to 32; 0: left to the assembler
  std::optional<int> latency;        ///< of loads that feed products, 1 to 10: their prefetch distance
  std::optional<int> min_occupancy;  ///< bound of the occupancy of a kernel with products: 1 to 32
  std::optional<int> max_occupancy;  ///< bound of the chosen occupancy: 1 to 32
  std::optional<int> max_latency;    ///< bound of the chosen latency: 1 to 10
  std::optional<int> roll;           ///< products without tensor cores as loops over k: 1 all, 0 none
  std::optional<int> ahead;          ///< which loads of loops are prefetched by an iteration: 0 none, 1 narrow, 2 all
  int spread = 1;                    ///< multiplies the chosen number of warps: 1, 2, 4
  std::optional<int> registers;      ///< of a thread at most, where it has several vectors: 1 to 255
  std::optional<int> crowd;    ///< registers of a thread: an SM gets as many blocks as have them, if that is left open
  std::optional<int> vectors;  ///< most vectors of a thread where it is to have several: 1, 2, 4, 8
  std::optional<int> early_tiles;    ///< iterations of a loop that load tiles before the wait: 0 to kMaxEarlyTiles
  std::optional<int> guards;         ///< 1: unmasked code for blocks that lie inside; 0: never
  std::optional<int> pieces;         ///< neighbouring pieces per block, where possible: 1, 2, 4, 8, 16, 32
  std::optional<AccessPath> access;  ///< of every load and store that supports it
  std::optional<AccessPath> stores;  ///< of every store that supports it; overrides access
  bool pipeline_mma = true;
  bool split_loops = true;
  bool order_blocks = true;
  bool combine_atomics = true;   ///< equal indices of a tile, where few are likely
  bool unmask = true;            ///< of rows that nearly fill their tile
  bool split_tiles = true;       ///< of rows that end within five or six eighths of their tile
  bool match_widths = true;      ///< of accesses whose tiles are combined
  bool widen_products = true;    ///< products smaller than tensor cores multiply are widened
  bool regions_to_tiles = true;  ///< regions that are whole tiles are loaded through views
  bool order_gathers = true;     ///< along the last axis, where nothing is known of their addresses
  bool grid_axes = true;         ///< a grid of several axes instead of divisions
  bool limit_registers = true;   ///< of kernels bound by instructions, so that more of their warps are resident
  bool choose_hints = true;  ///< false: warps, CTAs, occupancy and latency are left to the assembler unless set here
  Overlap overlap = Overlap::WhereItPays;
  bool early_reads = true;  ///< with overlap: launch flags say what may be read before the wait, and whether to trigger
  bool operator==(const Tuning&) const = default;
};

inline constexpr int kMaxEarlyTiles = 8;  ///< of Tuning::early_tiles

/// What was decided for a kernel.
struct Choices {
  int warps = 0;                  ///< per CTA; 0: left to the assembler
  int ctas = 1;                   ///< per cluster: one tile block runs on that many
  int occupancy = 0;              ///< CTAs per SM to compile for; 0: left to the assembler
  int latency = 0;                ///< of the loads that feed products; 0: left to the assembler
  bool limits_registers = false;  ///< the occupancy limits registers, so that more warps are resident
  /// So many iterations of a loop read their tiles of the tensor abi.early_reads[0] early. 0: no loop is peeled.
  int early_tiles = 0;
  Features features = {};  ///< of the kernel, when its hints were chosen
  /// What the launch has to know. Passes leave the entry's name and number of arguments to who makes code of the
  /// module.
  calling::KernelAbi abi = {};
  bool operator==(const Choices&) const = default;
};

/// Optimizes every entry of `module` for `target`, after apply_claims; for the CPU that is clean-up alone. Nothing is
/// known of the launch, so what passes would have to claim is not used (Work::certifier). The module verifies
/// afterwards and computes the same numbers (in approximate arithmetic: within its bounds); operations of bytecode 13.4
/// come in only if `target` reads them. `tuning` null: defaults. Throws CompileError if an override is out of range.
Choices optimize(ir::Module& module, const Target& target, const Tuning* tuning = nullptr);

}  // namespace tessera::passes
