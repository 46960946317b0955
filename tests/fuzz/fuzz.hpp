// Shared by the fuzz targets: an input as a stream of values, requirements, and files as inputs.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/bytes.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

/// Ends the program with the violated requirement, as sanitizers and libFuzzer report a finding.
#define FUZZ_REQUIRE(condition) ((condition) ? (void)0 : tessera::fuzz::broken(#condition, __FILE__, __LINE__))

namespace tessera::fuzz {

using Bytes = std::span<const std::byte>;

[[noreturn]] inline void broken(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
  std::abort();
}

inline std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
inline Bytes bytes_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }
inline std::string string_of(Bytes bytes) { return std::string(text_of(bytes)); }

/// Takes values off the front of an input; where it has ended they are 0.
class Input {
 public:
  explicit Input(Bytes bytes) : rest_(bytes) {}
  template <class T>
  T number() {
    T value{};
    const std::size_t n = std::min(sizeof value, rest_.size());
    if (n != 0) std::memcpy(&value, rest_.data(), n);
    rest_ = rest_.subspan(n);
    return value;
  }
  /// Mostly small numbers around 0, sometimes any: a control byte says which.
  std::int64_t extent() {
    const auto how = number<std::uint8_t>();
    if (how < 0xF0) return static_cast<std::int64_t>(how % 24) - 4;
    return number<std::int64_t>();
  }
  bool flag() { return (number<std::uint8_t>() & 1) != 0; }
  Bytes rest() const { return rest_; }
  bool ended() const { return rest_.empty(); }

 private:
  Bytes rest_;
};

/// Calls f. Returns false if it threw a tessera::Error with a message. Any other exception ends the program, including
/// InternalError, which reports a bug.
template <class F>
bool accepted(F&& f) {
  try {
    f();
    return true;
  } catch (const InternalError& error) { broken(error.what(), __FILE__, __LINE__); } catch (const Error& error) {
    FUZZ_REQUIRE(!error.message().empty());
    return false;
  }
}

/// A temporary folder of this process.
inline const std::string& folder() {
  struct Folder {
    std::string path;
    Folder() {
      std::string pattern = (std::filesystem::temp_directory_path() / "tessera-fuzz-XXXXXX").string();
      FUZZ_REQUIRE(mkdtemp(pattern.data()) != nullptr);
      path = pattern;
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder made;
  return made.path;
}

inline std::string write_file(const std::string& name, Bytes bytes) {
  std::string path = folder() + "/" + name;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  FUZZ_REQUIRE(file != nullptr);
  FUZZ_REQUIRE(bytes.empty() || std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size());
  std::fclose(file);
  return path;
}

inline std::vector<std::byte> read_file(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  FUZZ_REQUIRE(file != nullptr);
  std::vector<std::byte> bytes;
  for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) bytes.push_back(static_cast<std::byte>(c));
  std::fclose(file);
  return bytes;
}

/// Initial inputs: files that the library writes, and former findings.
using Seeds = std::vector<std::string>;
inline std::string seed_of(Bytes bytes) { return string_of(bytes); }

/// A row of targets.def.
struct Target {
  const char* name;
  std::size_t most_bytes;
  void (*run)(Bytes);
  Seeds (*seeds)();
};
std::span<const Target> targets();
/// Null if there is none of this name.
const Target* target(std::string_view name);

#define TESSERA_FUZZ(name, bytes, doc) \
  void fuzz_##name(Bytes);             \
  Seeds seeds_##name();
#include "fuzz/targets.def"

}  // namespace tessera::fuzz
