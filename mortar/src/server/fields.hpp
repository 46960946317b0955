// The fields of a request: each is requested once, with its type and range. What is null counts as not given, as
// clients send it for options that were not set.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/json_tree.hpp"

namespace mortar::server {

class Fields {
 public:
  /// Throws ApiError unless `object` is an object. It must outlive this.
  Fields(const text::Json& object, std::string path);

  const text::Json* find(std::string_view name);  ///< nullptr: not given
  const text::Json* array(std::string_view name);
  const text::Json* object(std::string_view name);
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t lowest, std::int64_t highest);
  std::optional<double> number(std::string_view name, double lowest, double highest);
  std::optional<std::string> string(std::string_view name, std::size_t longest = SIZE_MAX);
  std::optional<std::string> one_of(std::string_view name, std::initializer_list<const char*> choices);
  /// Says that a field is known and means nothing here.
  void ignore(std::initializer_list<const char*> names);

  /// "messages[0].role" for "role" of messages[0].
  std::string path(std::string_view name) const;
  const std::string& path() const { return path_; }
  /// Names that were not requested.
  std::vector<std::string> unknown() const;

 private:
  const text::Json& object_;
  std::string path_;
  std::vector<std::string> known_;
};

/// Throws ApiError: `path`: expected `expected`, found what `value` is.
[[noreturn]] void wrong(const std::string& path, std::string_view expected, const text::Json& value);
/// A whole number of the range.
std::int64_t integer_of(const text::Json& value, const std::string& path, std::int64_t lowest, std::int64_t highest);
/// An array of whole numbers of the range.
std::vector<std::int32_t> integers_of(const text::Json& array, const std::string& path, std::int64_t lowest,
                                      std::int64_t highest, std::size_t most);
std::string element(const std::string& path, std::size_t index);

}  // namespace mortar::server
