// The primitive encodings of Tile IR bytecode, read with every size compared with what is left.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/format.hpp"
#include "tessera/ir/bytecode.hpp"

namespace tessera::ir {

class ByteReader {
 public:
  /// `start`: where `bytes` begin in the file.
  ByteReader(const std::string& file, std::string_view bytes, std::size_t start)
      : file_(&file), bytes_(bytes), start_(start) {}

  std::size_t offset() const { return start_ + at_; }
  std::size_t left() const { return bytes_.size() - at_; }
  bool ended() const { return at_ == bytes_.size(); }

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw BytecodeError(*file_, offset(), concat(parts...));
  }

  std::uint8_t byte(const char* what) {
    if (left() < 1) ended_in(what, 1);
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  std::string_view raw(std::uint64_t n, const char* what) {
    if (n > left()) ended_in(what, n);
    const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(n));
    at_ += taken.size();
    return taken;
  }
  ByteReader part(std::uint64_t n, const char* what) {
    const std::size_t start = offset();
    return {*file_, raw(n, what), start};
  }
  /// LEB128, unsigned.
  std::uint64_t varint(const char* what) {
    const Wide w = leb128(what);
    if (w.bit64) too_large(what);
    return w.low;
  }
  /// Zigzag, then LEB128.
  std::int64_t signed_varint(const char* what) {
    const std::uint64_t v = varint(what);
    return static_cast<std::int64_t>((v >> 1) ^ (~(v & 1) + 1));
  }
  /// The 64 bits of a number that was written as a signed one or, with 65 bits after zigzag, as an unsigned one.
  std::uint64_t bits64(const char* what) {
    const Wide w = leb128(what);
    if (w.bit64 && (w.low & 1) != 0) too_large(what);
    return ((w.low >> 1) | std::uint64_t{w.bit64} << 63) ^ (~(w.low & 1) + 1);
  }
  /// A number of at most `most`.
  std::uint64_t number(const char* what, std::uint64_t most) {
    const std::uint64_t value = varint(what);
    if (value > most) fail("expected ", what, " of at most ", most, ", found ", value);
    return value;
  }
  std::uint64_t little_endian(int bytes, const char* what) {
    std::uint64_t value = 0;
    const std::string_view taken = raw(static_cast<std::uint64_t>(bytes), what);
    for (int i = 0; i < bytes; ++i)
      value |= std::uint64_t{static_cast<std::uint8_t>(taken[static_cast<std::size_t>(i)])} << (8 * i);
    return value;
  }
  /// A number of things that take at least `bytes` bytes each of what follows.
  std::size_t count(const char* what, std::size_t bytes = 1) {
    const std::uint64_t n = varint(what);
    if (n > left() / bytes) fail("expected at most ", left() / bytes, " ", what, " in what is left, found ", n);
    return static_cast<std::size_t>(n);
  }
  /// Count, then fixed-width items of the width of `Int`, at most `most`.
  template <class Int>
  std::vector<Int> int_list(const char* what, std::size_t most = std::numeric_limits<std::size_t>::max()) {
    const std::size_t n = count(what, sizeof(Int));
    if (n > most) fail("expected at most ", most, " ", what, ", found ", n);
    std::vector<Int> items(n);
    for (Int& item : items) item = static_cast<Int>(little_endian(sizeof(Int), what));
    return items;
  }
  /// Padding up to a multiple of `alignment` from the beginning of these bytes on.
  void pad(std::size_t alignment) {
    if (const std::size_t over = at_ % alignment; over != 0) raw(alignment - over, "padding");
  }

 private:
  /// A number of up to 65 bits.
  struct Wide {
    std::uint64_t low = 0;
    bool bit64 = false;
  };
  Wide leb128(const char* what) {
    Wide w;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint8_t b = byte(what);
      if (shift == 63 && b > 3) break;
      w.low |= std::uint64_t{b & 0x7Fu} << shift;
      w.bit64 = shift == 63 && b > 1;
      if (b < 0x80) return w;
    }
    too_large(what);
  }
  [[noreturn]] void too_large(const char* what) const { fail("expected ", what, " of 64 bits, found a larger number"); }
  [[noreturn]] void ended_in(const char* what, std::uint64_t wanted) const {
    fail("expected ", wanted, wanted == 1 ? " byte of " : " bytes of ", what, ", found ", left());
  }

  const std::string* file_;
  std::string_view bytes_;
  std::size_t start_;
  std::size_t at_ = 0;
};

}  // namespace tessera::ir
