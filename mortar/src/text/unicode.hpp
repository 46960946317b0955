// Classes of code points, and NFC. The data are part of the library, so that results do not depend on the system; their
// versions are those of Hugging Face `tokenizers` (scripts/mortar/unicode_tables.py).
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mortar::text {

enum class CharClass : std::uint8_t { Other, Letter, Mark, Number, Space };

/// What is looked up for every character of a text: one byte per code point in two stages, blocks of 256 shared.
class CharTable {
 public:
  static const CharTable& get();
  CharClass class_of(char32_t c) const { return static_cast<CharClass>(byte(c) & 7); }
  /// Text without such code points is in NFC as it is: a combining class, or NFC_Quick_Check is not Yes.
  bool may_change_in_nfc(char32_t c) const { return (byte(c) & 8) != 0; }

 private:
  CharTable();
  std::uint8_t byte(char32_t c) const { return blocks_[block_[c >> 8] * std::size_t{256} + (c & 0xFF)]; }
  std::array<std::uint8_t, 0x1100> block_{};
  std::vector<std::uint8_t> blocks_;
};

/// Whether valid UTF-8 is seen to be in NFC at once. False: nfc() may still return the same.
bool is_surely_nfc(std::string_view text);
/// Valid UTF-8 in Unicode normalization form C.
std::string nfc(std::string_view text);

}  // namespace mortar::text
