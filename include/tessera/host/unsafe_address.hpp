// Addresses for kernels with unsafe_::Ptr<T> parameters. Nothing is leased, ordered or kept alive through them.
#pragma once
#include "tessera/host/operand.hpp"

namespace tessera::unsafe_ {

/// A device address, as an argument of a kernel.
template <Element T>
class Address {
 public:
  explicit Address(const volatile void* address) noexcept {
    arg_.how = tessera::detail::ArgRef::How::Number;
    arg_.number = reinterpret_cast<std::uintptr_t>(address);
  }
  const tessera::detail::ArgRef& arg() const noexcept { return arg_; }

 private:
  tessera::detail::ArgRef arg_;
};

/// Any address. The caller must ensure that it is valid until the kernel has ended, and that accesses are ordered.
template <Element T>
Address<T> address(T* pointer) noexcept {
  return Address<T>(pointer);
}
/// The address of the first element of a tensor. Checked mode treats the tensor as written from now on, because stores
/// through raw pointers are not tracked. Throws BorrowError if it is empty.
template <Element T, int R>
Address<T> address(const Tensor<T, R>& tensor, SourceLocation where = SourceLocation::current()) {
  const auto& layout = tessera::detail::Reach::layout(tensor);
  if (!layout.storage) tessera::detail::throw_empty("Tensor", element_type<T>, R, where);
  layout.storage->publish_address(where);
  layout.storage->count_as_written();
  return Address<T>(tessera::detail::ref(layout, element_type<T>).data());
}

}  // namespace tessera::unsafe_
