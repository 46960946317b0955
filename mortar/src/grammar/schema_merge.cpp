// Several schemas joined into one that accepts what all of them accept.
#include <algorithm>

#include "grammar/decimal_range.hpp"
#include "grammar/schema_document.hpp"

namespace mortar::grammar {
namespace {

using Kind = Json::Kind;

constexpr int kDeepestMerge = 60;

bool is_about_objects(const Json& schema) {
  return schema.find("properties") != nullptr || schema.find("additionalProperties") != nullptr;
}

/// The larger or smaller of two numbers.
const Json& extreme(const Json& a, const Json& b, bool larger, const std::string& path) {
  const auto x = a.is(Kind::Number) ? parse_decimal(a.source) : std::nullopt;
  const auto y = b.is(Kind::Number) ? parse_decimal(b.source) : std::nullopt;
  if (!x.has_value() || !y.has_value()) fail_schema(path, "expected a number");
  return (compare(*x, *y) > 0) == larger ? a : b;
}

Json list_of(const Json& value) { return value.is(Kind::Array) ? value : Json{.kind = Kind::Array, .items = {value}}; }

/// The elements of `a` that are in `b` too; integers are numbers.
Json common_of(const Json& a, const Json& b, bool types) {
  Json out{.kind = Kind::Array};
  const auto is = [](const Json& value, std::string_view name) {
    return value.is(Kind::String) && value.string() == name;
  };
  const auto has = [&is](const Json& list, std::string_view name) {
    return std::any_of(list.items.begin(), list.items.end(), [&](const Json& v) { return is(v, name); });
  };
  for (const Json& value : a.items) {
    if (std::find(b.items.begin(), b.items.end(), value) != b.items.end() ||
        (types && is(value, "integer") && has(b, "number")))
      out.items.push_back(value);
  }
  for (const Json& value : b.items) {
    if (types && is(value, "integer") && has(a, "number") && !has(out, "integer")) out.items.push_back(value);
  }
  return out;
}

Json union_of(const Json& a, const Json& b) {
  Json out = a;
  for (const Json& value : b.items) {
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
Json SchemaDocument::expanded(const Json& schema, const std::string& path) {
  if (schema.is_bool()) return schema;
  check_keywords(schema, path);
  Json out = schema.find("allOf") != nullptr ? without_all_of(schema, path) : schema;
  if (const Json* reference = out.find("$ref"); reference != nullptr) {
    const Target target = resolve(*reference, path);
    out = merge(*target.schema, without(out, "$ref"), target.path);
  }
  Json storage;
  if (out.find("const") != nullptr) {
    storage = *constants_of(out, path, storage);
    out = without(without(out, "const"), "enum");
    out.fields.push_back({"enum", std::move(storage)});
  }
  return out;
}

Json SchemaDocument::without_all_of(const Json& schema, const std::string& path) {
  const Json* all = schema.find("allOf");
  if (all == nullptr) return schema;
  const std::string at = path_of(path, "allOf");
  if (!all->is(Kind::Array) || all->items.empty()) fail_schema(at, "expected an array of schemas");
  Json out{.kind = Kind::True};
  for (std::size_t i = 0; i < all->items.size(); ++i) out = merge(out, all->items[i], path_of(at, std::to_string(i)));
  return merge(out, without(schema, "allOf"), path);
}

Json SchemaDocument::merge(const Json& a_in, const Json& b_in, const std::string& path) {
  const Depth depth(depth_, path);
  budget_.spend(a_in.fields.size() + b_in.fields.size() + 1);
  if (a_in.is(Kind::False) || b_in.is(Kind::False)) return {.kind = Kind::False};
  const auto demands_nothing = [](const Json& s) { return s.is(Kind::True) || (s.is(Kind::Object) && !restricts(s)); };
  if (demands_nothing(b_in)) return a_in;  // as it is: references stay
  if (demands_nothing(a_in)) return b_in;
  const Json a = expanded(a_in, path), b = expanded(b_in, path);
  if (a.is_bool() || b.is_bool()) return a.is(Kind::True) ? b : b.is(Kind::True) ? a : Json{.kind = Kind::False};
  Json out{.kind = Kind::Object};
  for (const auto& [name, value] : a.fields) {
    if (keyword_of(name) == Keyword::Annotation || name == "properties" || name == "additionalProperties") continue;
    if (const Json* other = b.find(name); other != nullptr)
      merge_field(out, name, value, *other, path);
    else
      out.fields.push_back({name, value});
  }
  for (const auto& [name, value] : b.fields) {
    if (keyword_of(name) == Keyword::Annotation || name == "properties" || name == "additionalProperties") continue;
    if (a.find(name) == nullptr) out.fields.push_back({name, value});
  }
  merge_objects(out, a, b, path);
  for (const char* name : {"type", "enum"}) {
    if (const Json* list = out.find(name); list != nullptr && list->is(Kind::Array) && list->items.empty())
      return {.kind = Kind::False};
  }
  return out;
}

void SchemaDocument::merge_field(Json& out, const std::string& name, const Json& a, const Json& b,
                                 const std::string& path) {
  const std::string at = path_of(path, name);
  if (a == b) {
    out.fields.push_back({name, a});
  } else if (name == "type") {
    out.fields.push_back({name, common_of(list_of(a), list_of(b), true)});
  } else if (name == "enum") {
    out.fields.push_back({name, common_of(a, b, false)});
  } else if (name == "required") {
    out.fields.push_back({name, union_of(a, b)});
  } else if (name == "items") {
    out.fields.push_back({name, merge(a, b, at)});
  } else if (name.substr(0, 3) == "min" || name == "exclusiveMinimum") {
    out.fields.push_back({name, extreme(a, b, true, at)});
  } else if (name.substr(0, 3) == "max" || name == "exclusiveMaximum") {
    out.fields.push_back({name, extreme(a, b, false, at)});
  } else {
    fail_schema(at,
                "the keyword cannot be joined with another one of another value (allOf, anyOf, $ref beside keywords)");
  }
}

/// A field that only one of the schemas names must also fit the other's additionalProperties.
void SchemaDocument::merge_objects(Json& out, const Json& a, const Json& b, const std::string& path) {
  if (!is_about_objects(a) && !is_about_objects(b)) return;
  if (is_about_objects(a) && is_about_objects(b) &&
      (a.find("patternProperties") != nullptr || b.find("patternProperties") != nullptr))
    fail_schema(path_of(path, "patternProperties"), "the keyword cannot be joined with other schemas of objects");
  const Json any{.kind = Kind::True}, none{.kind = Kind::Object};
  const auto or_else = [](const Json* value, const Json& other) { return value != nullptr ? *value : other; };
  const Json fields_a = or_else(a.find("properties"), none), fields_b = or_else(b.find("properties"), none);
  const Json more_a = or_else(a.find("additionalProperties"), any),
             more_b = or_else(b.find("additionalProperties"), any);
  std::unordered_map<std::string_view, const Json*> of_a, of_b;
  for (const auto& [name, value] : fields_a.fields) of_a.emplace(name, &value);
  for (const auto& [name, value] : fields_b.fields) of_b.emplace(name, &value);
  budget_.spend(of_a.size() + of_b.size());
  Json fields{.kind = Kind::Object};
  const std::string at = path_of(path, "properties");
  for (const auto& [name, value] : fields_a.fields) {
    const auto other = of_b.find(name);
    fields.fields.push_back({name, merge(value, other != of_b.end() ? *other->second : more_b, path_of(at, name))});
  }
  for (const auto& [name, value] : fields_b.fields) {
    if (of_a.count(name) == 0) fields.fields.push_back({name, merge(more_a, value, path_of(at, name))});
  }
  if (!fields.fields.empty() || a.find("properties") != nullptr || b.find("properties") != nullptr)
    out.fields.push_back({"properties", std::move(fields)});
  if (a.find("additionalProperties") != nullptr || b.find("additionalProperties") != nullptr)
    out.fields.push_back({"additionalProperties", merge(more_a, more_b, path_of(path, "additionalProperties"))});
}

}  // namespace mortar::grammar
