// Reading JSON files, and typed access to fields.
#include "files/json_file.hpp"

#include <cmath>
#include <set>

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"

namespace mortar::files {

using nlohmann::json;
using tessera::concat;

void fail(const std::string& file, const std::string& where, const std::string& expected, const std::string& found) {
  throw ModelError(concat(file, ": ", where, where.empty() ? "" : ": ", "expected ", expected, ", found ", found));
}

json parse_object(std::string_view text, const std::string& file) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  std::string twice;
  const json::parser_callback_t notice = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second && twice.empty())
      twice = value.get<std::string>();
    return true;
  };
  json parsed;
  try {
    parsed = json::parse(text.begin(), text.end(), notice);
  } catch (const json::parse_error& error) {
    fail(file, "", "JSON", concat("an error at byte ", error.byte));
  } catch (const json::out_of_range&) { fail(file, "", "JSON", "a number that is too large"); }
  if (!twice.empty()) fail(file, twice, "each key once in an object", "it twice");
  if (!parsed.is_object()) fail(file, "", "a JSON object", shown(parsed));
  return parsed;
}

std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return concat("a list of ", value.size());
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

const json* Fields::find(const char* name) const {
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const json& Fields::get(const char* name, const std::string& expected) const {
  const json* value = find(name);
  if (value == nullptr) files::fail(file_, path_ + name, expected, "no such field");
  return *value;
}

void Fields::fail(const char* name, const std::string& expected) const {
  const json* value = find(name);
  files::fail(file_, path_ + name, expected, value != nullptr ? shown(*value) : "no such field");
}

std::int64_t Fields::integer_of(const json& value, const char* name, std::int64_t lowest, std::int64_t highest) const {
  const auto expected = [&] { return concat("an integer from ", lowest, " to ", highest); };
  const bool fits = value.is_number_integer() && (!value.is_number_unsigned() ||
                                                  value.get<std::uint64_t>() <= static_cast<std::uint64_t>(INT64_MAX));
  if (!fits) files::fail(file_, path_ + name, expected(), shown(value));
  const auto number = value.get<std::int64_t>();
  if (number < lowest || number > highest) files::fail(file_, path_ + name, expected(), concat(number));
  return number;
}

std::int64_t Fields::integer(const char* name, std::int64_t lowest, std::int64_t highest) const {
  return integer_of(get(name, concat("an integer from ", lowest, " to ", highest)), name, lowest, highest);
}

double Fields::number(const char* name, double lowest, double highest) const {
  const std::string expected = concat("a number from ", lowest, " to ", highest);
  const json& value = get(name, expected);
  const double number = value.is_number() ? value.get<double>() : std::nan("");
  if (!(number >= lowest && number <= highest)) fail(name, expected);
  return number;
}

std::string Fields::text(const char* name) const {
  const json& value = get(name, "a string");
  if (!value.is_string()) fail(name, "a string");
  return value.get<std::string>();
}

std::int64_t Fields::integer_or(const char* name, std::int64_t lowest, std::int64_t highest,
                                std::int64_t fallback) const {
  return has(name) ? integer(name, lowest, highest) : fallback;
}
double Fields::number_or(const char* name, double lowest, double highest, double fallback) const {
  return has(name) ? number(name, lowest, highest) : fallback;
}
std::string Fields::text_or(const char* name, const std::string& fallback) const {
  return has(name) ? text(name) : fallback;
}
bool Fields::flag_or(const char* name, bool fallback) const {
  const json* value = find(name);
  if (value == nullptr) return fallback;
  if (!value->is_boolean()) fail(name, "true or false");
  return value->get<bool>();
}

std::vector<std::int64_t> Fields::integers(const char* name, std::int64_t lowest, std::int64_t highest) const {
  const json* value = find(name);
  if (value == nullptr) return {};
  if (!value->is_array()) return {integer_of(*value, name, lowest, highest)};
  std::vector<std::int64_t> numbers;
  for (const json& element : *value) numbers.push_back(integer_of(element, name, lowest, highest));
  return numbers;
}

std::vector<std::string> Fields::texts(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return {};
  if (value->is_string()) return {value->get<std::string>()};
  if (!value->is_array()) fail(name, "a list of strings");
  std::vector<std::string> strings;
  for (const json& element : *value) {
    if (!element.is_string()) fail(name, "a list of strings");
    strings.push_back(element.get<std::string>());
  }
  return strings;
}

std::optional<Fields> Fields::object(const char* name) const {
  const json* value = find(name);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) fail(name, "an object");
  return Fields(*value, file_, path_ + name + ".");
}

}  // namespace mortar::files
