// Escapes of strings, and numbers.
#include "text/json_writer.hpp"

#include <charconv>
#include <cmath>

namespace mortar::text {

void append_json_escaped(std::string& out, std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c >= 0x20 && c != '"' && c != '\\') continue;
    out.append(text, begin, i - begin);
    begin = i + 1;
    out.push_back('\\');
    switch (c) {
      case '"': out.push_back('"'); break;
      case '\\': out.push_back('\\'); break;
      case '\b': out.push_back('b'); break;
      case '\f': out.push_back('f'); break;
      case '\n': out.push_back('n'); break;
      case '\r': out.push_back('r'); break;
      case '\t': out.push_back('t'); break;
      default:
        out += "u00";
        out.push_back(digits[c >> 4]);
        out.push_back(digits[c & 15]);
    }
  }
  out.append(text, begin, text.size() - begin);
}

void append_json_string(std::string& out, std::string_view text) {
  out.push_back('"');
  append_json_escaped(out, text);
  out.push_back('"');
}

std::string json_string(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  char text[40];
  const auto r = std::to_chars(text, text + sizeof text, number);
  return raw(std::string_view(text, static_cast<std::size_t>(r.ptr - text)));
}

}  // namespace mortar::text
