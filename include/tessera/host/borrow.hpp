// Foreign memory as a tensor: borrow<T, R>(pointer, shape, strides, owner).
#pragma once
#include <memory>

#include "tessera/host/tensor.hpp"

namespace tessera {

namespace detail {
/// Throws ShapeError unless the strides (elements) put every element at a place of its own within 2^63 - 1 bytes, and
/// the address fits the element type. Gives the number of bytes from the first element to the end of the last.
std::size_t check_borrowed(const void* pointer, std::span<const std::int64_t> dims,
                           std::span<const std::int64_t> strides, ElementType element, SourceLocation where);
/// `exclusive`: BorrowError if a tensor over the same foreign memory exists.
runtime::StorageRef adopt(Device device, void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                          SourceLocation where, bool exclusive = true);
}  // namespace detail

/// A tensor over memory that something else owns. `owner` is kept until the last use of the tensor, its views and the
/// work on them has ended, then released. Verified: alignment, extents, and that no two elements share memory
/// (ShapeError). That the memory is `device`'s and as large as shape and strides say is the caller's word. Strides are
/// in elements.
template <Element T, int R>
Tensor<T, R> borrow(T* pointer, const Dims<R>& shape, const Extent (&strides)[static_cast<std::size_t>(R)],
                    std::shared_ptr<void> owner, Device device = Device::cpu(),
                    SourceLocation where = SourceLocation::current()) {
  detail::Layout<R> l;
  l.dims = shape.array();
  for (std::size_t i = 0; i < R; ++i) l.strides[i] = strides[i].value;
  const std::size_t bytes = detail::check_borrowed(pointer, l.dims, l.strides, element_type<T>, where);
  l.storage = detail::adopt(device, pointer, bytes, std::move(owner), where);
  return detail::Reach::make<Tensor<T, R>>(std::move(l));
}

}  // namespace tessera
