// NumPy's .npy files. Loading verifies rank, element type, order and size against the file before memory is allocated.
//
//   auto img = load_npy<f32, 2>("input.npy").sync();   save_npy("out.npy", img);
#pragma once
#include <cstdio>
#include <string>

#include "tessera/host/transfer.hpp"

namespace tessera {

namespace detail {

/// An opened file whose header has been verified.
class NpyFile {
 public:
  /// Throws IoError if it cannot be opened, is not a regular file, is malformed, or has another element type or rank.
  NpyFile(const std::string& path, ElementType element, int rank, std::int64_t* dims, SourceLocation where);
  NpyFile(NpyFile&& other) noexcept
      : file_(std::exchange(other.file_, nullptr)), path_(std::move(other.path_)), offset_(other.offset_) {}
  NpyFile& operator=(NpyFile&&) = delete;
  ~NpyFile();
  /// The elements on the stream's device. Throws IoError, DeviceError.
  runtime::StorageRef read(ElementType element, std::int64_t count, const Stream&, SourceLocation where);

 private:
  std::FILE* file_;
  std::string path_;
  std::uint64_t offset_ = 0;
};

template <Element T, int R>
class NpyNode final : public OpNode<Tensor<T, R>> {
 public:
  NpyNode(const std::string& path, SourceLocation where)
      : file_(path, element_type<T>, R, dims_, where), where_(where) {}
  bool promise(std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept override {
    for (std::size_t i = 0; i < R; ++i) dims[i] = dims_[i];
    set_contiguous(dims, strides);
    return true;
  }
  Tensor<T, R> run(const Stream& stream) override {
    const Dims<R> dims = Dims<R>::from(dims_, where_);
    Layout<R> l{file_.read(element_type<T>, dims.numel(where_), stream, where_), 0, dims.array(), {}};
    set_contiguous(l.dims, l.strides);
    return Reach::make<Tensor<T, R>>(std::move(l));
  }

 private:
  std::int64_t dims_[R] = {};
  NpyFile file_;
  SourceLocation where_;
};

void save(const std::string& path, const ArgRef& x, int rank, SourceLocation where);

template <class T>
inline constexpr bool npy_element = std::is_arithmetic_v<T> || std::is_same_v<T, f16>;

}  // namespace detail

/// The tensor in a .npy file: row-major, little-endian, of element type T (no silent conversion) and rank R. The file
/// is opened and its header verified when this is called, its elements are read when the operation runs. Throws
/// IoError.
template <Element T, int R>
Op<Tensor<T, R>> load_npy(const std::string& path, SourceLocation where = SourceLocation::current()) {
  static_assert(detail::npy_element<T>,
                ".npy files hold no bf16, fp8 or tf32: load_npy<f32, R> and cast<T> the result");
  return Op<Tensor<T, R>>(new detail::NpyNode<T, R>(path, where));
}

/// Writes a .npy file (format version 1.0) and returns when it is complete. The file appears under its name only once
/// it is. Symbolic links are followed; a file that is there keeps its mode, owner and group, and one with several names
/// is written in place. Throws IoError (also if the path is write-protected, a folder, a pipe or a device; nothing has
/// changed then), and DeviceError if the host has no memory for the elements.
template <Element T, int R>
void save_npy(const std::string& path, const Tensor<T, R>& x, SourceLocation where = SourceLocation::current()) {
  static_assert(detail::npy_element<T>, ".npy files hold no bf16, fp8 or tf32: save cast<f32>(x) instead");
  detail::save(path, detail::Read<T, R>(x).arg(), R, where);
}
template <detail::Handle A>
void save_npy(const std::string& path, A&& x, SourceLocation where = SourceLocation::current()) {
  static_assert(detail::npy_element<detail::element_of<A>>,
                ".npy files hold no bf16, fp8 or tf32: save cast<f32>(x) instead");
  detail::save(path, detail::ReadOf<A>(std::forward<A>(x)).arg(), detail::ReadableArg<A>::rank, where);
}

}  // namespace tessera
