// Tensors of random numbers: counter-based (Philox 4x32-10), so the element at row-major offset i depends only on the
// seed and i and equals random::uniform<T>(seed, offset) or random::normal<T>(seed, offset) in a kernel, on any device.
#pragma once
#include "tessera/host/create.hpp"

namespace tessera {

namespace detail {
void fill_uniform(const Recipe&, std::byte*, std::int64_t);
void fill_normal(const Recipe&, std::byte*, std::int64_t);

template <class T>
inline constexpr bool random_float =
    std::is_same_v<T, f64> || std::is_same_v<T, f32> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
template <class T>
inline constexpr bool random_word = std::is_same_v<T, u32> || std::is_same_v<T, u64>;
}  // namespace detail

namespace random {

/// Uniform in [0, 1) (f64, f32, f16, bf16), or over all values (u32, u64).
template <Element T, int R>
Op<Tensor<T, R>> uniform(const Dims<R>& dims, std::uint64_t seed, SourceLocation where = SourceLocation::current()) {
  static_assert(
      detail::random_float<T> || detail::random_word<T>,
      "random::uniform makes f64, f32, f16, bf16, u32 and u64: cast<T>() the result for another element type");
  return detail::make<T>(dims, detail::recipe<T>("random::uniform", detail::fill_uniform, where, 0, 0, seed));
}
template <Element T, std::size_t N>
detail::BracedTensor<T, N> uniform(BracedDims<N> dims, std::uint64_t seed,
                                   SourceLocation where = SourceLocation::current()) {
  return uniform<T>(detail::BracedRank<N>(dims, where), seed, where);
}

/// Standard normal: mean 0, variance 1 (f64, f32, f16, bf16).
template <Element T, int R>
Op<Tensor<T, R>> normal(const Dims<R>& dims, std::uint64_t seed, SourceLocation where = SourceLocation::current()) {
  static_assert(detail::random_float<T>,
                "random::normal makes f64, f32, f16 and bf16: cast<T>() the result for another element type");
  return detail::make<T>(dims, detail::recipe<T>("random::normal", detail::fill_normal, where, 0, 0, seed));
}
template <Element T, std::size_t N>
detail::BracedTensor<T, N> normal(BracedDims<N> dims, std::uint64_t seed,
                                  SourceLocation where = SourceLocation::current()) {
  return normal<T>(detail::BracedRank<N>(dims, where), seed, where);
}

}  // namespace random
}  // namespace tessera
