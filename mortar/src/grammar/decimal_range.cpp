// Ranges of numbers, digit by digit: each bound is followed until a digit differs from it.
#include "grammar/decimal_range.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

namespace mortar::grammar {
namespace {

constexpr std::size_t kDigits = 400;

using Text = std::optional<std::string>;

std::string digits_from_to(char first, char last) {
  if (first == last) return {first};
  return std::string("[") + first + '-' + last + ']';
}

std::string any_digits(std::size_t count) { return count == 0 ? "" : "[0-9]{" + std::to_string(count) + '}'; }

std::string either(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) {
    if (!out.empty()) out += '|';
    out += part;
  }
  return parts.size() == 1 ? out : "(?:" + out + ')';
}

/// Digits of the same number as `low` and `high`, between them.
std::string same_length(const std::string& low, const std::string& high) {
  if (low == high) return low;
  std::size_t shared = 0;
  while (low[shared] == high[shared]) ++shared;
  const std::size_t rest = low.size() - shared - 1;
  const std::string nines(rest, '9'), zeros(rest, '0');
  const std::string low_rest = low.substr(shared + 1), high_rest = high.substr(shared + 1);
  char first = low[shared], last = high[shared];
  std::vector<std::string> parts;
  if (low_rest != zeros) parts.push_back(first++ + same_length(low_rest, nines));
  std::string end;
  if (high_rest != nines) end = last-- + same_length(zeros, high_rest);
  if (first <= last) parts.push_back(digits_from_to(first, last) + any_digits(rest));
  if (!end.empty()) parts.push_back(end);
  return low.substr(0, shared) + either(parts);
}

bool is_less(const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; }

/// Whole numbers from `low` on, up to `high` if there is one.
Text naturals(const std::string& low, const Text& high) {
  if (high.has_value() && is_less(*high, low)) return std::nullopt;
  std::vector<std::string> parts;
  const std::size_t longest = high.has_value() ? high->size() : low.size();
  for (std::size_t length = low.size(); length <= longest; ++length) {
    const std::string first = length == low.size() ? low : '1' + std::string(length - 1, '0');
    const std::string last = high.has_value() && length == high->size() ? *high : std::string(length, '9');
    parts.push_back(same_length(first, last));
  }
  if (!high.has_value()) parts.push_back("[1-9][0-9]{" + std::to_string(low.size()) + ",}");
  return either(parts);
}

std::string plus_one(std::string whole) {
  std::size_t i = whole.size();
  while (i > 0 && whole[i - 1] == '9') whole[--i] = '0';
  if (i == 0) return '1' + whole;
  ++whole[i - 1];
  return whole;
}

/// The number before one that is not zero.
std::string minus_one(std::string whole) {
  std::size_t i = whole.size();
  while (whole[i - 1] == '0') whole[--i] = '9';
  --whole[i - 1];
  return whole.size() > 1 && whole[0] == '0' ? whole.substr(1) : whole;
}

/// A bound of the digits after the point that are still to come.
struct Rest {
  std::string digits;
  bool is_exclusive;
  bool excludes_zero() const { return digits.empty() && is_exclusive; }
};
using Bound = std::optional<Rest>;

Bound after_digit(const Bound& bound, char digit) {
  if (!bound.has_value()) return bound;
  const char own = bound->digits.empty() ? '0' : bound->digits[0];
  if (digit != own) return std::nullopt;
  return Rest{bound->digits.empty() ? "" : bound->digits.substr(1), bound->is_exclusive};
}

bool may_end(const Bound& low, const Bound& high) {
  return (!low.has_value() || (low->digits.empty() && !low->is_exclusive)) &&
         !(high.has_value() && high->excludes_zero());
}

/// One or more digits of a fraction between the bounds.
Text fraction_digits(const Bound& low, const Bound& high) {
  if ((!low.has_value() || low->digits.empty()) && (!high.has_value() || high->digits.empty())) {
    const bool above_zero = low.has_value() && low->is_exclusive;
    if (!high.has_value()) return above_zero ? "0*[1-9][0-9]*" : "[0-9]+";
    if (above_zero || high->is_exclusive) return std::nullopt;
    return "0+";
  }
  const char first = !low.has_value() || low->digits.empty() ? '0' : low->digits[0];
  const char last = !high.has_value() ? '9' : high->digits.empty() ? '0' : high->digits[0];
  std::vector<std::string> parts;
  const auto bounded = [&](char digit) {
    const Bound low_after = after_digit(low, digit), high_after = after_digit(high, digit);
    const Text more = fraction_digits(low_after, high_after);
    const bool ends = may_end(low_after, high_after);
    if (more.has_value())
      parts.push_back(digit + ("(?:" + *more + ')') + (ends ? "?" : ""));
    else if (ends)
      parts.push_back({digit});
  };
  const bool low_counts = low.has_value(), high_counts = high.has_value();
  if (first > last) return std::nullopt;
  if (low_counts) bounded(first);
  if (high_counts && (last != first || !low_counts)) bounded(last);
  const char free_first = static_cast<char>(first + (low_counts ? 1 : 0));
  const char free_last = static_cast<char>(last - (high_counts ? 1 : 0));
  if (free_first <= free_last) parts.push_back(digits_from_to(free_first, free_last) + "[0-9]*");
  if (parts.empty()) return std::nullopt;
  return either(parts);
}

/// The fraction with its point, or none, between the bounds.
Text fraction(const Bound& low, const Bound& high) {
  const Text digits = fraction_digits(low, high);
  const bool ends = may_end(low, high);
  if (!digits.has_value()) return ends ? Text("") : std::nullopt;
  return "(?:\\." + *digits + ')' + (ends ? "?" : "");
}

/// Numbers without a sign from `low` to `high`.
Text magnitudes(const Limit& low, const std::optional<Limit>& high) {
  std::vector<std::string> parts;
  const auto add = [&parts](const Text& whole, const Text& rest) {
    if (whole.has_value() && rest.has_value()) parts.push_back(*whole + *rest);
  };
  const Rest low_rest{low.value.fraction, low.is_exclusive};
  const std::string next = plus_one(low.value.whole);
  const Text any = fraction(std::nullopt, std::nullopt);
  if (!high.has_value()) {
    add(low.value.whole, fraction(low_rest, std::nullopt));
    add(naturals(next, std::nullopt), any);
  } else {
    const Rest high_rest{high->value.fraction, high->is_exclusive};
    const std::string& last = high->value.whole;
    if (is_less(last, low.value.whole)) return std::nullopt;
    if (last == low.value.whole) {
      add(last, fraction(low_rest, high_rest));
    } else {
      add(low.value.whole, fraction(low_rest, std::nullopt));
      if (is_less(next, last)) add(naturals(next, minus_one(last)), any);
      add(last, fraction(std::nullopt, high_rest));
    }
  }
  if (parts.empty()) return std::nullopt;
  return either(parts);
}

Limit negated(Limit limit) {
  limit.value.negative = !limit.value.negative;
  return limit;
}

bool is_negative(const Limit& limit) { return limit.value.negative && !limit.value.is_zero(); }

/// Joins what is possible with and without a minus sign.
template <class Magnitudes>
Text with_signs(const NumberRange& range, Magnitudes&& magnitudes_of) {
  const auto part = [&](std::optional<Limit> min, std::optional<Limit> max) -> Text {
    if (max.has_value() && is_negative(*max)) return std::nullopt;
    if (!min.has_value() || is_negative(*min)) min = Limit{};
    return magnitudes_of(*min, max);
  };
  const auto negative_of = [](const std::optional<Limit>& limit) {
    return limit.has_value() ? std::optional(negated(*limit)) : std::nullopt;
  };
  const Text plain = part(range.min, range.max);
  const bool below_zero = !range.min.has_value() || is_negative(*range.min);
  const Text minus = below_zero ? part(negative_of(range.max), negative_of(range.min)) : std::nullopt;
  if (!minus.has_value()) return plain;
  if (!plain.has_value()) return '-' + *minus;
  return "(?:-" + *minus + '|' + *plain + ')';
}

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view text) {
  Decimal out;
  if (!text.empty() && text[0] == '-') {
    out.negative = true;
    text.remove_prefix(1);
  }
  long exponent = 0;
  if (const std::size_t e = text.find_first_of("eE"); e != text.npos) {
    std::string_view digits = text.substr(e + 1);
    if (!digits.empty() && digits[0] == '+') digits.remove_prefix(1);
    if (std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec != std::errc{}) return std::nullopt;
    text = text.substr(0, e);
  }
  const std::size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  if (point < text.size()) digits += text.substr(point + 1);
  if (digits.size() > kDigits || exponent > static_cast<long>(kDigits) || exponent < -static_cast<long>(kDigits))
    return std::nullopt;
  long whole = static_cast<long>(point) + exponent;
  if (whole < 0) {
    digits.insert(0, static_cast<std::size_t>(-whole), '0');
    whole = 0;
  }
  if (static_cast<std::size_t>(whole) > digits.size()) digits.resize(static_cast<std::size_t>(whole), '0');
  out.whole = digits.substr(0, static_cast<std::size_t>(whole));
  out.fraction = digits.substr(static_cast<std::size_t>(whole));
  out.whole.erase(0, std::min(out.whole.find_first_not_of('0'), out.whole.size()));
  if (out.whole.empty()) out.whole = "0";
  while (!out.fraction.empty() && out.fraction.back() == '0') out.fraction.pop_back();
  return out;
}

int compare(const Decimal& a, const Decimal& b) {
  const bool a_below = a.negative && !a.is_zero(), b_below = b.negative && !b.is_zero();
  if (a_below != b_below) return a_below ? -1 : 1;
  int order = 0;
  if (a.whole != b.whole)
    order = is_less(a.whole, b.whole) ? -1 : 1;
  else if (a.fraction != b.fraction)
    order = a.fraction < b.fraction ? -1 : 1;
  return a_below ? -order : order;
}

std::optional<std::string> integers_in(const NumberRange& range) {
  return with_signs(range, [](const Limit& min, const std::optional<Limit>& max) -> Text {
    std::string low = min.value.whole;
    if (!min.value.fraction.empty() || min.is_exclusive) low = plus_one(low);
    if (!max.has_value()) return naturals(low, std::nullopt);
    std::string high = max->value.whole;
    if (max->value.fraction.empty() && max->is_exclusive) {
      if (high == "0") return std::nullopt;
      high = minus_one(high);
    }
    return naturals(low, high);
  });
}

std::optional<std::string> numbers_in(const NumberRange& range) { return with_signs(range, magnitudes); }

}  // namespace mortar::grammar
