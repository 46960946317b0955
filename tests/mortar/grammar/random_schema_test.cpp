// Random schemas: valid values are accepted however they are cut into tokens, whatever is accepted is valid, and masks
// are what trying every token gives.
#include <algorithm>
#include <memory>

#include "base/rounds.hpp"
#include "grammars.hpp"
#include "json_validator.hpp"
#include "random_schemas.hpp"

namespace mortar::grammar {
namespace THIS_FILE {

constexpr int kDepth = 4;

/// A grammar of a random schema, or null where no value is accepted (a recursion without an end).
std::shared_ptr<const Grammar> compiled(const ordered_json& schema) {
  try {
    return shared(Grammar::from_json_schema(schema.dump()));
  } catch (const RequestError& e) {
    EXPECT_THAT(e.what(), testing::AnyOf(testing::HasSubstr("refers to itself"),
                                         testing::HasSubstr("no answer is possible"), testing::HasSubstr("minItems")))
        << schema;
    return nullptr;
  }
}

/// Whether recursion with a required child without end makes the value deeper than a test wants.
bool is_deep(const ordered_json& value, int depth) {
  if (depth == 0) return true;
  return std::any_of(value.begin(), value.end(),
                     [&](const ordered_json& v) { return v.is_structured() && is_deep(v, depth - 1); });
}

/// Another value, text or structure somewhere in it.
ordered_json mutated(ordered_json value, RandomSchemas& make) {
  if (value.is_structured() && !value.empty() && !make.one_in(4)) {
    auto at = value.begin();
    std::advance(at, make.below(value.size()));
    if (make.one_in(4))
      value.erase(at);
    else
      *at = mutated(*at, make);
    return value;
  }
  switch (make.below(6)) {
    case 0: return make.text(make.below(12));
    case 1: return static_cast<int>(make.below(600)) - 300;
    case 2: return nullptr;
    case 3: return ordered_json::array();
    case 4: return ordered_json{{"other", 1}};
    default: return value.is_number() ? ordered_json(value.get<double>() + 0.5) : ordered_json(true);
  }
}

/// Schemas whose instances end: `instance` of random schemas may recurse for ever through a required $ref.
bool recurses(const ordered_json& schema) {
  const std::string text = schema["$defs"]["node"].dump();
  return text.find("$ref") != text.npos;
}

TEST(RandomSchemas, ValidValuesAreAcceptedAndInvalidOnesAreNot) {
  int values = 0, invalid = 0;
  for (std::uint32_t seed = 1; seed <= tessera::test::rounds(160); ++seed) {
    RandomSchemas make(seed);
    const ordered_json schema = make.schema();
    if (recurses(schema)) continue;
    SCOPED_TRACE(schema.dump());
    const auto grammar = compiled(schema);
    if (grammar == nullptr) continue;
    const Validator validator(schema);
    for (int i = 0; i < 4; ++i) {
      const ordered_json value = make.instance(schema, schema, kDepth);
      if (is_deep(value, 12)) continue;
      ASSERT_TRUE(validator.accepts(value)) << value;
      const std::string text = make.text_of(value);
      ASSERT_TRUE(matches(grammar, text, make.random())) << text;
      ++values;
      const ordered_json other = mutated(value, make);
      if (validator.accepts(other)) continue;
      ASSERT_FALSE(matches(grammar, make.text_of(other), make.random())) << other;
      ++invalid;
    }
  }
  EXPECT_GT(values, static_cast<int>(tessera::test::rounds(300)));
  EXPECT_GT(invalid, static_cast<int>(tessera::test::rounds(150)));
}

/// A token of the mask; one that ends strings and containers rather often, so that answers end.
TokenId choose(const Mask& mask, Random& random) {
  if (has(mask, end_of_answer()) && random() % 2 == 0) return end_of_answer();
  const std::vector<TokenId> ids = ids_of(mask);
  std::vector<TokenId> closing;
  for (const TokenId id : ids) {
    const std::string_view bytes = small_tokenizer().bytes(id);
    if (!small_tokenizer().is_added(id) && bytes.find_first_of("\"]}") != bytes.npos) closing.push_back(id);
  }
  const auto& from = !closing.empty() && random() % 2 == 0 ? closing : ids;
  return from[random() % from.size()];
}

TEST(RandomSchemas, MasksAreThoseOfTryingEveryTokenAndAnswersAreValid) {
  int answers = 0, masks = 0;
  for (std::uint32_t seed = 1000; seed < 1000 + tessera::test::rounds(120); ++seed) {
    RandomSchemas make(seed);
    const ordered_json schema = make.schema();
    SCOPED_TRACE(schema.dump());
    const auto grammar = compiled(schema);
    if (grammar == nullptr) continue;
    const Validator validator(schema);
    for (int answer = 0; answer < 3; ++answer) {
      const auto constraint = constrained(grammar);
      std::string text;
      for (int step = 0; step < 60; ++step) {
        const Mask mask = mask_of(*constraint);
        ASSERT_FALSE(ids_of(mask).empty()) << text;
        if (make.one_in(8)) {
          ++masks;
          ASSERT_EQ(ids_of(mask), ids_of(mask_by_trial(*constraint))) << text;
        }
        const TokenId id = choose(mask, make.random());
        ASSERT_TRUE(constraint->accept(id)) << text << '|' << small_tokenizer().bytes(id);
        if (id != end_of_answer()) {
          text += small_tokenizer().bytes(id);
          continue;
        }
        ++answers;
        ASSERT_TRUE(ordered_json::accept(text)) << text;
        const ordered_json value = ordered_json::parse(text);
        if (text.find("1e") == text.npos && text.find("1E") == text.npos) {
          ASSERT_TRUE(validator.accepts(value)) << text;
        }
        break;
      }
    }
  }
  EXPECT_GT(answers, static_cast<int>(tessera::test::rounds(100)));
  EXPECT_GT(masks, static_cast<int>(tessera::test::rounds(400)));
}

}  // namespace THIS_FILE
}  // namespace mortar::grammar
