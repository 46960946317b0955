// Headers of requests.
#include "http.hpp"

#include <algorithm>

#include "message_parser.hpp"

namespace mortar {

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 'a' - 'A') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return lower(x) == lower(y); });
}

const std::string* find_header(const HttpHeaders& headers, std::string_view name) {
  const auto found =
      std::find_if(headers.begin(), headers.end(), [&](const auto& h) { return equal_ignoring_case(h.first, name); });
  return found == headers.end() ? nullptr : &found->second;
}

const std::string* HttpRequest::header(std::string_view name) const { return find_header(headers, name); }

std::string_view HttpRequest::parameter(std::string_view name) const {
  const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.first == name; });
  return found == parameters.end() ? std::string_view() : std::string_view(found->second);
}

}  // namespace mortar
