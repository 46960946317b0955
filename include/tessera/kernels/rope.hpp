// Rotary position embedding (Su et al. 2021): pairs of features are rotated by an angle that grows with the position.
//
//   x = kernels::rope(std::move(x), positions).sync();                                  // halves, as in Qwen and Llama
//   x = kernels::rope(std::move(x), positions, {.interleaved = true, .base = 1e6f}).sync();
//
// x is [tokens, heads, d] with d a power of two; positions (i32) one for each token. Half-split pairs feature i with
// i + d / 2, interleaved 2 i with 2 i + 1; pair i turns by position * base^(-2 i / d).
#pragma once
#include <cmath>

#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

struct RopeOptions {
  bool interleaved = false;
  float base = 10000;
};

template <bool Interleaved, class T, int D>
void rotate_pairs(Mut<T, 1, 1, D> x, In<i32, dyn> positions, Scalar<f32> log2_base) {
  require(x.dim(2) == D, "d must be the extent of the piece");
  auto [token, head, zero] = x.index();
  constexpr int H = D / 2;
  auto pair = cast<f32>(iota<i32, H>());
  auto angle = cast<f32>(positions.gather(token)) * exp2(pair * (-2.0f / D) * log2_base, precise);
  auto c = cos(angle, precise), s = sin(angle, precise);
  auto t = reshape(widen(x.load()), shape<D>);
  if constexpr (Interleaved) {
    auto pairs = reshape(t, shape<H, 2>);
    auto a = reshape(extract(pairs, shape<H, 1>, 0, 0), shape<H>),
         b = reshape(extract(pairs, shape<H, 1>, 0, 1), shape<H>);
    auto turned = cat(reshape(a * c - b * s, shape<H, 1>), reshape(a * s + b * c, shape<H, 1>), axis<1>);
    x.store(narrow<T>(reshape(turned, shape<1, 1, D>)));
  } else {
    auto a = extract(t, shape<H>, 0), b = extract(t, shape<H>, 1);
    x.store(narrow<T>(reshape(cat(a * c - b * s, a * s + b * c, axis<0>), shape<1, 1, D>)));
  }
}

/// x with every head of every token rotated, in x's memory. Throws ShapeError for extents that do not fit.
template <Element T, Operand P>
Op<Tensor<T, 3>> rope(TESSERA_ARG_LIVE Tensor<T, 3>&& x, const P& positions, const RopeOptions& options = {},
                      SourceLocation where = SourceLocation::current()) {
  static_assert(std::is_same_v<element_of<P>, i32> && P::rank == 1, "positions must be i32 of rank 1");
  const std::int64_t d = x.dim(2, where);
  expect_shape(d >= 16 && d <= 256 && (d & (d - 1)) == 0, "rope", "x", x, "d is 16, 32, 64, 128 or 256", where);
  expect_dim("rope", "positions", positions, 0, x.dim(0, where), where);
  if (!(options.base > 0 && std::isfinite(options.base)))
    throw ShapeError("kernels::rope: base must be positive and finite", where);
  const float log2_base = std::log2(options.base);
  const auto launch = with_constant<2>(options.interleaved, [&](auto interleaved) {
    return with_extent<16, 256>(d, [&](auto n) { return kernel<rotate_pairs<interleaved != 0, T, n>>.launcher(); });
  });
  return launch(std::move(x), positions.view(where), log2_base, where);
}

}  // namespace tessera::kernels
