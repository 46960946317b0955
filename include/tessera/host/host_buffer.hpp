// Pinned host memory as the host's side of tensors: uploads and readbacks are work of a stream, at the speed of the
// link, beside kernels.
//
//   HostBuffer<f32> buffer(n);
//   { auto values = buffer.write(); std::iota(values.begin(), values.end(), 0.0f); }
//   auto t = from(buffer, {n}).on(stream);                 // nothing waits, nothing is copied on the host
//   buffer = host(t, std::move(buffer)).on(stream);        // nothing waits
//   for (float x : buffer.read()) ...                      // waits for the readback
#pragma once
#include <span>
#include <utility>

#include "tessera/host/transfer.hpp"

namespace tessera {

template <Element T>
class HostBuffer;

namespace detail {

/// Host memory that `device` copies from and to directly. Throws ShapeError for a count that no memory has,
/// DeviceError.
runtime::StorageRef make_host_buffer(std::int64_t count, ElementType element, Device device, SourceLocation where);
[[noreturn]] void throw_empty_buffer(SourceLocation where);
/// Throws ShapeError unless the buffer has elements `first` to `first` + the product of `dims` - 1.
void check_buffer_range(std::int64_t count, std::int64_t first, std::span<const std::int64_t> dims,
                        SourceLocation where);
/// Throws ShapeError unless the buffer has as many elements as `dims`.
void check_buffer_size(const char* what, std::int64_t count, std::span<const std::int64_t> dims, SourceLocation where);

struct BufferReach {
  template <class T>
  static runtime::StorageRef& storage(HostBuffer<T>& buffer) {
    return buffer.storage_;
  }
  template <class T>
  static const runtime::StorageRef& storage(const HostBuffer<T>& buffer, SourceLocation where) {
    if (!buffer.storage_) throw_empty_buffer(where);
    return buffer.storage_;
  }
  template <class T>
  static HostBuffer<T> make(runtime::StorageRef storage) {
    HostBuffer<T> made;
    made.storage_ = std::move(storage);
    made.change_owner();
    return made;
  }
};

/// The storage's elements for the host, as long as the object lives: its lease keeps operations away.
template <class T, class LeaseOf>
class HostAccess {
 public:
  HostAccess(const HostAccess&) = delete;
  HostAccess& operator=(const HostAccess&) = delete;
  std::span<T> values() const& noexcept { return values_; }
  /// The span of a temporary would outlive its lease: give what read() or write() returns a name.
  std::span<T> values() const&& = delete;
  T* data() const noexcept { return values_.data(); }
  std::size_t size() const noexcept { return values_.size(); }
  auto begin() const noexcept { return values_.begin(); }
  auto end() const noexcept { return values_.end(); }
  /// No bounds check, like std::span.
  T& operator[](std::size_t i) const noexcept { return values_[i]; }

 protected:
  HostAccess(const runtime::StorageRef& storage, const runtime::Holder& holder) : lease_(storage, holder) {
    const std::span<std::byte> bytes = bytes_of(storage);
    values_ = {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
  LeaseOf lease_;
  std::span<T> values_;
};
void wait_to_read(runtime::Storage& storage, SourceLocation where);
void wait_to_write(runtime::Storage& storage, SourceLocation where);

}  // namespace detail

/// What HostBuffer::read() returns. Spans and pointers from it are valid while it lives.
template <Element T>
class [[nodiscard]] HostRead : public detail::HostAccess<const T, runtime::ReadLease> {
  friend HostBuffer<T>;
  HostRead(const runtime::StorageRef& storage, SourceLocation where)
      : detail::HostAccess<const T, runtime::ReadLease>(storage, {.what = "HostBuffer::read", .where = where}) {
    detail::wait_to_read(*storage, where);
  }
};
/// What HostBuffer::write() returns. Spans and pointers from it are valid while it lives.
template <Element T>
class [[nodiscard]] HostWrite : public detail::HostAccess<T, runtime::WriteLease> {
  friend HostBuffer<T>;
  HostWrite(const runtime::StorageRef& storage, SourceLocation where)
      : detail::HostAccess<T, runtime::WriteLease>(storage, {.what = "HostBuffer::write", .where = where}) {
    detail::wait_to_write(*storage, where);
  }
};

/// Elements in host memory that a GPU copies from and to without a detour. Move-only; default-constructed or moved-from
/// it is empty, and every use throws BorrowError. Its memory lives until the last work on it has ended.
template <Element T>
class [[nodiscard]] HostBuffer {
 public:
  HostBuffer() noexcept = default;
  /// `count` elements, not initialised, pinned for all GPUs if `device` is one; ordinary memory on the CPU. Throws
  /// ShapeError, DeviceError.
  explicit HostBuffer(Extent count, Device device, SourceLocation where = SourceLocation::current())
      : storage_(detail::make_host_buffer(count.value, element_type<T>, device, where)) {}
  /// The same for default_device().
  explicit HostBuffer(Extent count, SourceLocation where = SourceLocation::current())
      : HostBuffer(count, default_device(where), where) {}
  HostBuffer(HostBuffer&& other) noexcept : storage_(std::move(other.storage_)) { change_owner(); }
  /// Replays that write the buffer that was here are invalid from now on.
  HostBuffer& operator=(HostBuffer&& other) noexcept {
    change_owner();
    storage_ = std::move(other.storage_);
    change_owner();
    return *this;
  }
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer() = default;

  /// Number of elements.
  std::int64_t size(SourceLocation where = SourceLocation::current()) const {
    return static_cast<std::int64_t>(detail::bytes_of(detail::BufferReach::storage(*this, where)).size() / sizeof(T));
  }
  /// The elements for reading: waits until they are complete, and throws the failure of the work that wrote them. While
  /// the result lives, operations that write the buffer throw BorrowError.
  HostRead<T> read(SourceLocation where = SourceLocation::current()) const {
    return HostRead<T>(detail::BufferReach::storage(*this, where), where);
  }
  /// The elements for writing: waits until no work uses the buffer. While the result lives, every other use throws
  /// BorrowError. So the host never writes what a device still reads.
  HostWrite<T> write(SourceLocation where = SourceLocation::current()) {
    return HostWrite<T>(detail::BufferReach::storage(*this, where), where);
  }

 private:
  friend detail::BufferReach;
  void change_owner() noexcept { detail::change_owner(storage_); }
  runtime::StorageRef storage_;
};

namespace detail {

template <Element T, int R>
class FromBufferNode final : public OpNode<Tensor<T, R>> {
 public:
  FromBufferNode(const HostBuffer<T>& buffer, const Dims<R>& dims, SourceLocation where)
      : lease_(BufferReach::storage(buffer, where), {.what = "from", .where = where}), dims_(dims), where_(where) {
    check_buffer_size("from", buffer.size(where), dims, where);
  }
  bool promise(std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept override {
    for (std::size_t i = 0; i < R; ++i) dims[i] = dims_.array()[i];
    set_contiguous(dims, strides);
    return true;
  }
  Tensor<T, R> run(const Stream& stream) override {
    Layout<R> source{lease_.storage(), 0, dims_.array(), {}};
    set_contiguous(source.dims, source.strides);
    Layout<R> l = source;
    l.storage = moved(stream, ref(source, element_type<T>), stream.device(), "from", where_);
    return Reach::make<Tensor<T, R>>(std::move(l));
  }

 private:
  runtime::ReadLease lease_;
  Dims<R> dims_;
  SourceLocation where_;
};

template <Element T, int R>
class HostIntoNode final : public OpNode<HostBuffer<T>> {
 public:
  HostIntoNode(const Read<T, R>& x, HostBuffer<T>& into, SourceLocation where) : where_(where) {
    x_.bind(x.arg(), R, "host", where);
    lease_ = runtime::WriteLease(BufferReach::storage(std::as_const(into), where), {.what = "host", .where = where});
    if (x_.known) check_buffer_size("host", into.size(where), {x_.dims, static_cast<std::size_t>(R)}, where);
    BufferReach::storage(into).reset();  // accepted: the buffer changes hands
  }
  runtime::Backend* device() const noexcept override { return x_.device(); }
  HostBuffer<T> run(const Stream& stream) override {
    x_.resolve_anywhere(stream, "host", where_);
    const LayoutRef from = x_.layout();
    Layout<R> to{lease_.storage(), 0, {}, {}};
    for (std::size_t i = 0; i < R; ++i) to.dims[i] = x_.dims[i];
    check_buffer_size("host", static_cast<std::int64_t>(bytes_of(to.storage).size() / sizeof(T)), to.dims, where_);
    set_contiguous(to.dims, to.strides);
    enqueue_move(stream, from, ref(to, element_type<T>), "host", where_);
    return BufferReach::make<T>(std::move(to.storage));
  }

 private:
  ReadOperand x_;
  runtime::WriteLease lease_;
  SourceLocation where_;
};

template <Element T, int R>
class CopyFromBufferNode final : public OpNode<void> {
 public:
  CopyFromBufferNode(const ArgRef& to, const HostBuffer<T>& from, std::int64_t first, SourceLocation where)
      : lease_(BufferReach::storage(from, where), {.what = "copy_into", .where = where}), first_(first), where_(where) {
    to_.bind(to, R, "copy_into", where);
    check_buffer_range(from.size(where), first, {to_.dims, static_cast<std::size_t>(R)}, where);
    to.owner->reset();  // accepted: the lent tensor is in use
  }
  runtime::Backend* device() const noexcept override { return to_.device(); }
  void run(const Stream& stream) override {
    to_.resolve_anywhere(stream, "copy_into", where_);
    Layout<R> source{lease_.storage(), first_, {}, {}};
    for (std::size_t i = 0; i < R; ++i) source.dims[i] = to_.dims[i];
    set_contiguous(source.dims, source.strides);
    enqueue_move(stream, ref(source, element_type<T>), to_.layout(), "copy_into", where_);
  }

 private:
  ReadOperand to_;
  runtime::ReadLease lease_;
  std::int64_t first_;
  SourceLocation where_;
};

}  // namespace detail

/// A tensor of the buffer's elements, row-major. Running it enqueues the upload and does not wait; from then on the
/// buffer can be read, and HostBuffer::write() waits for the upload. ShapeError if the number of elements is not the
/// product of the extents.
template <Element T, int R>
Op<Tensor<T, R>> from(const HostBuffer<T>& values, const Dims<R>& dims,
                      SourceLocation where = SourceLocation::current()) {
  return Op<Tensor<T, R>>(new detail::FromBufferNode<T, R>(values, dims, where));
}
template <Element T, std::size_t N>
detail::BracedTensor<T, N> from(const HostBuffer<T>& values, BracedDims<N> dims,
                                SourceLocation where = SourceLocation::current()) {
  return from(values, detail::BracedRank<N>(dims, where), where);
}

/// Copies elements of the buffer, row-major from element `first` on, into a lent tensor or a part of it:
/// copy_into(mut(t).slice<0>(0, n), buffer). Running it enqueues the upload and does not wait; from then on the buffer
/// can be read, and HostBuffer::write() waits for the upload. ShapeError unless the buffer has as many elements from
/// there on.
template <Element T, int R>
Op<void> copy_into(const Lend<T, R>& to, const HostBuffer<T>& from, Extent first = 0,
                   SourceLocation where = SourceLocation::current()) {
  return Op<void>(
      new detail::CopyFromBufferNode<T, R>(detail::Lent<T, R>(std::move(to)).arg(), from, first.value, where));
}

/// The elements, row-major, in a buffer that is given and returned. Running it enqueues the readback and does not wait;
/// HostBuffer::read() of the result does. ShapeError unless the buffer has as many elements.
template <Element T, int R>
Op<HostBuffer<T>> host(const Tensor<T, R>& x, HostBuffer<T>&& into, SourceLocation where = SourceLocation::current()) {
  return Op<HostBuffer<T>>(new detail::HostIntoNode<T, R>(detail::Read<T, R>(x), into, where));
}
template <detail::Handle A>
Op<HostBuffer<detail::element_of<A>>> host(A&& x, HostBuffer<detail::element_of<A>>&& into,
                                           SourceLocation where = SourceLocation::current()) {
  using Node = detail::HostIntoNode<detail::element_of<A>, detail::ReadableArg<A>::rank>;
  return Op<HostBuffer<detail::element_of<A>>>(new Node(detail::ReadOf<A>(std::forward<A>(x)), into, where));
}

}  // namespace tessera
