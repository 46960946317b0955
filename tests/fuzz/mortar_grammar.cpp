// Structured answers: schemas, expressions, choices and tools from clients, and the answers that they lead to.
#include <ctime>
#include <memory>

#include "fuzz/fuzz.hpp"
#include "fuzz/small_tokenizer.hpp"
#include "mortar/errors.hpp"
#include "mortar/grammar.hpp"
#include "text/utf8.hpp"

namespace tessera::fuzz {
namespace {

using mortar::Grammar;
using mortar::TokenId;

constexpr TokenId kEnd = 262;                                             // <|im_end|>
constexpr mortar::GrammarLimits kGrammarLimits{.steps = 200'000};         // 2 ms by the figure of GrammarLimits
constexpr double kMaxSeconds = 20;                                        // of processor time, under sanitizers
constexpr std::size_t kMaxBytes = 40 * kGrammarLimits.steps + (1 << 20);  // of the compiled form

/// Ends the program where an input takes too long: one request must not hold a core.
class Budget {
 public:
  ~Budget() { FUZZ_REQUIRE(static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC < kMaxSeconds); }

 private:
  std::clock_t start_ = std::clock();
};

bool has(const std::vector<std::uint32_t>& mask, TokenId id) {
  return (mask[static_cast<std::size_t>(id) / 32] >> (id % 32) & 1) != 0;
}

/// An answer that the input chooses among those that are allowed. What a mask allows is accepted, and nothing else.
void walk(Grammar grammar, const mortar::ConstraintOptions& options, Bytes choices) {
  static const auto vocabulary = std::make_shared<const mortar::Vocabulary>(small_tokenizer());
  FUZZ_REQUIRE(grammar.bytes() <= kMaxBytes);
  const auto constraint = mortar::constrain(std::make_shared<const Grammar>(std::move(grammar)), vocabulary, options);
  const TokenId size = static_cast<TokenId>(small_tokenizer().size());
  std::vector<std::uint32_t> mask((static_cast<std::size_t>(size) + 31) / 32), again = mask;
  for (const std::byte choice : choices.first(std::min<std::size_t>(choices.size(), 40))) {
    if (!constraint->restricts()) {
      (void)constraint->accept(static_cast<TokenId>(static_cast<int>(choice) % size));
      continue;
    }
    constraint->fill_mask(mask);
    constraint->clone()->fill_mask(again);
    FUZZ_REQUIRE(mask == again);
    std::vector<TokenId> allowed;
    for (TokenId id = 0; id < size; ++id)
      if (has(mask, id)) allowed.push_back(id);
    FUZZ_REQUIRE(!allowed.empty());
    const auto other = static_cast<TokenId>(static_cast<int>(choice) * 7 % size);
    FUZZ_REQUIRE(constraint->clone()->accept(other) == has(mask, other));
    const TokenId id = allowed[static_cast<std::size_t>(choice) % allowed.size()];
    FUZZ_REQUIRE(constraint->accept(id));
    if (id == kEnd) return;
  }
}

}  // namespace

/// A byte for the kind, one for the number of choices of the walk, those choices, the text.
void fuzz_mortar_grammar(Bytes bytes) {
  const Budget budget;
  Input in(bytes);
  const auto kind = in.number<std::uint8_t>() % 4;
  const std::size_t wanted = in.number<std::uint8_t>() % 41;
  const std::size_t steps = std::min(wanted, in.rest().size());
  const Bytes choices = in.rest().first(steps);
  const std::string_view text = text_of(in.rest().subspan(steps));
  accepted([&] {
    mortar::ConstraintOptions options;
    options.eos = {kEnd};
    if (kind == 0) return walk(Grammar::from_json_schema(text, kGrammarLimits), options, choices);
    if (kind == 1) {
      std::vector<std::string> all;
      for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        all.emplace_back(text.substr(at, end - at));
        at = end + 1;
      }
      return walk(Grammar::from_choice(all, kGrammarLimits), options, choices);
    }
    const mortar::ToolGrammarOptions tools{
        .format = kind == 2 ? mortar::CallFormat::Json : mortar::CallFormat::Xml,
        .choice = steps % 2 == 0 ? mortar::CallChoice::Required : mortar::CallChoice::Auto,
        .parallel = steps % 3 == 0};
    if (tools.choice == mortar::CallChoice::Auto) options.triggered_by = small_tokenizer().find("<tool_call>");
    walk(Grammar::from_tools(text, tools, kGrammarLimits), options, choices);
  });
}

Seeds seeds_mortar_grammar() {
  const auto seed = [](char kind, std::string_view choices, std::string_view text) {
    std::string out = {kind, static_cast<char>(choices.size())};
    return (out += choices) += text;
  };
  constexpr std::string_view kTools =
      R"([{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]}}}])";
  return {
      seed(0, "abcdefgh",
           R"({"type":"object","properties":{"a":{"type":"integer","minimum":-5,"maximum":300},)"
           R"("b":{"enum":["x",1.5,null]}},"required":["a"],"additionalProperties":false})"),
      seed(0, "12345",
           R"({"type":"array","items":{"type":"string","minLength":1,"maxLength":3},"minItems":2,"maxItems":4})"),
      seed(0, "zzzz",
           R"({"anyOf":[{"type":"boolean"},{"const":"a\u00e9"},{"$ref":"#/$defs/n"}],)"
           R"("$defs":{"n":{"type":"object","properties":{"n":{"$ref":"#/$defs/n"}}}}})"),
      seed(0, "0", R"({"type":"string","pattern":"^[a-z]{2,3}-\\d+$"})"),
      seed(0, "0", R"({"oneOf":[{"type":"string","format":"date"},{"type":"number"}]})"),
      seed(1, "abc", "yes\nno\nmaybe \xC3\xA9"),
      seed(2, "abcdefghij", kTools),
      seed(2, "abcdefghi", kTools),
      seed(3, "abcdefghij", kTools),
  };
}

void fuzz_mortar_regex(Bytes bytes) {
  const Budget budget;
  Input in(bytes);
  const std::size_t wanted = in.number<std::uint8_t>() % 41;
  const std::size_t steps = std::min(wanted, in.rest().size());
  const Bytes choices = in.rest().first(steps);
  const std::string_view text = text_of(in.rest().subspan(steps));
  accepted([&] {
    mortar::ConstraintOptions options;
    options.eos = {kEnd};
    walk(Grammar::from_regex(text, kGrammarLimits), options, choices);
  });
}

Seeds seeds_mortar_regex() {
  const auto seed = [](std::string_view choices, std::string_view text) {
    return std::string(1, static_cast<char>(choices.size())).append(choices).append(text);
  };
  return {seed("abcd", "^(a|b)*c{2,4}[^x-z]?$"),
          seed("1234", R"(\d{3}-(?:\w+|\.)\s)"),
          seed("xyz", "(a?){20}a{20}"),
          seed("0", "(a{1000}){1000}"),
          seed("ab", "[\xE4\xBD\xA0-\xE5\xA5\xBD]+\\u00e9."),
          seed("q", "(?i:ab)[[:alpha:]]\\p{L}")};
}

}  // namespace tessera::fuzz
