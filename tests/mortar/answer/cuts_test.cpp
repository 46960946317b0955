// However an answer is cut into tokens and increments, what a client joins is the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "mortar/answer/answers.hpp"

namespace mortar::answer {
namespace THIS_FILE {

/// An answer as the model's bytes between tags.
struct Part {
  std::string bytes;
  int tag = -1;  // of AnswerMachine::Tag; then there are no bytes
};

std::vector<Part> parts_of(const std::string& text) {
  static const std::string tags[] = {"<think>", "</think>", "<tool_call>", "</tool_call>"};
  std::vector<Part> parts;
  for (std::size_t at = 0; at < text.size();) {
    int tag = -1;
    std::size_t end = text.size();
    for (int i = 0; i < 4; ++i)
      if (const std::size_t begin = text.find(tags[i], at); begin < end) end = begin, tag = i;
    if (end > at) parts.push_back({text.substr(at, end - at)});
    if (tag >= 0) parts.push_back({"", tag});
    at = tag >= 0 ? end + tags[tag].size() : end;
  }
  return parts;
}

/// `cut` says how many bytes come next, and whether an increment ends there.
template <class Cut>
Result cut_answer(const std::vector<Part>& parts, const MachineOptions& options, Cut&& cut) {
  AnswerMachine machine(small_tokenizer(), options);
  Joiner joiner;
  Events events;
  const auto flush = [&] {
    joiner.take(events);
    events.clear();
  };
  for (const Part& part : parts) {
    if (part.tag >= 0) machine.push_tag(static_cast<AnswerMachine::Tag>(part.tag), events);
    for (std::size_t at = 0; at < part.bytes.size();) {
      const auto [bytes, ends] = cut(part.bytes.size() - at);
      machine.push_bytes(std::string_view(part.bytes).substr(at, bytes), events);
      at += bytes;
      if (ends) flush();
    }
  }
  const bool stopped = machine.stopped();
  machine.finish(events);
  flush();
  return joiner.finish(stopped);
}

/// Answers of all kinds: whole calls, damaged ones, tags anywhere, characters of several bytes.
class Answers {
 public:
  explicit Answers(unsigned seed) : random_(seed) {}

  std::string next() {
    std::string out;
    if (chance(3)) out += "<think>\n" + words() + (chance(5) ? "" : "\n</think>\n\n");
    for (std::size_t n = random_() % 5; n > 0; --n) {
      if (chance(3))
        out += words();
      else if (chance(8))
        out += pick({"<think>", "</think>", "<tool_call>", "</tool_call>", "\n", "  "});
      else
        out += "<tool_call>" + pick({"\n", "", " "}) + damaged(chance(2) ? json_call() : xml_call()) +
               pick({"\n", ""}) + (chance(8) ? "" : "</tool_call>") + pick({"\n", "", "\n\n"});
    }
    if (chance(4)) out.resize(random_() % (out.size() + 1));
    return out;
  }
  MachineOptions options() {
    static const text::Json schema = text::parse_json(
        R"({"properties": {"a": {"type": "string"}, "b": {"type": "integer"}, "c": {"type": ["object", "null"]}}})",
        "schema");
    MachineOptions o;
    o.calls = static_cast<CallFormat>(random_() % 3);
    o.tools = {tool_types("f", &schema)};
    o.thinking = static_cast<Thinking>(random_() % 3);
    if (chance(3)) o.stop = {pick({"STOP", "\n\n", "ab", "}"})};
    o.keep_stop = chance(2);
    o.one_call = chance(4);
    return o;
  }
  std::mt19937& random() { return random_; }

 private:
  bool chance(unsigned n) { return random_() % n == 0; }
  std::string pick(std::vector<std::string> choices) { return choices[random_() % choices.size()]; }
  std::string words() {
    std::string out;
    for (std::size_t n = random_() % 6; n > 0; --n)
      out += pick({"a", "ab", " ", "\n", "\n\n", "STOP", "STO", "\xE4\xBD\xA0", "\xF0\x9F\x98\x80", "<", "{", "\"",
                   "\xFF", "<tool"});
    return out;
  }
  std::string json_value(int depth) {
    switch (random_() % (depth > 2 ? 4 : 6)) {
      case 0: return "1.5e3";
      case 1: return pick({"true", "null", "-1"});
      case 2: return "\"" + pick({"x", "\\\"", "}", "\\\\", "{[", "\xC3\xA9", "</tool_call", "\\u00e9"}) + "\"";
      case 3: return "{}";
      case 4: return "[" + json_value(depth + 1) + pick({", ", ","}) + json_value(depth + 1) + "]";
      default: return "{\"k\"" + pick({":", ": ", " : "}) + json_value(depth + 1) + "}";
    }
  }
  std::string json_call() {
    const std::string name = R"("name": ")" + pick({"f", "g", "\\u0066", ""}) + "\"";
    const std::string arguments =
        "\"arguments\": " + (chance(6) ? pick({"null", "3", R"("{\"a\": 1}")"}) : "{\"a\": " + json_value(0) + "}");
    return "{" + (chance(5) ? arguments + ", " + name : chance(8) ? name : name + ", " + arguments) + "}";
  }
  std::string xml_call() {
    std::string out = "<function=" + pick({"f", "g"}) + ">\n";
    for (std::size_t n = random_() % 3; n > 0; --n)
      out += "<parameter=" + pick({"a", "b", "c", "d"}) + ">" + pick({"\n", ""}) +
             pick({"1", "x\ny", "\n", "", "{\"k\": 1}", "null", "</para", "\xE4\xBD\xA0 \"q\"", "</tool_call>"}) +
             pick({"\n", ""}) + "</parameter>" + pick({"\n", "", " z "});
    return out + "</function>";
  }
  std::string damaged(std::string text) {
    if (!chance(4) || text.empty()) return text;
    const std::size_t at = random_() % text.size();
    switch (random_() % 3) {
      case 0: text.erase(at, 1 + random_() % 3); break;
      case 1: text.insert(at, pick({"}", "\"", "x", "<", "\n"})); break;
      default: text.resize(at);
    }
    return text;
  }
  std::mt19937 random_;
};

TEST(MortarAnswerCuts, RandomAnswersCutAtRandom) {
  Answers answers(1);
  std::size_t calls = 0, stopped = 0;
  for (int run = 0; run < 4000; ++run) {
    const std::string text = answers.next();
    const MachineOptions options = answers.options();
    const std::vector<Part> parts = parts_of(text);
    const Result whole = cut_answer(parts, options, [](std::size_t left) { return std::pair(left, false); });
    calls += whole.calls.size();
    stopped += whole.stopped ? 1 : 0;
    for (int cut = 0; cut < 4; ++cut) {
      auto& random = answers.random();
      const std::size_t longest = cut == 0 ? 1 : 1 + random() % 9;
      const Result pieces = cut_answer(parts, options, [&](std::size_t left) {
        return std::pair(std::min<std::size_t>(left, 1 + random() % longest), random() % 3 != 0);
      });
      ASSERT_EQ(pieces, whole) << text << "\nformat " << static_cast<int>(options.calls);
    }
  }
  EXPECT_GT(calls, 800);
  EXPECT_GT(stopped, 200);
}

TEST(MortarAnswerCuts, EveryPlaceAndEveryPairOfPlaces) {
  const std::string text =
      "<think>\nhm \xF0\x9F\x98\x80\n</think>\n\nOk.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": "
      "\"}\xC3\xA9\"}}\n</tool_call>\n"
      "<tool_call>\n<function=f>\n<parameter=a>\nx\n</y>\n</parameter>\n</function>\n</tool_call>";
  for (const CallFormat format : {CallFormat::Json, CallFormat::Xml}) {
    const MachineOptions options{.calls = format, .tools = {{"f", {}}}};
    const std::vector<Part> parts = parts_of(text);
    const Result whole = cut_answer(parts, options, [](std::size_t left) { return std::pair(left, false); });
    EXPECT_EQ(whole.calls.size(), 1);
    for (std::size_t first = 1; first < text.size(); ++first) {
      for (std::size_t second = first; second < text.size(); second += 1 + second % 3) {
        std::size_t at = 0;
        const auto cut = [&](std::size_t left) {
          std::size_t bytes = left;
          for (const std::size_t place : {first, second})
            if (place > at) bytes = std::min(bytes, place - at);
          at += bytes;
          return std::pair(bytes, true);
        };
        ASSERT_EQ(cut_answer(parts, options, cut), whole) << first << " " << second;
      }
    }
  }
}

TEST(MortarAnswerCuts, TagsThatAreTextAreFound) {
  Answers answers(2);
  for (int run = 0; run < 1000; ++run) {
    const std::string text = answers.next();
    MachineOptions options = answers.options();
    options.text_tags = true;
    const auto by = [&](std::size_t longest) {
      return cut_answer({{text}}, options, [&](std::size_t left) {
        return std::pair(std::min<std::size_t>(left, 1 + answers.random()() % longest), true);
      });
    };
    const Result whole = by(text.size() + 1);
    ASSERT_EQ(by(1), whole) << text;
    ASSERT_EQ(by(7), whole) << text;
  }
  const MachineOptions options{.calls = CallFormat::Json, .text_tags = true};
  const Result r = cut_answer(
      {{"<think>a</think>b <tool_call>{\"name\": \"f\", \"arguments\": {\"x\": \"</tool_call>\"}}</tool_call>"}},
      options, [](std::size_t) { return std::pair(std::size_t{1}, true); });
  EXPECT_EQ(r.thinking, "a");
  EXPECT_EQ(r.content, "b");
  ASSERT_EQ(r.calls.size(), 1);
  EXPECT_EQ(r.calls[0].second, "{\"x\": \"</tool_call>\"}");
}

}  // namespace THIS_FILE
}  // namespace mortar::answer
