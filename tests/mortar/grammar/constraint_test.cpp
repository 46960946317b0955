// Where an answer is restricted, where it may end, copies, choices, and calls of tools in both formats.
#include <algorithm>
#include <memory>
#include <thread>

#include "base/rounds.hpp"
#include "grammars.hpp"

namespace mortar::grammar {
namespace THIS_FILE {

using ::testing::HasSubstr;

std::vector<TokenId> tokens(std::string_view text) { return small_tokenizer().encode(text); }

bool accept_all(TokenConstraint& constraint, std::string_view text) {
  for (const TokenId id : tokens(text)) {
    if (constraint.restricts() && !has(mask_of(constraint), id)) return false;
    if (!constraint.accept(id)) return false;
  }
  return true;
}

TEST(Constraint, AnAnswerEndsWhereItIsComplete) {
  const auto constraint =
      constrained(shared(Grammar::from_choice(std::vector<std::string>{"yes", "yes, always", "no"})));
  const TokenId end = end_of_answer();
  EXPECT_TRUE(constraint->restricts());
  EXPECT_FALSE(has(mask_of(*constraint), end));
  EXPECT_FALSE(constraint->accept(end));
  EXPECT_TRUE(accept_all(*constraint, "yes"));
  EXPECT_TRUE(has(mask_of(*constraint), end));
  EXPECT_FALSE(constraint->accept(tokens("x")[0]));  // nothing has changed
  const auto other = constraint->clone();
  EXPECT_TRUE(constraint->accept(end));
  EXPECT_EQ(ids_of(mask_of(*constraint)), std::vector<TokenId>{end});
  EXPECT_FALSE(constraint->accept(tokens(",")[0]));
  EXPECT_TRUE(accept_all(*other, ", always"));
  EXPECT_EQ(ids_of(mask_of(*other)), std::vector<TokenId>{end});
}

TEST(Constraint, ChoicesAreWholeTexts) {
  const auto grammar = shared(Grammar::from_choice(std::vector<std::string>{"", "a", "äß"}));
  EXPECT_TRUE(matches(grammar, ""));
  EXPECT_TRUE(matches(grammar, "äß"));
  EXPECT_FALSE(matches(grammar, "ä"));
  EXPECT_THAT(error_of([] { return Grammar::from_choice({}); }), HasSubstr("at least one"));
  EXPECT_THAT(error_of([] { return Grammar::from_choice(std::vector<std::string>{"\xFF"}); }), HasSubstr("UTF-8"));
}

TEST(Constraint, JsonObjects) {
  const auto grammar = shared(Grammar::json_object());
  EXPECT_TRUE(matches(grammar, R"({"a": [1, {"b": "\u00e9"}], "c": null})"));
  EXPECT_TRUE(matches(grammar, "{}"));
  EXPECT_FALSE(matches(grammar, "[]"));
  EXPECT_FALSE(matches(grammar, "{} "));
}

TEST(Constraint, AddedTokensAreNoText) {
  const auto constraint = constrained(shared(Grammar::from_json_schema(R"({"type": "string"})")));
  ASSERT_TRUE(accept_all(*constraint, "\"a"));
  const Mask mask = mask_of(*constraint);
  for (TokenId id = 0; id < small_tokenizer().size(); ++id) {
    if (small_tokenizer().is_added(id)) { EXPECT_FALSE(has(mask, id)) << id; }
  }
  EXPECT_FALSE(constraint->accept(id_of("<think>")));
  EXPECT_FALSE(constraint->accept(-1));
  EXPECT_FALSE(constraint->accept(1 << 30));
}

TEST(Constraint, BeginsAfterThinking) {
  const auto grammar = shared(Grammar::from_json_schema(R"({"type": "integer"})"));
  const auto constraint =
      constrain(grammar, small_vocabulary(), {.begins_after = id_of("</think>"), .eos = {end_of_answer()}});
  EXPECT_FALSE(constraint->restricts());
  EXPECT_TRUE(accept_all(*constraint, "Let me think: {\"a\"\n\n"));
  EXPECT_FALSE(constraint->restricts());
  EXPECT_TRUE(constraint->accept(id_of("</think>")));
  EXPECT_TRUE(constraint->restricts());
  const auto without_newlines = constraint->clone();
  EXPECT_TRUE(accept_all(*constraint, "\n\n7"));
  EXPECT_TRUE(accept_all(*without_newlines, "7"));
  EXPECT_FALSE(accept_all(*without_newlines, "\n"));
  EXPECT_FALSE(accept_all(*constrained(grammar), "\n7"));
}

constexpr const char* kTools = R"([
  {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer", "minimum": 1, "maximum": 14}, "unit": {"enum": ["C", "F"]},
    "near": {"anyOf": [{"type": "array", "items": {"type": "number"}}, {"type": "null"}]}, "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
    "note": {"type": "string", "maxLength": 5}}, "required": ["city", "days"]}}},
  {"name": "now"}])";

TEST(Tools, CallsAsJson) {
  const auto grammar = shared(Grammar::from_tools(kTools, {.choice = CallChoice::Required}));
  const auto ends_after = [&](std::string_view text) {
    const auto constraint = constrained(grammar);
    return accept_all(*constraint, text) && constraint->accept(end_of_answer());
  };
  const std::string call =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn </tool_call>\", \"days\": "
      "3}}\n</tool_call>";
  EXPECT_FALSE(ends_after(call)) << "the token </tool_call> is not text of a string";
  const std::string weather =
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\", \"days\": 3, \"unit\": "
      "\"C\"}}\n</tool_call>";
  const std::string now = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";
  EXPECT_TRUE(ends_after(weather));
  EXPECT_TRUE(ends_after(now));
  EXPECT_TRUE(ends_after(weather + "\n" + now + now));
  EXPECT_FALSE(ends_after(weather + "\n"));
  EXPECT_FALSE(ends_after("Text"));
  EXPECT_FALSE(ends_after(
      "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\", \"days\": 15}}\n</tool_call>"));
  EXPECT_FALSE(ends_after("<tool_call>\n{\"name\": \"later\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_FALSE(ends_after("<tool_call>\n{\"name\": \"now\", \"arguments\": {\"x\": 1}}\n</tool_call>"));
}

TEST(Tools, CallsAsXml) {
  const auto grammar = shared(Grammar::from_tools(kTools, {.format = CallFormat::Xml, .choice = CallChoice::Required}));
  const auto ends_after = [&](std::string_view parameters) {
    const auto constraint = constrained(grammar);
    return accept_all(*constraint,
                      "<tool_call>\n<function=weather>\n" + std::string(parameters) + "</function>\n</tool_call>") &&
           constraint->accept(end_of_answer());
  };
  const std::string city = "<parameter=city>\nBonn\n\"am\" <Rhein>\n</parameter>\n",
                    days = "<parameter=days>\n14\n</parameter>\n";
  EXPECT_TRUE(ends_after(city + days));
  EXPECT_TRUE(
      ends_after(city + days + "<parameter=unit>\nF\n</parameter>\n<parameter=near>\n[1.5, 2]\n</parameter>\n"));
  EXPECT_TRUE(ends_after(city + days + "<parameter=code>\nDE\n</parameter>\n<parameter=note>\na\nb c\n</parameter>\n"));
  EXPECT_TRUE(ends_after(city + days + "<parameter=near>\nnull\n</parameter>\n"));
  EXPECT_FALSE(ends_after(days + city));
  EXPECT_FALSE(ends_after(city));
  EXPECT_FALSE(ends_after(city + "<parameter=days>\n15\n</parameter>\n"));
  EXPECT_FALSE(ends_after(city + days + "<parameter=code>\nde\n</parameter>\n"));
  EXPECT_FALSE(ends_after(city + days + "<parameter=note>\nabcdef\n</parameter>\n"));
  EXPECT_FALSE(ends_after(city + days + "<parameter=other>\n1\n</parameter>\n"));
  const auto constraint = constrained(grammar);
  EXPECT_TRUE(accept_all(*constraint, "<tool_call>\n<function=now>\n</function>\n</tool_call>"));
  EXPECT_TRUE(constraint->accept(end_of_answer()));
}

TEST(Tools, OneNamedFunctionAndOneCall) {
  const auto grammar =
      shared(Grammar::from_tools(kTools, {.choice = CallChoice::Required, .name = "now", .parallel = false}));
  const auto constraint = constrained(grammar);
  EXPECT_FALSE(accept_all(*constraint->clone(), "<tool_call>\n{\"name\": \"weather\""));
  EXPECT_TRUE(accept_all(*constraint, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
  EXPECT_EQ(ids_of(mask_of(*constraint)), std::vector<TokenId>{end_of_answer()});
}

TEST(Tools, ACallThatTheModelBeginsIsRestrictedUpToItsEnd) {
  for (const bool parallel : {true, false}) {
    const auto grammar = shared(Grammar::from_tools(kTools, {.parallel = parallel}));
    const auto constraint =
        constrain(grammar, small_vocabulary(), {.triggered_by = id_of("<tool_call>"), .eos = {end_of_answer()}});
    EXPECT_FALSE(constraint->restricts());
    EXPECT_TRUE(accept_all(*constraint, "I shall look. "));
    EXPECT_TRUE(constraint->accept(id_of("<tool_call>")));
    EXPECT_TRUE(constraint->restricts());
    EXPECT_FALSE(has(mask_of(*constraint), end_of_answer()));
    EXPECT_FALSE(accept_all(*constraint->clone(), "\n{\"name\": \"x"));
    EXPECT_TRUE(accept_all(*constraint, "{\"name\":\"now\",\"arguments\":{}}</tool_call>"));
    EXPECT_EQ(constraint->restricts(), !parallel);
    if (!parallel) {
      EXPECT_EQ(ids_of(mask_of(*constraint)), std::vector<TokenId>{end_of_answer()});
      continue;
    }
    EXPECT_TRUE(accept_all(*constraint, "\nand <tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
    EXPECT_FALSE(constraint->restricts());
  }
}

TEST(Tools, ACallEndsTheThinking) {
  for (const CallChoice choice : {CallChoice::Auto, CallChoice::Required}) {
    const auto grammar = shared(Grammar::from_tools(kTools, {.choice = choice}));
    ConstraintOptions options{.begins_after = id_of("</think>"), .eos = {end_of_answer()}};
    if (choice == CallChoice::Auto) options.triggered_by = id_of("<tool_call>");
    const auto constraint = constrain(grammar, small_vocabulary(), options);
    EXPECT_TRUE(accept_all(*constraint, "I need the tool, </tool_call> or not. "));
    EXPECT_FALSE(constraint->restricts());
    EXPECT_TRUE(constraint->accept(id_of("<tool_call>")));
    EXPECT_TRUE(constraint->restricts());
    EXPECT_TRUE(accept_all(*constraint, "\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>"));
    EXPECT_EQ(constraint->restricts(), choice == CallChoice::Required);
  }
}

TEST(Tools, MasksAreThoseOfTryingEveryToken) {
  Random random(5);
  for (const CallFormat format : {CallFormat::Json, CallFormat::Xml}) {
    const auto grammar = shared(Grammar::from_tools(kTools, {.format = format, .choice = CallChoice::Required}));
    for (std::uint64_t answer = 0; answer < tessera::test::rounds(12); ++answer) {
      const auto constraint = constrained(grammar);
      for (int step = 0; step < 60; ++step) {
        const Mask mask = mask_of(*constraint);
        if (step % 5 == 0) { ASSERT_EQ(ids_of(mask), ids_of(mask_by_trial(*constraint))); }
        const std::vector<TokenId> ids = ids_of(mask);
        ASSERT_FALSE(ids.empty());
        const TokenId id = ids[random() % ids.size()];
        ASSERT_TRUE(constraint->accept(id));
        if (id == end_of_answer()) break;
      }
    }
  }
}

TEST(Tools, WhatIsWrongIsNamed) {
  const auto error = [](const char* tools, const ToolGrammarOptions& options = {}) {
    return error_of([&] { return Grammar::from_tools(tools, options); });
  };
  EXPECT_THAT(error("{}"), HasSubstr("expected an array"));
  EXPECT_THAT(error("[]"), HasSubstr("at least one"));
  EXPECT_THAT(error(R"([{"type": "function"}])"), HasSubstr("/0"));
  EXPECT_THAT(error(kTools, {.name = "later"}), HasSubstr("no function later"));
  EXPECT_THAT(error(R"([{"name": "a", "parameters": {"properties": {"x": {"uniqueItems": true}}}}])"),
              HasSubstr("/0/parameters/properties/x/uniqueItems"));
  EXPECT_THAT(error(R"([{"function": {"name": "a", "parameters": {"type": "string"}}}])"),
              HasSubstr("/0/function/parameters"));
  EXPECT_EQ(error(kTools), "no error");
}

TEST(Constraint, OptionsThatDoNotFitAreRejected) {
  const auto schema = shared(Grammar::from_json_schema("true")), tools = shared(Grammar::from_tools(kTools));
  const auto error = [](const std::shared_ptr<const Grammar>& grammar, const ConstraintOptions& options) {
    return error_of([&] { return constrain(grammar, small_vocabulary(), options); });
  };
  EXPECT_THAT(error(schema, {}), HasSubstr("at least one token"));
  EXPECT_THAT(error(tools, {.eos = {1}}), HasSubstr("needs triggered_by"));
  EXPECT_THAT(error(schema, {.triggered_by = 5, .eos = {1}}), HasSubstr("CallChoice::Auto"));
  EXPECT_EQ(error(tools, {.triggered_by = 5, .eos = {1}}), "no error");
}

TEST(Constraint, MasksOfAnotherSize) {
  const auto constraint = constrained(shared(Grammar::from_json_schema(R"({"type": "string"})")));
  Mask wide(100, 0xFFFFFFFF);  // the vocabulary of the weights is padded
  constraint->fill_mask(wide);
  const Mask mask = mask_of(*constraint);
  EXPECT_TRUE(std::equal(mask.begin(), mask.end(), wide.begin()));
  EXPECT_TRUE(std::all_of(wide.begin() + static_cast<std::ptrdiff_t>(mask.size()), wide.end(),
                          [](std::uint32_t w) { return w == 0; }));
}

TEST(Constraint, DeepRecursionTakesNoMoreTimePerToken) {
  const auto constraint =
      constrained(shared(Grammar::from_json_schema(R"({"type": "array", "items": {"$ref": "#"}})")));
  const TokenId open = tokens("[")[0], close = tokens("]")[0];
  for (int depth = 0; depth < 5000; ++depth) ASSERT_TRUE(constraint->accept(open));
  const Mask mask = mask_of(*constraint);
  for (int depth = 0; depth < 4999; ++depth) ASSERT_TRUE(constraint->accept(close));
  EXPECT_FALSE(has(mask_of(*constraint), end_of_answer()));
  ASSERT_TRUE(constraint->accept(close));
  EXPECT_TRUE(has(mask_of(*constraint), end_of_answer()));
}

TEST(Constraint, SeveralThreadsShareAGrammar) {
  const auto grammar = shared(Grammar::from_json_schema(
      R"({"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z ]+$"}, "b": {"type": "array", "items": {"type": "number"}}}, "required": ["a", "b"]})"));
  const std::string text = R"({"a": "some words", "b": [1, 2.5, -3e4, 0]})";
  std::vector<std::thread> threads;
  std::vector<int> matched(4, 0);
  for (std::size_t t = 0; t < matched.size(); ++t) {
    threads.emplace_back([&, t] {
      Random random(static_cast<std::uint32_t>(t));
      for (int i = 0; i < 20; ++i) matched[t] += matches(grammar, text, random) ? 1 : 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(matched, testing::Each(20));
}

}  // namespace THIS_FILE
}  // namespace mortar::grammar
