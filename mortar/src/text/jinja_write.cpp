// Values as text: Python's str() and repr(), and its json.dumps().
#include <algorithm>
#include <charconv>
#include <cmath>

#include "tessera/base/format.hpp"
#include "text/jinja_value.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace mortar::text::jinja {
namespace {

struct Range {
  char32_t first, last;
};
// Format and private-use characters, which repr() escapes as it does white space (general categories Cf and Co).
constexpr Range kEscaped[] = {{0x7F, 0xA0},       {0xAD, 0xAD},       {0x600, 0x605},     {0x61C, 0x61C},
                              {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},     {0x8E2, 0x8E2},
                              {0x180E, 0x180E},   {0x200B, 0x200F},   {0x202A, 0x202E},   {0x2060, 0x206F},
                              {0xE000, 0xF8FF},   {0xFEFF, 0xFEFF},   {0xFFF9, 0xFFFB},   {0x110BD, 0x110BD},
                              {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
                              {0xE0001, 0xE0001}, {0xE0020, 0xE007F}, {0xF0000, 0x10FFFF}};

bool is_escaped(char32_t c) {
  if (c == ' ') return false;
  if (c < 0x20 || CharTable::get().class_of(c) == CharClass::Space) return true;
  return std::any_of(std::begin(kEscaped), std::end(kEscaped), [c](Range r) { return c >= r.first && c <= r.last; });
}

std::string hex(char32_t c, int digits) {
  std::string out(static_cast<std::size_t>(digits), '0');
  for (int i = digits - 1; i >= 0; --i, c >>= 4) out[static_cast<std::size_t>(i)] = "0123456789abcdef"[c & 15];
  return out;
}

void repr_text(std::string_view text, Output& out) {
  const bool twice = text.find('\'') != text.npos && text.find('"') == text.npos;
  const char quote = twice ? '"' : '\'';
  out.add({&quote, 1});
  while (!text.empty()) {
    const Utf8Unit unit = decode_valid(text.data());
    const char32_t c = unit.code_point;
    if (c == '\n')
      out.add("\\n");
    else if (c == '\t')
      out.add("\\t");
    else if (c == '\r')
      out.add("\\r");
    else if (c == '\\' || c == static_cast<char32_t>(quote))
      out.add("\\"), out.add(text.substr(0, 1));
    else if (!is_escaped(c))
      out.add(text.substr(0, unit.bytes));
    else if (c < 0x100)
      out.add("\\x" + hex(c, 2));
    else
      out.add(c < 0x10000 ? "\\u" + hex(c, 4) : "\\U" + hex(c, 8));
    text.remove_prefix(unit.bytes);
  }
  out.add({&quote, 1});
}

void json_text(std::string_view text, bool ascii, Output& out) {
  static constexpr std::string_view special = "\"\\\n\r\t\f\b", letters = "\"\\nrtfb";
  out.add("\"");
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Unit unit = decode_valid(text.data() + at);
    const char32_t c = unit.code_point;
    if (const std::size_t i = c < 0x80 ? special.find(static_cast<char>(c)) : special.npos; i != special.npos)
      out.add("\\"), out.add(letters.substr(i, 1));
    else if (c < 0x20 || (ascii && c >= 0x7F && c < 0x10000 && c != 0x7F))
      out.add("\\u" + hex(c, 4));
    else if (ascii && c >= 0x10000)
      out.add("\\u" + hex(0xD800 + ((c - 0x10000) >> 10), 4) + "\\u" + hex(0xDC00 + ((c - 0x10000) & 0x3FF), 4));
    else
      out.add(text.substr(at, unit.bytes));
    at += unit.bytes;
  }
  out.add("\"");
}

/// Keys that are not strings become some.
std::string json_key(const Value& key) {
  if (key.is_string()) return key.text();
  if (key.is_none()) return "null";
  if (const bool* b = key.as<bool>()) return *b ? "true" : "false";
  if (const auto* i = key.as<std::int64_t>()) return tessera::concat(*i);
  if (const double* d = key.as<double>()) return float_repr(*d);
  throw TemplateFailure(tessera::concat("tojson: expected keys that are strings, found ", type_name(key)));
}

void new_line(const JsonStyle& style, int level, Output& out) {
  if (style.indent < 0) return;
  out.add("\n");
  out.add(std::string(static_cast<std::size_t>(style.indent) * static_cast<std::size_t>(level), ' '));
}

void json_dict(const Dict& dict, const JsonStyle& style, Output& out, int level) {
  if (dict.items.empty()) return out.add("{}");
  std::vector<std::pair<std::string, const Value*>> items;
  for (const auto& [key, value] : dict.items) items.emplace_back(json_key(key), &value);
  if (style.sort_keys)
    std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  out.add("{");
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out.add(style.item);
    new_line(style, level + 1, out);
    json_text(items[i].first, style.ascii, out);
    out.add(style.key);
    write_json(*items[i].second, style, out, level + 1);
  }
  new_line(style, level, out);
  out.add("}");
}

void repr_list(const List& list, Output& out) {
  const bool is_view = !list.has_index(), is_tuple = list.kind == Sequence::Tuple;
  if (is_view) {
    static constexpr const char* names[] = {"dict_keys(", "dict_values(", "dict_items("};
    out.add(names[static_cast<int>(list.kind) - static_cast<int>(Sequence::Keys)]);
  }
  out.add(is_tuple ? "(" : "[");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i != 0) out.add(", ");
    write_repr(list.items[i], out);
  }
  if (is_tuple && list.items.size() == 1) out.add(",");
  out.add(is_tuple ? ")" : "]");
  if (is_view) out.add(")");
}

void repr_dict(const Dict& dict, Output& out) {
  out.add("{");
  for (std::size_t i = 0; i < dict.items.size(); ++i) {
    if (i != 0) out.add(", ");
    write_repr(dict.items[i].first, out);
    out.add(": ");
    write_repr(dict.items[i].second, out);
  }
  out.add("}");
}

}  // namespace

void Output::add(std::string_view text) {
  if (text.size() > most_ - text_.size())
    throw TemplateFailure(tessera::concat("expected at most ", most_, " bytes of text, found more"));
  text_.append(text);
}

std::string float_repr(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, v, std::chars_format::scientific).ptr;
  const std::string_view all(buffer, static_cast<std::size_t>(end - buffer));
  const std::size_t e = all.find('e');
  std::string digits;
  for (char c : all.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  const int exponent = std::atoi(std::string(all.substr(e + 1)).c_str());
  std::string out = std::signbit(v) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    out += digits.substr(0, 1);
    if (digits.size() > 1) out += "." + digits.substr(1);
    const int size = std::abs(exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (size < 10 ? "0" : "") + tessera::concat(size);
  }
  if (exponent < 0) return out + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return out + digits + std::string(whole - digits.size(), '0') + ".0";
  return out + digits.substr(0, whole) + "." + digits.substr(whole);
}

void write_repr(const Value& v, Output& out) {
  if (v.is_string())
    repr_text(v.text(), out);
  else if (v.is_undefined())
    out.add("Undefined");
  else
    write_str(v, out);
}

void write_str(const Value& v, Output& out) {
  if (v.is_undefined()) return;
  if (v.is_string())
    out.add(v.text());
  else if (v.is_none())
    out.add("None");
  else if (const bool* b = v.as<bool>())
    out.add(*b ? "True" : "False");
  else if (const auto* i = v.as<std::int64_t>())
    out.add(tessera::concat(*i));
  else if (const Big* big = v.as<Big>())
    out.add(*big->digits);
  else if (const double* d = v.as<double>())
    out.add(float_repr(*d));
  else if (v.list() != nullptr)
    repr_list(*v.list(), out);
  else if (v.dict() != nullptr)
    repr_dict(*v.dict(), out);
  else
    throw TemplateFailure(tessera::concat("expected a value that has a text, found a ", type_name(v)));
}

void write_json(const Value& v, const JsonStyle& style, Output& out, int level) {
  if (v.is_string())
    json_text(v.text(), style.ascii, out);
  else if (v.is_none())
    out.add("null");
  else if (const bool* b = v.as<bool>())
    out.add(*b ? "true" : "false");
  else if (const double* d = v.as<double>())
    out.add(std::isnan(*d) ? "NaN" : std::isinf(*d) ? (*d < 0 ? "-Infinity" : "Infinity") : float_repr(*d));
  else if (v.as<std::int64_t>() != nullptr || v.as<Big>() != nullptr)
    write_str(v, out);
  else if (const Dict* dict = v.dict())
    json_dict(*dict, style, out, level);
  else if (const List* list = v.list(); list != nullptr && list->has_index()) {
    if (list->items.empty()) return out.add("[]");
    out.add("[");
    for (std::size_t i = 0; i < list->items.size(); ++i) {
      if (i != 0) out.add(style.item);
      new_line(style, level + 1, out);
      write_json(list->items[i], style, out, level + 1);
    }
    new_line(style, level, out);
    out.add("]");
  } else
    throw TemplateFailure(
        tessera::concat("tojson: expected a value of JSON, found ", v.is_undefined() ? "an " : "a ", type_name(v)));
}

std::size_t length(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::vector<std::string_view> lines_of(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Utf8Unit unit = decode_valid(text.data() + at);
    const char32_t c = unit.code_point;
    std::size_t end = at + unit.bytes;
    if (c == '\r' && end < text.size() && text[end] == '\n') ++end;
    const bool ends = (c >= 0xA && c <= 0xD) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    if (ends) out.push_back(text.substr(begin, (keep_ends ? end : at) - begin)), begin = end;
    at = end;
  }
  if (begin < text.size()) out.push_back(text.substr(begin));
  return out;
}

bool is_space(char32_t c) { return (c >= 0x1C && c <= 0x1F) || CharTable::get().class_of(c) == CharClass::Space; }

std::string_view strip(std::string_view text, const std::string* characters, bool left, bool right) {
  const auto stripped = [&](std::string_view character) {
    if (characters == nullptr) return is_space(decode_valid(character.data()).code_point);
    return characters->find(character) != characters->npos;
  };
  while (left && !text.empty()) {
    const unsigned bytes = decode_valid(text.data()).bytes;
    if (!stripped(text.substr(0, bytes))) break;
    text.remove_prefix(bytes);
  }
  while (right && !text.empty()) {
    std::size_t at = text.size() - 1;
    while ((text[at] & 0xC0) == 0x80) --at;
    if (!stripped(text.substr(at))) break;
    text.remove_suffix(text.size() - at);
  }
  return text;
}

}  // namespace mortar::text::jinja
