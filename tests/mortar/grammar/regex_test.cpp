// Regular expressions against std::regex, whose syntax is that of ECMA-262, and against texts that are known.
#include <cstdint>
#include <optional>
#include <regex>

#include "grammar/dfa.hpp"
#include "grammars.hpp"

namespace mortar::grammar {
namespace THIS_FILE {

using ::testing::HasSubstr;

bool dfa_matches(const Dfa& dfa, std::string_view text) {
  std::uint32_t state = 0;
  for (const char c : text) {
    state = dfa.step(state, static_cast<std::uint8_t>(c));
    if (state == Dfa::kDead) return false;
  }
  return dfa.accepts[state];
}

std::optional<Dfa> dfa_of(std::string_view expression, Spelling spelling = Spelling::Raw) {
  Budget budget(1'000'000);
  return make_dfa(parse_regex(expression, "test", budget), spelling, budget);
}

/// An expression of the characters a, b, c.
std::string random_expression(Random& random, int depth) {
  static constexpr const char* atoms[] = {"a", "b", "c", ".", "[ab]", "[^a]", "[a-c]", "\\w", "\\d", "(?:)", "ab"};
  static constexpr const char* quantifiers[] = {"*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"};
  switch (depth > 0 ? random() % 5 : 0) {
    case 1: return random_expression(random, depth - 1) + random_expression(random, depth - 1);
    case 2: return "(?:" + random_expression(random, depth - 1) + "|" + random_expression(random, depth - 1) + ")";
    case 3: return "(" + random_expression(random, depth - 1) + ")" + quantifiers[random() % std::size(quantifiers)];
    case 4: return (random() % 2 == 0 ? "(?:^|b)" : "(?:$|a)") + random_expression(random, depth - 1);
    default: return atoms[random() % std::size(atoms)];
  }
}

std::vector<std::string> texts_of(std::string_view letters, std::size_t longest) {
  std::vector<std::string> texts = {""};
  for (std::size_t first = 0, length = 0; length < longest; ++length) {
    const std::size_t end = texts.size();
    for (; first < end; ++first) {
      for (const char c : letters) texts.push_back(texts[first] + c);
    }
  }
  return texts;
}

TEST(Regex, MatchesWhatStdRegexDoes) {
  Random random(1);
  const std::vector<std::string> texts = texts_of("abc", 4);
  for (int i = 0; i < 150; ++i) {
    const std::string expression = random_expression(random, 3);
    SCOPED_TRACE(expression);
    const std::regex reference(expression, std::regex::ECMAScript);
    Budget budget(1'000'000);
    const Regex regex = parse_regex(expression, "test", budget);
    const auto whole = make_dfa(regex, Spelling::Raw, budget),
               within = make_dfa(within_text(regex), Spelling::Raw, budget);
    for (const std::string& text : texts) {
      ASSERT_EQ(whole.has_value() && dfa_matches(*whole, text), std::regex_match(text, reference)) << text;
      ASSERT_EQ(within.has_value() && dfa_matches(*within, text), std::regex_search(text, reference)) << text;
    }
  }
}

TEST(Regex, ClassesAreSetsOfCodePoints) {
  struct Case {
    const char *expression, *text;
    bool matches;
  };
  const Case cases[] = {{".", "é", true},
                        {".", "\n", false},
                        {"..", "é", false},
                        {"[^a]", "中", true},
                        {"[é-ü]", "ö", true},
                        {"[é-ü]", "z", false},
                        {"\\u00e9", "é", true},
                        {"\\u{1F600}", "😀", true},
                        {"\\uD83D\\uDE00", "😀", true},
                        {"\\x41", "A", true},
                        {"\\p{L}+", "Größe", true},
                        {"\\p{L}", "1", false},
                        {"\\p{N}", "٣", true},
                        {"\\P{L}", "1", true},
                        {"\\s", "\xC2\xA0", true},
                        {"[\\w-]+", "a-b", true},
                        {"[]a]", "x", false},
                        {"\\/", "/", true},
                        {"[\\]a]+", "]a", true},
                        {"\\.", "x", false},
                        {"[\\d.]+", "1.5", true},
                        {"(?<year>\\d{4})", "2026", true},
                        {"\\cA", "A", false}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.expression);
    std::optional<Dfa> dfa;
    try {
      dfa = dfa_of(c.expression);
    } catch (const RequestError&) {}
    EXPECT_EQ(dfa.has_value() && dfa_matches(*dfa, c.text), c.matches);
  }
}

TEST(Regex, EveryCodePointOfARangeAndNoOther) {
  Random random(2);
  for (int i = 0; i < 40; ++i) {
    static constexpr char32_t bits[] = {7, 11, 16, 20};
    const auto any = [&] { return static_cast<char32_t>(random() & ((1U << bits[random() % 4]) - 1)); };
    char32_t first = any(), last = any();
    if (first > last) std::swap(first, last);
    const CharSet set(first, last);
    Budget budget(1'000'000);
    const auto dfa = make_dfa({.kind = Regex::Kind::Chars, .chars = set}, Spelling::Raw, budget);
    for (int j = 0; j < 200; ++j) {
      const char32_t around[] = {first - 1, first, last, last + 1, any()};
      const char32_t c = around[random() % 5];
      if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) continue;
      Regex one{.kind = Regex::Kind::Chars, .chars = {c, c}};
      const auto text = make_dfa(one, Spelling::Raw, budget);  // a chain: its bytes are those of the code point
      std::string bytes;
      for (std::uint32_t s = 0; !text->accepts[s];) {
        for (int byte = 0; byte < 256; ++byte) {
          if (const std::uint32_t next = text->step(s, static_cast<std::uint8_t>(byte)); next != Dfa::kDead) {
            bytes += static_cast<char>(byte);
            s = next;
            break;
          }
        }
      }
      ASSERT_EQ(dfa.has_value() && dfa_matches(*dfa, bytes), set.has(c)) << bytes;
    }
  }
}

TEST(Regex, CharactersOfJsonStringsAreSpelledInTheirShortestWay) {
  const auto dfa = dfa_of("[^a]*", Spelling::Json);
  for (const char* text : {"", "b", "\\n", "\\\"", "\\\\", "\\u0001", "\\u001f", "é\\t"})
    EXPECT_TRUE(dfa_matches(*dfa, text)) << text;
  for (const char* text : {"a", "\n", "\"", "\\", "\\u000a", "\\u0061", "\\/", "\\u0020", "\\a"})
    EXPECT_FALSE(dfa_matches(*dfa, text)) << text;
  EXPECT_FALSE(dfa_matches(*dfa_of("[^\\n]", Spelling::Json), "\\n"));
  EXPECT_TRUE(dfa_matches(*dfa_of("[^\\n]", Spelling::Json), "\\u001f"));
}

TEST(Regex, WhatIsNotSupportedIsNamedWithItsOffset) {
  struct Case {
    const char *expression, *offset, *message;
  };
  const Case cases[] = {{"x(?=a)", "offset 1", "look-ahead"},   {"(?!a)", "offset 0", "look-ahead"},
                        {"(?<=a)b", "offset 0", "look-behind"}, {"(a)\\1", "offset 3", "references to groups"},
                        {"\\bword", "offset 0", "boundary"},    {"(?i)a", "offset 0", "modifiers"},
                        {"a**", "offset 2", "quantifier"},      {"*a", "offset 0", "quantifier"},
                        {"(a", "offset 0", "without ')'"},      {"a)", "offset 1", "without '('"},
                        {"[a", "offset 0", "without ']'"},      {"[b-a]", "offset 1", "wrong order"},
                        {"a{3,2}", "offset 1", "wrong order"},  {"a{1000000}", "offset 1", "larger than"},
                        {"\\p{Greek}", "offset 0", "\\p{L}"},   {"\\q", "offset 0", "not supported"},
                        {"a\\", "offset 1", "backslash"},       {"^*", "offset 0", "assertion"},
                        {"\\uD800", "offset 0", "surrogate"},   {"[]", "offset 0", "without characters"}};
  for (const Case& c : cases) {
    const std::string error = error_of([&] { return Grammar::from_regex(c.expression); });
    EXPECT_THAT(error, testing::AllOf(HasSubstr(c.offset), HasSubstr(c.message))) << c.expression;
  }
}

TEST(Regex, AWholeAnswer) {
  const auto grammar = shared(Grammar::from_regex("(yes|no), [0-9]{2,3}\\."));
  EXPECT_TRUE(matches(grammar, "yes, 12."));
  EXPECT_TRUE(matches(grammar, "no, 123."));
  EXPECT_FALSE(matches(grammar, "no, 1."));
  EXPECT_FALSE(matches(grammar, "no, 123"));
  EXPECT_FALSE(matches(grammar, "no, 123. "));
  EXPECT_THAT(error_of([] { return Grammar::from_regex("a$b"); }), HasSubstr("no text matches"));
}

TEST(Regex, LengthsOfAPatternAreExact) {
  Budget budget(1'000'000);
  const auto dfa = dfa_of("(?:ab|é)*c?");
  for (const auto& [min, max] :
       {std::pair<std::uint32_t, std::uint32_t>{0, 3}, {2, 2}, {3, 7}, {4, LengthTable::kUnbounded}}) {
    const LengthTable lengths(*dfa, min, max, budget);
    for (const std::string& text : texts_of("abc\xC3\xA9", 5)) {
      std::uint32_t state = 0, count = 0;
      for (const char c : text) {
        if (dfa->boundary[state]) count = lengths.counted(count);
        state = dfa->step(state, static_cast<std::uint8_t>(c));
        if (state == Dfa::kDead || !lengths.viable(state, count)) {
          state = Dfa::kDead;
          break;
        }
      }
      std::size_t chars = 0;
      for (const char c : text) chars += (c & 0xC0) != 0x80 ? 1 : 0;
      const bool expected = dfa_matches(*dfa, text) && chars >= min && chars <= max;
      ASSERT_EQ(state != Dfa::kDead && dfa->accepts[state] && lengths.may_end(count), expected) << text << min << max;
      if (state == Dfa::kDead) continue;
      ASSERT_TRUE(lengths.may_end(count) || lengths.viable(state, count));
    }
  }
  EXPECT_FALSE(LengthTable(*dfa_of("(?:ab)*"), 3, 3, budget).viable(0, 0));
}

}  // namespace THIS_FILE
}  // namespace mortar::grammar
