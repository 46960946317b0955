// Types and ranges of fields, with the message of those that do not fit.
#include "server/fields.hpp"

#include <algorithm>
#include <cmath>

#include "server/api_error.hpp"
#include "tessera/base/format.hpp"

namespace mortar::server {

using tessera::concat;
using text::Json;
using Kind = Json::Kind;

void wrong(const std::string& path, std::string_view expected, const Json& value) {
  invalid(path, expected, text::description(value), "invalid_type");
}

std::string element(const std::string& path, std::size_t index) { return concat(path, "[", index, "]"); }

std::int64_t integer_of(const Json& value, const std::string& path, std::int64_t lowest, std::int64_t highest) {
  if (!value.is(Kind::Number)) wrong(path, "an integer", value);
  const std::optional<std::int64_t> n = value.integer();
  if (!n || *n < lowest || *n > highest)
    invalid(path,
            highest == INT64_MAX ? concat("an integer of at least ", lowest)
                                 : concat("an integer from ", lowest, " to ", highest),
            text::description(value));
  return *n;
}

std::vector<std::int32_t> integers_of(const Json& array, const std::string& path, std::int64_t lowest,
                                      std::int64_t highest, std::size_t most) {
  if (!array.is(Kind::Array)) wrong(path, "an array of integers", array);
  if (array.items.size() > most) invalid(path, concat("at most ", most, " integers"), concat(array.items.size()));
  std::vector<std::int32_t> out;
  for (std::size_t i = 0; i < array.items.size(); ++i)
    out.push_back(static_cast<std::int32_t>(integer_of(array.items[i], element(path, i), lowest, highest)));
  return out;
}

Fields::Fields(const Json& object, std::string path) : object_(object), path_(std::move(path)) {
  if (!object.is(Kind::Object)) wrong(path_.empty() ? "the body" : path_, "an object", object);
}

std::string Fields::path(std::string_view name) const {
  return path_.empty() ? std::string(name) : concat(path_, ".", name);
}

const Json* Fields::find(std::string_view name) {
  known_.emplace_back(name);
  const Json* value = object_.find(name);
  return value == nullptr || value->is(Kind::Null) ? nullptr : value;
}

const Json* Fields::array(std::string_view name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is(Kind::Array)) wrong(path(name), "an array", *value);
  return value;
}

const Json* Fields::object(std::string_view name) {
  const Json* value = find(name);
  if (value != nullptr && !value->is(Kind::Object)) wrong(path(name), "an object", *value);
  return value;
}

std::optional<bool> Fields::boolean(std::string_view name) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_bool()) wrong(path(name), "true or false", *value);
  return value->is(Kind::True);
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t lowest, std::int64_t highest) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  return integer_of(*value, path(name), lowest, highest);
}

std::optional<double> Fields::number(std::string_view name, double lowest, double highest) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is(Kind::Number)) wrong(path(name), "a number", *value);
  const std::optional<double> n = value->number();
  if (!n || !(*n >= lowest && *n <= highest))
    invalid(path(name), concat("a number from ", lowest, " to ", highest), text::description(*value));
  return n;
}

std::optional<std::string> Fields::string(std::string_view name, std::size_t longest) {
  const Json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is(Kind::String)) wrong(path(name), "a string", *value);
  std::string text = value->string();
  if (text.size() > longest)
    invalid(path(name), concat("a string of at most ", longest, " bytes"), concat(text.size(), " bytes"));
  return text;
}

std::optional<std::string> Fields::one_of(std::string_view name, std::initializer_list<const char*> choices) {
  std::optional<std::string> text = string(name);
  if (!text || std::any_of(choices.begin(), choices.end(), [&](const char* c) { return *text == c; })) return text;
  invalid(path(name), "one of " + tessera::join(choices), text::description(*object_.find(name)));
}

void Fields::ignore(std::initializer_list<const char*> names) {
  for (const char* name : names) known_.emplace_back(name);
}

std::vector<std::string> Fields::unknown() const {
  std::vector<std::string> out;
  for (const auto& [name, value] : object_.fields)
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) out.push_back(name);
  return out;
}

}  // namespace mortar::server
