// Foreign memory as a tensor: borrow<T, R>(pointer, shape, strides, owner).
//
// Work of other libraries on their streams: Stream::wait_for, record_read and record_write.
//
//   Stream theirs = Stream::wrap(at::cuda::getCurrentCUDAStream().stream(), Device::cuda(0));
//   theirs.wait_for(x);                // their work from now on finds x complete
//   launch_their_kernel(pointer_to_x); // on that stream
//   theirs.record_read(x);             // later writes of x, and its end, come behind that
#pragma once
#include <memory>

#include "tessera/host/operand.hpp"
#include "tessera/host/tensor.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::detail {

/// Work that is enqueued on `stream` from now on comes behind the last write of the elements, and with `exclusive`
/// behind their last reads. Throws BorrowError if an operation that has not run conflicts, and the failure that the
/// contents carry, if it is known.
void order_stream(const Stream& stream, const LayoutRef& x, bool exclusive, SourceLocation where);
/// All that is on `stream` now counts as a use.
void record_use(const Stream& stream, const LayoutRef& x, bool written, const char* what, SourceLocation where);

template <class H>
struct ReadUse {
  static void wait_for(const Stream& stream, const H& x, SourceLocation where) {
    order_stream(stream, layout(x, where), false, where);
  }
  static void record_read(const Stream& stream, const H& x, SourceLocation where) {
    record_use(stream, layout(x, where), false, "Stream::record_read", where);
  }
  static void record_write(const Stream&, const H&, SourceLocation) {
    static_assert(never_true<H>, "a tensor that others have written is lent for it: write record_write(mut(t))");
  }

 private:
  static LayoutRef layout(const H& x, SourceLocation where) {
    const auto& l = Reach::layout(x);
    if (!l.storage) throw_empty(kName, element_type<typename H::element>, H::rank, where);
    return ref(l, element_type<typename H::element>);
  }
  static constexpr const char* kName = "Tensor, View or Shared";
};

template <Element T, int R>
struct StreamUse<Tensor<T, R>> : ReadUse<Tensor<T, R>> {};
template <Element T, int R>
struct StreamUse<View<T, R>> : ReadUse<View<T, R>> {};
template <Element T, int R>
struct StreamUse<Shared<T, R>> : ReadUse<Shared<T, R>> {};

template <Element T, int R>
struct StreamUse<Lend<T, R>> {
  static void wait_for(const Stream& stream, const Lend<T, R>& x, SourceLocation where) {
    order_stream(stream, layout(x, "Stream::wait_for", where), true, where);
  }
  static void record_write(const Stream& stream, const Lend<T, R>& x, SourceLocation where) {
    record_use(stream, layout(x, "Stream::record_write", where), true, "Stream::record_write", where);
  }
  static void record_read(const Stream&, const Lend<T, R>&, SourceLocation) {
    static_assert(never_true<T>, "a read needs no loan: write record_read(t)");
  }

 private:
  static LayoutRef layout(const Lend<T, R>& x, const char* what, SourceLocation where) {
    const auto& l = Reach::layout(x);
    if (ownership_of(l.storage) != Reach::ownership(x)) throw_stale_lend(what, where);
    return ref(l, element_type<T>);
  }
};

}  // namespace tessera::detail

namespace tessera {

namespace detail {
/// Throws ShapeError unless the strides (in elements) give every element its own address within 2^63 - 1 bytes, and the
/// address is aligned for the element type. Returns the number of bytes from the first element to the end of the last.
/// Messages begin with `what`.
std::size_t check_borrowed(const char* what, const void* pointer, std::span<const std::int64_t> dims,
                           std::span<const std::int64_t> strides, ElementType element, SourceLocation where);
/// `exclusive`: throws BorrowError if a tensor over the same foreign memory exists, or if it is the library's own
/// memory.
runtime::StorageRef adopt(Device device, void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                          SourceLocation where, bool exclusive = true);
/// What is on `stream` now has written the storage, which is new.
void record_write_of(runtime::Storage& storage, const Stream& stream, SourceLocation where);
}  // namespace detail

/// A tensor over memory that something else owns. `owner` is kept until the last use of the tensor, its views and the
/// work on them has ended, then released. Verified: alignment, extents, that no two elements share memory (ShapeError),
/// and that no tensor is over the same memory, borrowed or the library's own (BorrowError); on a GPU also that the
/// memory is the device's and as large as shape and strides say (DeviceError).
/// The caller's duties, which nothing checks:
///  - Host memory is as large as shape and strides say. A wrong size reads and writes memory that is not the caller's.
///  - `owner` keeps the memory valid until it is released.
///  - Work of others on the memory has ended before this call. On a GPU that includes work on other streams: Tessera's
///    streams are non-blocking, so not even work on the legacy default stream is ordered before theirs. Synchronize the
///    stream that wrote the memory first.
///  - As long as the tensor exists, no other code writes the memory, or reads it while work on the tensor is in flight.
/// Strides are in elements. Of bool any byte but 0 is true to kernels, host() and cast; the memory keeps the byte that
/// is there.
template <Element T, int R>
Tensor<T, R> borrow(T* pointer, const Dims<R>& shape, const Extent (&strides)[static_cast<std::size_t>(R)],
                    std::shared_ptr<void> owner, Device device = Device::cpu(),
                    SourceLocation where = SourceLocation::current()) {
  detail::Layout<R> l;
  l.dims = shape.array();
  for (std::size_t i = 0; i < R; ++i) l.strides[i] = strides[i].value;
  const std::size_t bytes = detail::check_borrowed("borrow", pointer, l.dims, l.strides, element_type<T>, where);
  l.storage = detail::adopt(device, pointer, bytes, std::move(owner), where);
  return detail::Reach::make<Tensor<T, R>>(std::move(l));
}
/// The same for memory of the stream's device, and without the duty that work of others has ended: it may be on
/// `producer` (Stream::wrap), and work on the tensor is ordered behind what is on that stream now.
template <Element T, int R>
Tensor<T, R> borrow(T* pointer, const Dims<R>& shape, const Extent (&strides)[static_cast<std::size_t>(R)],
                    std::shared_ptr<void> owner, const Stream& producer,
                    SourceLocation where = SourceLocation::current()) {
  Tensor<T, R> made = borrow<T, R>(pointer, shape, strides, std::move(owner), producer.device(), where);
  detail::record_write_of(*detail::Reach::layout(made).storage, producer, where);
  return made;
}

}  // namespace tessera
