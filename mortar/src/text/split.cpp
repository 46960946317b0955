// The alternatives of the expression are tried in their order; each is deterministic enough to need no backtracking.
#include "text/split.hpp"

#include <cstddef>

#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace mortar::text {
namespace {

class Scanner {
 public:
  Scanner(const char* end, const SplitRules& rules)
      : end_(end), marks_(rules.marks_are_letters), digits_(rules.digits) {}

  const char* piece(const char* p) const {
    if (*p == '\'') {
      if (const char* e = contraction(p + 1)) return e;
    }
    const Character first = at(p);
    const char* next = p + first.bytes;
    if (is_letter(first)) return letters(next);
    if (first.value == CharClass::Number) return numbers(next);
    const bool line_end = *p == '\r' || *p == '\n';
    if (!line_end && next != end_ && is_letter(at(next))) return letters(next);
    // ` ?[^\s\p{L}\p{N}]+[\r\n]*`
    const char* rest = *p == ' ' && next != end_ ? next : p;
    if (is_other(at(rest))) return other(rest);
    return space(p);
  }

 private:
  struct Character {
    CharClass value;
    unsigned bytes;
  };

  Character at(const char* p) const {
    const Utf8Unit unit = decode_valid(p);
    return {table_.class_of(unit.code_point), unit.bytes};
  }
  bool is_letter(Character c) const { return c.value == CharClass::Letter || (marks_ && c.value == CharClass::Mark); }
  bool is_other(Character c) const { return c.value == CharClass::Other || (!marks_ && c.value == CharClass::Mark); }

  const char* letters(const char* p) const {
    while (p != end_) {
      const Character c = at(p);
      if (!is_letter(c)) break;
      p += c.bytes;
    }
    return p;
  }

  /// Behind the first digit of a piece.
  const char* numbers(const char* p) const {
    for (int n = 1; n < digits_ && p != end_; ++n) {
      const Character c = at(p);
      if (c.value != CharClass::Number) break;
      p += c.bytes;
    }
    return p;
  }

  const char* other(const char* p) const {
    while (p != end_) {
      const Character c = at(p);
      if (!is_other(c)) break;
      p += c.bytes;
    }
    while (p != end_ && (*p == '\r' || *p == '\n')) ++p;
    return p;
  }

  /// `\s*[\r\n]+|\s+(?!\S)|\s+`: to the last line end of the white space; else what is before its last character,
  /// unless the text ends or that is all.
  const char* space(const char* p) const {
    const char *begin = p, *last = p, *line_end = nullptr;
    while (p != end_) {
      const Character c = at(p);
      if (c.value != CharClass::Space) break;
      last = p;
      p += c.bytes;
      if (*last == '\r' || *last == '\n') line_end = p;
    }
    if (line_end != nullptr) return line_end;
    return p == end_ || last == begin ? p : last;
  }

  /// After the apostrophe; null: none. Ignoring case, s is also the long s (U+017F).
  const char* contraction(const char* p) const {
    const auto lower = [&](std::ptrdiff_t i) { return i < end_ - p ? static_cast<char>(p[i] | 0x20) : '\0'; };
    const auto letter = [&](std::ptrdiff_t i) {
      return i < end_ - p && static_cast<unsigned char>(p[i]) >= 0x40 && static_cast<unsigned char>(p[i]) < 0x80
                 ? lower(i)
                 : '\0';
    };
    switch (letter(0)) {
      case 's':
      case 't':
      case 'm':
      case 'd': return p + 1;
      case 'r':
      case 'v': return letter(1) == 'e' ? p + 2 : nullptr;
      case 'l': return letter(1) == 'l' ? p + 2 : nullptr;
      default: break;
    }
    return end_ - p >= 2 && p[0] == '\xC5' && p[1] == '\xBF' ? p + 2 : nullptr;
  }

  const CharTable& table_ = CharTable::get();
  const char* end_;
  bool marks_;
  int digits_;
};

}  // namespace

const char* end_of_piece(const char* begin, const char* end, const SplitRules& rules) {
  return Scanner(end, rules).piece(begin);
}

}  // namespace mortar::text
