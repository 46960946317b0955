// The kernels that the tests of launches on a fake GPU share: plain, with a check, and persistent.
#pragma once
#include <tessera/tessera.hpp>

namespace cuda_kernels {

using namespace tessera;

inline void twice(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) * 2.0f); }

inline void careful(Mut<f32, 64> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  check(t >= 0.0f, "x must not be negative");
  y.store(t + t);
}

inline void persistent(MutTiles<f32, 64> y) {
  for (auto tile : y) tile.store(full<f32, 64>(3.0f));
}

}  // namespace cuda_kernels
