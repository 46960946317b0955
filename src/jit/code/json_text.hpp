// Text as a string of JSON (RFC 8259): for tuning records and TESSERA_DECISIONS.
#pragma once
#include <string>
#include <string_view>

#include "tessera/base/format.hpp"

namespace tessera::jit {

/// In quotes, with quotes, backslashes and control characters escaped.
inline std::string json_text(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (code < 0x20)
      out += concat("\\u00", kHex[code >> 4], kHex[code & 15]);
    else
      out += c;
  }
  return out + '"';
}

}  // namespace tessera::jit
