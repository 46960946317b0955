// JSON files of a checkpoint: reading them with a limit, and typed access to their fields. Every error names the file,
// the field, what was expected and what was found.
#pragma once
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mortar::files {

/// Bytes of the largest JSON file that describes a model.
inline constexpr std::uint64_t kMaxBytes = std::uint64_t{1} << 24;

/// Throws ModelError: "FILE: WHERE: expected EXPECTED, found FOUND". `where` is a field or tensor, and may be empty.
[[noreturn]] void fail(const std::string& file, const std::string& where, const std::string& expected,
                       const std::string& found);

/// The object that `text` is. Throws ModelError for anything else, and for keys that occur twice.
nlohmann::json parse_object(std::string_view text, const std::string& file);
/// A value for messages, shortened.
std::string shown(const nlohmann::json& value);

/// An object of a file. Fields that are null count as absent.
class Fields {
 public:
  /// `object` must outlive this. `path` is the prefix of its fields in messages ("rope_scaling.").
  Fields(const nlohmann::json& object, std::string file, std::string path = "")
      : object_(&object), file_(std::move(file)), path_(std::move(path)) {}

  const std::string& file() const { return file_; }
  bool has(const char* name) const { return find(name) != nullptr; }
  std::int64_t integer(const char* name, std::int64_t lowest, std::int64_t highest) const;
  double number(const char* name, double lowest, double highest) const;
  std::string text(const char* name) const;
  /// The same with a value for fields that are absent.
  std::int64_t integer_or(const char* name, std::int64_t lowest, std::int64_t highest, std::int64_t fallback) const;
  double number_or(const char* name, double lowest, double highest, double fallback) const;
  bool flag_or(const char* name, bool fallback) const;
  std::string text_or(const char* name, const std::string& fallback) const;
  /// A list, or one element alone; empty if it is absent.
  std::vector<std::int64_t> integers(const char* name, std::int64_t lowest, std::int64_t highest) const;
  std::vector<std::string> texts(const char* name) const;
  /// An object within; nothing if it is absent.
  std::optional<Fields> object(const char* name) const;
  /// Throws the ModelError of a field.
  [[noreturn]] void fail(const char* name, const std::string& expected) const;

 private:
  const nlohmann::json* find(const char* name) const;
  const nlohmann::json& get(const char* name, const std::string& expected) const;
  std::int64_t integer_of(const nlohmann::json& value, const char* name, std::int64_t lowest,
                          std::int64_t highest) const;

  const nlohmann::json* object_;
  std::string file_, path_;
};

}  // namespace mortar::files
