// Operations on sets of code points: ranges stay sorted and disjoint.
#include "grammar/char_set.hpp"

#include <algorithm>

#include "text/unicode.hpp"

namespace mortar::grammar {
namespace {

constexpr char32_t kLast = 0x10FFFF, kFirstSurrogate = 0xD800, kLastSurrogate = 0xDFFF;

}  // namespace

CharSet CharSet::word() {
  CharSet set('0', '9');
  set.add('A', 'Z');
  set.add('_', '_');
  set.add('a', 'z');
  return set;
}

CharSet CharSet::space() {
  CharSet set('\t', '\r');
  for (const char32_t c :
       {U' ', U'\u00A0', U'\u1680', U'\u2028', U'\u2029', U'\u202F', U'\u205F', U'\u3000', U'\uFEFF'})
    set.add(c, c);
  set.add(0x2000, 0x200A);
  return set;
}

CharSet CharSet::unicode(std::string_view name) {
  using text::CharClass;
  const CharClass wanted = name == "L"   ? CharClass::Letter
                           : name == "M" ? CharClass::Mark
                           : name == "N" ? CharClass::Number
                                         : CharClass::Other;
  CharSet set;
  if (wanted == CharClass::Other) return set;
  const text::CharTable& table = text::CharTable::get();
  for (char32_t c = 0; c <= kLast; ++c) {
    if (table.class_of(c) != wanted) continue;
    if (!set.ranges_.empty() && set.ranges_.back().last + 1 == c)
      set.ranges_.back().last = c;
    else
      set.ranges_.push_back({c, c});
  }
  return set;
}

void CharSet::add(char32_t first, char32_t last) {
  if (first < kFirstSurrogate && last > kLastSurrogate) {
    insert(first, kFirstSurrogate - 1);
    insert(kLastSurrogate + 1, last);
    return;
  }
  if (first >= kFirstSurrogate && first <= kLastSurrogate) first = kLastSurrogate + 1;
  if (last >= kFirstSurrogate && last <= kLastSurrogate) last = kFirstSurrogate - 1;
  if (first <= last) insert(first, last);
}

void CharSet::insert(char32_t first, char32_t last) {
  auto begin = std::lower_bound(ranges_.begin(), ranges_.end(), first,
                                [](const CharRange& range, char32_t c) { return range.last + 1 < c; });
  auto end = begin;
  for (; end != ranges_.end() && end->first <= last + 1; ++end) {
    first = std::min(first, end->first);
    last = std::max(last, end->last);
  }
  begin = ranges_.erase(begin, end);
  ranges_.insert(begin, {first, last});
}

void CharSet::add(const CharSet& other) {
  for (const CharRange& range : other.ranges_) insert(range.first, range.last);
}

CharSet CharSet::inverted() const {
  CharSet set;
  char32_t next = 0;
  for (const CharRange& range : ranges_) {
    if (range.first > next) set.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= kLast) set.add(next, kLast);
  return set;
}

CharSet CharSet::without(const CharSet& other) const {
  CharSet outside = inverted();
  outside.add(other);
  return outside.inverted();
}

bool CharSet::has(char32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [c](const CharRange& r) { return r.first <= c && c <= r.last; });
}

}  // namespace mortar::grammar
