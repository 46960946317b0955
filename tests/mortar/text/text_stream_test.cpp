// Streams give the same text however their input is divided, and hold back no more than they must.
#include "mortar/text_stream.hpp"

#include <gtest/gtest.h>

#include <string>

#include <vector>

#include <algorithm>

#include <random>

#include "text/utf8.hpp"

namespace mortar {
namespace THIS_FILE {

TEST(MortarCharacterStream, EqualsTheWholeHoweverItIsDivided) {
  const std::string whole = "a\xC3\xA9\xE4\xBD\xA0\xF0\x9F\x98\x80\xFF\xE4\xBD z\xF0\x9F\x98\xE1\x80";
  const std::string expected = text::replace_invalid_utf8(whole);
  std::mt19937 random(1);
  for (int run = 0; run < 300; ++run) {
    CharacterStream stream;
    std::string out;
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t n = std::min<std::size_t>(1 + random() % 4, whole.size() - at);
      const std::string part = stream.push(std::string_view(whole).substr(at, n));
      EXPECT_EQ(text::valid_utf8(part), part.size());
      out += part;
      at += n;
    }
    out += stream.finish();
    EXPECT_EQ(out, expected);
  }
}

TEST(MortarCharacterStream, KeepsOnlyWhatIsIncomplete) {
  CharacterStream stream;
  EXPECT_EQ(stream.push("ab\xF0\x9F"), "ab");
  EXPECT_EQ(stream.push("\x98"), "");
  EXPECT_EQ(stream.push("\x80"
                        "c"),
            "\xF0\x9F\x98\x80"
            "c");
  EXPECT_EQ(stream.push("\xC3("), "\xEF\xBF\xBD(");  // wrong at once
  EXPECT_EQ(stream.push("\xE4"), "");
  EXPECT_EQ(stream.finish(), "\xEF\xBF\xBD");
  EXPECT_EQ(stream.finish(), "");
}

// The first end of a stop string in the whole text decides; what is before its beginning is the text.
TEST(MortarStopFilter, EqualsASearchOfTheWhole) {
  std::mt19937 random(2);
  const auto text = [&](std::size_t most) {
    std::string s;
    for (std::size_t n = random() % most; n > 0; --n) s += "ab"[random() % 2];
    return s;
  };
  int stopped = 0;
  for (int run = 0; run < 5000; ++run) {
    std::vector<std::string> stops;
    for (std::size_t n = random() % 4; n > 0; --n) stops.push_back(text(6));
    const std::string whole = text(40);
    std::size_t end = whole.npos, begin = whole.npos;
    for (const std::string& stop : stops) {
      const std::size_t at = stop.empty() ? whole.npos : whole.find(stop);
      if (at == whole.npos || at + stop.size() > end) continue;
      if (at + stop.size() < end || at < begin) begin = at;
      end = at + stop.size();
    }
    StopFilter filter(stops);
    std::string out;
    for (std::size_t at = 0; at < whole.size();) {
      const std::size_t n = std::min<std::size_t>(1 + random() % 5, whole.size() - at);
      out += filter.push(std::string_view(whole).substr(at, n));
      at += n;
      if (!filter.stopped()) {  // what is held back could become a stop string
        const std::string held = whole.substr(out.size(), at - out.size());
        EXPECT_TRUE(held.empty() || std::any_of(stops.begin(), stops.end(), [&](const std::string& s) {
                      return s.starts_with(held) && s != held;
                    }));
      }
    }
    EXPECT_EQ(filter.stopped(), end != whole.npos);
    if (filter.stopped()) { EXPECT_EQ(whole.find(filter.found()) + filter.found().size(), end); }
    if (!filter.stopped()) out += filter.finish();
    EXPECT_EQ(out, whole.substr(0, begin));
    if (filter.stopped()) { EXPECT_EQ(filter.push("a"), ""); }
    stopped += filter.stopped() ? 1 : 0;
  }
  EXPECT_GT(stopped, 1000);
}

const Tokenizer& small() {
  static const Tokenizer tokenizer = Tokenizer::load(MORTAR_TEST_DATA "/small_tokenizer");
  return tokenizer;
}

struct Answer {
  std::string thinking, content;
  bool stopped = false;
};
Answer answer(const std::string& text, AnswerOptions options) {
  AnswerStream stream(small(), std::move(options));
  Answer out;
  const auto take = [&](const std::vector<AnswerText>& parts) {
    for (const AnswerText& part : parts) {
      EXPECT_FALSE(part.text.empty());
      EXPECT_EQ(text::valid_utf8(part.text), part.text.size());
      (part.channel == Channel::Thinking ? out.thinking : out.content) += part.text;
    }
  };
  for (TokenId id : small().encode(text)) take(stream.push(id));
  take(stream.finish());
  out.stopped = stream.stopped();
  return out;
}

TEST(MortarAnswerStream, DividesThinkingFromContent) {
  Answer a = answer("<think>\nhm\n\nso\n</think>\n\nYes \xF0\x9F\x98\x80\n<|im_end|>", {});
  EXPECT_EQ(a.thinking, "hm\n\nso");
  EXPECT_EQ(a.content, "Yes \xF0\x9F\x98\x80\n");
  a = answer("hm\n</think>\n\nYes", {.starts_thinking = true});
  EXPECT_EQ(a.thinking, "hm");
  EXPECT_EQ(a.content, "Yes");
  a = answer("\n\nplain </think>", {});  // nothing was thought: nothing is taken away
  EXPECT_EQ(a.thinking, "");
  EXPECT_EQ(a.content, "\n\nplain </think>");
  a = answer("<think>\n\n</think>\n\nok", {});
  EXPECT_EQ(a.thinking, "");
  EXPECT_EQ(a.content, "ok");
  a = answer("<think>never ends \xE4\xBD\xA0", {});
  EXPECT_EQ(a.thinking, "never ends \xE4\xBD\xA0");
  a = answer("x<|im_end|>", {.skip_special = false});
  EXPECT_EQ(a.content, "x<|im_end|>");
}

TEST(MortarAnswerStream, StopsAtStopStrings) {
  Answer a = answer("one two STOP three", {.stop = {"STOP", "never"}});
  EXPECT_EQ(a.content, "one two ");
  EXPECT_TRUE(a.stopped);
  a = answer("one two STO", {.stop = {"STOP"}});
  EXPECT_EQ(a.content, "one two STO");
  EXPECT_FALSE(a.stopped);
  a = answer("<think>ST</think>OP", {.stop = {"STOP"}});  // not across the two
  EXPECT_EQ(a.thinking, "ST");
  EXPECT_EQ(a.content, "OP");
  EXPECT_FALSE(a.stopped);
  a = answer("<think>a STOP b</think>c", {.stop = {"STOP"}});
  EXPECT_EQ(a.thinking, "a ");
  EXPECT_EQ(a.content, "");
}

}  // namespace THIS_FILE
}  // namespace mortar
