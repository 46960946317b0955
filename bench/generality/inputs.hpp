// The inputs of a case: tensors whose elements depend on a seed and their offsets, so that a check can compute any of
// them again at any size.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "gpu/harness.hpp"

namespace generality {

using namespace tessera;
using Size = std::int64_t;

/// Steps: number i lies in [i * high, (i + 1) * high), so the numbers never decrease: the limits of segments.
enum class Fill { Normal, Uniform, Whole, Steps };

/// The random bits of integer inputs (the finalizer of MurmurHash3, 32 bits): cheap enough for the host to compute half
/// a billion of them.
constexpr std::uint32_t mixed(std::uint32_t h) {
  h ^= h >> 16;
  h *= 0x85EBCA6Bu;
  h ^= h >> 13;
  h *= 0xC2B2AE35u;
  return h ^ (h >> 16);
}

template <class T, int B>
void fill_uniform(Mut<T, B> y, Scalar<u64> seed, Scalar<f32> low, Scalar<f32> high) {
  auto t = low + (high - low) * random::uniform<f32>(seed, y.offsets());
  if constexpr (std::is_same_v<T, f32>)
    y.store(t);
  else
    y.store(cast<T>(t));
}

template <class T, int B>
void fill_whole(Mut<T, B> y, Scalar<u32> seed, Scalar<u32> low, Scalar<u32> count) {
  auto h = cast<u32>(y.offsets()) * 0x9E3779B1u + seed;
  h = h ^ (h >> 16u);
  h = h * 0x85EBCA6Bu;
  h = h ^ (h >> 13u);
  h = h * 0xC2B2AE35u;
  h = h ^ (h >> 16u);
  y.store(cast<T>(cast<i32>(low + h % count)));
}

template <class T, int B>
void fill_steps(Mut<T, B> y, Scalar<u32> seed, Scalar<i32> step) {
  auto at = y.offsets();
  auto h = cast<u32>(at) * 0x9E3779B1u + seed;
  y.store(cast<T>(cast<i32>(at) * step + cast<i32>((h ^ (h >> 15u)) % cast<u32>(step))));
}

/// An input: its extents, and how its elements depend on a seed and their offsets.
template <class T, int R>
struct Input {
  std::array<Size, R> dims{};
  Fill fill = Fill::Normal;
  std::uint64_t seed = 1;
  double low = 0, high = 1;  ///< of Uniform; of Whole, `high` excluded; Steps: `high`

  /// What at() has computed of a small input.
  std::shared_ptr<std::vector<double>> known = std::make_shared<std::vector<double>>();

  Size count() const {
    Size n = 1;
    for (const Size d : dims) n *= d;
    return n;
  }
  Tensor<T, R> make() const {
    auto line = empty<T>({count()}).sync();
    constexpr int kPiece = 1024;
    if (fill == Fill::Whole) {
      const auto range = static_cast<u32>(static_cast<i32>(high) - static_cast<i32>(low));
      kernel<fill_whole<T, kPiece>>(mut(line), static_cast<u32>(seed), static_cast<u32>(static_cast<i32>(low)), range)
          .sync();
    } else if constexpr (std::is_same_v<T, i32>) {
      kernel<fill_steps<T, kPiece>>(mut(line), static_cast<u32>(seed), static_cast<i32>(high)).sync();
    } else if constexpr (element_class<T> == ElementClass::Float) {
      if (fill == Fill::Normal)
        kernel<gpu_bench::fill_normal<T, kPiece>>(mut(line), seed, 1.0f).sync();
      else
        kernel<fill_uniform<T, kPiece>>(mut(line), seed, static_cast<float>(low), static_cast<float>(high)).sync();
    }
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return std::move(line).reshape({dims[I]...});
    }(std::make_index_sequence<static_cast<std::size_t>(R)>{});
  }

  /// The element at an offset, as the kernels see it.
  double at(Size offset) const {
    constexpr Size kKept = 1 << 20;
    if (count() > kKept) return computed(offset);
    if (known->empty()) {
      for (Size i = 0; i < count(); ++i) known->push_back(computed(i));
    }
    return (*known)[static_cast<std::size_t>(offset)];
  }
  double computed(Size offset) const {
    if (fill == Fill::Whole) {
      const auto range = static_cast<std::uint32_t>(static_cast<std::int32_t>(high) - static_cast<std::int32_t>(low));
      const std::uint32_t h =
          mixed(static_cast<std::uint32_t>(offset) * 0x9E3779B1u + static_cast<std::uint32_t>(seed));
      const auto value = static_cast<std::int32_t>(low) + static_cast<std::int32_t>(h % range);
      return std::is_same_v<T, bool> ? (value != 0 ? 1.0 : 0.0) : static_cast<double>(value);
    }
    if (fill == Fill::Steps) {
      const auto step = static_cast<std::uint32_t>(high);
      const std::uint32_t h = static_cast<std::uint32_t>(offset) * 0x9E3779B1u + static_cast<std::uint32_t>(seed);
      return static_cast<double>(offset * static_cast<Size>(step) + static_cast<Size>((h ^ (h >> 15)) % step));
    }
    if constexpr (element_class<T> == ElementClass::Float) {
      if (fill == Fill::Normal) return gpu_bench::normal_input<T>(seed, offset);
      const auto a = static_cast<float>(low), b = static_cast<float>(high);
      const float t = a + (b - a) * uniform_at<f32>(seed, static_cast<std::uint64_t>(offset));
      return static_cast<double>(T(t));
    } else {
      throw std::logic_error("integers are made as Fill::Whole");
    }
  }
  /// The element at an index; 0 outside.
  template <class... I>
    requires(sizeof...(I) == R)
  double operator()(I... index) const {
    const std::array<Size, R> at_index{static_cast<Size>(index)...};
    Size offset = 0;
    for (std::size_t a = 0; a < static_cast<std::size_t>(R); ++a) {
      if (at_index[a] < 0 || at_index[a] >= dims[a]) return 0;
      offset = offset * dims[a] + at_index[a];
    }
    return at(offset);
  }
};

template <class T, class... D>
auto normal(std::uint64_t seed, D... dims) {
  return Input<T, sizeof...(D)>{{static_cast<Size>(dims)...}, Fill::Normal, seed};
}
template <class T, class... D>
auto uniform(std::uint64_t seed, double low, double high, D... dims) {
  return Input<T, sizeof...(D)>{{static_cast<Size>(dims)...}, Fill::Uniform, seed, low, high};
}
/// Integers from `low` to `high` - 1.
template <class T, class... D>
auto whole(std::uint64_t seed, Size low, Size high, D... dims) {
  return Input<T, sizeof...(D)>{
      {static_cast<Size>(dims)...}, Fill::Whole, seed, static_cast<double>(low), static_cast<double>(high)};
}

/// n limits of segments of `step` elements on average.
inline Input<i32, 1> steps(std::uint64_t seed, Size step, Size n) {
  return {{n}, Fill::Steps, seed, 0, static_cast<double>(step)};
}

}  // namespace generality
