// Routes: a list that is searched from its front. There are some twenty.
#include "router.hpp"

#include <algorithm>

#include "mortar/errors.hpp"

namespace mortar {
namespace {

std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> parts;
  path.remove_prefix(1);
  for (;;) {
    const std::size_t end = path.find('/');
    parts.emplace_back(path.substr(0, end));
    if (end == std::string_view::npos) return parts;
    path.remove_prefix(end + 1);
  }
}

bool is_parameter(const std::string& part) { return part.size() > 2 && part.front() == '{' && part.back() == '}'; }
bool takes_rest(const std::string& part) { return is_parameter(part) && part[part.size() - 2] == '*'; }

/// The values of the pattern's names if the path fits; `parts` are decoded.
std::optional<HttpHeaders> fit(const Route& route, const std::vector<std::string>& parts) {
  const auto& pattern = route.parts;
  const bool rest = takes_rest(pattern.back());
  if (rest ? parts.size() < pattern.size() : parts.size() != pattern.size()) return std::nullopt;
  HttpHeaders values;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (!is_parameter(pattern[i])) {
      if (pattern[i] != parts[i]) return std::nullopt;
      continue;
    }
    std::string value = parts[i];
    std::string name = pattern[i].substr(1, pattern[i].size() - 2);
    if (rest && i + 1 == pattern.size()) {
      name.pop_back();
      for (std::size_t k = i + 1; k < parts.size(); ++k) value += "/" + parts[k];
    }
    if (value.empty()) return std::nullopt;
    values.emplace_back(std::move(name), std::move(value));
  }
  return values;
}

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = digit(text[i + 1]), low = digit(text[i + 2]);
    if (high < 0 || low < 0 || high + low == 0) return std::nullopt;
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

void Router::add(std::string method, std::string pattern, HttpHandler handler) {
  if (!pattern.starts_with("/"))
    throw RequestError("expected the pattern of a route to begin with /, found " + pattern);
  Route route{std::move(method), pattern, split_path(pattern), std::move(handler)};
  for (std::size_t i = 0; i + 1 < route.parts.size(); ++i)
    if (takes_rest(route.parts[i]))
      throw RequestError("expected {name*} at the end of the pattern of a route, found " + pattern);
  routes_.push_back(std::move(route));
}

Router::Match Router::find(std::string_view method, std::string_view target) const {
  Match match;
  std::vector<std::string> parts = split_path(target);
  for (std::string& part : parts) {
    auto decoded = percent_decoded(part);
    match.malformed = match.malformed || !decoded;
    if (decoded) part = *std::move(decoded);
  }
  if (match.malformed) return match;
  std::vector<std::string_view> methods;
  for (const Route& route : routes_) {
    auto values = fit(route, parts);
    if (!values) continue;
    methods.push_back(route.method);
    if (route.method == "GET") methods.push_back("HEAD");
    if (match.route == nullptr && (route.method == method || (method == "HEAD" && route.method == "GET"))) {
      match.route = &route;
      match.parameters = *std::move(values);
    }
  }
  if (methods.empty()) return match;
  methods.push_back("OPTIONS");
  std::sort(methods.begin(), methods.end());
  methods.erase(std::unique(methods.begin(), methods.end()), methods.end());
  for (const std::string_view m : methods) match.allow += (match.allow.empty() ? "" : ", ") + std::string(m);
  return match;
}

}  // namespace mortar
