// Keys and values of a cache whose elements may have 8 bits: how they are multiplied, and the scales of its heads.
//
// An element of a cache of f8e4m3 stands for itself times the scale of its head. The scale of the keys multiplies the
// scores, that of the values the result: neither is applied to elements. With a power of two, which is what a writer
// should take, both are exact, so that the attention is that of the elements times their scales.
#pragma once
#include <type_traits>

#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// Whether elements of C have scales.
template <class C>
inline constexpr bool has_scales = std::is_same_v<C, f8e4m3>;

/// What kernels take for the scales of a cache of C: a tensor, [2, kv_heads], those of the keys and then those of the
/// values; or nothing (then the value means nothing).
template <class C>
using CacheScales = std::conditional_t<has_scales<C>, In<f32, dyn, dyn>, Constant<bool>>;

/// What a cache without scales has in their place.
inline constexpr bool kNoScales = false;

/// The type in which keys and values are multiplied with queries and weights. Every f8e4m3 is an f16, and GPUs convert
/// two at a time; to bf16 there is no such instruction.
template <class C>
using multiplied_t = std::conditional_t<has_scales<C>, f16, C>;

/// The scales of one key head.
template <class C>
struct HeadScales {
  HeadScales(const CacheScales<C>& /*scales*/, const Scalar<i32>& /*head*/) {}
  /// The factor of scores of keys without scales becomes that of scores of the cache's elements.
  Scalar<f32> of_scores(const Scalar<f32>& factor) const { return factor; }
  /// A sum of weighted values.
  template <int... D>
  Tile<f32, D...> of_values(const Tile<f32, D...>& sums) const {
    return sums;
  }
  template <class T, int... D>
  Tile<C, D...> stored_keys(const Tile<T, D...>& keys) const {
    return narrow<C>(keys);
  }
  template <class T, int... D>
  Tile<C, D...> stored_values(const Tile<T, D...>& values) const {
    return narrow<C>(values);
  }
};

template <>
struct HeadScales<f8e4m3> {
  Scalar<f32> key, value;

  HeadScales(const In<f32, dyn, dyn>& scales, const Scalar<i32>& head)
      : key(scales.gather(0, head)), value(scales.gather(1, head)) {}
  Scalar<f32> of_scores(const Scalar<f32>& factor) const { return factor * key; }
  template <int... D>
  Tile<f32, D...> of_values(const Tile<f32, D...>& sums) const {
    return sums * value;
  }
  /// Rounded once; what is too large for the type becomes its largest number.
  template <class T, int... D>
  Tile<f8e4m3, D...> stored_keys(const Tile<T, D...>& keys) const {
    return cast<f8e4m3>(cast<f32>(keys) * (1.0f / key));
  }
  template <class T, int... D>
  Tile<f8e4m3, D...> stored_values(const Tile<T, D...>& values) const {
    return cast<f8e4m3>(cast<f32>(values) * (1.0f / value));
  }
};

}  // namespace tessera::kernels
