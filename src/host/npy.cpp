// load_npy and save_npy.
#include "tessera/host/npy.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "host/npy_format.hpp"
#include "host/whole_file.hpp"
#include "host/work.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/graph.hpp"

namespace tessera::detail {

namespace {

[[noreturn]] void throw_errno(const char* what, const std::string& path, SourceLocation where) {
  throw IoError(concat("cannot ", what, " '", path, "': ", std::strerror(errno), "."), where);
}

/// Any byte but 0 is true in NumPy; a C++ bool is 0 or 1.
void normalise_bools(std::byte* p, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) p[i] = p[i] != std::byte{0} ? std::byte{1} : std::byte{0};
}

/// Opens for reading, without blocking on a pipe that has no writer.
std::FILE* open_to_read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (descriptor < 0) return nullptr;
  std::FILE* file = ::fdopen(descriptor, "rb");
  if (!file) ::close(descriptor);
  return file;
}

}  // namespace

NpyFile::NpyFile(const std::string& path, ElementType element, int rank, std::int64_t* dims, SourceLocation where)
    : file_(open_to_read(path)), path_(path) {
  if (!file_) throw_errno("open", path, where);
  struct Closer {  // until the constructor has succeeded
    std::FILE* file;
    ~Closer() {
      if (file) std::fclose(file);
    }
  } closer{file_};
  struct stat status {};
  if (fstat(fileno(file_), &status) != 0) throw_errno("examine", path, where);
  if (!S_ISREG(status.st_mode))
    throw IoError(concat("'", path, "' is not a regular file; a .npy file is expected."), where);
  const auto size = static_cast<std::uint64_t>(status.st_size);

  char prefix[12];
  const std::size_t got = std::fread(prefix, 1, sizeof prefix, file_);
  std::uint32_t length = 0;
  const std::uint32_t start = npy_prefix({prefix, got}, size, length, path, where);
  std::string text(length, '\0');
  if (std::fseek(file_, static_cast<long>(start), SEEK_SET) != 0 ||
      std::fread(text.data(), 1, length, file_) != length) {
    throw_errno("read the header of", path, where);
  }
  const NpyHeader h = npy_dictionary(text, std::uint64_t{start} + length, size, path, where);
  if (h.element != element) {
    throw IoError(concat("'", path, "' holds ", info(h.element).name, ", but ", info(element).name,
                         " was requested.\n  Write load_npy<", info(h.element).name, ", ", rank, ">(...) and cast<",
                         info(element).name, "> the result."),
                  where);
  }
  if (h.rank != rank) {
    throw IoError(concat("'", path, "' has ", h.rank, " axes, but ", rank, " were requested: its extents are ",
                         extents_text({h.dims.data(), static_cast<std::size_t>(h.rank)}), "."),
                  where);
  }
  for (int i = 0; i < rank; ++i) {
    dims[i] = h.dims[static_cast<std::size_t>(i)];
    if (dims[i] > kMaxExtent)
      throw IoError(
          concat("'", path, "' has an axis with ", dims[i], " elements; at most ", kMaxExtent, " can be loaded."),
          where);
  }
  offset_ = h.data_offset;
  closer.file = nullptr;
}

NpyFile::~NpyFile() {
  if (file_) std::fclose(file_);
}

runtime::StorageRef NpyFile::read(ElementType element, std::int64_t count, const Stream& stream, SourceLocation where) {
  runtime::check_not_capturing(
      "load_npy()", "The file would be read once, not in each replay: load it before the capture, and pass the tensor.",
      where);
  const std::size_t bytes = static_cast<std::size_t>(count) * static_cast<std::size_t>(size_of(element));
  runtime::StorageOptions options;
  options.where = where;
  auto staged = runtime::Storage::allocate(Device::cpu(), bytes, options);
  if (fseeko(file_, static_cast<off_t>(offset_), SEEK_SET) != 0) throw_errno("read", path_, where);
  errno = 0;
  if (std::fread(staged->data(), 1, bytes, file_) != bytes) {
    if (errno != 0) throw_errno("read", path_, where);
    throw IoError(concat("'", path_, "' was truncated after its header had been verified."), where);
  }
  if (element == ElementType::boolean) normalise_bools(staged->data(), bytes);
  staged->host_wrote(0, bytes);
  return unstage(std::move(staged), stream, where);
}

void save(const std::string& path, const ArgRef& x, int rank, SourceLocation where) {
  ReadOperand operand;
  operand.bind(x, rank, "save_npy", where);
  WholeFile file(path, where);  // before the operand runs: if the file cannot be written, nothing is computed
  runtime::Backend* device = operand.device();
  operand.resolve_on(Stream::default_of(device ? Device(*device) : default_device(where)), "save_npy", where);
  const LayoutRef l = operand.layout();
  const std::string head = npy_header(l.element, l.dims.data(), rank);
  const std::size_t bytes = static_cast<std::size_t>(l.size()) * static_cast<std::size_t>(size_of(l.element));
  const auto data = host_buffer(bytes, "save_npy", where);
  read_back(l, data.get(), "save_npy", where);
  file.write(head.data(), head.size());
  file.write(data.get(), bytes);
  file.finish();
}

}  // namespace tessera::detail
