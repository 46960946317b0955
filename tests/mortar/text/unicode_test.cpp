// Classes of characters, NFC and damaged UTF-8.
#include "text/unicode.hpp"

#include <gtest/gtest.h>

#include <string>

#include <array>

#include "text/utf8.hpp"

namespace mortar::text {
namespace THIS_FILE {

// The numbers of code points of a class, as Oniguruma 6.9.10 has them (surrogates left out).
TEST(MortarUnicode, ClassesAreThoseOfUnicode16) {
  std::array<int, 5> count{};
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c < 0xD800 || c >= 0xE000) ++count[static_cast<std::size_t>(CharTable::get().class_of(c))];
  }
  EXPECT_EQ(count[static_cast<std::size_t>(CharClass::Letter)], 141028);
  EXPECT_EQ(count[static_cast<std::size_t>(CharClass::Number)], 1911);
  EXPECT_EQ(count[static_cast<std::size_t>(CharClass::Mark)], 2501);
  EXPECT_EQ(count[static_cast<std::size_t>(CharClass::Space)], 25);
}

TEST(MortarUnicode, ComposesCanonically) {
  const auto check = [](std::u32string_view from, std::u32string_view to) {
    std::string text, expected;
    for (char32_t c : from) append_utf8(text, c);
    for (char32_t c : to) append_utf8(expected, c);
    EXPECT_EQ(nfc(text), expected);
    EXPECT_EQ(nfc(expected), expected);
    EXPECT_TRUE(text == expected || !is_surely_nfc(text));
  };
  check(U"plain \u00E9", U"plain \u00E9");
  check(U"e\u0301x", U"\u00E9x");
  check(U"\u212B", U"\u00C5");                // singleton
  check(U"\u0958", U"\u0915\u093C");          // excluded from composition
  check(U"q\u0307\u0323", U"q\u0323\u0307");  // ordered by class
  check(U"d\u0307\u0323", U"\u1E0D\u0307");   // ordered, then composed
  check(U"a\u0345\u0301", U"\u00E1\u0345");
  check(U"\u1100\u1161\u11A8", U"\uAC01");   // Hangul
  check(U"\uAC00\u11A7", U"\uAC00\u11A7");   // no trailing consonant
  check(U"\u0301e\u0301", U"\u0301\u00E9");  // a mark at the beginning
  check(U"\u1E9B\u0323", U"\u1E9B\u0323");
  check(U"\u0B47\u0300\u0B3E", U"\u0B47\u0300\u0B3E");  // blocked
}

TEST(MortarUtf8, DividesDamagedTextAsUnicodeRecommends) {
  EXPECT_EQ(replace_invalid_utf8("a\xF1\x80\x80\xE1\x80\xC2z\x80"), "a\uFFFD\uFFFD\uFFFDz\uFFFD");
  EXPECT_EQ(replace_invalid_utf8("\xE0\x80\x80"), "\uFFFD\uFFFD\uFFFD");  // overlong
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // surrogate
  EXPECT_EQ(replace_invalid_utf8("\xF4\x90\x80\x80"), "\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(valid_utf8("12345678\xC3\xA9\xC3"), 10u);
}

}  // namespace THIS_FILE
}  // namespace mortar::text
