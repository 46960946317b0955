// JSON text to trees and back.
#include "grammar/json_value.hpp"

#include <algorithm>

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"

namespace mortar::grammar {
namespace {

using Kind = JsonValue::Kind;

void require_distinct_fields(const JsonValue& value, const std::string& name) {
  std::vector<std::string_view> names;
  names.reserve(value.fields.size());
  for (const auto& field : value.fields) names.push_back(field.first);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end()) throw RequestError(tessera::concat(name, ": the field '", *twice, "' occurs twice"));
}

JsonValue read(text::JsonReader& reader, const std::string& name) {
  JsonValue value{.kind = reader.peek()};
  switch (value.kind) {
    case Kind::Object:
      reader.object([&](std::string_view field) {
        std::string key(field);
        JsonValue inner = read(reader, name);
        value.fields.emplace_back(std::move(key), std::move(inner));
      });
      require_distinct_fields(value, name);
      break;
    case Kind::Array: reader.array([&] { value.items.push_back(read(reader, name)); }); break;
    case Kind::String: value.text = reader.string(); break;
    case Kind::Number: value.text = reader.number(); break;
    case Kind::True:
    case Kind::False: (void)reader.boolean(); break;
    case Kind::Null: reader.null(); break;
  }
  return value;
}

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
  for (const auto& field : fields) {
    if (field.first == name) return &field.second;
  }
  return nullptr;
}

JsonValue* JsonValue::find(std::string_view name) {
  return const_cast<JsonValue*>(static_cast<const JsonValue*>(this)->find(name));
}

bool JsonValue::operator==(const JsonValue& other) const {
  if (kind != other.kind || text != other.text || items != other.items || fields.size() != other.fields.size())
    return false;
  return std::all_of(fields.begin(), fields.end(), [&](const auto& field) {
    const JsonValue* theirs = other.find(field.first);
    return theirs != nullptr && *theirs == field.second;
  });
}

JsonValue parse_json(std::string_view text, const std::string& name) {
  text::JsonReader reader(text, name, text::JsonReader::Errors::Request);
  JsonValue value = read(reader, name);
  reader.end();
  return value;
}

std::string json_string(std::string_view text) {
  static constexpr std::string_view plain = "\"\\\b\f\n\r\t", letters = "\"\\bfnrt", digits = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (const std::size_t i = plain.find(c); i != plain.npos) {
      out += '\\';
      out += letters[i];
    } else if (byte < 0x20) {
      out += "\\u00";
      out += digits[byte >> 4];
      out += digits[byte & 15];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string written(const JsonValue& value) {
  std::string out;
  const auto separate = [&out] {
    if (out.size() > 1) out += ',';
  };
  switch (value.kind) {
    case Kind::Object:
      out = "{";
      for (const auto& [name, inner] : value.fields) {
        separate();
        out += json_string(name) + ':' + written(inner);
      }
      return out + '}';
    case Kind::Array:
      out = "[";
      for (const JsonValue& inner : value.items) {
        separate();
        out += written(inner);
      }
      return out + ']';
    case Kind::String: return json_string(value.text);
    case Kind::Number: return value.text;
    case Kind::True: return "true";
    case Kind::False: return "false";
    case Kind::Null: break;
  }
  return "null";
}

}  // namespace mortar::grammar
