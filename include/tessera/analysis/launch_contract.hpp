// The launcher's guarantees about an entry's arguments and grid, on which analyses rely.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace tessera::analysis {

enum class ArgRole : std::uint8_t {
  Base,    ///< address of a tensor's first element
  Dim,     ///< an extent, in [0, 2^31 - 1]
  Stride,  ///< distance of neighbours along an axis, in elements; any 64-bit integer
  Value,   ///< a number or a raw pointer: no guarantee
  Blocks,  ///< the number of blocks, an i32 (LaunchContract::blocks_arg)
};

/// One entry argument (one 8-byte slot of the launch).
struct ArgContract {
  ArgRole role = ArgRole::Value;
  int tensor = -1;  ///< number of the tensor parameter it belongs to; -1 for Value and Blocks
  int axis = -1;    ///< of Dim and Stride
};

struct TensorContract {
  int base_arg = 0;  ///< entry argument of the address; dims and strides follow it
  int rank = 0;
  bool written = false;    ///< the kernel may write it
  bool exclusive = false;  ///< no other argument's memory overlaps what it addresses (safe parameters; not unsafe_::)
  bool nonempty = false;   ///< no block runs if one of its extents is 0
};

/// Blocks along any axis of a grid (Tile IR, get_num_tile_blocks: 2^24 - 1).
inline constexpr std::int64_t kMaxGridAxis = (std::int64_t{1} << 24) - 1;
/// Blocks along y or z of a grid (CUDA C++ Programming Guide, technical specifications: 65535).
inline constexpr std::int64_t kMaxBlocksAlongYOrZ = 65535;

struct LaunchContract {
  std::vector<ArgContract> args;  ///< one per entry argument
  std::vector<TensorContract> tensors;
  /// Kernels with one block per piece: blockIdx.x (with wide_grid: y * gridDim.x + x, guarded by the kernel itself)
  /// counts the pieces of this tensor. -1: see blocks_arg.
  int pieces_of_tensor = -1;
  /// Kernels without pieces: the argument that holds how many blocks there are, all along x; from 1 to 2^24 - 1. A
  /// block counts as a piece. -1, where there are no pieces either: any grid of at most 2^24 - 1 blocks along each axis
  /// (Tile IR).
  int blocks_arg = -1;
  std::vector<std::int64_t> piece;  ///< its piece extents, one per axis
  bool wide_grid = false;
  /// Arguments that are equal in every launch: extents that a kernel requires to be the same.
  std::vector<std::pair<int, int>> equal_args;
};

}  // namespace tessera::analysis
