// The compression function with the SHA-256 instructions of 64-bit ARM (Arm ARM, C7.2: SHA256H, SHA256H2, SHA256SU0,
// SHA256SU1), which are an option of ARMv8.0: the system says whether the processor has them.
#include "jit/code/sha256.hpp"

#if defined(__aarch64__)

#include <arm_neon.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>

namespace tessera::jit {

bool has_sha_instructions() noexcept { return (getauxval(AT_HWCAP) & HWCAP_SHA2) != 0; }

#if defined(__clang__)
#define TESSERA_SHA_INSTRUCTIONS "sha2"
#else
#define TESSERA_SHA_INSTRUCTIONS "+crypto"  // GCC 12's arm_neon.h asks for these instructions with those of AES
#endif
__attribute__((target(TESSERA_SHA_INSTRUCTIONS))) void sha256_blocks(std::uint32_t* state, const std::byte* data,
                                                                     std::size_t blocks) noexcept {
  uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
  for (; blocks != 0; --blocks, data += 64) {
    const uint32x4_t abcd_before = abcd, efgh_before = efgh;
    uint32x4_t w[4];  // sixteen words of the schedule, four at a time, in a ring
    for (int i = 0; i < 16; ++i) {
      uint32x4_t& now = w[i % 4];
      if (i < 4)
        now = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(data) + 16 * i)));
      else
        now = vsha256su1q_u32(vsha256su0q_u32(now, w[(i + 1) % 4]), w[(i + 2) % 4], w[(i + 3) % 4]);
      const uint32x4_t sum = vaddq_u32(now, vld1q_u32(kSha256Rounds + 4 * i)), abcd_then = abcd;
      abcd = vsha256hq_u32(abcd, efgh, sum);
      efgh = vsha256h2q_u32(efgh, abcd_then, sum);
    }
    abcd = vaddq_u32(abcd, abcd_before);
    efgh = vaddq_u32(efgh, efgh_before);
  }
  vst1q_u32(state, abcd);
  vst1q_u32(state + 4, efgh);
}

}  // namespace tessera::jit

#endif
