// A JSON schema as a document: its keywords, references within it, and several schemas joined into one.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "grammar/budget.hpp"
#include "text/json_tree.hpp"

namespace mortar::grammar {

using text::Json;

/// The tree of a schema, which refers to `text`. Throws RequestError, which begins with `name`, if the text is not one
/// JSON value, repeats a field, or is nested too deep.
Json read_schema(std::string_view text, const std::string& name);

/// Throws RequestError: the path of a schema or keyword, and what is wrong.
[[noreturn]] void fail_schema(const std::string& path, std::string_view what);

/// The path of a field of the value at `path`, as a JSON pointer.
std::string path_of(const std::string& path, std::string_view field);

/// Sets of types, as bits.
using TypeSet = std::uint32_t;
inline constexpr TypeSet kNull = 1, kBoolean = 2, kInteger = 4, kNumber = 8, kString = 16, kArray = 32, kObject = 64,
                         kAllTypes = 127;

enum class Keyword : std::uint8_t {
  Annotation,  ///< says nothing about what is valid; also all that no draft of JSON schema has
  Applicator,  ///< $ref, allOf, anyOf, oneOf
  Assertion,   ///< any other that is supported
  Unsupported,
};
Keyword keyword_of(std::string_view name);

/// Throws RequestError for the first keyword that is not supported, or if the schema is neither an object nor a bool.
void check_keywords(const Json& schema, const std::string& path);

/// Whether the schema has a keyword of the kind that restricts values, other than `except`.
bool restricts(const Json& schema, std::string_view except = {});

/// A whole number from 0 to 4294967294; `missing` if the keyword is absent. Throws RequestError for other values.
std::uint32_t count_of(const Json& schema, const char* keyword, const std::string& path, std::uint32_t missing);

class SchemaDocument {
 public:
  SchemaDocument(const Json& root, std::string path, Budget& budget)
      : root_(root), path_(std::move(path)), budget_(budget) {}

  struct Target {
    const Json* schema;
    std::string path;
  };
  /// What the reference "#/$defs/name" refers to. Throws RequestError.
  const Target& resolve(const Json& reference, const std::string& path);

  /// A schema of the values that both accept. Throws RequestError for keywords that cannot be joined.
  Json merge(const Json& a, const Json& b, const std::string& path);
  /// The schema with its allOf and the references in it joined.
  Json without_all_of(const Json& schema, const std::string& path);

  /// The types of the values that a schema may accept. Without `type` these are the types that its keywords are about.
  TypeSet types_of(const Json& schema, const std::string& path, int depth = 0);
  /// Whether no value is accepted by both, as far as types, constants and required fields of objects show.
  bool are_disjoint(const Json& a, const Json& b, const std::string& path, int depth = 0);

 private:
  class Depth;
  Json expanded(const Json& schema, const std::string& path);
  void merge_field(Json& out, const std::string& name, const Json& a, const Json& b, const std::string& path);
  void merge_objects(Json& out, const Json& a, const Json& b, const std::string& path);

  const Json& root_;
  std::string path_;
  Budget& budget_;
  std::unordered_map<std::string, Target> targets_;
  int depth_ = 0;
};

/// The values of enum or const, or null if the schema has neither. Throws RequestError if `enum` is no array.
const Json* constants_of(const Json& schema, const std::string& path, Json& storage);

/// The schema without one field.
Json without(const Json& schema, std::string_view field);

}  // namespace mortar::grammar
