// JSON on standard output.
#pragma once
#include <nlohmann/json.hpp>
#include <string>

namespace mortar::cli {

/// An object as text; bytes of names and paths that are not UTF-8 become U+FFFD. `indent`: -1 for one line.
inline std::string json_text(const nlohmann::ordered_json& object, int indent = -1) {
  return object.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace mortar::cli
