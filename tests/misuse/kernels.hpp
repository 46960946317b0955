// The kernel that most rows of misuse launch.
#pragma once
#include "tessera/tessera.hpp"

namespace tessera::misuse {

/// y = a x + y.
template <int B>
void saxpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}

}  // namespace tessera::misuse
