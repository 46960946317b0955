// Folders with the files of a model for tests: temporary ones that a test writes, and those of tests/mortar/data.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>

namespace mortar::test {

inline std::filesystem::path test_model(const std::string& name) {
  return std::filesystem::path(MORTAR_TEST_DATA) / "models" / name;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A safetensors file: the length of the header, the header, data.
inline std::string tensor_file(const std::string& header, const std::string& data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i) & 0xFF);
  return file + header + data;
}

class Folder {
 public:
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "mortar-test-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  /// A copy of the files of a model.
  explicit Folder(const std::string& model) : Folder() {
    for (const auto& entry : std::filesystem::directory_iterator(test_model(model)))
      if (entry.is_regular_file()) std::filesystem::copy(entry.path(), path_);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const std::string& contents) const {
    std::ofstream(path_ / name, std::ios::binary) << contents;
  }
  std::string read(const std::string& name) const { return read_file(path_ / name); }

 private:
  std::filesystem::path path_;
};

/// Changes the header of the folder's model.safetensors and lays its tensors out anew. `fill(name, data)` writes the
/// data of a tensor, which is zeros.
template <class Change, class Fill>
void change_header(const Folder& folder, Change change, Fill fill) {
  const std::string file = folder.read("model.safetensors");
  std::uint64_t length = 0;
  for (std::size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(file[i]);
  nlohmann::json header = nlohmann::json::parse(file.substr(8, length));
  change(header);
  std::string data;
  for (auto& [name, tensor] : header.items()) {
    if (name == "__metadata__") continue;
    std::uint64_t bytes = tensor["dtype"] == "F32" ? 4 : tensor["dtype"] == "F8_E4M3" ? 1 : 2;
    for (const std::uint64_t extent : tensor["shape"]) bytes *= extent;
    std::string own(bytes, '\0');
    fill(name, own);
    // clang 16 does not destroy the old value that `= {...}` swaps into its parameter.
    tensor["data_offsets"] = nlohmann::json::array({data.size(), data.size() + bytes});
    data += own;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // as published: data begins where it can be used in the mapped file
  folder.write("model.safetensors", tensor_file(text, data));
}
template <class Change>
void change_header(const Folder& folder, Change change) {
  change_header(folder, change, [](const std::string&, std::string&) {});
}

/// Changes fields of the folder's config.json.
inline void change_config(const Folder& folder, const nlohmann::json& changes) {
  nlohmann::json config = nlohmann::json::parse(folder.read("config.json"));
  config.update(changes);
  folder.write("config.json", config.dump());
}

}  // namespace mortar::test
