// What Mortar reads as text: tokenizers, chat templates, prompts.
#include "fuzz/fuzz.hpp"
#include "fuzz/small_tokenizer.hpp"
#include "mortar/errors.hpp"
#include "mortar/text_stream.hpp"
#include "mortar/tokenizer.hpp"
#include "text/chat_template_state.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace tessera::fuzz {
namespace {

using mortar::AddedTokens;
using mortar::Tokenizer;
namespace text = mortar::text;

void check_tokenizer(const Tokenizer& tokenizer, std::string_view sample, bool is_nfc) {
  const std::string valid = text::replace_invalid_utf8(sample);
  for (const AddedTokens added : {AddedTokens::AsText, AddedTokens::Parse}) {
    const auto ids = tokenizer.encode(sample, added);
    for (mortar::TokenId id : ids) FUZZ_REQUIRE(id >= 0 && id < tokenizer.size() && !tokenizer.bytes(id).empty());
    // Names of added tokens are kept from normalization, or normalized themselves.
    if (added == AddedTokens::AsText) {
      const std::string decoded = tokenizer.decode(ids);
      FUZZ_REQUIRE(decoded == valid || (is_nfc && decoded == text::nfc(valid)));
    }
  }
}

}  // namespace

void fuzz_mortar_tokenizer(Bytes bytes) {
  Input in(bytes);
  std::string json;
  if (in.flag()) {
    json = small_json();
    const std::size_t at = in.number<std::uint16_t>() % json.size();
    const auto replaced = in.number<std::uint8_t>();
    json.replace(at, replaced, text_of(in.rest()));
  } else {
    json = string_of(in.rest());
  }
  accepted([&] {
    const Tokenizer tokenizer = Tokenizer::parse(json);
    check_tokenizer(tokenizer, "hello aaaaaaa e\xCC\x81 <|im_end|>\n\n \xE4\xBD\xA0's 12\xFF", true);
    (void)tokenizer.find("<think>");
  });
}

Seeds seeds_mortar_tokenizer() {
  Seeds seeds = {std::string(1, '\0') + small_json()};
  const auto edit = [&](std::string_view what, std::string_view with) {
    const std::size_t at = small_json().find(what);
    FUZZ_REQUIRE(at != small_json().npos);
    seeds.push_back({'\1', static_cast<char>(at & 0xFF), static_cast<char>(at >> 8), static_cast<char>(what.size())});
    seeds.back() += with;
  };
  edit("\"id\":262", "\"id\":256");
  edit("\"he\":256", "\"he\":1048575");
  edit("\"h e\"", "[\"h\",\"\\u0065\"]");
  edit("\"h e\",", "\"aa a\",\"a aa\",");
  edit("{\"type\":\"NFC\"}", "null");
  edit("false,\"vocab\"", "true,\"vocab\"");
  return seeds;
}

void fuzz_mortar_template(Bytes bytes) {
  // A flag, the template, messages, variables: with zero bytes between.
  Input in(bytes);
  const bool is_config = in.flag();
  std::string_view rest = text_of(in.rest());
  std::string parts[3];
  for (std::string& part : parts) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    part = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (parts[1].empty()) parts[1] = R"([{"role":"user","content":"hi"}])";
  const text::jinja::Limits limits{.steps = 200'000, .text = std::size_t{1} << 20, .depth = 100};
  accepted([&] {
    mortar::ChatTemplate::State state;
    const std::string source = is_config ? text::template_of_config(parts[0], "config") : parts[0];
    text::read_chat_template(source, "template", is_config ? std::string_view(parts[0]) : std::string_view(), state);
    mortar::ChatInputs inputs{.messages = parts[1], .variables = parts[2], .now = std::tm{}};
    const std::string out = text::render_chat(state, inputs, limits);
    FUZZ_REQUIRE(out.size() <= limits.text && text::valid_utf8(out) == out.size());
    FUZZ_REQUIRE(text::render_chat(state, inputs, limits) == out);
  });
}

Seeds seeds_mortar_template() {
  const std::string zero(1, '\0');
  return {
      zero +
          "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content }}{%- endfor %}{% if "
          "add_generation_prompt %}x{% endif %}",
      zero +
          "{%- set ns = namespace(a=true, i=messages|length - 1) %}{%- for m in messages[::-1] %}{% set ns.i = "
          "loop.index0 %}{% endfor %}{{ ns.i }}" +
          zero +
          R"([{"role":"user","content":"a"},{"role":"assistant","content":"<think>b</think>c","tool_calls":[{"name":"f","arguments":{"x":1.5}}]}])",
      zero +
          "{{ x.split('a')[-1].lstrip('\\n') }}{{ x[1:3] ~ x|trim }}{{ y|tojson(indent=2) }}{% raw %}{{{% endraw %}" +
          zero + "[]" + zero + R"({"x":"banana","y":{"a":[1,null,true]}})",
      zero +
          "{% macro f(a, b='c') %}{{ a|upper }}{{ b }}{% endmacro %}{{ f(1) }}{# c -#} {% set z %}q{% endset %}{{ z is "
          "string and 'q' in z }}",
      zero +
          "{%- for k, v in y|items if v is not none -%}{{ loop.last }}{% break %}{% else %}n{% endfor %}{{ "
          "raise_exception('no') if q is defined }}" +
          zero + "[]" + zero + R"({"y":{"a":1}})",
      zero + "{% with a = (1, 2)|sum2 %}{% endwith %}",
      zero +
          "{{ strftime_now('%d %b') }}{{ range(3)|list|join('-') }}{{ -2 ** 3 // 2 % 5 }}{% filter trim %} x {% "
          "endfilter %}",
      "\1"
      R"({"eos_token":"<|im_end|>","pad_token":{"content":"p"},"chat_template":"{{ eos_token }}"})",
      "\1"
      R"({"chat_template":[{"name":"default","template":"{{ messages[0]['role'] }}"}]})",
  };
}

void fuzz_mortar_text(Bytes bytes) {
  const Tokenizer& tokenizer = small_tokenizer();
  Input in(bytes);
  const std::size_t step = 1 + in.number<std::uint8_t>() % 8;
  const std::string whole = string_of(in.rest());
  check_tokenizer(tokenizer, whole, true);
  const std::string valid = text::replace_invalid_utf8(whole);
  mortar::CharacterStream characters;
  const std::string stop = valid.substr(0, std::min<std::size_t>(valid.size(), step));
  mortar::StopFilter filter({valid.substr(valid.size() / 2, step), stop + "x"});
  std::string out, before_stop;
  const auto take = [&](const std::string& part) {
    FUZZ_REQUIRE(text::valid_utf8(part) == part.size());
    out += part;
    before_stop += filter.push(part);
  };
  for (std::size_t at = 0; at < whole.size(); at += step)
    take(characters.push(std::string_view(whole).substr(at, step)));
  take(characters.finish());
  FUZZ_REQUIRE(out == valid);
  if (!filter.stopped()) before_stop += filter.finish();
  FUZZ_REQUIRE(filter.stopped() ? valid.starts_with(before_stop + filter.found()) : before_stop == valid);
  mortar::AnswerStream answer(tokenizer, {.stop = {stop}, .starts_thinking = step % 2 == 0});
  for (mortar::TokenId id : tokenizer.encode(whole)) {
    for (const mortar::AnswerText& part : answer.push(id))
      FUZZ_REQUIRE(!part.text.empty() && text::valid_utf8(part.text) == part.text.size());
  }
  (void)answer.finish();
}

Seeds seeds_mortar_text() {
  return {"\3hello world's 123\n\n  x", "\1\xE4\xBD\xA0\xE5\xA5\xBD e\xCC\x81 \xF0\x9F\x98\x80\xFF\xE4",
          "\2<think>\nhell</think>\n\naaaa<|im_end|>", "\4\xE1\x84\x80\xE1\x85\xA1\xE1\x86\xA8 q\xCC\x87\xCC\xA3",
          std::string("\0\t\r\n \xC2\xA0\xE3\x80\x80'\xC5\xBF", 13)};
}

}  // namespace tessera::fuzz
