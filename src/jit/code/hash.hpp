// A hash of compiled modules for file names and tables. Not cryptographic: where equality matters the bytes themselves
// are compared.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera::jit {

/// FNV-1a, 64 bits (Fowler, Noll, Vo; draft-eastlake-fnv).
inline std::uint64_t hash_bytes(std::span<const std::byte> bytes) noexcept {
  std::uint64_t h = 0xCBF29CE484222325u;
  for (const std::byte b : bytes) h = (h ^ static_cast<std::uint64_t>(b)) * 0x100000001B3u;
  return h;
}

/// 16 hexadecimal digits.
inline std::string hash_text(std::uint64_t h) {
  std::string s(16, '0');
  for (int i = 15; i >= 0; --i, h >>= 4) s[static_cast<std::size_t>(i)] = "0123456789abcdef"[h & 15];
  return s;
}

}  // namespace tessera::jit
