// Unicode normalization form C (Unicode 16, section 3.11): decompose, order marks by their class, compose.
#include <algorithm>
#include <cstdint>
#include <unordered_map>

#include "text/nfc_data.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace mortar::text {
namespace {

struct Pair {
  char32_t whole, first, second;
  int composes;
};
constexpr Pair kPairs[] = {
#include "text/unicode_pairs.inc"
};
struct Singleton {
  char32_t from, to;
};
constexpr Singleton kSingletons[] = {
#include "text/unicode_singletons.inc"
};
struct CombiningRun {
  char32_t first;
  std::uint8_t value;
};
constexpr CombiningRun kCombining[] = {
#include "text/unicode_combining.inc"
};

// Hangul syllables are computed from their letters (section 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11A7;
constexpr char32_t kVowelCount = 21, kTrailingCount = 28, kSyllableCount = 19 * kVowelCount * kTrailingCount;

std::uint8_t combining_class(char32_t c) {
  const auto* after = std::upper_bound(std::begin(kCombining), std::end(kCombining), c,
                                       [](char32_t value, const CombiningRun& run) { return value < run.first; });
  return after[-1].value;
}

const std::unordered_map<std::uint64_t, char32_t>& compositions() {
  static const auto* made = [] {
    auto* map = new std::unordered_map<std::uint64_t, char32_t>;
    for (const Pair& p : kPairs) {
      if (p.composes != 0) map->emplace(std::uint64_t{p.first} << 32 | p.second, p.whole);
    }
    return map;
  }();
  return *made;
}

/// 0: they stay two.
char32_t compose(char32_t a, char32_t b) {
  if (a >= kLeading && a < kLeading + 19 && b >= kVowels && b < kVowels + kVowelCount)
    return kSyllables + ((a - kLeading) * kVowelCount + (b - kVowels)) * kTrailingCount;
  if (a >= kSyllables && a < kSyllables + kSyllableCount && (a - kSyllables) % kTrailingCount == 0 && b > kTrailing &&
      b < kTrailing + kTrailingCount)
    return a + (b - kTrailing);
  const auto found = compositions().find(std::uint64_t{a} << 32 | b);
  return found == compositions().end() ? 0 : found->second;
}

struct Character {
  char32_t code_point;
  std::uint8_t combining;
};

void decompose(char32_t c, std::vector<Character>& out) {
  if (c < 0xC0) {
    out.push_back({c, 0});
  } else if (c >= kSyllables && c < kSyllables + kSyllableCount) {
    const char32_t index = c - kSyllables;
    out.push_back({kLeading + index / (kVowelCount * kTrailingCount), 0});
    out.push_back({kVowels + index / kTrailingCount % kVowelCount, 0});
    if (index % kTrailingCount != 0) out.push_back({kTrailing + index % kTrailingCount, 0});
  } else if (const auto* pair = std::lower_bound(std::begin(kPairs), std::end(kPairs), c,
                                                 [](const Pair& p, char32_t v) { return p.whole < v; });
             pair != std::end(kPairs) && pair->whole == c) {
    decompose(pair->first, out);
    decompose(pair->second, out);
  } else if (const auto* single = std::lower_bound(std::begin(kSingletons), std::end(kSingletons), c,
                                                   [](const Singleton& s, char32_t v) { return s.from < v; });
             single != std::end(kSingletons) && single->from == c) {
    decompose(single->to, out);
  } else {
    out.push_back({c, combining_class(c)});
  }
}

void order_marks(std::vector<Character>& text) {
  for (auto at = text.begin(); at != text.end();) {
    at = std::find_if(at, text.end(), [](const Character& c) { return c.combining != 0; });
    const auto end = std::find_if(at, text.end(), [](const Character& c) { return c.combining == 0; });
    std::stable_sort(at, end, [](const Character& a, const Character& b) { return a.combining < b.combining; });
    at = end;
  }
}

/// A mark combines with the last character of class 0 unless one of at least its own class stands between.
void compose(std::vector<Character>& text) {
  std::size_t kept = 0, starter = 0;
  bool has_starter = false;
  int last = -1;  // the class of what stands between; -1: nothing
  for (const Character& c : text) {
    const char32_t whole =
        has_starter && (last < 0 || last < c.combining) ? compose(text[starter].code_point, c.code_point) : 0;
    if (whole != 0) {
      text[starter].code_point = whole;
      continue;
    }
    if (c.combining == 0) {
      starter = kept;
      has_starter = true;
      last = -1;
    } else {
      last = c.combining;
    }
    text[kept++] = c;
  }
  text.resize(kept);
}

}  // namespace

std::vector<char32_t> changed_in_nfc() {
  std::vector<char32_t> out;
  for (const Singleton& s : kSingletons) out.push_back(s.from);
  for (const Pair& p : kPairs) out.push_back(p.composes != 0 ? p.second : p.whole);
  for (char32_t c = kVowels; c < kVowels + kVowelCount; ++c) out.push_back(c);
  for (char32_t c = kTrailing + 1; c < kTrailing + kTrailingCount; ++c) out.push_back(c);
  for (std::size_t i = 0; i + 1 < std::size(kCombining); ++i) {
    if (kCombining[i].value == 0) continue;
    for (char32_t c = kCombining[i].first; c < kCombining[i + 1].first; ++c) out.push_back(c);
  }
  return out;
}

std::string nfc(std::string_view text) {
  // What may change goes with the character before it; everything else is copied (the boundaries of UAX 15,
  // section 9.1).
  const CharTable& table = CharTable::get();
  std::string out;
  out.reserve(text.size());
  std::vector<Character> region;
  bool changes = false;
  const auto flush = [&] {
    if (changes) {
      order_marks(region);
      compose(region);
    }
    for (const Character& c : region) append_utf8(out, c.code_point);
    region.clear();
    changes = false;
  };
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Unit unit = decode_valid(text.data() + at);
    at += unit.bytes;
    if (!table.may_change_in_nfc(unit.code_point)) {
      flush();
      region.push_back({unit.code_point, 0});
      continue;
    }
    if (!changes && !region.empty()) {
      const char32_t before = region[0].code_point;
      region.clear();
      decompose(before, region);
    }
    changes = true;
    decompose(unit.code_point, region);
  }
  flush();
  return out;
}

}  // namespace mortar::text
