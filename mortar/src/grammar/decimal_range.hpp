// Bounds of numbers as regular expressions over their decimal digits, exact for numbers of any size.
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace mortar::grammar {

/// A JSON number without exponent: digits before and after the point, neither with superfluous zeros.
struct Decimal {
  bool negative = false;
  std::string whole = "0", fraction = {};

  bool is_zero() const { return whole == "0" && fraction.empty(); }
};

/// Absent if the exponent is so large that the number would have more than 400 digits.
std::optional<Decimal> parse_decimal(std::string_view json_number);
/// -1, 0 or 1, as a is smaller than, equal to or larger than b.
int compare(const Decimal& a, const Decimal& b);

struct Limit {
  Decimal value;
  bool is_exclusive = false;
};

struct NumberRange {
  std::optional<Limit> min, max;
};

/// Expressions for parse_regex() of the integers, or of all numbers without exponent, in a range. Absent if there are
/// none.
std::optional<std::string> integers_in(const NumberRange& range);
std::optional<std::string> numbers_in(const NumberRange& range);

}  // namespace mortar::grammar
