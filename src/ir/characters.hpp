// Kinds of characters of Tile IR's text.
#pragma once

namespace tessera::ir {

inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
/// True for the characters of names: letters, digits, `_`, `$` and `.`.
inline bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '$' || c == '.'; }
/// The value of a hexadecimal digit; -1 for other characters.
inline int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}
inline bool is_hex_digit(char c) { return hex_digit(c) >= 0; }

}  // namespace tessera::ir
