// The table of well-formed UTF-8 (Unicode 16, table 3-7) as conditions on the first and second byte.
#include "text/utf8.hpp"

#include <cstring>

namespace mortar::text {
namespace {

struct Lead {
  unsigned bytes;           // 0: nothing begins with it
  unsigned char low, high;  // of the second byte
};

Lead lead_of(unsigned char first) {
  if (first < 0xC2) return {0, 0, 0};
  if (first < 0xE0) return {2, 0x80, 0xBF};
  if (first == 0xE0) return {3, 0xA0, 0xBF};
  if (first == 0xED) return {3, 0x80, 0x9F};
  if (first < 0xF0) return {3, 0x80, 0xBF};
  if (first == 0xF0) return {4, 0x90, 0xBF};
  if (first < 0xF4) return {4, 0x80, 0xBF};
  if (first == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Unit next_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1, Utf8::Complete};
  const Lead lead = lead_of(first);
  if (lead.bytes == 0) return {kReplacement, 1, Utf8::Invalid};
  char32_t code_point = first & (0x7Fu >> lead.bytes);
  for (unsigned i = 1; i < lead.bytes; ++i) {
    if (i == text.size()) return {kReplacement, i, Utf8::Incomplete};
    const unsigned char low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xBF;
    if (byte(i) < low || byte(i) > high) return {kReplacement, i, Utf8::Invalid};
    code_point = code_point << 6 | (byte(i) & 0x3F);
  }
  return {code_point, lead.bytes, Utf8::Complete};
}

std::size_t valid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = 0;  // ASCII, eight bytes at a time
    while (at + 8 <= text.size() && (std::memcpy(&eight, text.data() + at, 8), (eight & 0x8080808080808080u) == 0))
      at += 8;
    if (at == text.size()) break;
    const Utf8Unit unit = next_utf8(text.substr(at, 4));
    if (unit.state != Utf8::Complete) break;
    at += unit.bytes;
  }
  return at;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t valid = valid_utf8(text);
    out.append(text.substr(0, valid));
    text.remove_prefix(valid);
    if (text.empty()) break;
    append_utf8(out, kReplacement);
    text.remove_prefix(next_utf8(text).bytes);
  }
  return out;
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  }
}

}  // namespace mortar::text
