// UTF-8, byte by byte: for text from outside, which may be damaged or arrive in pieces.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace mortar::text {

inline constexpr char32_t kReplacement = 0xFFFD;

enum class Utf8 : std::uint8_t {
  Complete,    ///< a code point
  Incomplete,  ///< the text ends within a code point that is right so far
  Invalid,     ///< bytes that no code point begins with, to be replaced by one U+FFFD
};

struct Utf8Unit {
  char32_t code_point;
  unsigned bytes;
  Utf8 state;
};

/// What a text that is not empty begins with. Damaged text is divided as Unicode section 3.9 recommends (the longest
/// beginning of a code point is replaced as one), which is what WHATWG, Python and Rust do.
Utf8Unit next_utf8(std::string_view text);

/// The number of bytes at the beginning that are whole code points.
std::size_t valid_utf8(std::string_view text);

/// Invalid and incomplete bytes replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

void append_utf8(std::string& out, char32_t code_point);

/// A code point of text that is known to be valid, and its length.
inline Utf8Unit decode_valid(const char* p) {
  const auto b = [p](int i) { return static_cast<char32_t>(static_cast<unsigned char>(p[i])); };
  const char32_t first = b(0);
  if (first < 0x80) return {first, 1, Utf8::Complete};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (b(1) & 0x3F), 2, Utf8::Complete};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (b(1) & 0x3F) << 6 | (b(2) & 0x3F), 3, Utf8::Complete};
  return {(first & 0x07) << 18 | (b(1) & 0x3F) << 12 | (b(2) & 0x3F) << 6 | (b(3) & 0x3F), 4, Utf8::Complete};
}

}  // namespace mortar::text
