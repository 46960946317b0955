// Kernels whose indices a branch bounds, while a loop inside the branch moves them out of these bounds again.
#pragma once
#include <tessera/tessera.hpp>

namespace branch_kernels {

using namespace tessera;

/// y: sums of tiles v - 1 + j of x, j below 8, in two iterations; tiles outside x count as -1.
inline void sum_tiles(Mut<f32, 16> y, In<f32, dyn> x, Scalar<i32> v) {
  auto X = x.tiles(shape<16>, pad(-1.0f));
  Tile<i32> rounds = 0;
  auto sum = zeros<f32, 16>();
  for ([[maybe_unused]] auto round : range(2)) {
    tile_if (v >= 1 && v < X.count(0)) {
      Tile<i32> j = 0;
      for ([[maybe_unused]] auto step : range(8)) {
        auto at = v + j;
        sum = sum + X.load(at - 1);
        j = j + 1;
      }
    }
    rounds = rounds + 1;
  }
  y.store(sum + cast<f32>(rounds) * 0.0f);
}

/// Block 0 stores 7 into the parts v - 1 + j of its piece, j below 16; the piece has 8.
inline void store_parts(Mut<f32, 128> y, Scalar<i32> v) {
  auto parts = y.sub(shape<16>);
  auto [me] = y.index();
  Tile<i32> rounds = 0;
  for ([[maybe_unused]] auto round : range(2)) {
    tile_if (me == 0 && v >= 1 && v < 8) {
      Tile<i32> j = 0;
      for ([[maybe_unused]] auto step : range(16)) {
        auto at = v + j;
        parts.store(at - 1, full<f32, 16>(7.0f));
        j = j + 1;
      }
    }
    rounds = rounds + 1;
  }
  tile_if (rounds < 0) { parts.store(0, zeros<f32, 16>()); }
}

/// The legal twin: the loop inside the branch does not change the index, so the branch bounds it in every iteration.
inline void store_bounded_part(Mut<f32, 128> y, Scalar<i32> v) {
  auto parts = y.sub(shape<16>);
  Tile<i32> rounds = 0;
  for ([[maybe_unused]] auto round : range(2)) {
    tile_if (v >= 1 && v < 8) {
      for ([[maybe_unused]] auto step : range(2)) { parts.store(v - 1, full<f32, 16>(7.0f)); }
    }
    rounds = rounds + 1;
  }
  tile_if (rounds < 0) { parts.store(0, zeros<f32, 16>()); }
}

}  // namespace branch_kernels
