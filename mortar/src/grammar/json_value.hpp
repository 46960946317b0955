// A JSON value as it is written: fields keep their order, numbers their text.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/json_reader.hpp"

namespace mortar::grammar {

struct JsonValue {
  using Kind = text::JsonReader::Kind;
  Kind kind = Kind::Null;
  std::string text = {};              ///< of a string (decoded) or a number (as written)
  std::vector<JsonValue> items = {};  ///< of an array
  std::vector<std::pair<std::string, JsonValue>> fields = {};

  bool is(Kind k) const { return kind == k; }
  bool is_bool() const { return kind == Kind::True || kind == Kind::False; }
  /// The field of this name, or null.
  const JsonValue* find(std::string_view name) const;
  JsonValue* find(std::string_view name);
  bool operator==(const JsonValue& other) const;
};

/// Throws RequestError, which begins with `name`, if the text is not one JSON value, repeats a field, or is nested too
/// deep.
JsonValue parse_json(std::string_view text, const std::string& name);

/// The string as JSON text with its quotes; only what must be escaped is.
std::string json_string(std::string_view text);

/// The value as compact JSON.
std::string written(const JsonValue& value);

}  // namespace mortar::grammar
