// What was measured on a GPU and choices are made by, as data: src/machine/h200.def. docs/machine.md.
#pragma once
#include <array>
#include <cstdint>
#include <span>

namespace tessera::machine {

/// What multiplies: the table of tiles of a product, and their times.
enum class Multiplier : std::uint8_t { TensorCores, Tf32, Fp32, Fp64 };
inline constexpr int kMultipliers = 4;

/// The time of a wave of tiles of a product, in nanoseconds.
struct WaveTime {
  double step = 0;  ///< for each 128 bytes of k
  double edge = 0;  ///< what does not overlap with other waves: the first loads, the epilogue, the stores
  /// The edge of each wave behind the first; 0: as the first. Where a block has one tile, the block behind it on an SM
  /// begins when all is stored; the times of single waves do not show that.
  double next = 0;

  double edges(std::int64_t waves) const { return edge + static_cast<double>(waves - 1) * (next > 0 ? next : edge); }
};
/// The times of a tile of the library's products. Its epilogue loads a tile or not; large tiles take much longer then:
/// what is loaded waits in shared memory, which leaves fewer stages for the operands. Measured for bf16, used for all
/// element types.
struct TileTimes {
  int m = 0, n = 0;  ///< extents of the tile
  WaveTime plain, with_tile;
};

/// Times are in nanoseconds, rates in bytes per nanosecond.
struct Measured {
  const char* gpu = "";           ///< on which it was measured
  double read_rate = 0;           ///< of memory, reads only
  double trigger_block_time = 0;  ///< from the start of one block to that of the next if blocks trigger dependents
  double operand_rate = 0;        ///< at which the operands of a product are read from memory
  double l2_rate = 0;             ///< of values that are written and read again in L2
  double l2_bytes = 0;            ///< that stay in L2 in between
  double launch = 0;              ///< of a product, before the first load and after the last store
  double next_launch = 0;         ///< of one more launch, which adds the partials of a product
  double request = 0;             ///< of an SM, for the request of a line of 128 bytes
  double element_load = 0;        ///< of an SM, for each element of an operand that no tensor copy can load
  double copy_launch = 0;         ///< of one more launch that copies an operand
  double copy_rate = 0;           ///< at which that copy reads and writes
  /// The tiles of each multiplier, in the order of its table (kernels/gemm_table.hpp).
  struct Tiles {
    std::array<std::span<const TileTimes>, kMultipliers> of;
    std::span<const TileTimes> operator[](Multiplier by) const { return of[static_cast<std::size_t>(by)]; }
  } tiles;
};
/// The facts by which choices are made, whatever the GPU is.
const Measured& measured() noexcept;

}  // namespace tessera::machine
