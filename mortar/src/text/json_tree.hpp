// JSON as a tree whose values refer to their text: for requests and schemas, which have few values. Strings are decoded
// when they are read, numbers are kept as they are written, and any value can be passed on as its text.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_reader.hpp"

namespace mortar::text {

template <class Value>
struct Named {
  std::string name;
  Value value;
};

struct Json {
  using Kind = JsonReader::Kind;
  using Field = Named<Json>;
  Kind kind = Kind::Null;
  std::string_view source = {};    ///< the value as it is written, of the text that was parsed. Values that are made
                                   ///< have it only if they are a string or a number, with a longer life
  std::vector<Json> items = {};    ///< of an array
  std::vector<Field> fields = {};  ///< of an object, in their order; the last of a repeated name

  bool is(Kind k) const { return kind == k; }
  bool is_bool() const { return kind == Kind::True || kind == Kind::False; }
  /// A field of an object; nullptr if there is none, or if this is no object.
  const Json* find(std::string_view name) const;
  /// The decoded text of a string; empty if it is none.
  std::string string() const;
  /// A number without fraction and exponent that fits 64 bits; nullopt for everything else.
  std::optional<std::int64_t> integer() const;
  /// The nearest double of a number; nullopt for everything else, and beyond the range of double.
  std::optional<double> number() const;
  /// Fields in any order; strings by what they mean, numbers as they are written.
  bool operator==(const Json& other) const;
};

struct JsonLimits {
  std::size_t values = 500'000;  ///< a tree needs about 80 bytes for each
  bool repeats = true;           ///< an object may repeat the name of a field
};

/// Throws RequestError, whose message begins with `name`: no JSON (with the offset), too deep, too many values, a name
/// that is repeated.
/// `text` must outlive the result.
Json parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {});

/// "an object", "true", "the number 3", "the string "abc"": what a message says was found.
std::string description(const Json& value);

/// The value as compact JSON.
std::string written(const Json& value);

}  // namespace mortar::text
