// One element repeated, with the widest stores of the machine: what is filled is mostly read at once by a primitive,
// and a vector that is read where narrower stores have just written waits until they have reached the cache.
#include <algorithm>
#include <cstring>

#include "codegen/cpu/copy.hpp"
#include "codegen/cpu/prims/isa.hpp"

#if defined(TESSERA_PRIMS_X86)
#include <immintrin.h>
#endif

namespace tessera::cpu {
namespace {

/// Stores eight bytes again and again, in whole vectors; returns how many bytes are written, at most `bytes`.
using RepeatFn = std::int64_t (*)(std::byte* dst, std::uint64_t eight, std::int64_t bytes);

std::int64_t repeat_words(std::byte* dst, std::uint64_t eight, std::int64_t bytes) {
  constexpr std::int64_t size = sizeof eight;
  std::int64_t i = 0;
  for (; i + size <= bytes; i += size) std::memcpy(dst + i, &eight, sizeof eight);
  return i;
}
#if defined(TESSERA_PRIMS_X86)
__attribute__((target("avx2"))) std::int64_t repeat_avx2(std::byte* dst, std::uint64_t eight, std::int64_t bytes) {
  const __m256i v = _mm256_set1_epi64x(static_cast<long long>(eight));
  std::int64_t i = 0;
  for (; i + 32 <= bytes; i += 32) _mm256_storeu_si256(reinterpret_cast<__m256i_u*>(dst + i), v);
  return i;
}
__attribute__((target("avx512f"))) std::int64_t repeat_avx512(std::byte* dst, std::uint64_t eight, std::int64_t bytes) {
  const __m512i v = _mm512_set1_epi64(static_cast<long long>(eight));
  std::int64_t i = 0;
  for (; i + 64 <= bytes; i += 64) _mm512_storeu_si512(dst + i, v);
  return i;
}
#endif

RepeatFn selected() {
#if defined(TESSERA_PRIMS_X86)
  const prims::Isa isa = prims::selected_isa();
  if (isa == prims::Isa::Avx512) return repeat_avx512;
  if (isa == prims::Isa::Avx2) return repeat_avx2;
#endif
  return repeat_words;
}

}  // namespace

void fill_elements(std::byte* dst, std::int64_t count, std::uint64_t bits, std::int64_t elem_bytes) {
  std::uint64_t eight = bits;
  if (elem_bytes == 1) eight = (bits & 0xFF) * 0x0101010101010101u;
  if (elem_bytes == 2) eight = (bits & 0xFFFF) * 0x0001000100010001u;
  if (elem_bytes == 4) eight = (bits & 0xFFFFFFFF) * 0x0000000100000001u;
  static const RepeatFn repeat = selected();
  const std::int64_t bytes = count * elem_bytes;
  for (std::int64_t i = bytes < 64 ? 0 : repeat(dst, eight, bytes); i < bytes; i += 8)
    std::memcpy(dst + i, &eight, static_cast<std::size_t>(std::min<std::int64_t>(8, bytes - i)));
}

}  // namespace tessera::cpu
