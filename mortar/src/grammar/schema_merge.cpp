// Several schemas joined into one that accepts what all of them accept.
#include <algorithm>

#include "grammar/decimal_range.hpp"
#include "grammar/schema_document.hpp"

namespace mortar::grammar {
namespace {

using Kind = JsonValue::Kind;

constexpr int kDeepestMerge = 60;

bool is_about_objects(const JsonValue& schema) {
  return schema.find("properties") != nullptr || schema.find("additionalProperties") != nullptr;
}

/// The larger or smaller of two numbers.
const JsonValue& extreme(const JsonValue& a, const JsonValue& b, bool larger, const std::string& path) {
  const auto x = a.is(Kind::Number) ? parse_decimal(a.text) : std::nullopt;
  const auto y = b.is(Kind::Number) ? parse_decimal(b.text) : std::nullopt;
  if (!x.has_value() || !y.has_value()) fail_schema(path, "expected a number");
  return (compare(*x, *y) > 0) == larger ? a : b;
}

JsonValue list_of(const JsonValue& value) {
  return value.is(Kind::Array) ? value : JsonValue{.kind = Kind::Array, .text = {}, .items = {value}};
}

/// The elements of `a` that are in `b` too; integers are numbers.
JsonValue common_of(const JsonValue& a, const JsonValue& b, bool types) {
  JsonValue out{.kind = Kind::Array};
  const auto has = [](const JsonValue& list, std::string_view name) {
    return std::any_of(list.items.begin(), list.items.end(), [&](const JsonValue& v) { return v.text == name; });
  };
  for (const JsonValue& value : a.items) {
    if (std::find(b.items.begin(), b.items.end(), value) != b.items.end() ||
        (types && value.text == "integer" && has(b, "number")))
      out.items.push_back(value);
  }
  for (const JsonValue& value : b.items) {
    if (types && value.text == "integer" && has(a, "number") && !has(out, "integer")) out.items.push_back(value);
  }
  return out;
}

JsonValue union_of(const JsonValue& a, const JsonValue& b) {
  JsonValue out = a;
  for (const JsonValue& value : b.items) {
    if (std::find(a.items.begin(), a.items.end(), value) == a.items.end()) out.items.push_back(value);
  }
  return out;
}

}  // namespace

class SchemaDocument::Depth {
 public:
  Depth(int& depth, const std::string& path) : depth_(depth) {
    if (++depth_ > kDeepestMerge)
      fail_schema(path, "schemas that refer to themselves cannot be joined (allOf, $ref beside keywords)");
  }
  ~Depth() { --depth_; }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;

 private:
  int& depth_;
};

/// Without $ref and allOf at the top, and with `enum` for `const`.
JsonValue SchemaDocument::expanded(const JsonValue& schema, const std::string& path) {
  if (schema.is_bool()) return schema;
  check_keywords(schema, path);
  JsonValue out = schema.find("allOf") != nullptr ? without_all_of(schema, path) : schema;
  if (const JsonValue* reference = out.find("$ref"); reference != nullptr) {
    const Target target = resolve(*reference, path);
    out = merge(*target.schema, without(out, "$ref"), target.path);
  }
  JsonValue storage;
  if (out.find("const") != nullptr) {
    storage = *constants_of(out, path, storage);
    out = without(without(out, "const"), "enum");
    out.fields.emplace_back("enum", std::move(storage));
  }
  return out;
}

JsonValue SchemaDocument::without_all_of(const JsonValue& schema, const std::string& path) {
  const JsonValue* all = schema.find("allOf");
  if (all == nullptr) return schema;
  const std::string at = path_of(path, "allOf");
  if (!all->is(Kind::Array) || all->items.empty()) fail_schema(at, "expected an array of schemas");
  JsonValue out{.kind = Kind::True};
  for (std::size_t i = 0; i < all->items.size(); ++i) out = merge(out, all->items[i], path_of(at, std::to_string(i)));
  return merge(out, without(schema, "allOf"), path);
}

JsonValue SchemaDocument::merge(const JsonValue& a_in, const JsonValue& b_in, const std::string& path) {
  const Depth depth(depth_, path);
  budget_.spend(a_in.fields.size() + b_in.fields.size() + 1);
  if (a_in.is(Kind::False) || b_in.is(Kind::False)) return {.kind = Kind::False};
  const auto demands_nothing = [](const JsonValue& s) {
    return s.is(Kind::True) || (s.is(Kind::Object) && !restricts(s));
  };
  if (demands_nothing(b_in)) return a_in;  // as it is: references stay
  if (demands_nothing(a_in)) return b_in;
  const JsonValue a = expanded(a_in, path), b = expanded(b_in, path);
  if (a.is_bool() || b.is_bool()) return a.is(Kind::True) ? b : b.is(Kind::True) ? a : JsonValue{.kind = Kind::False};
  JsonValue out{.kind = Kind::Object};
  for (const auto& [name, value] : a.fields) {
    if (keyword_of(name) == Keyword::Annotation || name == "properties" || name == "additionalProperties") continue;
    if (const JsonValue* other = b.find(name); other != nullptr)
      merge_field(out, name, value, *other, path);
    else
      out.fields.emplace_back(name, value);
  }
  for (const auto& [name, value] : b.fields) {
    if (keyword_of(name) == Keyword::Annotation || name == "properties" || name == "additionalProperties") continue;
    if (a.find(name) == nullptr) out.fields.emplace_back(name, value);
  }
  merge_objects(out, a, b, path);
  for (const char* name : {"type", "enum"}) {
    if (const JsonValue* list = out.find(name); list != nullptr && list->is(Kind::Array) && list->items.empty())
      return {.kind = Kind::False};
  }
  return out;
}

void SchemaDocument::merge_field(JsonValue& out, const std::string& name, const JsonValue& a, const JsonValue& b,
                                 const std::string& path) {
  const std::string at = path_of(path, name);
  if (a == b) {
    out.fields.emplace_back(name, a);
  } else if (name == "type") {
    out.fields.emplace_back(name, common_of(list_of(a), list_of(b), true));
  } else if (name == "enum") {
    out.fields.emplace_back(name, common_of(a, b, false));
  } else if (name == "required") {
    out.fields.emplace_back(name, union_of(a, b));
  } else if (name == "items") {
    out.fields.emplace_back(name, merge(a, b, at));
  } else if (name.substr(0, 3) == "min" || name == "exclusiveMinimum") {
    out.fields.emplace_back(name, extreme(a, b, true, at));
  } else if (name.substr(0, 3) == "max" || name == "exclusiveMaximum") {
    out.fields.emplace_back(name, extreme(a, b, false, at));
  } else {
    fail_schema(at,
                "the keyword cannot be joined with another one of another value (allOf, anyOf, $ref beside keywords)");
  }
}

/// A field that only one of the schemas names must also fit the other's additionalProperties.
void SchemaDocument::merge_objects(JsonValue& out, const JsonValue& a, const JsonValue& b, const std::string& path) {
  if (!is_about_objects(a) && !is_about_objects(b)) return;
  if (is_about_objects(a) && is_about_objects(b) &&
      (a.find("patternProperties") != nullptr || b.find("patternProperties") != nullptr))
    fail_schema(path_of(path, "patternProperties"), "the keyword cannot be joined with other schemas of objects");
  const JsonValue any{.kind = Kind::True}, none{.kind = Kind::Object};
  const auto or_else = [](const JsonValue* value, const JsonValue& other) { return value != nullptr ? *value : other; };
  const JsonValue fields_a = or_else(a.find("properties"), none), fields_b = or_else(b.find("properties"), none);
  const JsonValue more_a = or_else(a.find("additionalProperties"), any),
                  more_b = or_else(b.find("additionalProperties"), any);
  std::unordered_map<std::string_view, const JsonValue*> of_a, of_b;
  for (const auto& [name, value] : fields_a.fields) of_a.emplace(name, &value);
  for (const auto& [name, value] : fields_b.fields) of_b.emplace(name, &value);
  budget_.spend(of_a.size() + of_b.size());
  JsonValue fields{.kind = Kind::Object};
  const std::string at = path_of(path, "properties");
  for (const auto& [name, value] : fields_a.fields) {
    const auto other = of_b.find(name);
    fields.fields.emplace_back(name, merge(value, other != of_b.end() ? *other->second : more_b, path_of(at, name)));
  }
  for (const auto& [name, value] : fields_b.fields) {
    if (of_a.count(name) == 0) fields.fields.emplace_back(name, merge(more_a, value, path_of(at, name)));
  }
  if (!fields.fields.empty() || a.find("properties") != nullptr || b.find("properties") != nullptr)
    out.fields.emplace_back("properties", std::move(fields));
  if (a.find("additionalProperties") != nullptr || b.find("additionalProperties") != nullptr)
    out.fields.emplace_back("additionalProperties", merge(more_a, more_b, path_of(path, "additionalProperties")));
}

}  // namespace mortar::grammar
