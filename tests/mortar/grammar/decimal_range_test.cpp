// Ranges of numbers: every text of a number near the bounds is compared with them as a number.
#include "grammar/decimal_range.hpp"

#include <cstdint>
#include <optional>

#include "grammar/dfa.hpp"
#include "grammars.hpp"

namespace mortar::grammar {
namespace THIS_FILE {

struct Case {
  const char *min, *max;
  bool exclusive_min, exclusive_max;
};

NumberRange range_of(const Case& c) {
  NumberRange range;
  if (c.min != nullptr) range.min = Limit{*parse_decimal(c.min), c.exclusive_min};
  if (c.max != nullptr) range.max = Limit{*parse_decimal(c.max), c.exclusive_max};
  return range;
}

bool contains(const NumberRange& range, const Decimal& value) {
  if (range.min.has_value()) {
    const int order = compare(value, range.min->value);
    if (order < 0 || (order == 0 && range.min->is_exclusive)) return false;
  }
  if (!range.max.has_value()) return true;
  const int order = compare(value, range.max->value);
  return order < 0 || (order == 0 && !range.max->is_exclusive);
}

class Matcher {
 public:
  explicit Matcher(const std::optional<std::string>& expression) {
    Budget budget(10'000'000);
    if (expression.has_value()) dfa_ = make_dfa(parse_regex(*expression, "range", budget), Spelling::Raw, budget);
  }
  bool operator()(std::string_view text) const {
    if (!dfa_.has_value()) return false;
    std::uint32_t state = 0;
    for (const char c : text) {
      state = dfa_->step(state, static_cast<std::uint8_t>(c));
      if (state == Dfa::kDead) return false;
    }
    return dfa_->accepts[state];
  }

 private:
  std::optional<Dfa> dfa_;
};

constexpr Case kCases[] = {
    {"0", "10", false, false},      {"1", "14", false, false},      {"-1000", "1005", false, false},
    {"0", "1", true, true},         {"0", "1", false, true},        {"0.1", "0.9", false, false},
    {"-0.5", "0.25", false, false}, {"0.05", "0.95", true, false},  {"-3", "-1", false, false},
    {"-3.5", "-1.25", true, true},  {"5", nullptr, false, false},   {"5", nullptr, true, false},
    {nullptr, "-7", false, false},  {nullptr, "7.5", false, true},  {"-0.001", "0", false, true},
    {"99", "101", false, false},    {"1e2", "1.5e2", false, false}, {"12.34", "12.35", false, false},
    {"12.3", "12.3", false, false}, {"12.3", "12.3", true, false},  {"0", "0", false, false},
    {"7", "3", false, false},       {"1.5", "1.6", true, true},     {"-12.5", "100.01", false, false},
    {"999", "12345", true, true},   {"0", "0.5", true, false}};

TEST(DecimalRange, IntegersAndNumbersAreThoseInTheRange) {
  Random random(3);
  for (const Case& c : kCases) {
    SCOPED_TRACE(testing::Message() << (c.min != nullptr ? c.min : "-") << " to " << (c.max != nullptr ? c.max : "-"));
    const NumberRange range = range_of(c);
    const Matcher integers(integers_in(range)), numbers(numbers_in(range));
    for (int value = -1200; value <= 1200; ++value) {
      const std::string text = std::to_string(value);
      ASSERT_EQ(integers(text), contains(range, *parse_decimal(text))) << text;
      ASSERT_EQ(numbers(text), contains(range, *parse_decimal(text))) << text;
    }
    for (int i = 0; i < 3000; ++i) {  // digits around those of the bounds
      const char* bound = c.min != nullptr && (c.max == nullptr || random() % 2 == 0) ? c.min : c.max;
      const auto decimal = parse_decimal(bound);
      std::string text = (random() % 8 == 0) != decimal->negative ? "-" : "";
      text += random() % 3 == 0 ? std::to_string(random() % 2000) : decimal->whole;
      text += '.';
      text += random() % 2 == 0 ? decimal->fraction : "";
      if (text.back() == '.' || random() % 2 == 0) text += std::to_string(random() % 100);
      if (random() % 4 == 0) text += "00";
      const auto value = parse_decimal(text);
      if (value->is_zero() && value->negative) continue;  // never written where no negative number is in the range
      ASSERT_EQ(numbers(text), contains(range, *value)) << text;
      ASSERT_FALSE(integers(text)) << text;
    }
    for (const char* text : {"", "-", "01", "1.", ".5", "+1", "1e3"})
      ASSERT_FALSE(numbers(text) || integers(text)) << text;
  }
}

TEST(DecimalRange, DecimalsAreExact) {
  EXPECT_EQ(parse_decimal("1.50e1")->whole, "15");
  EXPECT_EQ(parse_decimal("15e-3")->fraction, "015");
  EXPECT_EQ(parse_decimal("-0")->is_zero(), true);
  EXPECT_EQ(compare(*parse_decimal("-0"), *parse_decimal("0")), 0);
  EXPECT_EQ(compare(*parse_decimal("-2"), *parse_decimal("-10")), 1);
  EXPECT_EQ(compare(*parse_decimal("123456789012345678901"), *parse_decimal("123456789012345678902")), -1);
  EXPECT_FALSE(parse_decimal("1e999").has_value());
  EXPECT_FALSE(parse_decimal("1e99999999999999999999").has_value());
}

}  // namespace THIS_FILE
}  // namespace mortar::grammar
