// A validator of JSON schema for the tests, written from the specification and independent of the engine: values are
// trees, patterns are those of std::regex.
#pragma once
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>
#include <string>

namespace mortar::grammar {

using nlohmann::ordered_json;

class Validator {
 public:
  explicit Validator(const ordered_json& root) : root_(root) {}

  bool accepts(const ordered_json& value) const { return accepts(root_, value); }

 private:
  bool accepts(const ordered_json& schema, const ordered_json& value) const {
    if (schema.is_boolean()) return schema.get<bool>();
    for (const auto& [keyword, expected] : schema.items()) {
      if (!keyword_accepts(keyword, expected, schema, value)) return false;
    }
    return true;
  }

  static bool has_type(const std::string& type, const ordered_json& value) {
    if (type == "integer") return value.is_number() && std::floor(value.get<double>()) == value.get<double>();
    if (type == "number") return value.is_number();
    if (type == "object") return value.is_object();
    if (type == "array") return value.is_array();
    if (type == "string") return value.is_string();
    if (type == "boolean") return value.is_boolean();
    return value.is_null();
  }
  static bool has_one_of(const ordered_json& types, const ordered_json& value) {
    if (types.is_string()) return has_type(types.get<std::string>(), value);
    for (const ordered_json& type : types) {
      if (has_type(type.get<std::string>(), value)) return true;
    }
    return false;
  }
  /// One character for each code point of UTF-8.
  static std::wstring wide(const std::string& text) {
    std::wstring out;
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if ((byte & 0xC0) != 0x80)
        out += static_cast<wchar_t>(byte < 0x80 ? byte : byte & (byte < 0xE0 ? 0x1F : byte < 0xF0 ? 0x0F : 0x07));
      else
        out.back() = static_cast<wchar_t>(static_cast<unsigned>(out.back()) << 6 | (byte & 0x3FU));
    }
    return out;
  }

  bool keyword_accepts(const std::string& keyword, const ordered_json& expected, const ordered_json& schema,
                       const ordered_json& value) const {
    if (keyword == "type") return has_one_of(expected, value);
    if (keyword == "const") return value == expected;
    if (keyword == "enum") return std::find(expected.begin(), expected.end(), value) != expected.end();
    if (keyword == "$ref")
      return accepts(root_.at(ordered_json::json_pointer(expected.get<std::string>().substr(1))), value);
    if (keyword == "anyOf" || keyword == "oneOf" || keyword == "allOf") {
      const auto count = static_cast<std::size_t>(
          std::count_if(expected.begin(), expected.end(), [&](const ordered_json& s) { return accepts(s, value); }));
      return keyword == "anyOf" ? count > 0 : keyword == "oneOf" ? count == 1 : count == expected.size();
    }
    if (value.is_string()) return string_accepts(keyword, expected, value.get<std::string>());
    if (value.is_number())
      return number_accepts(keyword, expected.is_number() ? expected.get<double>() : 0, value.get<double>());
    if (value.is_array()) return array_accepts(keyword, expected, schema, value);
    if (value.is_object()) return object_accepts(keyword, expected, schema, value);
    return true;
  }

  static bool string_accepts(const std::string& keyword, const ordered_json& expected, const std::string& text) {
    if (keyword == "minLength") return wide(text).size() >= expected.get<std::size_t>();
    if (keyword == "maxLength") return wide(text).size() <= expected.get<std::size_t>();
    if (keyword == "pattern") return std::regex_search(wide(text), std::wregex(wide(expected.get<std::string>())));
    return true;
  }
  static bool number_accepts(const std::string& keyword, double expected, double value) {
    if (keyword == "minimum") return value >= expected;
    if (keyword == "maximum") return value <= expected;
    if (keyword == "exclusiveMinimum") return value > expected;
    if (keyword == "exclusiveMaximum") return value < expected;
    return true;
  }
  bool array_accepts(const std::string& keyword, const ordered_json& expected, const ordered_json& schema,
                     const ordered_json& value) const {
    if (keyword == "minItems") return value.size() >= expected.get<std::size_t>();
    if (keyword == "maxItems") return value.size() <= expected.get<std::size_t>();
    const std::size_t prefix = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (keyword == "prefixItems" && i < prefix && !accepts(expected[i], value[i])) return false;
      if (keyword == "items" && i >= prefix && !accepts(expected, value[i])) return false;
    }
    return true;
  }
  bool object_accepts(const std::string& keyword, const ordered_json& expected, const ordered_json& schema,
                      const ordered_json& value) const {
    if (keyword == "minProperties") return value.size() >= expected.get<std::size_t>();
    if (keyword == "maxProperties") return value.size() <= expected.get<std::size_t>();
    if (keyword == "required") {
      return std::all_of(expected.begin(), expected.end(),
                         [&](const ordered_json& name) { return value.contains(name.get<std::string>()); });
    }
    for (const auto& [name, inner] : value.items()) {
      const bool named = schema.contains("properties") && schema["properties"].contains(name);
      if (keyword == "properties" && named && !accepts(expected[name], inner)) return false;
      if (keyword == "additionalProperties" && !named && !accepts(expected, inner)) return false;
    }
    return true;
  }

  const ordered_json& root_;
};

}  // namespace mortar::grammar
