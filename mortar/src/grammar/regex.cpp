// The parser of regular expressions.
#include "grammar/regex.hpp"

#include <algorithm>
#include <string>

#include "mortar/errors.hpp"
#include "text/utf8.hpp"

namespace mortar::grammar {
namespace {

constexpr int kDeepestGroup = 100;
constexpr std::uint32_t kLargestBound = 100'000;

class Parser {
 public:
  Parser(std::string_view text, std::string_view name, Budget& budget) : text_(text), name_(name), budget_(budget) {
    if (text::valid_utf8(text) != text.size()) fail(text::valid_utf8(text), "the expression is not UTF-8");
  }

  Regex all() {
    Regex out = alternatives();
    if (at_ != text_.size()) fail(at_, "')' without '('");
    return out;
  }

 private:
  [[noreturn]] void fail(std::size_t at, std::string_view what) const {
    throw RequestError(
        tessera::concat(name_, ": offset ", at, " of '", text::replace_invalid_utf8(text_), "': ", what));
  }
  bool done() const { return at_ == text_.size(); }
  bool next_is(char c) const { return !done() && text_[at_] == c; }
  bool take(std::string_view what) {
    if (text_.substr(at_, what.size()) != what) return false;
    at_ += what.size();
    return true;
  }
  char32_t code_point() {
    const text::Utf8Unit unit = text::decode_valid(text_.data() + at_);
    at_ += unit.bytes;
    return unit.code_point;
  }

  Regex alternatives() {
    Regex out{.kind = Regex::Kind::Alternatives};
    do out.parts.push_back(sequence());
    while (take("|"));
    if (out.parts.size() > 1) return out;
    Regex only = std::move(out.parts.front());
    return only;
  }

  Regex sequence() {
    Regex out;
    while (!done() && !next_is('|') && !next_is(')')) out.parts.push_back(repeated());
    return out;
  }

  Regex repeated() {
    budget_.spend(1);
    const std::size_t begin = at_;
    Regex part = atom();
    const bool assertion = part.kind == Regex::Kind::Begin || part.kind == Regex::Kind::End;
    std::uint32_t min = 1, max = 1;
    if (quantifier(min, max)) {
      if (assertion) fail(begin, "an assertion cannot be repeated");
      Regex whole{.kind = Regex::Kind::Repeat, .min = min, .max = max};
      whole.parts.push_back(std::move(part));
      part = std::move(whole);
      take("?");  // lazy: the language is not changed
      if (next_is('*') || next_is('+') || next_is('?') || next_is('{')) fail(at_, "a quantifier after a quantifier");
    }
    return part;
  }

  bool quantifier(std::uint32_t& min, std::uint32_t& max) {
    if (take("*")) return set(min, max, 0, Regex::kUnbounded);
    if (take("+")) return set(min, max, 1, Regex::kUnbounded);
    if (take("?")) return set(min, max, 0, 1);
    if (!next_is('{')) return false;
    const std::size_t begin = at_++;
    min = number(begin);
    max = min;
    if (take(",")) max = next_is('}') ? Regex::kUnbounded : number(begin);
    if (!take("}")) fail(begin, "expected {n}, {n,} or {n,m}; write \\{ for the character");
    if (min > max) fail(begin, "the bounds are in the wrong order");
    return true;
  }
  static bool set(std::uint32_t& min, std::uint32_t& max, std::uint32_t new_min, std::uint32_t new_max) {
    min = new_min;
    max = new_max;
    return true;
  }
  std::uint32_t number(std::size_t begin) {
    const std::size_t first = at_;
    std::uint32_t value = 0;
    for (; !done() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      value = value * 10 + static_cast<std::uint32_t>(text_[at_] - '0');
      if (value > kLargestBound) fail(begin, tessera::concat("a bound is larger than ", kLargestBound));
    }
    if (at_ == first) fail(begin, "expected {n}, {n,} or {n,m}; write \\{ for the character");
    return value;
  }

  Regex atom() {
    const std::size_t begin = at_;
    switch (text_[at_]) {
      case '(': return group();
      case '[': return chars(char_class());
      case '\\': return chars(escape(false));
      case '^': ++at_; return {.kind = Regex::Kind::Begin};
      case '$': ++at_; return {.kind = Regex::Kind::End};
      case '.': ++at_; return chars(dot());
      case '*':
      case '+':
      case '?':
      case '{': fail(begin, "a quantifier without anything before it");
      case ']':
      case '}': fail(begin, "a bracket that was not opened; write a backslash before it for the character");
      default: break;
    }
    const char32_t c = code_point();
    return chars({c, c});
  }
  static Regex chars(CharSet set) { return {.kind = Regex::Kind::Chars, .chars = std::move(set)}; }
  static CharSet dot() {
    CharSet lines;
    for (const char32_t c : {U'\n', U'\r', U'\u2028', U'\u2029'}) lines.add(c, c);
    return lines.inverted();
  }

  Regex group() {
    const std::size_t begin = at_++;
    if (take("?")) {
      if (take("=") || take("!")) fail(begin, "look-ahead is not supported");
      if (take("<=") || take("<!")) fail(begin, "look-behind is not supported");
      if (take("P<") || take("<")) {
        at_ = text_.find('>', at_);
        if (at_ == text_.npos) fail(begin, "the name of a group does not end");
        ++at_;
      } else if (!take(":")) {
        fail(begin, "modifiers of groups are not supported");
      }
    }
    if (++depth_ > kDeepestGroup)
      fail(begin, tessera::concat("more than ", kDeepestGroup, " groups within each other"));
    Regex inner = alternatives();
    --depth_;
    if (!take(")")) fail(begin, "'(' without ')'");
    return inner;
  }

  CharSet char_class() {
    const std::size_t begin = at_++;
    const bool inverted = take("^");
    CharSet set;
    while (true) {
      if (done()) fail(begin, "'[' without ']'");
      if (take("]")) break;
      budget_.spend(1);
      const std::size_t at = at_;
      const CharSet first = class_atom();
      if (!next_is('-') || text_.substr(at_, 2) == "-]" || at_ + 1 == text_.size()) {
        set.add(first);
        continue;
      }
      ++at_;
      const CharSet last = class_atom();
      if (!single(first) || !single(last)) fail(at, "a range of characters needs a character on both sides");
      const char32_t low = first.ranges()[0].first, high = last.ranges()[0].first;
      if (low > high) fail(at, "a range of characters in the wrong order");
      set.add(low, high);
    }
    if (inverted) set = set.inverted();
    if (set.empty()) fail(begin, "a class without characters");
    return set;
  }
  static bool single(const CharSet& set) {
    return set.ranges().size() == 1 && set.ranges()[0].first == set.ranges()[0].last;
  }
  CharSet class_atom() {
    if (done()) fail(at_, "the expression ends within a class");
    if (next_is('\\')) return escape(true);
    const char32_t c = code_point();
    return {c, c};
  }

  CharSet escape(bool in_class) {
    const std::size_t begin = at_++;
    if (done()) fail(begin, "a backslash at the end");
    const char32_t c = code_point();
    switch (c) {
      case 'd': return CharSet::digits();
      case 'D': return CharSet::digits().inverted();
      case 'w': return CharSet::word();
      case 'W': return CharSet::word().inverted();
      case 's': return CharSet::space();
      case 'S': return CharSet::space().inverted();
      case 'p':
      case 'P': return property(begin, c == 'P');
      case 't': return {'\t', '\t'};
      case 'n': return {'\n', '\n'};
      case 'v': return {'\v', '\v'};
      case 'f': return {'\f', '\f'};
      case 'r': return {'\r', '\r'};
      case '0': return {0, 0};
      case 'x': return hex(begin, 2);
      case 'u': return unicode(begin);
      case 'b':
        if (in_class) return {'\b', '\b'};
        fail(begin, "\\b, a boundary of words, is not supported");
      case 'B': fail(begin, "\\B, a boundary of words, is not supported");
      default: break;
    }
    if (c >= '1' && c <= '9') fail(begin, "references to groups are not supported");
    if (c == 'k') fail(begin, "references to groups are not supported");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) fail(begin, "an escape that is not supported");
    return {c, c};
  }

  CharSet property(std::size_t begin, bool inverted) {
    const std::size_t end = text_.find('}', at_);
    if (!next_is('{') || end == text_.npos) fail(begin, "expected \\p{name}");
    const CharSet set = CharSet::unicode(text_.substr(at_ + 1, end - at_ - 1));
    if (set.empty()) fail(begin, "of the properties of characters only \\p{L}, \\p{M} and \\p{N} are supported");
    at_ = end + 1;
    budget_.spend(set.ranges().size());
    return inverted ? set.inverted() : set;
  }

  char32_t hex_digits(std::size_t begin, std::size_t least, std::size_t most) {
    char32_t value = 0;
    std::size_t digits = 0;
    for (; digits < most && !done(); ++digits, ++at_) {
      const char c = text_[at_];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
    }
    if (digits < least || value > 0x10FFFF) fail(begin, "an escape needs hexadecimal digits of a code point");
    return value;
  }
  CharSet hex(std::size_t begin, std::size_t digits) {
    const char32_t c = hex_digits(begin, digits, digits);
    return {c, c};
  }
  CharSet unicode(std::size_t begin) {
    char32_t c = 0;
    if (take("{")) {
      c = hex_digits(begin, 1, 6);
      if (!take("}")) fail(begin, "expected \\u{...}");
    } else {
      c = hex_digits(begin, 4, 4);
      if (c >= 0xD800 && c < 0xDC00 && take("\\u")) {
        const char32_t low = hex_digits(begin, 4, 4);
        if (low < 0xDC00 || low > 0xDFFF) fail(begin, "half of a surrogate pair");
        c = 0x10000 + ((c - 0xD800) << 10) + (low - 0xDC00);
      }
    }
    if (c >= 0xD800 && c <= 0xDFFF) fail(begin, "half of a surrogate pair");
    return {c, c};
  }

  std::string_view text_, name_;
  Budget& budget_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Regex parse_regex(std::string_view expression, std::string_view name, Budget& budget) {
  return Parser(expression, name, budget).all();
}

Regex without_chars(Regex regex, const CharSet& chars) {
  regex.chars = regex.chars.without(chars);
  for (Regex& part : regex.parts) part = without_chars(std::move(part), chars);
  return regex;
}

Regex regex_of_text(std::string_view text) {
  Regex out;
  for (std::size_t at = 0; at < text.size();) {
    const text::Utf8Unit unit = text::decode_valid(text.data() + at);
    out.parts.push_back({.kind = Regex::Kind::Chars, .chars = {unit.code_point, unit.code_point}});
    at += unit.bytes;
  }
  return out;
}

}  // namespace mortar::grammar
