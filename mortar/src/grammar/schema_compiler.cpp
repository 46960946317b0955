// Schemas to programs: references, alternatives, constants, numbers and strings.
#include "grammar/schema_compiler.hpp"

#include <algorithm>

#include "grammar/decimal_range.hpp"
#include "grammar/formats.hpp"
#include "text/json_writer.hpp"

namespace mortar::grammar {
namespace {

[[noreturn]] void fail_empty(const std::string& path) { fail_schema(path, "no value is accepted"); }

}  // namespace

Pc SchemaCompiler::root(Pc next) { return value(root_, path_, next); }

void SchemaCompiler::finish_rules() {
  while (!pending_.empty()) {
    const Pending pending = pending_.back();
    pending_.pop_back();
    program_.set_rule(pending.rule, value(*pending.target.schema, pending.target.path, pieces_.return_pc()));
  }
}

Pc SchemaCompiler::value(const Json& schema, const std::string& path, Pc next) {
  budget_.spend(1);
  check_keywords(schema, path);
  if (schema.is(Kind::False)) fail_empty(path);
  if (schema.is(Kind::True)) return pieces_.any_value(next);
  if (schema.find("$ref") != nullptr) return reference(schema, path, next);
  if (schema.find("allOf") != nullptr) return value(document_.without_all_of(schema, path), path, next);
  for (const char* keyword : {"oneOf", "anyOf"}) {
    if (schema.find(keyword) != nullptr) return alternatives(schema, keyword, path, next);
  }
  Json storage;
  if (const Json* values = constants_of(schema, path, storage); values != nullptr)
    return constants(schema, *values, path, next);
  const TypeSet types = document_.types_of(schema, path);
  if (types == kAllTypes && !restricts(schema)) return pieces_.any_value(next);
  std::vector<Pc> targets;
  for (TypeSet type = kNull; type <= kObject; type <<= 1) {
    if ((types & type) == 0 || (type == kInteger && (types & kNumber) != 0)) continue;
    targets.push_back(of_type(type, schema, path, next));
  }
  if (targets.empty()) fail_empty(path);
  return program_.split(targets);
}

Pc SchemaCompiler::reference(const Json& schema, const std::string& path, Pc next) {
  if (restricts(schema, "$ref")) {
    Json joined =
        document_.merge(without(schema, "$ref"),
                        Json{.kind = Kind::Object, .items = {}, .fields = {{"$ref", *schema.find("$ref")}}}, path);
    return value(joined, path, next);
  }
  const SchemaDocument::Target target = document_.resolve(*schema.find("$ref"), path);
  const auto [at, is_new] = rules_.try_emplace(target.schema, 0);
  if (is_new) {
    at->second = pieces_.new_rule(path_of(path, "$ref"));
    pending_.push_back({at->second, target});
  }
  return program_.call(at->second, next);
}

Pc SchemaCompiler::alternatives(const Json& schema, const char* keyword, const std::string& path, Pc next) {
  const Json& branches = *schema.find(keyword);
  const std::string at = path_of(path, keyword);
  if (!branches.is(Kind::Array) || branches.items.empty()) fail_schema(at, "expected an array of schemas");
  const Json rest = without(schema, keyword);
  if (std::string_view(keyword) == "oneOf") require_disjoint(branches, at);
  std::vector<Pc> targets;
  for (std::size_t i = 0; i < branches.items.size(); ++i) {
    const std::string branch = path_of(at, std::to_string(i));
    check_keywords(branches.items[i], branch);
    const Json joined = document_.merge(rest, branches.items[i], branch);
    if (!joined.is(Kind::False)) targets.push_back(value(joined, branch, next));
  }
  if (targets.empty()) fail_empty(at);
  return program_.split(targets);
}

void SchemaCompiler::require_disjoint(const Json& branches, const std::string& path) {
  for (std::size_t i = 0; i < branches.items.size(); ++i) {
    for (std::size_t j = i + 1; j < branches.items.size(); ++j) {
      if (!document_.are_disjoint(branches.items[i], branches.items[j], path))
        fail_schema(path, tessera::concat("branches ", i, " and ", j,
                                          " may accept the same value; give them different types, or a required "
                                          "property with different constants, or use anyOf"));
    }
  }
}

Pc SchemaCompiler::constants(const Json& schema, const Json& values, const std::string& path, Pc next) {
  for (const auto& [name, value] : schema.fields) {
    if (keyword_of(name) == Keyword::Assertion && name != "enum" && name != "const" && name != "type" &&
        name != "nullable")
      fail_schema(path_of(path, name), "the keyword is not supported beside enum or const");
  }
  const TypeSet types = document_.types_of(without(without(schema, "enum"), "const"), path);
  std::vector<std::string> scalars;
  std::vector<Pc> targets;
  for (const Json& value : values.items) {
    Json only{.kind = Kind::Object};
    only.fields.push_back({"const", value});
    if ((document_.types_of(only, path) & types) == 0) continue;
    budget_.spend(value.source.size() / 8 + 1);
    if (value.is(Kind::Object) || value.is(Kind::Array))
      targets.push_back(constant(value, next));
    else
      scalars.push_back(text::written(value));
  }
  if (!scalars.empty()) targets.push_back(program_.names(std::move(scalars), next));
  if (targets.empty()) fail_empty(path);
  return program_.split(targets);
}

Pc SchemaCompiler::constant(const Json& value, Pc next) {
  budget_.spend(1);
  if (value.is(Kind::Array)) {
    Pc at = pieces_.space(program_.text("]", next));
    for (std::size_t i = value.items.size(); i-- > 0;) {
      at = constant(value.items[i], at);
      at = i > 0 ? comma(at) : pieces_.space(at);
    }
    return program_.text("[", at);
  }
  if (value.is(Kind::Object)) {
    Pc at = pieces_.space(program_.text("}", next));
    for (std::size_t i = value.fields.size(); i-- > 0;) {
      at = pieces_.space_after_colon(constant(value.fields[i].value, at));
      at = program_.text(text::json_string(value.fields[i].name) + ':', at);
      at = i > 0 ? comma(at) : pieces_.space(at);
    }
    return program_.text("{", at);
  }
  return program_.text(text::written(value), next);
}

Pc SchemaCompiler::of_type(TypeSet type, const Json& schema, const std::string& path, Pc next) {
  switch (type) {
    case kNull: return program_.text("null", next);
    case kBoolean: return program_.names({"true", "false"}, next);
    case kInteger: return number(schema, path, true, next);
    case kNumber: return number(schema, path, false, next);
    case kString: return string(schema, path, next);
    case kArray: return array(schema, path, next);
    default: return object(schema, path, next);
  }
}

Pc SchemaCompiler::number(const Json& schema, const std::string& path, bool integer, Pc next) {
  NumberRange range;
  const auto read = [&](const char* keyword, bool is_exclusive, std::optional<Limit>& limit, int tighter) {
    const Json* value = schema.find(keyword);
    if (value == nullptr) return;
    const auto number = value->is(Kind::Number) ? parse_decimal(value->source) : std::nullopt;
    if (!number.has_value()) fail_schema(path_of(path, keyword), "expected a number of at most 400 digits");
    const int order = limit.has_value() ? compare(*number, limit->value) : tighter;
    if (order == tighter || (order == 0 && is_exclusive)) limit = Limit{*number, is_exclusive};
  };
  read("minimum", false, range.min, 1);
  read("exclusiveMinimum", true, range.min, 1);
  read("maximum", false, range.max, -1);
  read("exclusiveMaximum", true, range.max, -1);
  if (!range.min.has_value() && !range.max.has_value())
    return integer ? pieces_.expression("-?(?:0|[1-9][0-9]*)", next) : pieces_.number(next);
  const auto expression = integer ? integers_in(range) : numbers_in(range);
  if (!expression.has_value()) fail_empty(path);
  return pieces_.expression(*expression, next);
}

Bounds SchemaCompiler::bounds_of(const Json& schema, const char* min, const char* max, const std::string& path) {
  const Bounds bounds{count_of(schema, min, path, 0), count_of(schema, max, path, Bounds::kUnbounded)};
  if (bounds.min > bounds.max) fail_schema(path_of(path, max), tessera::concat("is less than ", min));
  return bounds;
}

namespace {

/// "^[class]{n,m}$", with any quantifier: the class may be repeated without end, and the bounds are lengths.
bool is_repeated_class(const Regex& regex) {
  return regex.kind == Regex::Kind::Sequence && regex.parts.size() == 3 && regex.parts[0].kind == Regex::Kind::Begin &&
         regex.parts[1].kind == Regex::Kind::Repeat && regex.parts[1].parts[0].kind == Regex::Kind::Chars &&
         regex.parts[2].kind == Regex::Kind::End;
}

}  // namespace

SchemaCompiler::Strings SchemaCompiler::strings(const Json& schema, const std::string& path, Spelling spelling) {
  Bounds bounds = bounds_of(schema, "minLength", "maxLength", path);
  const Json *pattern = schema.find("pattern"), *format = schema.find("format");
  if (pattern == nullptr && format == nullptr) return {std::nullopt, {bounds.min, bounds.max}};
  if (pattern != nullptr && format != nullptr)
    fail_schema(path_of(path, "format"), "the keyword is not supported beside pattern");
  const char* keyword = pattern != nullptr ? "pattern" : "format";
  const std::string at = path_of(path, keyword);
  const Json& given = pattern != nullptr ? *pattern : *format;
  if (!given.is(Kind::String)) fail_schema(at, "expected a string");
  const std::string given_text = given.string();
  std::string_view expression = given_text;
  if (format != nullptr) {
    expression = expression_of_format(expression);
    if (expression.empty())
      fail_schema(at, tessera::concat("the format ", given_text, " is not supported; there are ", known_formats()));
  }
  Regex regex = parse_regex(expression, "schema: " + at, budget_);
  std::string key = (spelling == Spelling::Json ? "json " : "raw ") + std::string(keyword) + ' ' + given_text;
  if (is_repeated_class(regex)) {
    Regex& repeat = regex.parts[1];
    bounds.min = std::max(bounds.min, repeat.min);
    bounds.max = std::min(bounds.max, repeat.max);
    if (bounds.min > bounds.max) fail_empty(path);
    repeat.min = 0;
    repeat.max = Regex::kUnbounded;
  }
  if (pattern != nullptr) regex = within_text(std::move(regex));
  if (spelling == Spelling::Raw) regex = without_chars(std::move(regex), {'\n', '\n'});
  const std::uint32_t number = program_.shared_dfa(key, [&] {
    auto dfa = make_dfa(regex, spelling, budget_);
    if (!dfa.has_value()) fail_empty(at);
    return std::move(*dfa);
  });
  if (bounds.min == 0 && bounds.max == Bounds::kUnbounded) return {number, {0, LengthTable::kUnbounded}};
  LengthTable lengths(program_.dfa_of(number), bounds.min, bounds.max, budget_);
  if (!lengths.viable(0, 0)) fail_empty(path);
  return {number, std::move(lengths)};
}

Pc SchemaCompiler::string(const Json& schema, const std::string& path, Pc next) {
  Strings strings = this->strings(schema, path, Spelling::Json);
  return program_.text("\"", program_.body(strings.dfa.value_or(kFreeBody), std::move(strings.lengths), next));
}

}  // namespace mortar::grammar
