// Reading whole files, with errors that name them.
#include "text/read_text.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"

namespace mortar::text {

std::optional<std::string> read_text_if_there(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return read_text(path);
}

std::string read_text(const std::string& path, std::uint64_t most) {
  std::error_code error;
  if (const auto status = std::filesystem::status(path, error); !std::filesystem::is_regular_file(status))
    throw ModelError(tessera::concat(path, ": expected a file, found ",
                                     std::filesystem::exists(status) ? "something else" : "none",
                                     ". Is the folder that of a published model?"));
  std::ifstream in(path, std::ios::binary);
  std::string text;
  const auto bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > most)
    throw ModelError(tessera::concat(path, ": expected at most ", most, " bytes, found ", bytes));
  if (!error) text.resize(bytes);
  if (error || !in.read(text.data(), static_cast<std::streamsize>(bytes)))
    throw ModelError(tessera::concat(path, ": expected a file that can be read, found: ", std::strerror(errno)));
  return text;
}

}  // namespace mortar::text
