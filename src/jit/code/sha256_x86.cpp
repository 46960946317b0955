// The compression function with the SHA extensions of x86-64 (Intel SDM, volume 2: SHA256RNDS2, SHA256MSG1,
// SHA256MSG2): five times as fast as the portable one, and checksums are most of what loading a kept kernel costs.
#include "jit/code/sha256.hpp"

#if defined(__x86_64__)

#include <immintrin.h>
#if __has_include(<sys/platform/x86.h>) && !defined(__clang__)  // glibc's header is C (_Bool), which g++ lets pass
#define TESSERA_LIBC_KNOWS_PROCESSOR
#include <sys/platform/x86.h>
#else
#include <cpuid.h>
#endif

namespace tessera::jit {

#ifdef TESSERA_LIBC_KNOWS_PROCESSOR
// What the C library has asked the processor already (glibc 2.33): on a virtual machine each question takes 20 us.
bool has_sha_instructions() noexcept {
  return CPU_FEATURE_ACTIVE(SHA) && CPU_FEATURE_ACTIVE(SSSE3) && CPU_FEATURE_ACTIVE(SSE4_1);
}
#else
bool has_sha_instructions() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c >> 9 & 1) == 0 || (c >> 19 & 1) == 0) return false;  // SSSE3, SSE4.1
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b >> 29 & 1) != 0;                         // SHA
}
#endif

__attribute__((target("sha,ssse3,sse4.1"))) void sha256_blocks(std::uint32_t* state, const std::byte* data,
                                                               std::size_t blocks) noexcept {
  const auto lanes = [](std::uint32_t w, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    return _mm_set_epi32(static_cast<int>(w), static_cast<int>(x), static_cast<int>(y), static_cast<int>(z));
  };
  const __m128i swap = _mm_set_epi64x(0x0C0D0E0F08090A0B, 0x0405060700010203);  // bytes of each word reversed
  __m128i abef = lanes(state[0], state[1], state[4], state[5]);
  __m128i cdgh = lanes(state[2], state[3], state[6], state[7]);
  for (; blocks != 0; --blocks, data += 64) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];  // sixteen words of the schedule, four at a time, in a ring
    for (int i = 0; i < 16; ++i) {
      __m128i& now = w[i % 4];
      if (i < 4) {
        now = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(data) + i), swap);
      } else {
        const __m128i last = w[(i + 3) % 4];
        const __m128i shifted = _mm_alignr_epi8(last, w[(i + 2) % 4], 4);
        now = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]), shifted), last);
      }
      const __m128i k = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kSha256Rounds) + i);
      const __m128i sum = _mm_add_epi32(now, k);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  alignas(16) std::uint32_t low[4], high[4];
  _mm_store_si128(reinterpret_cast<__m128i*>(low), abef);
  _mm_store_si128(reinterpret_cast<__m128i*>(high), cdgh);
  const std::uint32_t out[8] = {low[3], low[2], high[3], high[2], low[1], low[0], high[1], high[0]};
  for (int i = 0; i < 8; ++i) state[i] = out[i];
}

}  // namespace tessera::jit

#endif
