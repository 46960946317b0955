// Foreign memory as a tensor: borrow<T, R>(pointer, shape, strides, owner).
#pragma once
#include <memory>

#include "tessera/host/tensor.hpp"

namespace tessera {

namespace detail {
/// Throws ShapeError unless the strides (elements) put every element at a place of its own within 2^63 - 1 bytes, and
/// the address fits the element type. Gives the number of bytes from the first element to the end of the last. `what`
/// begins the messages.
std::size_t check_borrowed(const char* what, const void* pointer, std::span<const std::int64_t> dims,
                           std::span<const std::int64_t> strides, ElementType element, SourceLocation where);
/// `exclusive`: BorrowError if a tensor over the same foreign memory exists, or if it is the library's own memory.
runtime::StorageRef adopt(Device device, void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                          SourceLocation where, bool exclusive = true);
}  // namespace detail

/// A tensor over memory that something else owns. `owner` is kept until the last use of the tensor, its views and the
/// work on them has ended, then released. Verified: alignment, extents, that no two elements share memory (ShapeError),
/// and that no tensor is over the same memory, borrowed or the library's own (BorrowError); on a GPU also that the
/// memory is the device's and as large as shape and strides say (DeviceError). In host memory that is the caller's
/// word, and so is everywhere that no work of others still writes it. Strides are in elements. Of bool any byte but 0
/// is true to kernels, host() and cast; the memory keeps the byte that is there.
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

}  // namespace tessera
