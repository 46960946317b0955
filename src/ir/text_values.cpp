// How MLIR prints numbers and attributes (AsmPrinter.cpp and APFloat::toString say which digits; NVIDIA's text follows
// them).
#include "ir/text_values.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "ir/characters.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/semantics.hpp"

namespace tessera::ir {

namespace {

/// Significant decimal digits of a finite number: 0.d1d2d3... * 10^(exponent + 1), no trailing zeros.
struct Decimal {
  std::string digits;
  int exponent;  ///< of the first digit
};

Decimal exact_decimal(double value) {
  char text[800];
  std::snprintf(text, sizeof text, "%.770e", std::fabs(value));  // 767 digits are enough for any double
  std::string s = text;
  std::size_t e = s.find('e');
  Decimal d{s.substr(0, 1) + s.substr(2, e - 2), std::atoi(s.c_str() + e + 1)};
  d.digits.erase(d.digits.find_last_not_of('0') + 1);
  if (d.digits.empty()) d.digits = "0";
  return d;
}

/// APFloat first divides the exact decimal integer down to about the bits that `count` digits need, truncating (its
/// estimate of digits per bit is 59/196).
void truncate(Decimal& d, double value, std::size_t count) {
  value = std::fabs(value);
  int exponent = 0;
  double odd = std::frexp(value, &exponent);
  std::size_t length = d.digits.size();  // of the decimal integer
  int bits = exponent;
  if (std::trunc(value) == value) {
    length = static_cast<std::size_t>(d.exponent) + 1;
  } else {
    // value = odd / 2^k: the decimal integer is odd * 5^k.
    while (std::trunc(odd) != odd) {
      odd *= 2;
      --exponent;
    }
    bits = static_cast<int>(std::floor(std::log2(static_cast<long double>(odd)) +
                                       static_cast<long double>(-exponent) * std::log2(5.0L))) +
           1;
  }
  const int required = static_cast<int>((count * 196 + 58) / 59);
  if (bits <= required) return;
  const auto removed = static_cast<std::size_t>((bits - required) * 59 / 196);
  if (length > removed && length - removed < d.digits.size()) d.digits.resize(length - removed);
  d.digits.erase(std::max<std::size_t>(d.digits.find_last_not_of('0') + 1, 1));
}

/// `value` in at most `count` digits, rounded as APFloat::toString does: truncated, then halves up.
Decimal rounded(Decimal d, double value, std::size_t count) {
  truncate(d, value, count);
  if (d.digits.size() <= count) return d;
  const bool up = d.digits[count] >= '5';
  d.digits.resize(count);
  if (up) {
    std::size_t i = count;
    while (i > 0 && d.digits[i - 1] == '9') d.digits[--i] = '0';
    if (i == 0) {
      d.digits = "1";
      ++d.exponent;
    } else {
      ++d.digits[i - 1];
    }
  }
  d.digits.erase(std::max<std::size_t>(d.digits.find_last_not_of('0') + 1, 1));
  return d;
}

/// 1.234560e+02: six digits, padded with zeros.
std::string scientific(const Decimal& d) {
  std::string fraction = d.digits.substr(1);
  fraction.resize(6, '0');
  const int e = std::abs(d.exponent);
  return concat(d.digits[0], ".", fraction, "e", d.exponent < 0 ? "-" : "+", e < 10 ? "0" : "", e);
}

/// All digits that matter, as APFloat writes them by default: 1.5, 0.001, 1.25E-7.
std::string full_digits(const Decimal& d, std::size_t precision) {
  constexpr int kMaxPadding = 3;
  const int count = static_cast<int>(d.digits.size());
  const int last = d.exponent - (count - 1);  // power of ten of the last digit
  const bool is_scientific = last >= 0
                                 ? last > kMaxPadding || d.digits.size() + static_cast<std::size_t>(last) > precision
                                 : d.exponent < -kMaxPadding;
  if (is_scientific) {
    std::string fraction = count == 1 ? "0" : d.digits.substr(1);
    return concat(d.digits[0], ".", fraction, "E", d.exponent < 0 ? "-" : "+", std::abs(d.exponent));
  }
  if (last >= 0) return d.digits + std::string(static_cast<std::size_t>(last), '0');
  if (d.exponent >= 0) {
    const auto whole = static_cast<std::size_t>(d.exponent) + 1;
    return d.digits.substr(0, whole) + "." + d.digits.substr(whole);
  }
  return "0." + std::string(static_cast<std::size_t>(-d.exponent - 1), '0') + d.digits;
}

/// Significant bits of a format, the hidden one included.
int significant_bits(Elem e) {
  switch (e) {
    case Elem::F64: return 53;
    case Elem::F32: return 24;
    case Elem::F16:
    case Elem::TF32: return 11;
    case Elem::BF16: return 8;
    case Elem::F8E4M3FN:
    case Elem::F8E5M3FNU: return 4;
    case Elem::F8E5M2: return 3;
    case Elem::F4E2M1FN: return 2;
    default: return 1;
  }
}

std::string hex_bits(Elem e, std::uint64_t bits) {
  if (e == Elem::TF32) bits >>= 13;
  char text[24];
  std::snprintf(text, sizeof text, "0x%llX", static_cast<unsigned long long>(bits));
  return text;
}

/// All of `text` as a number of C++'s classic locale.
template <class T>
bool whole_number(std::string_view text, T& value, int base = 10) {
  const char* end = text.data() + text.size();
  std::from_chars_result result{};
  if constexpr (std::is_floating_point_v<T>)
    result = std::from_chars(text.data(), end, value);
  else
    result = std::from_chars(text.data(), end, value, base);
  return result.ec == std::errc() && result.ptr == end;
}

/// Decimal digits first, so that the names of infinities and NaN are no numbers.
bool begins_with_digit(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && is_digit(text[0]);
}

bool float_bits(Elem e, std::string_view text, std::uint64_t& bits) {
  if (text.starts_with("0x")) {
    if (!whole_number(text.substr(2), bits, 16)) return false;
    const int width = e == Elem::TF32 ? 19 : info(e).bits;
    if (width < 64 && bits >> width != 0) return false;
    if (e == Elem::TF32) bits <<= 13;
    return true;
  }
  if (!begins_with_digit(text)) return false;
  if (float single = 0; e == Elem::F32) {  // rounded once
    if (!whole_number(text, single)) return false;
    bits = from_double(e, static_cast<double>(single));
    return true;
  }
  double value = 0;
  if (!whole_number(text, value)) return false;
  bits = from_double(e, value);
  return true;
}

/// `text` is read as the number that it was printed from.
bool reads_as(Elem e, std::string_view text, std::uint64_t bits) {
  std::uint64_t read = 0;
  return float_bits(e, text, read) && read == bits;
}

std::string float_text(Elem e, std::uint64_t bits) {
  const double value = to_double(e, bits);
  if (!std::isfinite(value)) return hex_bits(e, bits);
  const std::string sign = std::signbit(value) ? "-" : "";
  const Decimal exact = exact_decimal(value);
  std::string text = sign + scientific(rounded(exact, value, 6));
  if (reads_as(e, text, bits)) return text;
  const auto digits = static_cast<std::size_t>(2 + significant_bits(e) * 59 / 196);
  text = sign + full_digits(rounded(exact, value, digits), digits);
  return text.find('.') == std::string::npos || !reads_as(e, text, bits) ? hex_bits(e, bits) : text;
}

/// Addresses are listed as integers.
Elem listed_as(Type tile) { return tile.is_pointer() ? Elem::I64 : tile.elem(); }

std::string nested_text(const DenseAttr& data, std::span<const std::int64_t> shape, std::size_t& next) {
  if (shape.empty()) return number_text(listed_as(data.type), dense_element(data, next++));
  std::string out = "[";
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    if (i != 0) out += ", ";
    out += nested_text(data, shape.subspan(1), next);
  }
  return out + "]";
}

std::string hex_string(const std::vector<std::byte>& bytes) {
  std::string out = "\"0x";
  for (std::byte b : bytes) {
    char text[4];
    std::snprintf(text, sizeof text, "%02X", std::to_integer<unsigned>(b));
    out += text;
  }
  return out + "\"";
}

template <class Sequence, class Text>
std::string list_text(const Sequence& items, Text text) {
  std::string out = "[";
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += ", ";
    first = false;
    out += text(item);
  }
  return out + "]";
}

std::string optional_text(const std::optional<std::int64_t>& v) { return v ? std::to_string(*v) : "?"; }

/// An attribute where its type must be said: reduce identities, values of hints. i64 and f64 are MLIR's defaults, but
/// hexadecimal bits alone would be an integer's.
std::string typed_text(const Attribute& attr) {
  if (const auto* b = attr.as<bool>()) return *b ? "true" : "false";
  if (const auto* i = attr.as<IntAttr>()) {
    std::string text = number_text(i->type, static_cast<std::uint64_t>(i->value));
    return i->type == Elem::I64 || i->type == Elem::I1 ? text : concat(text, " : ", info(i->type).text);
  }
  if (const auto* f = attr.as<FloatAttr>()) {
    std::string text = number_text(f->type, f->bits);
    const bool plain = f->type == Elem::F64 && !text.starts_with("0x");
    return plain ? text : concat(text, " : ", info(f->type).text);
  }
  if (const auto* s = attr.as<std::string>()) return quoted_text(*s);
  return "<unprintable>";
}

std::string predicate_text(const Attribute& attr) {
  if (const auto* d = attr.as<DivByAttr>()) {
    std::string out = concat("div_by<", d->divisor);
    if (d->every) out += concat(", every ", *d->every);
    if (d->along) out += concat(" along ", *d->along);
    return out + ">";
  }
  if (const auto* b = attr.as<BoundedAttr>())
    return concat("bounded<", optional_text(b->lower), ", ", optional_text(b->upper), ">");
  if (const auto* s = attr.as<SameElementsAttr>()) return concat("same_elements<[", join(s->values), "]>");
  return "<no predicate>";
}

std::vector<std::pair<std::string, Attribute>> sorted_entries(const DictAttr& dict) {
  auto entries = dict.entries;
  std::ranges::stable_sort(entries, {}, &std::pair<std::string, Attribute>::first);
  return entries;
}

/// A hint's value: integers of 32 bits are printed without their type, all others with it.
std::string hint_value_text(const Attribute& attr) {
  const auto* i = attr.as<IntAttr>();
  if (!i) return typed_text(attr);
  const std::string value = std::to_string(i->value);
  return i->type == Elem::I32 ? value : concat(value, " : ", info(i->type).text);
}

std::string key_text(const std::string& key) { return is_bare_name(key) ? key : quoted_text(key); }

void append_escaped(std::string& out, std::string_view text, bool quoted) {
  for (char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '\\') {
      out += "\\\\";
    } else if (u >= 0x20 && u < 0x7F && !(quoted && c == '"')) {
      out += c;
    } else {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\%02X", u);
      out += escaped;
    }
  }
}

}  // namespace

std::string number_text(Elem e, std::uint64_t bits) {
  if (info(e).is_float) return float_text(e, bits);
  if (e == Elem::I1) return (bits & 1) != 0 ? "true" : "false";
  return std::to_string(to_signed(e, bits));
}

bool number_bits(Elem e, std::string_view text, std::uint64_t& bits) {
  if (info(e).is_float) return float_bits(e, text, bits);
  if (e == Elem::I1 && (text == "true" || text == "false")) {
    bits = text == "true" ? 1 : 0;
    return true;
  }
  std::int64_t value = 0;
  if (!begins_with_digit(text) || !whole_number(text, value)) return false;
  const int width = info(e).bits;
  const std::int64_t most = width == 64 ? INT64_MAX : (std::int64_t{1} << (width - 1)) - 1;
  if (width == 1 ? value < 0 || value > 1 : value > most || value < -most - 1) return false;
  bits = static_cast<std::uint64_t>(value);
  if (width < 64) bits &= (std::uint64_t{1} << width) - 1;
  return true;
}

std::uint64_t dense_element(const DenseAttr& data, std::size_t index) {
  const std::size_t bytes = data.type.is_pointer() ? 8 : info(data.type.elem()).bytes;
  const std::size_t first = data.splat ? 0 : index * bytes;
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < bytes && first + i < data.bytes.size(); ++i)
    bits |= std::to_integer<std::uint64_t>(data.bytes[first + i]) << (8 * i);
  return bits;
}

std::string dense_text(const DenseAttr& data) {
  std::string values;
  if (data.splat || data.type.num_elements() == 1) {
    values = number_text(listed_as(data.type), dense_element(data, 0));
  } else if (static_cast<std::size_t>(data.type.num_elements()) > kMaxListedElements) {
    values = hex_string(data.bytes);
  } else {
    std::size_t next = 0;
    values = nested_text(data, data.type.shape(), next);
  }
  return concat("<", data.type.element_type().str(), ": ", values, "> : ", data.type.str());
}

std::string quoted_text(const std::string& text) {
  std::string out = "\"";
  append_escaped(out, text, true);
  return out + "\"";
}

std::string escaped_text(const std::string& text) {
  std::string out;
  append_escaped(out, text, false);
  return out;
}

bool is_bare_name(std::string_view name) {
  if (name.empty() || !is_letter(name[0])) return false;
  return std::ranges::all_of(name, [](char c) { return is_word(c); });
}

std::string symbol_text(const std::string& name) { return "@" + (is_bare_name(name) ? name : quoted_text(name)); }

std::string hints_text(const DictAttr& hints) {
  std::string out = "<";
  for (const auto& [arch, values] : sorted_entries(hints)) {
    if (out.size() > 1) out += ", ";
    out += key_text(arch) + " = {";
    const DictAttr* inner = values.as<DictAttr>();
    bool first = true;
    if (inner) {
      for (const auto& [key, value] : sorted_entries(*inner)) {
        out += concat(first ? "" : ", ", key_text(key), " = ", hint_value_text(value));
        first = false;
      }
    }
    out += "}";
  }
  return out + ">";
}

std::string attribute_text(AttrKind kind, const Attribute& attr) {
  switch (kind) {
    case AttrKind::Unit: return "unit";
    case AttrKind::Bool: return attr.as<bool>() && *attr.as<bool>() ? "true" : "false";
    case AttrKind::I32:
    case AttrKind::I64: return std::to_string(attr.as<IntAttr>()->value);
    case AttrKind::String: return quoted_text(*attr.as<std::string>());
    case AttrKind::Symbol: return symbol_text(*attr.as<std::string>());
    case AttrKind::Dense: return dense_text(*attr.as<DenseAttr>());
    case AttrKind::Dict: return hints_text(*attr.as<DictAttr>());
    case AttrKind::Tagged: return predicate_text(attr);
    case AttrKind::TaggedArray: return list_text(attr.as<ArrayAttr>()->items, typed_text);
    case AttrKind::I32Array: return "[" + join(attr.as<I32ArrayAttr>()->values) + "]";
    case AttrKind::BoolArray:
      return list_text(attr.as<BoolArrayAttr>()->values, [](bool b) { return std::string(b ? "true" : "false"); });
    default: return enum_text(kind, attr.as<EnumAttr>()->value);
  }
}

}  // namespace tessera::ir
