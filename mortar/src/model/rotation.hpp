// Rotary position embedding: the angles of a step's tokens, and heads that are normalised and rotated by them.
#pragma once
#include <type_traits>

#include "model/decoder.hpp"
#include "tessera/lang/lang.hpp"

namespace mortar {

using namespace tessera;  // NOLINT: the language of kernels

/// x rounded to bf16, as f32.
template <int... D>
Tile<f32, D...> rounded(const Tile<f32, D...>& x) {
  return cast<f32>(cast<bf16>(x));
}

/// What kernels take for the weights of the norm of query heads or key heads, [2, head_dim / 2]: a tensor, or nothing
/// in models whose heads have no norms (then the value means nothing).
using HeadNorm = In<bf16, dyn, dyn>;
using NoNorm = Constant<bool>;
template <class Norm>
inline constexpr bool has_norm = std::is_same_v<Norm, HeadNorm>;

/// Cosine and sine of every token's angles, [tokens, 2, head_dim / 2], times the factor of the rotation: once a step,
/// because all layers rotate by the same. Strict: rounded.
template <int Tokens, int Half>
void rotation_angles(Mut<f32, Tokens, 2, Half> angles, In<i32, dyn> positions, In<f32, dyn> frequencies,
                     Scalar<f32> factor, Constant<bool> strict) {
  require(angles.dim(2) == frequencies.dim(0) && frequencies.dim(0) <= Half, "half a head must fit the tile");
  auto [t, zero, zero1] = angles.index();
  auto position = reshape(cast<f32>(positions.load_at(shape<Tokens>, t * Tokens)), shape<Tokens, 1, 1>);
  auto angle = position * reshape(frequencies.load_at(shape<Half>, 0), shape<1, 1, Half>);
  auto both = cat(cos(angle, precise), sin(angle, precise), axis<1>) * factor;
  if (strict) both = rounded(both);
  angles.store(both);
}

/// Heads of tokens, normalised (if they have a norm) and rotated: features [slice * S, slice * S + S) of both halves of
/// Heads heads from `head` on, for the Tokens tokens from `first` on.
template <int Tokens, int S, int Half>
struct HeadRotation {
  Tile<f32, Tokens, 1, 1, S> cosine, sine;
  Scalar<i32> first, slice;
  Scalar<f32> eps;
  bool strict;

  /// `angles`: from rotation_angles.
  HeadRotation(const In<f32, dyn, dyn, dyn>& angles, const Scalar<i32>& first_token, const Scalar<i32>& slice_number,
               const Scalar<f32>& norm_eps, bool strict_rounding)
      : cosine(reshape(angles.load_at(shape<Tokens, 1, S>, first_token, 0, slice_number * S), shape<Tokens, 1, 1, S>)),
        sine(reshape(angles.load_at(shape<Tokens, 1, S>, first_token, 1, slice_number * S), shape<Tokens, 1, 1, S>)),
        first(first_token),
        slice(slice_number),
        eps(norm_eps),
        strict(strict_rounding) {}
  template <int Heads, class Norm>
  Tile<bf16, Tokens, Heads, 2, S> heads(const In<bf16, dyn, dyn, dyn, dyn>& qkv, const Norm& weight,
                                        const Scalar<i32>& head) const {
    auto x = normed<Heads>(qkv, weight, head);
    auto a = extract(x, shape<Tokens, Heads, 1, S>, 0, 0, 0, 0), b = extract(x, shape<Tokens, Heads, 1, S>, 0, 0, 1, 0);
    auto ac = a * cosine, bs = b * sine, bc = b * cosine, as = a * sine;
    if (strict) ac = rounded(ac), bs = rounded(bs), bc = rounded(bc), as = rounded(as);
    return cast<bf16>(cat(ac - bs, bc + as, axis<2>));
  }

 private:
  template <int Heads, class Norm>
  Tile<f32, Tokens, Heads, 2, S> normed(const In<bf16, dyn, dyn, dyn, dyn>& qkv, const Norm& weight,
                                        const Scalar<i32>& head) const {
    auto loaded = [&] { return cast<f32>(qkv.load_at(shape<Tokens, Heads, 2, S>, first, head, 0, slice * S)); };
    if constexpr (has_norm<Norm>) {
      auto row = cast<f32>(qkv.load_at(shape<Tokens, Heads, 2, Half>, first, head, 0, 0));
      auto squares = sum(sum(row * row, axis<3>), axis<2>);
      auto scale = rsqrt(squares / cast<f32>(qkv.dim(3) * 2) + eps);
      auto w = reshape(cast<f32>(weight.load_at(shape<2, S>, 0, slice * S)), shape<1, 1, 2, S>);
      auto x = loaded() * scale;
      return strict ? rounded(rounded(x) * w) : x * w;
    } else {
      return loaded();
    }
  }
};

}  // namespace mortar
