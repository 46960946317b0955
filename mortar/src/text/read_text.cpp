// Reading whole files, with errors that name them.
#include "text/read_text.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"

namespace mortar::text {

namespace {

namespace fs = std::filesystem;
using tessera::concat;

constexpr const char* kWhatIsRead = "Mortar reads a folder with config.json, tokenizer.json and safetensors files";

bool begins_with(const fs::path& file, std::string_view text) {
  std::string found(text.size(), '\0');
  std::ifstream in(file, std::ios::binary);
  return in.read(found.data(), static_cast<std::streamsize>(found.size())) && found == text;
}

/// "Qwen/Qwen3-0.6B": the name of a model where models are published, and of nothing here.
bool is_published_name(const fs::path& path) {
  if (path.is_absolute() || std::distance(path.begin(), path.end()) != 2) return false;
  const std::string owner = path.begin()->string();
  std::error_code error;
  return owner != "." && owner != ".." && owner != "~" && !fs::exists(owner, error);
}

/// Why there is no file in that folder, and what to do.
std::string reason_of_missing(const fs::path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return ". Is the folder that of a published model?";
  if (fs::is_regular_file(folder, error)) {
    if (begins_with(folder, "GGUF"))
      return concat(": ", folder.string(), " is a GGUF file. ", kWhatIsRead, ", as the model was published.");
    if (folder.extension() == ".safetensors")
      return concat(": ", folder.string(), " is one file of a model. Name the folder that it is in: ",
                    fs::absolute(folder, error).parent_path().string());
    return concat(": ", folder.string(), " is a file. ", kWhatIsRead, '.');
  }
  if (is_published_name(folder))
    return concat(": there is no folder ", folder.string(),
                  " here, and Mortar downloads nothing. Fetch it (hf download ", folder.string(), " --local-dir ",
                  folder.filename().string(), "), then name that folder.");
  return concat(": there is no folder ", folder.string(), '.');
}

}  // namespace

std::string_view lfs_pointer(std::string_view beginning) {
  constexpr std::string_view kPointer = "version https://git-lfs.github.com/";
  return beginning.starts_with(kPointer)
             ? "a pointer of Git LFS, because the data was not fetched: run git lfs pull in the folder"
             : "";
}

std::optional<std::string> read_text_if_there(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  return read_text(path);
}

std::string read_text(const std::string& path, std::uint64_t most) {
  std::error_code error;
  if (const auto status = std::filesystem::status(path, error); !std::filesystem::is_regular_file(status))
    throw ModelError(concat(path, ": expected a file, found ",
                            fs::exists(status) ? std::string("something else")
                                               : concat("none", reason_of_missing(fs::path(path).parent_path()))));
  std::ifstream in(path, std::ios::binary);
  std::string text;
  const auto bytes = std::filesystem::file_size(path, error);
  if (!error && bytes > most)
    throw ModelError(tessera::concat(path, ": expected at most ", most, " bytes, found ", bytes));
  if (!error) text.resize(bytes);
  if (error || !in.read(text.data(), static_cast<std::streamsize>(bytes)))
    throw ModelError(tessera::concat(path, ": expected a file that can be read, found: ", std::strerror(errno)));
  if (const std::string_view pointer = lfs_pointer(text); !pointer.empty())
    throw ModelError(concat(path, ": expected the file itself, found ", pointer));
  return text;
}

}  // namespace mortar::text
