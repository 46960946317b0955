// Philox over plain numbers: the reference of the kernels' generator and the host's fills.
#include "tessera/base/philox.hpp"

#include <bit>
#include <cmath>
#include <type_traits>

namespace tessera {

namespace {

/// Plain C++ numbers as the arithmetic of philox.hpp. Integers wrap.
struct HostMath {
  using Word = std::uint32_t;
  template <class F>
  using Float = F;
  template <class F>
  using Int = std::conditional_t<sizeof(F) == 4, std::int32_t, std::int64_t>;

  Word word(std::uint32_t v) const { return v; }
  Word mul(Word x, Word y) const { return x * y; }
  Word mul_high(Word x, Word y) const { return static_cast<Word>((std::uint64_t{x} * y) >> 32); }
  Word bit_xor(Word x, Word y) const { return x ^ y; }

  template <class I>
  static I wrap(std::uint64_t v) {
    return static_cast<I>(v);
  }
  template <class I>
  I add(I x, I y) const {
    return wrap<I>(static_cast<std::uint64_t>(x) + static_cast<std::uint64_t>(y));
  }
  template <class I>
  I sub(I x, I y) const {
    return wrap<I>(static_cast<std::uint64_t>(x) - static_cast<std::uint64_t>(y));
  }
  template <class I>
  I shift_left(I x, int n) const {
    return wrap<I>(static_cast<std::uint64_t>(x) << n);
  }
  template <class I>
  I shift_right_signed(I x, int n) const {
    return x >> n;
  }

  template <class F>
  Int<F> integer(std::int64_t v) const {
    return static_cast<Int<F>>(v);
  }
  template <class F>
  Int<F> bits_of(F x) const {
    return std::bit_cast<Int<F>>(x);
  }
  template <class F>
  F from_bits(Int<F> x) const {
    return std::bit_cast<F>(x);
  }
  template <class F>
  F to_real(Int<F> x) const {
    return static_cast<F>(x);
  }
  template <class F>
  F real(double v) const {
    return static_cast<F>(v);
  }
  template <class F>
  Int<F> bit(Int<F> x, int n) const {
    return (x >> n) & 1;
  }
  template <class F>
  bool bit_set(Int<F> x, int n) const {
    return bit<F>(x, n) != 0;
  }
  template <class F>
  Int<F> top_bits(Word w0, Word w1, int bits) const {
    if constexpr (sizeof(F) == 4) {
      return static_cast<std::int32_t>(w0 >> (32 - bits));
    } else {
      return static_cast<std::int64_t>(((std::uint64_t{w0} << 32) | w1) >> (64 - bits));
    }
  }

  template <class F>
  F add_real(F x, F y) const {
    return x + y;
  }
  template <class F>
  F sub_real(F x, F y) const {
    return x - y;
  }
  template <class F>
  F mul_real(F x, F y) const {
    return x * y;
  }
  template <class F>
  F div(F x, F y) const {
    return x / y;
  }
  template <class F>
  F fma(F x, F y, F z) const {
    return std::fma(x, y, z);
  }
  template <class F>
  F sqrt(F x) const {
    return std::sqrt(x);
  }
  template <class F>
  F neg(F x) const {
    return -x;
  }
  template <class F>
  F choose(bool c, F x, F y) const {
    return c ? x : y;
  }
};

}  // namespace

std::array<std::uint32_t, 4> random_words(std::uint64_t seed, std::uint64_t offset) {
  HostMath a;
  return detail::philox(a, {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32), 0, 0},
                        {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
}

template <class T>
T uniform_at(std::uint64_t seed, std::uint64_t offset) {
  HostMath a;
  const auto words = random_words(seed, offset);
  if constexpr (std::is_same_v<T, u32>) {
    return words[0];
  } else if constexpr (std::is_same_v<T, u64>) {
    return (u64{words[0]} << 32) | words[1];
  } else if constexpr (std::is_same_v<T, f16>) {
    return f16(static_cast<float>(words[0] >> 21) * 0x1p-11F);
  } else if constexpr (std::is_same_v<T, bf16>) {
    return bf16(static_cast<float>(words[0] >> 24) * 0x1p-8F);
  } else {
    return detail::uniform_from<T>(a, words);
  }
}

template <class T>
T normal_at(std::uint64_t seed, std::uint64_t offset) {
  HostMath a;
  const auto words = random_words(seed, offset);
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    return T(detail::normal_from<float>(a, words));
  } else {
    return detail::normal_from<T>(a, words);
  }
}

#define TESSERA_RANDOM_AT(T)                              \
  template T uniform_at<T>(std::uint64_t, std::uint64_t); \
  template T normal_at<T>(std::uint64_t, std::uint64_t);
TESSERA_RANDOM_AT(f64)
TESSERA_RANDOM_AT(f32)
TESSERA_RANDOM_AT(f16)
TESSERA_RANDOM_AT(bf16)
#undef TESSERA_RANDOM_AT
template u32 uniform_at<u32>(std::uint64_t, std::uint64_t);
template u64 uniform_at<u64>(std::uint64_t, std::uint64_t);

}  // namespace tessera
