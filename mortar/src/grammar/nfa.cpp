// Pieces of expressions as states over bytes.
#include "grammar/nfa.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "text/utf8.hpp"

namespace mortar::grammar {

using StateKind = NfaState::Kind;

std::uint32_t Nfa::add(const NfaState& state) {
  budget_.spend(1);
  states_.push_back(state);
  return static_cast<std::uint32_t>(states_.size() - 1);
}

std::uint32_t Nfa::split(std::uint32_t a, std::uint32_t b) {
  return add({.kind = StateKind::Split, .next = a, .other = b});
}

std::uint32_t Nfa::any_of(const std::vector<std::uint32_t>& starts) {
  if (starts.empty()) {  // nothing matches
    const std::uint32_t loop = split(0, 0);
    states_[loop].next = states_[loop].other = loop;
    return loop;
  }
  std::uint32_t start = starts.back();
  for (std::size_t i = starts.size() - 1; i-- > 0;) start = split(starts[i], start);
  return start;
}

std::uint32_t Nfa::emit(const Regex& regex, std::uint32_t next) {
  budget_.spend(1);
  switch (regex.kind) {
    case Regex::Kind::Chars: return chars(regex.chars, next);
    case Regex::Kind::Sequence:
      for (std::size_t i = regex.parts.size(); i-- > 0;) next = emit(regex.parts[i], next);
      return next;
    case Regex::Kind::Alternatives: {
      std::vector<std::uint32_t> starts;
      for (const Regex& part : regex.parts) starts.push_back(emit(part, next));
      return any_of(starts);
    }
    case Regex::Kind::Repeat: return repeat(regex, next);
    case Regex::Kind::Begin: return add({.kind = StateKind::Begin, .next = next});
    case Regex::Kind::End: return add({.kind = StateKind::End, .next = next});
  }
  return next;
}

std::uint32_t Nfa::repeat(const Regex& regex, std::uint32_t next) {
  const Regex& part = regex.parts.front();
  std::uint32_t start = next, copies = regex.min;
  if (regex.max == Regex::kUnbounded) {
    const std::uint32_t loop = split(next, next);
    const std::uint32_t body = emit(part, loop);
    states_[loop].other = body;
    start = loop;
    if (copies > 0) {
      start = body;
      --copies;
    }
  } else {
    for (std::uint32_t i = regex.min; i < regex.max; ++i) start = split(emit(part, start), next);
  }
  for (; copies > 0; --copies) start = emit(part, start);
  return start;
}

std::uint32_t Nfa::chars(const CharSet& set, std::uint32_t next) {
  if (set.ranges().size() == 1) {  // the usual one, which needs neither cutting nor escapes
    const auto [first, last] = set.ranges()[0];
    const bool escaped = spelling_ == Spelling::Json &&
                         (first < 0x20 || (first <= '"' && last >= '"') || (first <= '\\' && last >= '\\'));
    if (last < 0x80 && !escaped)
      return add({StateKind::Bytes, static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(last), false, next});
  }
  budget_.spend(16 + set.ranges().size());
  std::vector<std::uint32_t> starts;
  CharSet special;
  if (spelling_ == Spelling::Json) {
    for (char32_t c = 0; c < 0x20; ++c) special.add(c, c);
    special.add('"', '"');
    special.add('\\', '\\');
  }
  const CharSet plain = set.without(special);
  for (const CharRange& range : plain.ranges()) utf8(range.first, range.last, next, starts);
  if (const CharSet escaped = special.without(set.inverted()); !escaped.empty())
    starts.push_back(escapes(escaped, next));
  return any_of(starts);
}

/// The characters that a JSON string has only as escapes: a backslash, then a letter or u00 and two digits.
std::uint32_t Nfa::escapes(const CharSet& set, std::uint32_t next) {
  static constexpr std::array<std::array<char, 2>, 7> letters = {
      {{'"', '"'}, {'\\', '\\'}, {'\b', 'b'}, {'\f', 'f'}, {'\n', 'n'}, {'\r', 'r'}, {'\t', 't'}}};
  const auto byte = [&](char low, char high, std::uint32_t to) {
    return add({StateKind::Bytes, static_cast<std::uint8_t>(low), static_cast<std::uint8_t>(high), true, to});
  };
  std::vector<std::uint32_t> starts;
  CharSet rest = set;
  for (const auto& [plain, letter] : letters) {
    const auto c = static_cast<char32_t>(plain);
    if (!set.has(c)) continue;
    starts.push_back(byte(letter, letter, next));
    rest = rest.without({c, c});
  }
  std::vector<std::uint32_t> digits;
  for (char32_t sixteen = 0; sixteen < 2; ++sixteen) {
    std::vector<std::uint32_t> last;
    for (char32_t low = 0; low < 16; ++low) {
      if (!rest.has(sixteen * 16 + low)) continue;
      const char digit = "0123456789abcdef"[low];
      last.push_back(byte(digit, digit, next));
    }
    const char first = sixteen == 0 ? '0' : '1';
    if (!last.empty()) digits.push_back(byte(first, first, any_of(last)));
  }
  if (!digits.empty()) starts.push_back(byte('u', 'u', byte('0', '0', byte('0', '0', any_of(digits)))));
  const std::uint32_t backslash = byte('\\', '\\', any_of(starts));
  states_[backslash].inside = false;
  return backslash;
}

/// Adds the ranges of bytes that make up the UTF-8 of first to last: ranges are cut until the bytes of a code point
/// vary independently of each other.
void Nfa::utf8(char32_t first, char32_t last, std::uint32_t next, std::vector<std::uint32_t>& starts) {
  for (const char32_t limit : {U'\x7F', U'\u07FF', U'\uFFFF'}) {
    if (first > limit || last <= limit) continue;
    utf8(first, limit, next, starts);
    utf8(limit + 1, last, next, starts);
    return;
  }
  const int bytes = first < 0x80 ? 1 : first < 0x800 ? 2 : first < 0x10000 ? 3 : 4;
  for (int i = 1; i < bytes; ++i) {
    const char32_t low = (char32_t{1} << 6 * i) - 1;
    if ((first & ~low) == (last & ~low)) continue;
    const char32_t cut = (first & low) != 0 ? first | low : (last & low) != low ? (last & ~low) - 1 : last;
    if (cut == last) continue;
    utf8(first, cut, next, starts);
    utf8(cut + 1, last, next, starts);
    return;
  }
  std::string begin, end;
  text::append_utf8(begin, first);
  text::append_utf8(end, last);
  for (std::size_t i = begin.size(); i-- > 0;)
    next = add({StateKind::Bytes, static_cast<std::uint8_t>(begin[i]), static_cast<std::uint8_t>(end[i]), i > 0, next});
  starts.push_back(next);
}

}  // namespace mortar::grammar
