// Keywords, types and references of schemas.
#include "grammar/schema_document.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "grammar/decimal_range.hpp"
#include "mortar/errors.hpp"

namespace mortar::grammar {
namespace {

using Kind = Json::Kind;

constexpr int kDeepest = 60;  // references within references, of schemas that are compared

constexpr std::string_view kApplicators[] = {"$ref", "allOf", "anyOf", "oneOf"};
constexpr std::string_view kAssertions[] = {"type",
                                            "enum",
                                            "const",
                                            "nullable",
                                            "properties",
                                            "required",
                                            "items",
                                            "prefixItems",
                                            "minItems",
                                            "maxItems",
                                            "additionalProperties",
                                            "minProperties",
                                            "maxProperties",
                                            "propertyNames",
                                            "patternProperties",
                                            "minLength",
                                            "maxLength",
                                            "pattern",
                                            "format",
                                            "minimum",
                                            "maximum",
                                            "exclusiveMinimum",
                                            "exclusiveMaximum"};
constexpr std::string_view kUnsupported[] = {"not",
                                             "if",
                                             "then",
                                             "else",
                                             "dependentSchemas",
                                             "dependentRequired",
                                             "dependencies",
                                             "unevaluatedItems",
                                             "unevaluatedProperties",
                                             "contains",
                                             "minContains",
                                             "maxContains",
                                             "uniqueItems",
                                             "multipleOf",
                                             "additionalItems",
                                             "$dynamicRef",
                                             "$recursiveRef",
                                             "extends",
                                             "disallow",
                                             "divisibleBy"};

template <std::size_t N>
bool contains(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// An unsupported keyword with a value that demands nothing.
bool is_vacuous(const std::string& name, const Json& value) {
  return (name == "uniqueItems" && value.is(Kind::False)) ||
         (name == "unevaluatedProperties" && value.is(Kind::True)) ||
         (name == "unevaluatedItems" && value.is(Kind::True));
}

TypeSet type_named(std::string_view name) {
  static constexpr std::string_view names[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  for (std::size_t i = 0; i < std::size(names); ++i) {
    if (names[i] == name) return 1U << i;
  }
  return 0;
}

TypeSet type_of_value(const Json& value) {
  switch (value.kind) {
    case Kind::Object: return kObject;
    case Kind::Array: return kArray;
    case Kind::String: return kString;
    case Kind::Number: {
      const auto number = parse_decimal(value.source);
      return number.has_value() && number->fraction.empty() ? kInteger : kNumber;
    }
    case Kind::True:
    case Kind::False: return kBoolean;
    case Kind::Null: break;
  }
  return kNull;
}

/// The types that keywords are about.
TypeSet types_of_keywords(const Json& schema) {
  static constexpr std::pair<std::string_view, TypeSet> about[] = {
      {"properties", kObject},        {"required", kObject},      {"additionalProperties", kObject},
      {"minProperties", kObject},     {"maxProperties", kObject}, {"propertyNames", kObject},
      {"patternProperties", kObject}, {"items", kArray},          {"prefixItems", kArray},
      {"minItems", kArray},           {"maxItems", kArray},       {"minLength", kString},
      {"maxLength", kString},         {"pattern", kString},       {"format", kString},
      {"minimum", kNumber},           {"maximum", kNumber},       {"exclusiveMinimum", kNumber},
      {"exclusiveMaximum", kNumber}};
  TypeSet types = 0;
  for (const auto& [name, type] : about) {
    if (schema.find(name) != nullptr) types |= type;
  }
  return types == 0 ? kAllTypes : types;
}

TypeSet with_integers(TypeSet types) { return (types & kNumber) != 0 ? types | kInteger : types; }

std::string decoded_pointer(std::string_view pointer) {
  std::string out;
  for (std::size_t i = 0; i < pointer.size(); ++i) {
    unsigned value = 0;
    const char* digits = pointer.data() + i + 1;
    if (pointer[i] == '%' && i + 2 < pointer.size() &&
        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2) {
      out += static_cast<char>(value);
      i += 2;
    } else if (pointer[i] == '~' && i + 1 < pointer.size() && (pointer[i + 1] == '0' || pointer[i + 1] == '1')) {
      out += pointer[++i] == '0' ? '~' : '/';
    } else {
      out += pointer[i];
    }
  }
  return out;
}

const Json* step_into(const Json& value, const std::string& name) {
  if (value.is(Kind::Object)) return value.find(name);
  std::size_t index = 0;
  const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
  if (!value.is(Kind::Array) || read.ptr != name.data() + name.size() || index >= value.items.size()) return nullptr;
  return &value.items[index];
}

}  // namespace

Json read_schema(std::string_view text, const std::string& name) {
  // The text's size bounds the number of values.
  return text::parse_json(text, name, {.values = text.size() + 1, .repeats = false});
}

void fail_schema(const std::string& path, std::string_view what) {
  throw RequestError(tessera::concat("schema: ", path.empty() ? "/" : path, ": ", what));
}

std::string path_of(const std::string& path, std::string_view field) {
  std::string out = path + '/';
  for (const char c : field) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

Keyword keyword_of(std::string_view name) {
  if (contains(kApplicators, name)) return Keyword::Applicator;
  if (contains(kAssertions, name)) return Keyword::Assertion;
  return contains(kUnsupported, name) ? Keyword::Unsupported : Keyword::Annotation;
}

void check_keywords(const Json& schema, const std::string& path) {
  if (schema.is_bool()) return;
  if (!schema.is(Kind::Object)) fail_schema(path, "expected a schema, which is an object, true or false");
  for (const auto& [name, value] : schema.fields) {
    if (keyword_of(name) == Keyword::Unsupported && !is_vacuous(name, value))
      fail_schema(path_of(path, name), "the keyword is not supported");
  }
}

bool restricts(const Json& schema, std::string_view except) {
  return std::any_of(schema.fields.begin(), schema.fields.end(), [&](const auto& field) {
    return field.name != except && keyword_of(field.name) != Keyword::Annotation;
  });
}

std::uint32_t count_of(const Json& schema, const char* keyword, const std::string& path, std::uint32_t missing) {
  const Json* value = schema.find(keyword);
  if (value == nullptr) return missing;
  const auto number = value->is(Kind::Number) ? parse_decimal(value->source) : std::nullopt;
  std::uint32_t count = 0;
  const std::string digits = number.has_value() ? number->whole : "";
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (!number.has_value() || number->negative || !number->fraction.empty() || read.ec != std::errc{} ||
      count == 0xFFFFFFFF)
    fail_schema(path_of(path, keyword), "expected a whole number from 0 to 4294967294");
  return count;
}

Json without(const Json& schema, std::string_view field) {
  Json out{.kind = schema.kind};
  for (const auto& f : schema.fields) {
    if (f.name != field) out.fields.push_back(f);
  }
  return out;
}

const Json* constants_of(const Json& schema, const std::string& path, Json& storage) {
  if (const Json* value = schema.find("const"); value != nullptr) {
    storage = {.kind = Kind::Array, .items = {*value}};
    return &storage;
  }
  const Json* values = schema.find("enum");
  if (values != nullptr && !values->is(Kind::Array)) fail_schema(path_of(path, "enum"), "expected an array of values");
  return values;
}

const SchemaDocument::Target& SchemaDocument::resolve(const Json& reference, const std::string& path) {
  const std::string at = path_of(path, "$ref");
  if (!reference.is(Kind::String)) fail_schema(at, "expected a string");
  const std::string text = reference.string();
  if (const auto known = targets_.find(text); known != targets_.end()) return known->second;
  if (text != "#" && text.substr(0, 2) != "#/")
    fail_schema(at, "only references within the schema are supported, as #/$defs/name");
  Target target{&root_, path_};
  for (std::size_t i = 1; i < text.size();) {
    const std::size_t end = std::min(text.find('/', i + 1), text.size());
    const std::string name = decoded_pointer(std::string_view(text).substr(i + 1, end - i - 1));
    budget_.spend(target.schema->fields.size() / 8 + 1);
    target.schema = step_into(*target.schema, name);
    if (target.schema == nullptr) fail_schema(at, tessera::concat("the schema has no ", text));
    target.path = path_of(target.path, name);
    i = end;
  }
  return targets_.emplace(text, std::move(target)).first->second;
}

TypeSet SchemaDocument::types_of(const Json& schema, const std::string& path, int depth) {
  if (schema.is_bool()) return schema.is(Kind::True) ? kAllTypes : 0;
  budget_.spend(1);
  if (depth > kDeepest) return kAllTypes;
  TypeSet types = kAllTypes;
  const Json* named = schema.find("type");
  Json storage;
  const Json* constants = constants_of(schema, path, storage);
  if (named != nullptr) {
    types = 0;
    const Json one{.kind = Kind::Array, .items = {*named}};
    for (const Json& name : (named->is(Kind::Array) ? *named : one).items) {
      const TypeSet type = name.is(Kind::String) ? type_named(name.string()) : 0;
      if (type == 0)
        fail_schema(path_of(path, "type"), "expected the name of a type of JSON schema, or an array of these");
      types |= type;
    }
    if (const Json* nullable = schema.find("nullable"); nullable != nullptr && nullable->is(Kind::True)) types |= kNull;
  } else if (constants == nullptr) {
    types = types_of_keywords(schema);
  }
  types = with_integers(types);
  const auto any_of = [&](const Json* values, auto&& type_of) {
    if (values == nullptr) return;
    TypeSet any = 0;
    for (const Json& value : values->items) any |= with_integers(type_of(value));
    types &= any;
  };
  any_of(constants, type_of_value);
  for (const char* keyword : {"anyOf", "oneOf"})
    any_of(schema.find(keyword), [&](const Json& s) { return types_of(s, path, depth + 1); });
  if (const Json* all = schema.find("allOf"); all != nullptr) {
    for (const Json& part : all->items) types &= types_of(part, path, depth + 1);
  }
  if (const Json* reference = schema.find("$ref"); reference != nullptr) {
    const Target target = resolve(*reference, path);
    types &= types_of(*target.schema, target.path, depth + 1);
  }
  return types;
}

bool SchemaDocument::are_disjoint(const Json& a, const Json& b, const std::string& path, int depth) {
  budget_.spend(1);
  if (depth > kDeepest) return false;
  for (const auto& [one, other] : {std::pair(&a, &b), std::pair(&b, &a)}) {
    if (const Json* reference = one->find("$ref"); reference != nullptr)
      return are_disjoint(*resolve(*reference, path).schema, *other, path, depth + 1);
  }
  const TypeSet common = types_of(a, path) & types_of(b, path);
  if (common == 0) return true;
  Json storage_a, storage_b;
  const Json *values_a = constants_of(a, path, storage_a), *values_b = constants_of(b, path, storage_b);
  if (values_a != nullptr && values_b != nullptr) {
    budget_.spend(values_a->items.size() * values_b->items.size() / 8);
    return std::none_of(values_a->items.begin(), values_a->items.end(), [&](const Json& value) {
      return std::find(values_b->items.begin(), values_b->items.end(), value) != values_b->items.end();
    });
  }
  const Json *fields_a = a.find("properties"), *fields_b = b.find("properties");
  const Json *required_a = a.find("required"), *required_b = b.find("required");
  if (common != kObject || fields_a == nullptr || fields_b == nullptr || required_a == nullptr || required_b == nullptr)
    return false;
  return std::any_of(required_a->items.begin(), required_a->items.end(), [&](const Json& name) {
    if (std::find(required_b->items.begin(), required_b->items.end(), name) == required_b->items.end()) return false;
    const Json *field_a = fields_a->find(name.string()), *field_b = fields_b->find(name.string());
    return field_a != nullptr && field_b != nullptr && are_disjoint(*field_a, *field_b, path, depth + 1);
  });
}

}  // namespace mortar::grammar
