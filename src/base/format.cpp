// The non-template half of concat.
#include "tessera/base/format.hpp"

#include <charconv>

namespace tessera::detail {

namespace {

template <class Number>
void append_number(std::string& out, Number value) {
  char buffer[40];  // the longest shortest double has 24 characters, the longest 64-bit integer 20
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, result.ptr);
}

}  // namespace

void append(std::string& out, std::string_view text) { out.append(text); }
void append(std::string& out, char c) { out.push_back(c); }
void append(std::string& out, bool value) { out.append(value ? "true" : "false"); }
void append(std::string& out, long long value) { append_number(out, value); }
void append(std::string& out, unsigned long long value) { append_number(out, value); }
void append(std::string& out, double value) { append_number(out, value); }
void append(std::string& out, float value) { append_number(out, value); }

}  // namespace tessera::detail
