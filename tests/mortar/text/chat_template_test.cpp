// Renderings of published templates, errors with their lines, and the limits of templates that run away.
#include "mortar/chat_template.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "base/rounds.hpp"
#include "mortar/errors.hpp"
#include "text/chat_template_state.hpp"
#include "text/read_text.hpp"

namespace mortar {
namespace THIS_FILE {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

const std::string kFolder = MORTAR_TEST_DATA "/templates";

std::string render(std::string_view source, const std::string& variables = "{}") {
  return ChatTemplate(source).render({.messages = "[]", .variables = variables});
}
template <class Error>
std::string message_of(std::string_view source, const std::string& variables = "{}") {
  try {
    return "rendered: " + render(source, variables);
  } catch (const Error& e) { return e.message(); }
}

// What jinja2 makes of the published templates (template_oracle.py --write).
TEST(MortarChatTemplate, EqualsJinja2OnThePublishedTemplates) {
  const auto cases = ordered_json::parse(text::read_text(kFolder + "/cases.json"));
  ASSERT_GT(cases.size(), 50u);
  for (const auto& c : cases) {
    const ChatTemplate chat(text::read_text(kFolder + "/" + c["template"].get<std::string>()),
                            c["template"].get<std::string>());
    ChatInputs inputs{.messages = c["messages"].get<std::string>(), .tools = c.value("tools", "")};
    if (c.contains("thinking")) inputs.thinking = c["thinking"].get<bool>();
    inputs.generation_prompt = c["generation_prompt"].get<bool>();
    if (c.contains("text"))
      EXPECT_EQ(chat.render(inputs), c["text"].get<std::string>()) << c["template"] << inputs.messages;
    else
      EXPECT_THROW((void)chat.render(inputs), RequestError) << c["template"] << inputs.messages;
    if (!c.contains("raised")) continue;
    try {
      (void)chat.render(inputs);
    } catch (const RequestError& e) {
      EXPECT_TRUE(e.message().ends_with(": the chat template rejects the messages: " + c["raised"].get<std::string>()))
          << e.message();
    }
  }
}

TEST(MortarChatTemplate, ThinkingIsOnOffOrUnset) {
  const ChatTemplate chat(text::read_text(kFolder + "/qwen3.jinja"));
  const ChatMessage messages[] = {{"system", "Be brief."}, {"user", "a \"b\"\n"}};
  ChatInputs inputs{.messages = messages_json(messages)};
  const std::string expected =
      "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\na \"b\"\n<|im_end|>\n<|im_start|>assistant\n";
  EXPECT_EQ(chat.render(inputs), expected);
  inputs.thinking = true;
  EXPECT_EQ(chat.render(inputs), expected);
  inputs.thinking = false;
  EXPECT_EQ(chat.render(inputs), expected + "<think>\n\n</think>\n\n");
  inputs.generation_prompt = false;
  EXPECT_EQ(chat.render(inputs), expected.substr(0, expected.find("<|im_start|>assistant")));
}

// Each was found by template_oracle.py with another seed; what is expected is what jinja2 renders.
TEST(MortarChatTemplate, ViewsOfDictsHaveNoIndex) {
  const auto with_d = [](std::string_view source) { return render(source, R"({"d": {"a": 1, "b": 2}})"); };
  EXPECT_EQ(with_d("[{{ d.keys()[0] }}{{ d.items()[-1] }}] {{ d.keys()|first }} {{ (d.keys()|list)[0] }}"), "[] a a");
  EXPECT_EQ(with_d("{{ d.keys() }} {{ d.values() }} {{ d.items() }}"),
            "dict_keys(['a', 'b']) dict_values([1, 2]) dict_items([('a', 1), ('b', 2)])");
  EXPECT_EQ(with_d("{{ d.keys() is sequence }} {{ d.keys() is iterable }} {{ d.keys()|length }} {{ 'a' in d.keys() }}"),
            "False True 2 True");
  EXPECT_EQ(with_d("{% for k, v in d.items() %}{{ k }}{{ v }}{% endfor %}{{ ('b', 2) in d.items() }}"), "a1b2True");
  EXPECT_EQ(
      with_d("{{ d.keys() == {'b': 0, 'a': 1}.keys() }} {{ d.items() == {'b': 2, 'a': 1}.items() }} "
             "{{ d.items() == {'b': 2, 'a': 2}.items() }} {{ d.values() == d.values() }} {{ d.keys() == ['a', 'b'] }}"),
      "True True False False False");
  for (const char* use : {"d.keys()[1:]", "d.keys() + d.keys()", "d.keys() * 2", "d.keys()|tojson",
                          "d.keys().index('a')", "[] in d.keys()"})
    EXPECT_THROW((void)with_d("{{ " + std::string(use) + " }}"), RequestError) << use;
}

TEST(MortarChatTemplate, IndentEndsLinesAsPythonDoes) {
  const auto with_s = [](std::string_view source) { return render(source, R"({"s": "a\r\nb\rc\n\n\u2028d\n"})"); };
  EXPECT_EQ(with_s("{{ s|indent(2) }}|"), "a\n  b\n  c\n\n\n  d\n|");
  EXPECT_EQ(with_s("{{ s|indent(2, true, true) }}|"), "  a\n  b\n  c\n  \n  \n  d\n  |");
  EXPECT_EQ(with_s("[{{ ''|indent }}][{{ ''|indent(2, first=true) }}]"), "[][  ]");
}

TEST(MortarChatTemplate, PowersAndRemaindersAreThoseOfPython) {
  EXPECT_EQ(render("{{ 2 ** -1 }} {{ 0 ** 0 }} {{ 0.0 ** 2 }} {{ 2 ** 0.5 }} {{ (-8) ** -1 }}"),
            "0.5 1 0.0 1.4142135623730951 -0.125");
  EXPECT_EQ(render("{{ 7 % -3 }} {{ -7 % 3 }} {{ 9223372036854775807 % (-9223372036854775807 - 1) }}"), "-2 2 -1");
  for (const char* use : {"0 ** -3", "0.0 ** -0.5", "1e300 ** 2", "(-8) ** 0.5", "10 ** 19"})
    EXPECT_THROW((void)render("{{ " + std::string(use) + " }}"), RequestError) << use;
}

TEST(MortarChatTemplate, KeysAreWhatPythonCanHash) {
  EXPECT_EQ(render("{{ [{'a': 1}, {}, {}, {'a': 2}]|map(attribute='a')|unique|list|length }}"), "3");
  EXPECT_EQ(render("{% set d = {('a', 1): 'x', missing: 'y', none: 'z'} %}{{ d[('a', 1.0)] }}{{ d[no] }}{{ d[none] }}"),
            "xyz");
  EXPECT_EQ(render("{{ [('a', 'b'), ('ab', ''), ('a', 'b')]|unique|list }}"), "[('a', 'b'), ('ab', '')]");
  EXPECT_EQ(message_of<RequestError>("{{ {[1]: 2} }}"),
            "chat_template, line 1: the chat template failed: expected a key of a dict that is a string, number or "
            "tuple of such, found list");
  EXPECT_EQ(
      message_of<RequestError>("{{ {('x' * 2000000, 1): 2} }}"),
      "chat_template, line 1: the chat template failed: expected tuples of at most 1048576 bytes as keys, found more");
}

TEST(MortarChatTemplate, TuplesOfOneNameAndListsOfOneDict) {
  EXPECT_EQ(render("{% set (a,) = [7] %}{{ a }}{% set c, %}x{% endset %}{{ c }}"), "7x");
  EXPECT_EQ(render("{{ [{'a': 1}]|min }}{{ [none]|max }}"), "{'a': 1}None");
  EXPECT_EQ(message_of<RequestError>("{% set ns.v = no.thing %}"),
            "chat_template, line 1: the chat template failed: expected a namespace to assign ns.v, found undefined");
  EXPECT_THROW((void)render("{% set (a,) = [1, 2] %}"), RequestError);
  EXPECT_THROW((void)ChatTemplate("{% set a, = [1] %}"), ModelError);
  EXPECT_THROW((void)ChatTemplate("{% set , = [1] %}"), ModelError);
}

TEST(MortarChatTemplate, SyntaxErrorsNameTheLine) {
  const auto message = [](std::string_view source) { return message_of<ModelError>(source); };
  EXPECT_EQ(message("a\n{% if x %}"), "chat_template, line 2: expected {% endif %}, found the end of the template");
  EXPECT_EQ(message("\n\n{{ x"), "chat_template, line 3: expected }}, found the end of the template");
  EXPECT_EQ(message("{{ 1 + }}"), "chat_template, line 1: expected an expression, found }}");
  EXPECT_EQ(message("{% include 'x' %}"),
            "chat_template, line 1: expected a statement that this version knows, found 'include'");
  EXPECT_EQ(message("{{ x|nothing }}"),
            "chat_template, line 1: expected a filter that this version knows, found 'nothing'");
  EXPECT_EQ(message("{{ x is nothing }}"),
            "chat_template, line 1: expected a test that this version knows, found 'nothing'");
  EXPECT_EQ(message("{{ 'x }}"),
            "chat_template, line 1: expected the end of the string, found the end of the template");
  EXPECT_EQ(message("{# x"), "chat_template, line 1: expected #}, found the end of the template");
  EXPECT_EQ(message("{{ (1 }}"), "chat_template, line 1: expected ')', found '}'");
  EXPECT_EQ(message("{{ 1) }}"), "chat_template, line 1: expected no ')' here: nothing is open that it closes");
  EXPECT_EQ(message("{% break %}"),
            "chat_template, line 1: expected a statement that this version knows, found 'break' outside a loop");
  EXPECT_EQ(message("{% set true = 1 %}"), "chat_template, line 1: expected a name that can be assigned, found 'true'");
  EXPECT_EQ(message("{{ ? }}"), "chat_template, line 1: expected an expression, found '?'");
  EXPECT_NE(message("{{ " + std::string(50, '(')).find("found the end"), std::string::npos);
  EXPECT_EQ(message("{{ x[1, 2] }}"),
            "chat_template, line 1: expected one index in the brackets, found a comma: several are not supported");
  EXPECT_EQ(message("{% set p, = x %}"), "chat_template, line 1: expected a name, found '='");
  EXPECT_EQ(message("{% for k, in x %}{% endfor %}"),
            "chat_template, line 1: expected 'in', found 'x'");  // `in` is the name
  EXPECT_EQ(render("{% for (k,) in [[1], [2]]: %}{{ k }}{% else: %}{% endfor %}{% if 0: %}{% elif 1: %}3{% endif %}"),
            "123");
  // The first error, although what comes after it cannot even be read.
  EXPECT_EQ(message("{% if %}\n{{ ? }}"), "chat_template, line 1: expected an expression, found %}");
  EXPECT_EQ(message("{{ x }}\n{{ ? }}\n{% if %}"), "chat_template, line 2: expected an expression, found '?'");
  EXPECT_NE(message("{{ " + std::string(1000, '(') + std::string(1000, ')') + "}}").find("at most 60 levels"),
            std::string::npos);
  std::string sum = "{{ 1";
  for (int i = 0; i < 1000; ++i) sum += " + 1";
  EXPECT_NE(message(sum + " }}").find("at most 150 operations within each other"), std::string::npos);
}

TEST(MortarChatTemplate, FailuresNameTheLine) {
  const auto message = [](std::string_view source, const char* variables = "{}") {
    return message_of<RequestError>(source, variables);
  };
  EXPECT_EQ(message("\n{{ raise_exception('no ' ~ 1) }}"),
            "chat_template, line 2: the chat template rejects the messages: no 1");
  EXPECT_EQ(message("{{ x }}|{{ x is defined }}"), "rendered: |False");
  EXPECT_EQ(message("\n\n{{ x.y }}"), "chat_template, line 3: the chat template failed: 'x' is undefined");
  EXPECT_EQ(message("{{ messages[0].role }}"),
            "chat_template, line 1: the chat template failed: 'list object' has no element 0");
  EXPECT_EQ(message("{{ 'a' + 1 }}"),
            "chat_template, line 1: the chat template failed: expected operands of + that fit, found str and int");
  EXPECT_EQ(message("{{ 'a' + x.y }}", R"({"x": {}})"),
            "chat_template, line 1: the chat template failed: 'dict object' has no attribute 'y'");
  EXPECT_EQ(
      message("{{ 9223372036854775807 + 1 }}"),
      "chat_template, line 1: the chat template failed: expected whole numbers of 64 bits, found a larger result");
  EXPECT_NE(message("{{ messages.append(1) }}").find("expected a method that leaves the list as it is"),
            std::string::npos);
  EXPECT_NE(message("{{ '\xC3\xA9'|upper }}").find("expected ASCII text"), std::string::npos);
  EXPECT_NE(message("{{ strftime_now('%Q') }}").find("after %, found 'Q'"), std::string::npos);
  EXPECT_NE(message("{{ 1 // 0 }}").find("a divisor other than 0"), std::string::npos);
  EXPECT_NE(message("{{ 2 is divisibleby 0 }}").find("a divisor other than 0"), std::string::npos);
  EXPECT_NE(message("{{ 'a' is divisibleby 2 }}").find("a number to divide, found str"), std::string::npos);
  for (const char* use : {"x is odd", "2 is divisibleby x", "x.y|dictsort", "x.y|indent"})
    EXPECT_NE(message("{{ " + std::string(use) + " }}").find("'x' is undefined"), std::string::npos) << use;
  EXPECT_NE(message("{{ 'abc'.index('d') }}").find("a part of the string, found 'd'"), std::string::npos);
}

// What has no key is looked for and not found; a list cannot be a key.
TEST(MortarChatTemplate, KeysThatNoDictHas) {
  const char* const variables = R"({"d": {"b": 1}})";
  EXPECT_EQ(render("{{ x in d }}{{ d.get(x) }}{{ d[x] }}{{ (1, 2) in d }}{{ d[(1,)] }}{{ d[[1]] }}", variables),
            "FalseNoneFalse");
  EXPECT_NE(message_of<RequestError>("{{ [1] in d }}", variables).find("a key of a dict"), std::string::npos);
  EXPECT_EQ(render("{{ 'hello'.index('l') }}{{ 'hello'.rindex('l') }}"), "23");
  EXPECT_EQ(render("{{ x is callable }}{{ 1 is callable }}"), "TrueFalse") << "undefined: its call names it";
}

TEST(MortarChatTemplate, RunawayTemplatesEnd) {
  const auto message = [](std::string_view source) { return message_of<RequestError>(source); };
  EXPECT_NE(message("{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}")
                .find("ends within 20000000 steps"),
            std::string::npos);
  EXPECT_NE(message("{{ 'a' * 100000000000 }}").find("at most 16777216 bytes"), std::string::npos);
  EXPECT_NE(message("{% set ns = namespace(x='ab') %}{% for i in range(100) %}{% set ns.x = ns.x + ns.x %}{% endfor %}")
                .find("at most 16777216 bytes"),
            std::string::npos);
  EXPECT_NE(message("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}").find("within each other"), std::string::npos);
  EXPECT_NE(message("{% set ns = namespace(x=1) %}{% for i in range(500) %}{% set ns.x = [ns.x] %}{% endfor %}")
                .find("nested at most 120 deep"),
            std::string::npos);
  EXPECT_NE(message("{% set ns = namespace(x=[1]) %}{% for i in range(90) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}")
                .find("at most 1048576 values"),
            std::string::npos);
  EXPECT_NE(message("{% set ns = namespace() %}{% set ns.x = [ns] %}").find("not supported"), std::string::npos);
  EXPECT_NE(message("{{ range(1000000) }}").find("at most 100000 numbers"), std::string::npos);
  EXPECT_EQ(
      message("{% set ns = namespace(x=1) %}{% for i in range(1000) %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}"),
      "rendered: 499501");
}

TEST(MortarChatTemplate, TextIsPartOfTheSteps) {
  const auto texts = [](std::uint64_t times) {
    return "{% set s = 'a' * 4000 * 2000 %}{% set t = 'a' * 4000 * 2000 %}{% for i in range(" + std::to_string(times) +
           ") %}{% if ";
  };
  const char* const uses[] = {"s == t",       "s.find('xy') > 0", "s.startswith(t)",
                              "s in [t]",     "[t].index(s)",     "[s, t]|sort(case_sensitive=true)",
                              "s in {'a': 1}"};
  for (std::size_t i = 0; i < std::size(uses); i += tessera::test::one_in(std::size(uses)))
    EXPECT_NE(message_of<RequestError>(texts(1000) + uses[i] + " %}{% endif %}{% endfor %}")
                  .find("ends within 20000000 steps"),
              std::string::npos)
        << uses[i];
  const std::string few = texts(tessera::test::rounds(1000));  // counting the characters of s takes long in slow builds
  EXPECT_EQ(render(few + "s.startswith('a') and s|length and s != 'b' and 'b' != s %}{% endif %}{% endfor %}ok"), "ok");
}

TEST(MortarChatTemplate, InputsAreChecked) {
  const ChatTemplate chat("{{ messages|length }}{{ tools is none }}");
  const auto message = [&](const ChatInputs& inputs) {
    try {
      return "rendered: " + chat.render(inputs);
    } catch (const RequestError& e) { return e.message(); }
  };
  EXPECT_EQ(message({.messages = "[1, 2]"}), "rendered: 2True");
  EXPECT_EQ(message({.messages = "[]", .tools = "[]"}), "rendered: 0False");
  EXPECT_EQ(message({.messages = "{}"}), "messages: expected an array of messages, found an object");
  EXPECT_EQ(message({.messages = "[1,"}),
            "messages: line 1, offset 3, field [1]: expected a value, found the end of the text");
  EXPECT_EQ(message({.messages = "[]", .tools = "[\"\xFF\"]"}),
            "tools: expected UTF-8, found the byte 255 at offset 2");
  EXPECT_EQ(message({.messages = "[]", .variables = "3"}), "variables: expected an object, found 3");
  EXPECT_EQ(message({.messages = "[] x"}), "messages: line 1, offset 3: expected the end of the text, found 'x'");
}

TEST(MortarChatTemplate, KnowsTheTime) {
  std::tm time{};
  time.tm_year = 125, time.tm_mon = 6, time.tm_mday = 4, time.tm_hour = 15;
  EXPECT_EQ(ChatTemplate("{{ strftime_now('%d %b %Y, %H:%M %%') }}").render({.messages = "[]", .now = time}),
            "04 Jul 2025, 15:00 %");
  EXPECT_EQ(ChatTemplate("{{ strftime_now('%Y')|length }}").render({.messages = "[]"}), "4");
}

class MortarChatTemplateFolder : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "mortar-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }
  void write(const char* name, const std::string& text) { std::ofstream(fs::path(folder_) / name) << text; }
  std::string loaded() {
    try {
      return ChatTemplate::load(folder_).render({.messages = "[]"});
    } catch (const ModelError& e) { return e.message().substr(folder_.size()); }
  }
  std::string folder_;
};

TEST_F(MortarChatTemplateFolder, TheTemplateIsAFileOrAField) {
  EXPECT_NE(loaded().find(": expected chat_template.jinja, or chat_template in tokenizer_config.json, found neither"),
            std::string::npos);
  write(
      "tokenizer_config.json",
      R"({"eos_token": "E", "bos_token": null, "pad_token": {"content": "P"}, "chat_template": "{{ eos_token }}{{ pad_token }}{{ bos_token is defined }}"})");
  EXPECT_EQ(loaded(), "EPFalse");
  write("chat_template.jinja", "file {{ eos_token }}\n");
  EXPECT_EQ(loaded(), "file E");
  fs::remove(fs::path(folder_) / "chat_template.jinja");
  write("tokenizer_config.json",
        R"({"chat_template": [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]})");
  EXPECT_EQ(loaded(), "d");
  write("tokenizer_config.json", R"({"chat_template": null})");
  EXPECT_NE(loaded().find("found neither"), std::string::npos);
  write("tokenizer_config.json", R"({"chat_template": 3})");
  EXPECT_EQ(
      loaded(),
      "/tokenizer_config.json: chat_template: expected a template, or a list of templates with names, found neither");
  write("tokenizer_config.json", R"({"chat_template": "\n{% x %}"})");
  EXPECT_EQ(loaded(),
            "/tokenizer_config.json: chat_template, line 2: expected a statement that this version knows, found 'x'");
  write("tokenizer_config.json", R"({"chat_template": "a" "b"})");
  EXPECT_NE(loaded().find("/tokenizer_config.json: line 1"), std::string::npos);
}

}  // namespace THIS_FILE
}  // namespace mortar
