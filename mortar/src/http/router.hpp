// Finds the handler of a path and a method.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http.hpp"

namespace mortar {

struct Route {
  std::string method, pattern;
  std::vector<std::string> parts;  ///< of the pattern, between slashes
  HttpHandler handler;
};

class Router {
 public:
  /// Throws RequestError if the pattern does not begin with a slash, or has {name*} before its end.
  void add(std::string method, std::string pattern, HttpHandler handler);

  struct Match {
    const Route* route = nullptr;  ///< null: no route has this path, or none of those that have it this method
    HttpHeaders parameters;
    std::string allow;       ///< methods of this path, as in the header Allow; empty: there is no such path
    bool malformed = false;  ///< a percent sign without two digits behind it, or an encoded NUL
  };
  Match find(std::string_view method, std::string_view target) const;

 private:
  std::vector<Route> routes_;
};

/// Replaces %xx; empty if digits are missing or the byte is 0.
std::optional<std::string> percent_decoded(std::string_view text);

}  // namespace mortar
