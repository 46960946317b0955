// The safetensors files of a checkpoint: model.safetensors, or the shards that model.safetensors.index.json names.
// Opening reads and verifies the headers; tensors are read later.
//
// A file is: the length n of the header (u64, little-endian), n bytes of JSON, the data. The JSON has for each tensor
// its element type, its shape and its bytes within the data. Verified: the length, the JSON, that sizes and shapes
// agree, that tensors do not overlap and cover all of the data.
#pragma once
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "mortar/config.hpp"

namespace mortar {

enum class FileType : std::uint8_t {
#define MORTAR_FILE_TYPE(name, bits) name,
#include "mortar/safetensors_types.def"
};
/// The spelling in files: "BF16".
const char* name_of(FileType type) noexcept;
/// The bytes that one element takes; 1 for elements of fewer bits.
std::size_t bytes_of(FileType type) noexcept;

/// A tensor of a file. Its data may be at any address: it is not aligned.
struct FileTensor {
  std::string name;
  FileType type = FileType::BF16;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  ///< of its data, in bytes from the beginning of the file
  std::uint64_t bytes = 0;
};

/// The tensors of a safetensors file of `file_size` bytes, in the order of their data. `header` is the JSON alone.
/// Throws ModelError with the file, the tensor and both numbers.
std::vector<FileTensor> parse_safetensors_header(std::string_view header, std::uint64_t file_size,
                                                 const std::string& file);

/// An open file whose header was verified. Can be used from several threads at once.
class TensorFile {
 public:
  /// Throws ModelError.
  explicit TensorFile(std::filesystem::path path);
  ~TensorFile();
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  const std::string& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }
  std::span<const FileTensor> tensors() const noexcept { return tensors_; }
  /// Reads bytes of the file. Throws ModelError if they cannot be read (the file became shorter).
  void read(std::uint64_t begin, std::span<std::byte> to) const;
  /// The whole file in memory: pages are read when they are first used, and writing changes the memory alone. The
  /// mapping lives as long as the result. The file must not become shorter meanwhile. Throws ModelError.
  std::shared_ptr<std::byte> map() const;

 private:
  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::vector<FileTensor> tensors_;
};

/// Gets a sentence about files of a model that can be loaded, but may not be what their author meant.
using OnWarning = std::function<void(const std::string&)>;

/// All tensors of a folder.
class Checkpoint {
 public:
  struct Entry {
    const TensorFile* file;
    const FileTensor* tensor;
  };
  /// Opens the files of `folder` and verifies their headers and the index. Throws ModelError.
  explicit Checkpoint(const std::filesystem::path& folder);

  const std::vector<std::shared_ptr<const TensorFile>>& files() const noexcept { return files_; }
  /// Null if there is none of this name.
  const Entry* find(const std::string& name) const;
  std::size_t size() const noexcept { return entries_.size(); }
  /// The model that the files hold: `model`, or `model` with an lm_head of its own. Throws ModelError unless the
  /// tensors are those of the model, with the right shapes and element types.
  ///
  /// The files of a tied model may have an lm_head. If it has the bits of the embedding, it is not used. If it differs,
  /// config.json is wrong: the result is not tied, and `warn` is called, as Hugging Face transformers does. To find
  /// out, both tensors are read up to the first difference. `warn` is also called for safetensors files of the folder
  /// that are not read.
  [[nodiscard]] ModelSpec verify(const ModelSpec& model, const OnWarning& warn = {}) const;

 private:
  void open(const std::filesystem::path& file);
  void check_index(const std::string& index, const std::unordered_map<std::string, std::string>& files) const;
  void warn_of_rounding(const ModelSpec& model, const OnWarning& warn) const;
  void check_tensors(const ModelSpec& model) const;
  std::set<std::string> unread_files() const;

  std::string folder_;
  std::vector<std::shared_ptr<const TensorFile>> files_;
  std::unordered_map<std::string, Entry> entries_;
};

}  // namespace mortar
