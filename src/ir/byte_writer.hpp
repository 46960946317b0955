// The primitive encodings of Tile IR bytecode, and tables that number byte strings in order of first use.
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tessera::ir {

class ByteWriter {
 public:
  void byte(std::uint8_t b) { bytes_.push_back(static_cast<char>(b)); }
  void raw(std::string_view s) { bytes_ += s; }
  /// LEB128, unsigned.
  void varint(std::uint64_t v) {
    for (; v >= 0x80; v >>= 7) byte(static_cast<std::uint8_t>(v | 0x80));
    byte(static_cast<std::uint8_t>(v));
  }
  /// Zigzag, then LEB128.
  void signed_varint(std::int64_t v) {
    varint((static_cast<std::uint64_t>(v) << 1) ^ static_cast<std::uint64_t>(v >> 63));
  }
  void little_endian(std::uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) byte(static_cast<std::uint8_t>(v >> (8 * i)));
  }
  /// Count, then fixed-width items.
  template <class Ints>
  void int_list(const Ints& values, int bytes) {
    varint(values.size());
    for (auto v : values) little_endian(static_cast<std::uint64_t>(v), bytes);
  }
  /// Integer of a given width in bits: one raw byte up to 8 bits, zigzag beyond.
  void ap_int(std::uint64_t value, int bits) {
    if (bits <= 8)
      byte(static_cast<std::uint8_t>(value));
    else
      signed_varint(static_cast<std::int64_t>(value));
  }
  /// Padding up to a multiple of `alignment` (0xCB as NVIDIA's writers do; readers skip it).
  void pad(std::size_t alignment) {
    while (bytes_.size() % alignment != 0) byte(0xCB);
  }
  std::size_t size() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Distinct byte strings, numbered from `first` in order of first use.
class ByteTable {
 public:
  explicit ByteTable(std::uint64_t first = 0) : first_(first) {}
  std::uint64_t id(std::string_view item) {
    auto [it, added] = ids_.try_emplace(std::string(item), first_ + items_.size());
    if (added) items_.push_back(&it->first);  // keys of an unordered_map stay where they are
    return it->second;
  }
  bool empty() const { return items_.empty(); }

  /// Count, offsets of `offset_bytes` each, then the items.
  void write(ByteWriter& out, int offset_bytes) const {
    out.varint(items_.size());
    out.pad(static_cast<std::size_t>(offset_bytes));
    std::uint64_t offset = 0;
    for (const std::string* item : items_) {
      out.little_endian(offset, offset_bytes);
      offset += item->size();
    }
    for (const std::string* item : items_) out.raw(*item);
  }

 private:
  std::uint64_t first_;
  std::unordered_map<std::string, std::uint64_t> ids_;
  std::vector<const std::string*> items_;
};

}  // namespace tessera::ir
