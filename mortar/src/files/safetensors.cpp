// The header of a safetensors file, and the file itself.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <unordered_set>

#include "files/json_file.hpp"
#include "mortar/checkpoint.hpp"
#include "tessera/base/bytes.hpp"
#include "tessera/base/format.hpp"
#include "text/read_text.hpp"

namespace mortar {
namespace {

using files::fail;
using nlohmann::json;
using tessera::concat;

constexpr std::uint64_t kLengthBytes = 8;
constexpr std::uint64_t kMaxHeader = 100'000'000;  // the limit of the reference implementation

struct TypeRow {
  const char* name;
  unsigned bits;
};
constexpr TypeRow kTypes[] = {
#define MORTAR_FILE_TYPE(name, bits) {#name, bits},
#include "mortar/safetensors_types.def"
};

/// Receives the JSON of a header piece by piece: {name: {dtype, shape, data_offsets}, "__metadata__": {key: text}}.
class HeaderReader final : public json::json_sax_t {
 public:
  HeaderReader(std::uint64_t data_begin, const std::string& file) : data_begin_(data_begin), file_(file) {}
  std::vector<FileTensor> take() { return std::move(tensors_); }

  bool null() override { wrong("null"); }
  bool boolean(bool value) override { wrong(value ? "true" : "false"); }
  bool number_float(double value, const std::string&) override { wrong(concat(value)); }
  bool number_integer(std::int64_t value) override { wrong(concat(value)); }
  bool number_unsigned(std::uint64_t value) override {
    if (field_ == Field::Shape && in_list_) {
      if (value > static_cast<std::uint64_t>(INT64_MAX)) wrong(concat(value));
      tensor_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (field_ == Field::Offsets && in_list_ && offsets_ < 2) {
      (offsets_++ == 0 ? begin_ : end_) = value;
    } else {
      wrong(concat(value));
    }
    return true;
  }
  bool string(std::string& value) override {
    if (in_metadata_ && depth_ == 2) return true;
    if (field_ != Field::Type || in_list_) wrong(concat('"', value, '"'));
    const auto row =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeRow& r) { return value == r.name; });
    if (row == std::end(kTypes)) wrong(concat('"', value, '"'));
    tensor_.type = static_cast<FileType>(row - std::begin(kTypes));
    field_ = Field::None;
    return true;
  }
  bool binary(json::binary_t&) override { wrong("binary data"); }
  bool start_object(std::size_t) override {
    if (depth_ == 2 || in_list_ || (depth_ == 1 && field_ != Field::Tensor)) wrong("an object");
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1 && !in_metadata_) finish_tensor();
    in_metadata_ = false;
    return true;
  }
  bool start_array(std::size_t) override {
    if (in_list_ || depth_ != 2 || (field_ != Field::Shape && field_ != Field::Offsets)) wrong("a list");
    in_list_ = true;
    return true;
  }
  bool end_array() override {
    if (field_ == Field::Offsets && offsets_ != 2) wrong(concat("a list of ", offsets_));
    in_list_ = false;
    field_ = Field::None;
    return true;
  }
  bool key(std::string& name) override {
    if (depth_ == 1) {
      if (!names_.insert(name).second) fail(file_, name, "each name once", "it twice");
      in_metadata_ = name == "__metadata__";
      field_ = Field::Tensor;
      tensor_ = {};
      tensor_.name = std::move(name);
      seen_.clear();
      offsets_ = 0;
    } else if (!seen_.insert(name).second) {
      fail(file_, tensor_.name, "each field once", concat('"', name, "\" twice"));
    } else if (!in_metadata_) {
      field_ = name == "dtype" ? Field::Type : name == "shape" ? Field::Shape : Field::Offsets;
      if (field_ == Field::Offsets && name != "data_offsets")
        fail(file_, tensor_.name, "the fields dtype, shape and data_offsets", concat('"', name, '"'));
    }
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const json::exception&) override {
    fail(file_, "", "JSON in the header", concat("an error at its byte ", position));
  }

 private:
  enum class Field : std::uint8_t { None, Tensor, Type, Shape, Offsets };  ///< whose value comes next

  [[noreturn]] void wrong(const std::string& found) const {
    const char* expected = depth_ == 0                ? "a JSON object as the header"
                           : in_metadata_             ? "a map of strings"
                           : field_ == Field::Type    ? "an element type of the format as dtype"
                           : field_ == Field::Shape   ? "a list of integers from 0 as shape"
                           : field_ == Field::Offsets ? "two integers from 0 as data_offsets"
                                                      : "an object with dtype, shape and data_offsets";
    fail(file_, tensor_.name, expected, found);
  }

  void finish_tensor() {
    if (seen_.size() != 3)
      fail(file_, tensor_.name, "the fields dtype, shape and data_offsets", concat(seen_.size(), " of them"));
    // The bits of the shape, in 128 bits: each factor is below 2^63, so one product at a time cannot overflow them.
    unsigned __int128 bits = kTypes[static_cast<std::size_t>(tensor_.type)].bits;
    const bool empty = std::find(tensor_.shape.begin(), tensor_.shape.end(), 0) != tensor_.shape.end();
    for (const std::int64_t extent : tensor_.shape) {
      if (empty) break;
      bits *= static_cast<std::uint64_t>(extent);
      if (bits >> 63 != 0)
        fail(file_, tensor_.name, "a shape of fewer than 2^60 bytes", concat('[', tessera::join(tensor_.shape), ']'));
    }
    if (empty) bits = 0;
    if (bits % 8 != 0)
      fail(file_, tensor_.name, "a whole number of bytes", concat(static_cast<std::uint64_t>(bits), " bits"));
    tensor_.bytes = static_cast<std::uint64_t>(bits / 8);
    if (end_ < begin_ || end_ - begin_ != tensor_.bytes)
      fail(file_, tensor_.name,
           concat(tensor_.bytes, " bytes of ", name_of(tensor_.type), " [", tessera::join(tensor_.shape), ']'),
           concat("data_offsets [", begin_, ", ", end_, ']'));
    if (__builtin_add_overflow(data_begin_, begin_, &tensor_.begin))
      fail(file_, tensor_.name, "data_offsets within the file", concat('[', begin_, ", ", end_, ']'));
    tensors_.push_back(std::move(tensor_));
    field_ = Field::None;
  }

  std::uint64_t data_begin_;
  const std::string& file_;
  std::vector<FileTensor> tensors_;
  std::unordered_set<std::string> names_;
  int depth_ = 0;  // open objects
  bool in_metadata_ = false, in_list_ = false;
  Field field_ = Field::None;
  FileTensor tensor_;           // the open one
  std::set<std::string> seen_;  // its fields, or the keys of the metadata
  std::uint64_t begin_ = 0, end_ = 0;
  int offsets_ = 0;
};

std::string error_text() { return std::strerror(errno); }

}  // namespace

const char* name_of(FileType type) noexcept { return kTypes[static_cast<std::size_t>(type)].name; }
std::size_t bytes_of(FileType type) noexcept { return (kTypes[static_cast<std::size_t>(type)].bits + 7) / 8; }

std::vector<FileTensor> parse_safetensors_header(std::string_view header, std::uint64_t file_size,
                                                 const std::string& file) {
  const std::uint64_t data_begin = kLengthBytes + header.size();
  if (data_begin > file_size) fail(file, "", concat("at least ", data_begin, " bytes"), concat(file_size));
  if (header.empty() || header[0] != '{') fail(file, "", "a header that begins with {", "another byte");
  const std::size_t last = header.find_last_not_of(' ');
  if (header[last] != '}') fail(file, "", "a header that ends with } and spaces", "another byte");
  HeaderReader reader(data_begin, file);
  json::sax_parse(header.begin(), header.end(), &reader);
  std::vector<FileTensor> tensors = reader.take();
  std::sort(tensors.begin(), tensors.end(), [](const FileTensor& a, const FileTensor& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.bytes < b.bytes;
  });
  std::uint64_t end = data_begin;
  for (const FileTensor& t : tensors) {
    if (t.begin != end)
      fail(file, t.name, concat("data that begins at byte ", end - data_begin, ", where the tensor before it ends"),
           concat("data that begins at byte ", t.begin - data_begin));
    if (__builtin_add_overflow(end, t.bytes, &end) || end > file_size)
      fail(file, t.name, concat("data within the ", file_size - data_begin, " bytes of the file's data"),
           concat(t.bytes, " bytes from byte ", t.begin - data_begin));
  }
  if (end != file_size)
    fail(file, "", concat(file_size - data_begin, " bytes of tensors (the rest of the file)"),
         concat(end - data_begin));
  return tensors;
}

TensorFile::TensorFile(std::filesystem::path path) : path_(std::move(path).string()) {
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe is rejected below
  if (descriptor_ < 0) fail(path_, "", "a file", error_text());
  try {
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0 || !S_ISREG(info.st_mode)) fail(path_, "", "a regular file", "something else");
    size_ = static_cast<std::uint64_t>(info.st_size);
    if (size_ < kLengthBytes) fail(path_, "", "the length of a header in 8 bytes", concat(size_, " bytes"));
    std::byte prefix[kLengthBytes];
    read(0, prefix);
    std::uint64_t length = 0;
    for (std::size_t i = kLengthBytes; i-- > 0;) length = length << 8 | std::to_integer<std::uint64_t>(prefix[i]);
    const std::uint64_t most = std::min(kMaxHeader, size_ - kLengthBytes);
    if (length > most) {
      std::string beginning(std::min<std::uint64_t>(size_, 64), '\0');
      read(0, std::as_writable_bytes(std::span(beginning)));
      if (const std::string_view pointer = text::lfs_pointer(beginning); !pointer.empty())
        fail(path_, "", "a safetensors file", std::string(pointer));
    }
    if (length > most) fail(path_, "", concat("a header of at most ", most, " bytes"), concat(length));
    std::string header(length, '\0');
    read(kLengthBytes, std::as_writable_bytes(std::span(header)));
    tensors_ = parse_safetensors_header(header, size_, path_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

TensorFile::~TensorFile() { ::close(descriptor_); }

void TensorFile::read(std::uint64_t begin, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t n = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(begin));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0)
      fail(path_, "", concat(to.size(), " more bytes at byte ", begin), n == 0 ? "the end of the file" : error_text());
    begin += static_cast<std::uint64_t>(n);
    to = to.subspan(static_cast<std::size_t>(n));
  }
}

std::shared_ptr<std::byte> TensorFile::map() const {
  // Private and writable: a tensor over it does not change the file, and writing to one does not fault. Reading does
  // (SIGBUS) where the file has become shorter since. No swap is set aside for it.
  void* memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor_, 0);
  if (memory == MAP_FAILED) fail(path_, "", "a file that can be mapped into memory", error_text());
  return {static_cast<std::byte*>(memory), [size = size_](std::byte* mapped) { ::munmap(mapped, size); }};
}

}  // namespace mortar
