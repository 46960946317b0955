// SHA-256 (FIPS 180-4): names compiled code by content. Code is run because its name matches, so names must not
// collide by accident or by design; the 64-bit hash of hash.hpp is for file names of dumps only.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::jit {

using Digest = std::array<std::byte, 32>;

extern const std::uint32_t kSha256Rounds[64];

/// Whether this processor has instructions for it, and the compression function that uses them: sha256_x86.cpp,
/// sha256_arm.cpp.
bool has_sha_instructions() noexcept;
void sha256_blocks(std::uint32_t* state, const std::byte* data, std::size_t blocks) noexcept;

class Sha256 {
 public:
  Sha256() noexcept;
  /// With or without the processor's instructions (which must be there).
  explicit Sha256(bool instructions) noexcept : instructions_(instructions) {}
  Sha256& add(std::span<const std::byte> bytes) noexcept;
  Sha256& add(std::string_view text) noexcept { return add(std::as_bytes(std::span(text))); }
  /// A length goes before the bytes, so that neighbouring fields cannot be mistaken for each other.
  Sha256& add_field(std::span<const std::byte> bytes) noexcept;
  Sha256& add_field(std::string_view text) noexcept { return add_field(std::as_bytes(std::span(text))); }
  Sha256& add_number(std::uint64_t value) noexcept;
  /// Ends the message; nothing may be added afterwards.
  Digest finish() noexcept;

 private:
  void compress(const std::byte* data, std::size_t blocks) noexcept;
  bool instructions_;
  // FIPS 180-4, 5.3.3: fractional parts of the square roots of the first 8 primes.
  std::array<std::uint32_t, 8> state_ = {0x6A09E667u, 0xBB67AE85u, 0x3C6EF372u, 0xA54FF53Au,
                                         0x510E527Fu, 0x9B05688Cu, 0x1F83D9ABu, 0x5BE0CD19u};
  std::array<std::byte, 64> pending_{};
  std::size_t pending_bytes_ = 0;
  std::uint64_t total_ = 0;
};

Digest sha256(std::span<const std::byte> bytes) noexcept;
/// 64 hexadecimal digits.
std::string hex(const Digest& digest);

}  // namespace tessera::jit
