// The decisions on thinking, content and calls, each beside what other servers got wrong.
#include <gtest/gtest.h>

#include "mortar/answer/answers.hpp"

namespace mortar::answer {
namespace THIS_FILE {

const MachineOptions kJson{.calls = CallFormat::Json};

std::string call(const std::string& inside) { return "<tool_call>\n" + inside + "\n</tool_call>"; }
const std::string kWeather = R"({"name": "weather", "arguments": {"city": "Rome"}})";

TEST(MortarAnswer, ThinkingContentAndCalls) {
  const Result r = answer("<think>\nhm\n\nso\n</think>\n\nLet me check.\n\n" + call(kWeather) + "\n" +
                              call(R"({"name":"time","arguments":{}})") + "<|im_end|>",
                          kJson);
  EXPECT_EQ(r.thinking, "hm\n\nso");
  EXPECT_EQ(r.content, "Let me check.");
  ASSERT_EQ(r.calls.size(), 2);
  EXPECT_EQ(r.calls[0], std::pair(std::string("weather"), std::string(R"({"city": "Rome"})")));
  EXPECT_EQ(r.calls[1], std::pair(std::string("time"), std::string("{}")));
}

TEST(MortarAnswer, ThinkingBeginsAndEndsOnce) {
  Result r = answer("a</think>b<think>c</think>d", {.thinking = Thinking::Inside});
  EXPECT_EQ(r.thinking, "a");
  EXPECT_EQ(r.content, "b<think>cd");  // <think> in content is text, a second </think> nothing
  r = answer("<think>a</think>b", {.thinking = Thinking::Ended});
  EXPECT_EQ(r.thinking, "");
  EXPECT_EQ(r.content, "<think>a</think>b");
  r = answer("a <think>b", {});
  EXPECT_EQ(r.content, "a <think>b");
  r = answer("\n <think>\nb", {});  // only white space before it
  EXPECT_EQ(r.thinking, "b");
  EXPECT_EQ(r.content, "");
  r = answer("<think>\n\nx", {.thinking = Thinking::Inside});  // the prompt's <think>, repeated
  EXPECT_EQ(r.thinking, "x");
  r = answer("</think>\n\nx", {});
  EXPECT_EQ(r.content, "</think>\n\nx");
  r = answer("cut short \n", {.thinking = Thinking::Inside});
  EXPECT_EQ(r.thinking, "cut short ");
  EXPECT_EQ(r.content, "");
}

TEST(MortarAnswer, ThePromptSaysWhetherThinkingHasBegun) {
  const auto after = [](const std::string& prompt) {
    return thinking_after(small_tokenizer().encode(prompt), small_tokenizer());
  };
  EXPECT_EQ(after("<|im_start|>assistant\n"), Thinking::MayBegin);
  EXPECT_EQ(after("<|im_start|>assistant\n<think>\n"), Thinking::Inside);
  EXPECT_EQ(after("<|im_start|>assistant\n<think>\n\n</think>\n\n"), Thinking::Ended);
  // An earlier message that never ended its thinking, and an example in the prompt.
  EXPECT_EQ(after("<|im_start|>assistant\n<think>\nx<|im_end|>\n<|im_start|>assistant\n"), Thinking::MayBegin);
  EXPECT_EQ(after("<|im_start|>user\n<think></think><tool_call><|im_end|>\n<|im_start|>assistant\n<think>\n"),
            Thinking::Inside);
}

TEST(MortarAnswer, ACallEndsTheThinkingIfThereAreTools) {
  Result r = answer("<think>\nI need it\n" + call(kWeather), kJson);
  EXPECT_EQ(r.thinking, "I need it");
  EXPECT_EQ(r.calls.size(), 1);
  r = answer("<think>I need <tool_call> x", {});
  EXPECT_EQ(r.thinking, "I need <tool_call> x");
  r = answer(call(kWeather), {});
  EXPECT_EQ(r.content, call(kWeather));
}

TEST(MortarAnswer, WhiteSpaceAroundCallsIsDropped) {
  EXPECT_EQ(answer("\n" + call(kWeather) + "\n\n" + call(kWeather) + "\n", kJson).content, "");
  EXPECT_EQ(answer("</think>\n\n" + call(kWeather), {.calls = CallFormat::Json, .thinking = Thinking::Inside}).content,
            "");
  EXPECT_EQ(answer("a\n" + call(kWeather) + "\n\nb \n", kJson).content, "a\n\nb");
  EXPECT_EQ(answer("no call \n", kJson).content, "no call \n");
  EXPECT_EQ(answer(" \n", kJson).content, " \n");
}

TEST(MortarAnswer, ArgumentsAreTheBytesOfTheModel) {
  const auto arguments = [](const std::string& object) {
    const Result r = answer(call(object), kJson);
    EXPECT_EQ(r.content, "");
    return r.calls.size() == 1 ? r.calls[0].second : "not one call";
  };
  EXPECT_EQ(arguments(R"({"name":"f","arguments":{"a" :1.0 ,"b":[ {"c":"}]\"{"} ]}})"),
            R"({"a" :1.0 ,"b":[ {"c":"}]\"{"} ]})");
  EXPECT_EQ(arguments(R"({"name": "f", "arguments": {"cmd": "mkdir -p test/{test1,test2"}})"),
            R"({"cmd": "mkdir -p test/{test1,test2"})");
  EXPECT_EQ(arguments(R"({"arguments": {"a": 1}, "name": "f"})"), R"({"a": 1})");  // known only after the name
  EXPECT_EQ(arguments(R"({"name": "f"})"), "{}");
  EXPECT_EQ(arguments(R"({"name": "f", "arguments": null})"), "{}");
  EXPECT_EQ(arguments(R"({"name": "f", "arguments": "{\"a\": 1}"})"), R"({"a": 1})");
  EXPECT_EQ(arguments(R"({"id": 7, "name": "f", "arguments": {"a": "</x>"}, "more": [1]})"), R"({"a": "</x>"})");
  EXPECT_EQ(answer("<tool_call>{\"name\":\"\\u0066\"}</tool_call>", kJson).calls[0].first, "f");  // no line ends
}

TEST(MortarAnswer, WhatIsNoCallIsContent) {
  for (const char* text : {"", "hello", "{\"name\": 3}", "{\"arguments\": {}}", "{\"name\": \"f\", \"arguments\": 3}",
                           "{\"name\": \"f\" \"arguments\": {}}", "{name: f}", "[1]", "{\"name\": \"f\"",
                           "{\"name\": \"f\", \"arguments\": \"x\"}"}) {
    const Result r = answer("a " + call(text) + " b", kJson);
    EXPECT_EQ(r.content, "a " + call(text) + " b");
    EXPECT_EQ(r.calls.size(), 0);
  }
  Result r = answer(call(kWeather + "}"), kJson);  // a bracket too many is nothing
  EXPECT_EQ(r.content, "");
  EXPECT_EQ(r.calls.size(), 1);
  r = answer(call(kWeather + " and more"), kJson);
  EXPECT_EQ(r.content, "and more");
  EXPECT_EQ(r.calls.size(), 1);
  r = answer(call(kWeather + "\n" + kWeather), kJson);  // two calls in one pair of tags
  EXPECT_EQ(r.calls.size(), 2);
  r = answer("<tool_call>" + kWeather + "<tool_call>" + kWeather, kJson);  // no end tags
  EXPECT_EQ(r.calls.size(), 2);
  EXPECT_EQ(r.content, "");
}

TEST(MortarAnswer, AnAnswerThatIsCutKeepsTheBeginningOfItsArguments) {
  Result r = answer("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"text\": \"abc", kJson);
  ASSERT_EQ(r.calls.size(), 1);
  EXPECT_EQ(r.calls[0].second, "{\"text\": \"abc");
  r = answer("x\n<tool_call>\n{\"name\": \"f", kJson);
  EXPECT_EQ(r.calls.size(), 0);
  EXPECT_EQ(r.content, "x\n<tool_call>\n{\"name\": \"f");
}

TEST(MortarAnswer, StopStringsAreOfContentAlone) {
  MachineOptions options = kJson;
  options.stop = {"STOP", "Rome"};
  Result r = answer("<think>STOP</think>a" + call(kWeather) + "b STOP c", options);
  EXPECT_EQ(r.thinking, "STOP");
  EXPECT_EQ(r.calls.size(), 1);
  EXPECT_EQ(r.content, "ab");
  EXPECT_TRUE(r.stopped);
  r = answer("<think>x</think>\n\nyes\n\nno", {.stop = {"\n\n"}});  // line ends after thinking stop nothing
  EXPECT_EQ(r.content, "yes");
  r = answer("yes\n STOP", {.stop = {"STOP"}, .keep_stop = true});
  EXPECT_EQ(r.content, "yes\n STOP");
  r = answer("yes\n STOP", {.calls = CallFormat::Json, .stop = {"STOP"}});
  EXPECT_EQ(r.content, "yes\n ");
}

TEST(MortarAnswer, OneCallEndsTheAnswer) {
  MachineOptions options = kJson;
  options.one_call = true;
  const Result r = answer(call(kWeather) + "\n" + call(kWeather), options);
  EXPECT_EQ(r.calls.size(), 1);
  EXPECT_TRUE(r.stopped);
}

TEST(MortarAnswer, PlacesOfTokens) {
  const std::string text = "<think>a</think>b" + call(kWeather) + "<|im_end|>";
  AnswerMachine machine(small_tokenizer(), kJson);
  std::string places;
  for (const TokenId id : small_tokenizer().encode(text)) {
    Events events;
    places.push_back("TCKH"[static_cast<int>(machine.push(id, events))]);
  }
  EXPECT_EQ(places.substr(0, 5), "TTTCK");
  EXPECT_EQ(places.find_first_not_of('K', 4), places.size() - 1);
  EXPECT_EQ(places.back(), 'H');
}

MachineOptions xml_options() {
  static const text::Json schema = text::parse_json(
      R"({"properties": {"text": {"type": "string"}, "n": {"type": "integer"}, "on": {"type": "boolean"},
          "list": {"type": "array"}, "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
          "kind": {"enum": ["1", "b"]}, "point": {"$ref": "#/$defs/Point"}}, "$defs": {"Point": {"type": "object"}}})",
      "schema");
  return {.calls = CallFormat::Xml, .tools = {tool_types("f", &schema), {"g", {}}}};
}

std::string xml(const std::string& name, const std::vector<std::pair<std::string, std::string>>& parameters) {
  std::string out = "<tool_call>\n<function=" + name + ">\n";
  for (const auto& [key, value] : parameters) out += "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
  return out + "</function>\n</tool_call>";
}

TEST(MortarAnswer, XmlValuesAreTypedByTheSchema) {
  const Result r = answer("Well.\n" + xml("f", {{"text", "42"},
                                                {"n", "42"},
                                                {"on", "True"},
                                                {"list", "[1, {\"a\": 2}]"},
                                                {"maybe", "null"},
                                                {"kind", "1"},
                                                {"point", "{\"x\": 1}"},
                                                {"other", "a \"b\"\n</c>\n"}}),
                          xml_options());
  EXPECT_EQ(r.content, "Well.");
  ASSERT_EQ(r.calls.size(), 1);
  EXPECT_EQ(r.calls[0].second,
            R"({"text": "42", "n": 42, "on": true, "list": [1, {"a": 2}], "maybe": null, "kind": "1", )"
            R"("point": {"x": 1}, "other": "a \"b\"\n</c>\n"})");
  EXPECT_EQ(answer(xml("f", {{"n", "many"}, {"list", "[1"}, {"maybe", "x"}}), xml_options()).calls[0].second,
            R"({"n": "many", "list": "[1", "maybe": "x"})");
}

TEST(MortarAnswer, XmlEdgeCases) {
  EXPECT_EQ(answer(xml("g", {}), xml_options()).calls[0].second, "{}");
  EXPECT_EQ(answer(xml("unknown", {{"a", "1"}}), xml_options()).calls[0].second, R"({"a": "1"})");
  EXPECT_EQ(
      answer("<tool_call><function=g><parameter=a>x</parameter></function></tool_call>", xml_options()).calls[0].second,
      R"({"a": "x"})");
  EXPECT_EQ(answer("<tool_call>\n<function=g>\n<parameter=a>\n\n\nx\n\n</parameter>", xml_options()).calls[0].second,
            R"({"a": "\n\nx\n")");  // cut
  EXPECT_EQ(answer("<tool_call>\n<function=g>\n<parameter=a>\nx\n</tool_call>y", xml_options()).calls[0].second,
            R"({"a": "x"})");
  Result r = answer(xml("g", {}) + "\n" + xml("f", {{"n", "1"}}), xml_options());
  EXPECT_EQ(r.calls.size(), 2);
  for (const char* text : {"", "hello", "<functio>", "<function=", "<function=\n>", "<function=>"}) {
    r = answer("a " + call(text) + " b", xml_options());
    EXPECT_EQ(r.content, "a " + call(text) + " b");
    EXPECT_EQ(r.calls.size(), 0);
  }
}

TEST(MortarAnswer, TheTemplateShowsTheFormat) {
  EXPECT_EQ(format_of_template("... <tool_call>\\n{\"name\": ..."), CallFormat::Json);
  EXPECT_EQ(format_of_template("<tool_call>\\n<function=example>"), CallFormat::Xml);
}

}  // namespace THIS_FILE
}  // namespace mortar::answer
