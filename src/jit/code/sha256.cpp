// The compression function as FIPS 180-4, 6.2.2 states it.
#include "jit/code/sha256.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tessera::jit {

// FIPS 180-4, 4.2.2: fractional parts of the cube roots of the first 64 primes.
const std::uint32_t kSha256Rounds[64] = {
    0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1, 0x923F82A4, 0xAB1C5ED5,
    0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3, 0x72BE5D74, 0x80DEB1FE, 0x9BDC06A7, 0xC19BF174,
    0xE49B69C1, 0xEFBE4786, 0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F, 0x4A7484AA, 0x5CB0A9DC, 0x76F988DA,
    0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7, 0xC6E00BF3, 0xD5A79147, 0x06CA6351, 0x14292967,
    0x27B70A85, 0x2E1B2138, 0x4D2C6DFC, 0x53380D13, 0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85,
    0xA2BFE8A1, 0xA81A664B, 0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070,
    0x19A4C116, 0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A, 0x5B9CCA4F, 0x682E6FF3,
    0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208, 0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7, 0xC67178F2};

namespace {

std::uint32_t big_endian(const std::byte* p) noexcept {
  return std::to_integer<std::uint32_t>(p[0]) << 24 | std::to_integer<std::uint32_t>(p[1]) << 16 |
         std::to_integer<std::uint32_t>(p[2]) << 8 | std::to_integer<std::uint32_t>(p[3]);
}

void block(std::array<std::uint32_t, 8>& state, const std::byte* data) noexcept {
  std::uint32_t w[64];
  for (int t = 0; t < 16; ++t) w[t] = big_endian(data + 4 * t);
  for (int t = 16; t < 64; ++t) {
    const std::uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const std::uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int t = 0; t < 64; ++t) {
    const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
    const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + kSha256Rounds[t] + w[t];
    const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
    const std::uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
    h = g;
    g = f;
    f = e;
    e = d + t1;
    d = c;
    c = b;
    b = a;
    a = t1 + t2;
  }
  const std::uint32_t add[8] = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state[i] += add[i];
}

}  // namespace

#if !defined(__x86_64__) && !defined(__aarch64__)  // which have files of their own
bool has_sha_instructions() noexcept { return false; }
void sha256_blocks(std::uint32_t*, const std::byte*, std::size_t) noexcept {}
#endif

Sha256::Sha256() noexcept {
  static const bool has = has_sha_instructions();
  instructions_ = has;
}

void Sha256::compress(const std::byte* data, std::size_t blocks) noexcept {
  if (instructions_) return sha256_blocks(state_.data(), data, blocks);
  for (; blocks != 0; --blocks, data += pending_.size()) block(state_, data);
}

Sha256& Sha256::add(std::span<const std::byte> bytes) noexcept {
  total_ += bytes.size();
  if (pending_bytes_ != 0) {
    const std::size_t n = std::min(bytes.size(), pending_.size() - pending_bytes_);
    if (n != 0) std::memcpy(pending_.data() + pending_bytes_, bytes.data(), n);
    pending_bytes_ += n;
    bytes = bytes.subspan(n);
    if (pending_bytes_ < pending_.size()) return *this;
    compress(pending_.data(), 1);
    pending_bytes_ = 0;
  }
  const std::size_t whole = bytes.size() / pending_.size();
  compress(bytes.data(), whole);
  bytes = bytes.subspan(whole * pending_.size());
  if (!bytes.empty()) std::memcpy(pending_.data(), bytes.data(), bytes.size());
  pending_bytes_ = bytes.size();
  return *this;
}

Sha256& Sha256::add_number(std::uint64_t value) noexcept {
  std::byte bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::byte>(value >> (8 * i));
  return add(bytes);
}

Sha256& Sha256::add_field(std::span<const std::byte> bytes) noexcept { return add_number(bytes.size()).add(bytes); }

Digest Sha256::finish() noexcept {
  const std::uint64_t bits = total_ * 8;
  static constexpr std::byte kPadding[64] = {std::byte{0x80}};
  const std::size_t zeros_until = 56;  // the message's length takes the last 8 bytes of a block
  add(std::span(kPadding).first((pending_bytes_ < zeros_until ? zeros_until : zeros_until + 64) - pending_bytes_));
  std::byte length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<std::byte>(bits >> (56 - 8 * i));
  add(length);
  Digest digest;
  for (std::size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::byte>(state_[i / 4] >> (24 - 8 * (i % 4)));
  return digest;
}

Digest sha256(std::span<const std::byte> bytes) noexcept { return Sha256().add(bytes).finish(); }

std::string hex(const Digest& digest) {
  std::string text;
  for (const std::byte b : digest) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15];
  }
  return text;
}

}  // namespace tessera::jit
