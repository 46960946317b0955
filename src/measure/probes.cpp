// The same loops per instruction set, chosen at run time. Compiled with -O3 in every configuration
// (cmake/TesseraLayerExtras/measure.cmake).
#include "measure/probes.hpp"

namespace tessera::measure {
namespace {

#define TESSERA_INLINE inline __attribute__((always_inline))

using Wide = float __attribute__((vector_size(4 * kLanesF32)));
using WideDouble = double __attribute__((vector_size(8 * kLanesF64)));
using Line = float __attribute__((vector_size(64)));  // a line of the cache

/// Multiply-adds of `kChains` independent vectors of V; the operands keep all values near 1.
template <class V>
TESSERA_INLINE double chain(long rounds) {
  V acc[kChains];
  for (int c = 0; c < kChains; ++c) acc[c] = V{} + static_cast<float>(c + 1);
  V a = V{} + 0.999f, b = V{} + 0.001f;
  for (long r = 0; r < rounds; ++r) {
    for (int c = 0; c < kChains; ++c) acc[c] = acc[c] * a + b;
  }
  for (int c = 1; c < kChains; ++c) acc[0] += acc[c];
  return static_cast<double>(acc[0][0] + acc[0][1]);
}

/// Four quarters at a time: a core follows several streams ahead, and one alone leaves memory idle (on a virtual
/// machine with two cores of Sapphire Rapids it read two thirds of what four read).
TESSERA_INLINE float sum(const float* data, std::size_t count) {
  constexpr std::size_t lanes = sizeof(Line) / sizeof(float), streams = 4, lines = 2;
  const std::size_t quarter = count / streams / (lines * lanes) * (lines * lanes);
  Line acc[streams][lines] = {};
  for (std::size_t i = 0; i < quarter; i += lines * lanes) {
    for (std::size_t s = 0; s < streams; ++s) {
      for (std::size_t v = 0; v < lines; ++v) {
        Line x;
        __builtin_memcpy(&x, data + s * quarter + i + v * lanes, sizeof x);
        acc[s][v] += x;
      }
    }
  }
  float total = 0;
  for (const auto& of_stream : acc) {
    for (const Line& line : of_stream) {
      for (std::size_t lane = 0; lane < lanes; ++lane) total += line[lane];
    }
  }
  for (std::size_t i = streams * quarter; i < count; ++i) total += data[i];
  return total;
}

#if defined(__x86_64__)
#define TESSERA_PROBES(name, ...)                                                                 \
  __VA_ARGS__ float sum_##name(const float* data, std::size_t count) { return sum(data, count); } \
  __VA_ARGS__ double f32_##name(long rounds) { return chain<Wide>(rounds); }                      \
  __VA_ARGS__ double f64_##name(long rounds) { return chain<WideDouble>(rounds); }
TESSERA_PROBES(avx512, __attribute__((target("avx512f"))))
TESSERA_PROBES(avx2, __attribute__((target("avx2,fma"))))
TESSERA_PROBES(plain, )
#define TESSERA_CHOOSE(kind, ...)                                                                \
  __builtin_cpu_supports("avx512f")                                 ? kind##_avx512(__VA_ARGS__) \
  : __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? kind##_avx2(__VA_ARGS__)   \
                                                                    : kind##_plain(__VA_ARGS__)
#else
float sum_plain(const float* data, std::size_t count) { return sum(data, count); }
double f32_plain(long rounds) { return chain<Wide>(rounds); }
double f64_plain(long rounds) { return chain<WideDouble>(rounds); }
#define TESSERA_CHOOSE(kind, ...) kind##_plain(__VA_ARGS__)
#endif

}  // namespace

float sum_of(const float* data, std::size_t count) { return TESSERA_CHOOSE(sum, data, count); }
double chain_f32(long rounds) { return TESSERA_CHOOSE(f32, rounds); }
double chain_f64(long rounds) { return TESSERA_CHOOSE(f64, rounds); }

}  // namespace tessera::measure
