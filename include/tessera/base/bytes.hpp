// Values as bytes and back: little-endian, without alignment. For files that this library writes and reads itself.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

/// Appends one value after the other.
class BytesOut {
 public:
  void reserve(std::size_t bytes) { out_.reserve(bytes); }
  void bytes(std::span<const std::byte> data) {
    const std::size_t at = out_.size();
    out_.resize(at + data.size());
    if (!data.empty()) std::memcpy(out_.data() + at, data.data(), data.size());
  }
  /// As wide as its type.
  template <class T>
  void number(T value) {
    std::byte data[sizeof(T)];
    for (std::size_t i = 0; i < sizeof(T); ++i)
      data[i] = static_cast<std::byte>(static_cast<std::uint64_t>(value) >> (8 * i));
    bytes(data);
  }
  /// Seven bits a byte, the lowest first (LEB128).
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.push_back(static_cast<std::byte>(value | 0x80));
    out_.push_back(static_cast<std::byte>(value));
  }
  /// A length of 32 bits goes before it.
  void text(std::string_view t) {
    number(static_cast<std::uint32_t>(t.size()));
    bytes(std::as_bytes(std::span(t)));
  }
  std::span<const std::byte> view() const noexcept { return out_; }
  std::vector<std::byte> take() noexcept { return std::move(out_); }

 private:
  std::vector<std::byte> out_;
};

/// Takes values off the front. good() turns false where there are too few bytes: what was read then means nothing.
class BytesIn {
 public:
  explicit BytesIn(std::span<const std::byte> bytes) noexcept : rest_(bytes) {}
  std::span<const std::byte> bytes(std::uint64_t n) noexcept {
    good_ = good_ && n <= rest_.size();
    if (!good_) return {};
    const auto taken = rest_.first(static_cast<std::size_t>(n));
    rest_ = rest_.subspan(static_cast<std::size_t>(n));
    return taken;
  }
  template <class T>
  T number() noexcept {
    std::uint64_t value = 0;
    const auto data = bytes(sizeof(T));
    for (std::size_t i = 0; i < data.size(); ++i) value |= std::to_integer<std::uint64_t>(data[i]) << (8 * i);
    return static_cast<T>(value);
  }
  std::string text() {
    const auto data = bytes(number<std::uint32_t>());
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }
  bool good() const noexcept { return good_; }
  /// All was there, and nothing is left.
  bool ended_well() const noexcept { return good_ && rest_.empty(); }

 private:
  std::span<const std::byte> rest_;
  bool good_ = true;
};

}  // namespace tessera
