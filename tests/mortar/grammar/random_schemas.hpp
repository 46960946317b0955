// Random schemas of what is supported, and values that they accept.
#pragma once
#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

namespace mortar::grammar {

using nlohmann::ordered_json;

class RandomSchemas {
 public:
  explicit RandomSchemas(std::uint32_t seed) : random_(seed) {}

  std::mt19937& random() { return random_; }
  std::size_t below(std::size_t n) { return random_() % n; }
  bool one_in(std::size_t n) { return below(n) == 0; }

  ordered_json schema() {
    ordered_json out = value_schema(3);
    if (!out.is_object()) out = {{"type", "array"}, {"items", out}};
    ordered_json& node = out["$defs"]["node"] = value_schema(2);
    if (!node.is_object()) node = {{"type", "null"}};
    return out;
  }

  /// A value that the schema accepts, with the fields in its order; its size is limited by `depth`.
  ordered_json instance(const ordered_json& root, const ordered_json& schema, int depth) {
    if (schema.is_boolean()) return scalar();
    if (schema.contains("$ref")) return instance(root, root["$defs"]["node"], depth - 1);
    if (schema.contains("anyOf")) return instance(root, schema["anyOf"][below(schema["anyOf"].size())], depth);
    if (schema.contains("const")) return schema["const"];
    if (schema.contains("enum")) return schema["enum"][below(schema["enum"].size())];
    const std::string type = schema["type"];
    if (type == "string") return string_of(schema);
    if (type == "integer") return integer_of(schema);
    if (type == "number") return static_cast<double>(integer_of(schema)) + (schema.contains("maximum") ? 0.0 : 0.25);
    if (type == "boolean") return one_in(2);
    if (type == "null") return nullptr;
    if (type == "array") return array_of(root, schema, depth);
    return object_of(root, schema, depth);
  }

  /// JSON text with white space in one of the usual ways.
  std::string text_of(const ordered_json& value) {
    switch (below(3)) {
      case 0: return value.dump();
      case 1: return value.dump(static_cast<int>(below(5)));
      default: return spaced(value);
    }
  }

  std::string text(std::size_t length) {
    static constexpr const char* letters[] = {"a",  "b",  "Z",  "0", " ",    "é", "中", "😀",
                                              "\"", "\\", "\n", "/", "\x01", "}", ","};
    std::string out;
    for (std::size_t i = 0; i < length; ++i) out += letters[below(std::size(letters))];
    return out;
  }

 private:
  ordered_json value_schema(int depth) {
    switch (below(depth > 0 ? 12 : 7)) {
      case 0: return string_schema();
      case 1: return number_schema("integer");
      case 2: return number_schema("number");
      case 3: return {{"type", one_in(2) ? "boolean" : "null"}};
      case 4: return {{"enum", {text(2), "ab", "abc", 5, nullptr, true}}};
      case 5: return {{"const", one_in(2) ? ordered_json(text(3)) : ordered_json{{"k", {1, "x"}}}}};
      case 6: return one_in(3) ? ordered_json(true) : string_schema();
      case 7:
      case 8: return array_schema(depth);
      case 9: {
        ordered_json any = ordered_json::array();
        for (std::size_t i = 0; i < 2 + below(2); ++i) any.push_back(value_schema(depth - 1));
        return {{"anyOf", any}};
      }
      default: return object_schema(depth);
    }
  }

  ordered_json string_schema() {
    static constexpr const char* patterns[] = {"^[a-z]{2,4}$", "a.b", "^(ab|c)+$", "[0-9]$", "^x?y*z$"};
    ordered_json out = {{"type", "string"}};
    if (one_in(3)) out["pattern"] = patterns[below(std::size(patterns))];
    if (one_in(3) && !out.contains("pattern")) out["minLength"] = below(4);
    if (one_in(2)) out["maxLength"] = 4 + below(6);
    return out;
  }
  ordered_json number_schema(const char* type) {
    ordered_json out = {{"type", type}};
    const int low = static_cast<int>(below(300)) - 150;
    if (one_in(2)) out[one_in(3) ? "exclusiveMinimum" : "minimum"] = low;
    if (one_in(2)) out["maximum"] = low + 2 + static_cast<int>(below(200));
    return out;
  }
  ordered_json array_schema(int depth) {
    ordered_json out = {{"type", "array"}};
    std::size_t fixed = 0;
    if (one_in(3)) {
      for (; fixed < 1 + below(3); ++fixed) out["prefixItems"].push_back(value_schema(depth - 1));
    }
    out["items"] = one_in(4) ? ordered_json{{"$ref", "#/$defs/node"}} : value_schema(depth - 1);
    const std::size_t least = below(3);
    if (one_in(2)) out["minItems"] = least;
    if (one_in(2)) out["maxItems"] = least + below(4);
    return out;
  }
  ordered_json object_schema(int depth) {
    ordered_json out = {{"type", "object"}};
    static constexpr const char* names[] = {"a", "ab", "abc", "b", "x y", "é", "\"q\"", ""};
    if (!one_in(4)) {
      out["properties"] = ordered_json::object();
      for (const char* name : names) {
        if (!one_in(3)) continue;
        out["properties"][name] = one_in(5) ? ordered_json{{"$ref", "#/$defs/node"}} : value_schema(depth - 1);
        if (one_in(2)) out["required"].push_back(name);
      }
      if (!one_in(3)) out["additionalProperties"] = one_in(2) ? ordered_json(false) : value_schema(depth - 1);
    } else {
      out["additionalProperties"] = value_schema(depth - 1);
      if (one_in(2)) out["minProperties"] = below(2);
      if (one_in(2)) out["maxProperties"] = 1 + below(3);
    }
    return out;
  }

  ordered_json scalar() {
    switch (below(4)) {
      case 0: return text(below(4));
      case 1: return static_cast<int>(below(1000)) - 500;
      case 2: return nullptr;
      default: return one_in(2);
    }
  }
  ordered_json string_of(const ordered_json& schema) {
    if (schema.contains("pattern")) {
      static const std::vector<std::pair<std::string, std::vector<std::string>>> matching = {
          {"^[a-z]{2,4}$", {"ab", "zzzz"}},
          {"a.b", {"a\"b", "xa中b"}},
          {"^(ab|c)+$", {"c", "abc"}},
          {"[0-9]$", {"\\7", "é0"}},
          {"^x?y*z$", {"z", "xyz"}}};
      for (const auto& [pattern, texts] : matching) {
        if (schema["pattern"] == pattern) return texts[below(texts.size())];
      }
    }
    const std::size_t least = schema.value("minLength", std::size_t{0}), most = schema.value("maxLength", least + 6);
    return text(least + below(most - least + 1));
  }
  std::int64_t integer_of(const ordered_json& schema) {
    std::int64_t low = schema.value("minimum", std::int64_t{-5000});
    if (schema.contains("exclusiveMinimum")) low = schema["exclusiveMinimum"].get<std::int64_t>() + 1;
    const std::int64_t high = schema.value("maximum", low + 2000);
    if (low > high || one_in(4)) return high;
    return low + static_cast<std::int64_t>(below(static_cast<std::size_t>(high - low + 1)));
  }
  ordered_json array_of(const ordered_json& root, const ordered_json& schema, int depth) {
    const std::size_t fixed = schema.contains("prefixItems") ? schema["prefixItems"].size() : 0;
    const std::size_t least = schema.value("minItems", std::size_t{0}), most = schema.value("maxItems", least + 3);
    const std::size_t size = depth <= 0 ? least : least + below(most - least + 1);
    ordered_json out = ordered_json::array();
    for (std::size_t i = 0; i < size; ++i)
      out.push_back(instance(root, i < fixed ? schema["prefixItems"][i] : schema["items"], depth - 1));
    return out;
  }
  ordered_json object_of(const ordered_json& root, const ordered_json& schema, int depth) {
    ordered_json out = ordered_json::object();
    const bool is_map = !schema.contains("properties");
    if (!is_map) {
      const ordered_json required = schema.value("required", ordered_json::array());
      for (const auto& [name, inner] : schema["properties"].items()) {
        const bool needed = std::find(required.begin(), required.end(), name) != required.end();
        if (needed || (depth > 0 && one_in(2))) out[name] = instance(root, inner, depth - 1);
      }
    }
    const ordered_json more = schema.value("additionalProperties", ordered_json(false));
    if (more == false) return out;
    const std::size_t least = schema.value("minProperties", std::size_t{0});
    const std::size_t count =
        depth <= 0
            ? least
            : std::max(least, below(std::min<std::size_t>(3, schema.value("maxProperties", std::size_t{9}) + 1)));
    for (std::size_t i = 0; i < count; ++i) out["other" + std::to_string(i)] = instance(root, more, depth - 1);
    return out;
  }

  std::string spaced(const ordered_json& value) {
    std::string out;
    if (value.is_array()) {
      for (const ordered_json& inner : value) out += (out.empty() ? "" : ", ") + spaced(inner);
      return "[" + out + "]";
    }
    if (!value.is_object()) return value.dump();
    for (const auto& [name, inner] : value.items())
      out += (out.empty() ? "" : ", ") + ordered_json(name).dump() + ": " + spaced(inner);
    return "{" + out + "}";
  }

  std::mt19937 random_;
};

}  // namespace mortar::grammar
