// Arrays and objects.
#include <algorithm>
#include <unordered_set>

#include "grammar/schema_compiler.hpp"
#include "text/json_writer.hpp"

namespace mortar::grammar {

/// A loop over a rule, separated by commas. Returns what follows a comma, or what the opening bracket is followed by in
/// `first`.
Pc SchemaCompiler::counted(Bounds bounds, Pc end, std::uint32_t rule, Pc* first) {
  const Pc close = pieces_.space(end), more = program_.forward();
  const bool counts = bounds.min > 1 || bounds.max != Bounds::kUnbounded;
  Pc after = program_.split({close, more});
  if (counts) after = program_.add({Op::Item, program_.add_bounds(bounds), more, close});
  const Pc item = program_.call(rule, after);
  program_.set_target(more, comma(item));
  if (first != nullptr) *first = bounds.min == 0 ? program_.split({close, pieces_.space(item)}) : pieces_.space(item);
  return bounds.min == 0 ? program_.split({close, more}) : more;
}

/// What follows the opening bracket in `first`, and what follows an item before these.
Pc SchemaCompiler::items(const Json& schema, const std::string& path, Bounds bounds, Pc end, Pc* first) {
  if (bounds.max == 0) {
    *first = pieces_.space(end);
    return *first;
  }
  const std::uint32_t rule = pieces_.new_rule(path);
  program_.set_rule(rule, value(schema, path, pieces_.return_pc()));
  return counted(bounds, end, rule, first);
}

Pc SchemaCompiler::array(const Json& schema, const std::string& path, Pc next) {
  const Pc end = program_.text("]", next);
  Bounds bounds = bounds_of(schema, "minItems", "maxItems", path);
  const Json *item = schema.find("items"), *prefix = schema.find("prefixItems");
  if (item != nullptr && item->is(Kind::Array))
    fail_schema(path_of(path, "items"), "an array of schemas is not supported; use prefixItems");
  if (prefix != nullptr && !prefix->is(Kind::Array))
    fail_schema(path_of(path, "prefixItems"), "expected an array of schemas");
  const auto fixed = static_cast<std::uint32_t>(prefix == nullptr ? 0 : prefix->items.size());
  const bool is_closed = item != nullptr ? item->is(Kind::False) : fixed > 0 && bounds.min <= fixed;
  if (is_closed) {
    if (bounds.min > fixed) fail_schema(path_of(path, "minItems"), "is more than the schema has items");
    bounds.max = std::min(bounds.max, fixed);
  }
  const std::uint32_t used = std::min(fixed, bounds.max);
  const Bounds rest{bounds.min > used ? bounds.min - used : 0,
                    bounds.max == Bounds::kUnbounded ? bounds.max : bounds.max - used};
  const Json any{.kind = Kind::True};
  Pc first = 0;
  Pc after = items(item != nullptr ? *item : any, path_of(path, "items"), rest, end, &first);
  if (used == 0) return program_.text("[", first);
  const Pc close = pieces_.space(end);
  for (std::uint32_t i = used; i-- > 0;) {
    const Pc begin = value(prefix->items[i], path_of(path_of(path, "prefixItems"), std::to_string(i)), after);
    const bool may_end = i >= bounds.min;
    const Pc at = i == 0 ? pieces_.space(begin) : comma(begin);
    after = may_end ? program_.split({close, at}) : at;
  }
  return program_.text("[", after);
}

std::vector<SchemaCompiler::Property> SchemaCompiler::properties(const Json& schema, const std::string& path) {
  std::vector<Property> out;
  std::unordered_set<std::string> required, named;
  if (const Json* names = schema.find("required"); names != nullptr) {
    if (!names->is(Kind::Array)) fail_schema(path_of(path, "required"), "expected an array of names");
    for (const Json& name : names->items) {
      if (!name.is(Kind::String)) fail_schema(path_of(path, "required"), "expected an array of names");
      required.insert(name.string());
    }
  }
  const Json* fields = schema.find("properties");
  if (fields != nullptr) {
    if (!fields->is(Kind::Object)) fail_schema(path_of(path, "properties"), "expected an object of schemas");
    for (const auto& [name, field] : fields->fields) {
      named.insert(name);
      if (field.is(Kind::False) && required.count(name) != 0) fail_schema(path, "no value is accepted");
      if (!field.is(Kind::False)) out.push_back({name, &field, required.count(name) != 0});
    }
  }
  const Json* more = schema.find("additionalProperties");
  static const Json any{.kind = Kind::True};
  for (const std::string& name : required) {
    if (named.count(name) == 0 && more != nullptr && more->is(Kind::False))
      fail_schema(path_of(path, "required"), tessera::concat("'", name, "' is not among the properties"));
  }
  if (const Json* names = schema.find("required"); names != nullptr) {
    for (const Json& name : names->items) {
      if (named.insert(name.string()).second) out.push_back({name.string(), more != nullptr ? more : &any, true});
    }
  }
  budget_.spend(out.size());
  return out;
}

Pc SchemaCompiler::object(const Json& schema, const std::string& path, Pc next) {
  const Pc end = program_.text("}", next);
  const Json *more = schema.find("additionalProperties"), *names = schema.find("propertyNames"),
             *patterns = schema.find("patternProperties");
  const std::vector<Property> fields = properties(schema, path);
  const bool is_map = fields.empty() && schema.find("properties") == nullptr;
  if (is_map) return program_.text("{", map(schema, path, end));
  for (const Json* keyword : {names, patterns}) {
    if (keyword != nullptr)
      fail_schema(path_of(path, keyword == names ? "propertyNames" : "patternProperties"),
                  "the keyword is not supported beside properties or required");
  }
  if (more != nullptr) check_keywords(*more, path_of(path, "additionalProperties"));
  if (more == nullptr && schema.find("properties") == nullptr) {  // only `required`: anything else may be there too
    static const Json any{.kind = Kind::True};
    more = &any;
  }
  if (more != nullptr && more->is(Kind::False)) more = nullptr;
  const auto required = static_cast<std::uint32_t>(
      std::count_if(fields.begin(), fields.end(), [](const Property& p) { return p.required; }));
  const Bounds bounds = bounds_of(schema, "minProperties", "maxProperties", path);
  if (bounds.min > required)
    fail_schema(path_of(path, "minProperties"), "more than the required properties is not supported");
  if (bounds.max < fields.size() || (more != nullptr && bounds.max != Bounds::kUnbounded))
    fail_schema(path_of(path, "maxProperties"), "less than all properties is not supported");
  std::vector<std::string> taken;  // also of properties that are never there
  for (const Property& field : fields) taken.push_back(field.name);
  if (const Json* named = schema.find("properties"); named != nullptr) {
    for (const auto& field : named->fields) taken.push_back(field.name);
  }
  return program_.text("{", members(fields, more, taken, path, end));
}

/// Members in the order of the schema, then others. For each place there is a way in after "{" and one after a comma;
/// the first required property ends the former.
Pc SchemaCompiler::members(const std::vector<Property>& fields, const Json* more,
                           const std::vector<std::string>& taken_names, const std::string& path, Pc end) {
  const Pc close = pieces_.space(end);
  constexpr Pc kNone = 0xFFFFFFFF;
  Pc key = kNone;    // of the members from here on, behind the comma and its space
  Pc after = close;  // behind a member: the end if nothing required is missing, or a comma and the next one
  bool may_end = true;
  if (more != nullptr) {
    std::vector<std::string> taken;
    for (const std::string& name : taken_names) {
      const std::string text = text::json_string(name);
      taken.push_back(text.substr(1, text.size() - 2));
    }
    const Pc loop = program_.forward();
    const Pc inner = value(*more, path_of(path, "additionalProperties"), program_.split({close, loop}));
    key = program_.text("\"", program_.other_name(taken, program_.text(":", pieces_.space_after_colon(inner))));
    program_.set_target(loop, comma(key));
    after = program_.split({close, loop});
  }
  std::vector<Pc> first_keys;  // that may follow "{"
  if (key != kNone) first_keys.push_back(key);
  for (std::size_t i = fields.size(); i-- > 0;) {
    const Property& field = fields[i];
    const Pc inner = value(*field.schema, path_of(path_of(path, "properties"), field.name), after);
    const Pc own = program_.text(text::json_string(field.name) + ':', pieces_.space_after_colon(inner));
    if (field.required) {
      may_end = false;
      first_keys.clear();
      key = own;
    } else {
      key = key == kNone ? own : program_.split({own, key});
    }
    first_keys.push_back(own);
    after = may_end ? program_.split({close, comma(key)}) : comma(key);
  }
  if (first_keys.empty()) return close;
  const Pc begin = pieces_.space(program_.split(first_keys));
  return may_end ? program_.split({close, begin}) : begin;
}

/// An object whose keys are not named.
Pc SchemaCompiler::map(const Json& schema, const std::string& path, Pc end) {
  const Json *more = schema.find("additionalProperties"), *names = schema.find("propertyNames"),
             *patterns = schema.find("patternProperties");
  const Bounds bounds = bounds_of(schema, "minProperties", "maxProperties", path);
  static const Json any{.kind = Kind::True};
  const Json* inner = more != nullptr ? more : &any;
  std::string inner_path = path_of(path, "additionalProperties");
  Json key_schema{.kind = Kind::Object};
  std::string key_path = path_of(path, "propertyNames"), pattern;  // which key_schema refers to
  if (patterns != nullptr) {
    key_path = path_of(path, "patternProperties");
    const bool is_supported = patterns->is(Kind::Object) && patterns->fields.size() == 1 && names == nullptr &&
                              (more == nullptr || more->is(Kind::False));
    if (!is_supported)
      fail_schema(
          key_path,
          "only one pattern, without propertyNames and with additionalProperties absent or false, is supported");
    pattern = text::json_string(patterns->fields[0].name);
    key_schema.fields.push_back({"pattern", Json{.kind = Kind::String, .source = pattern}});
    inner = &patterns->fields[0].value;
    inner_path = path_of(key_path, patterns->fields[0].name);
  } else if (names != nullptr) {
    check_keywords(*names, key_path);
    if (names->is(Kind::Object)) key_schema = *names;
  }
  check_keywords(*inner, inner_path);
  if (inner->is(Kind::False) || (names != nullptr && names->is(Kind::False)) || bounds.max == 0) {
    if (bounds.min > 0) fail_schema(path_of(path, "minProperties"), "no object is accepted");
    return pieces_.space(end);
  }
  if (key_schema.find("type") == nullptr && key_schema.find("enum") == nullptr && key_schema.find("const") == nullptr)
    key_schema.fields.push_back({"type", Json{.kind = Kind::String, .source = "\"string\""}});
  const std::uint32_t rule = pieces_.new_rule(path);
  const Pc content = value(*inner, inner_path, pieces_.return_pc());
  program_.set_rule(rule, value(key_schema, key_path, program_.text(":", pieces_.space_after_colon(content))));
  Pc first = 0;
  (void)counted(bounds, end, rule, &first);
  return first;
}

}  // namespace mortar::grammar
