// Results without elements, for fake and meta tensors. Sizes may be symbols, which only PyTorch's own operations pass
// on: nothing here reads a size.
#pragma once
#include <cstdint>
#include <utility>

#include "tessera/torch/abi.hpp"

namespace tessera::pytorch {

/// A tensor with the sizes of `tensor`, row-major, of the element type given.
inline Handle empty_like(const Handle& tensor, ElementType element) {
  Handle self = tensor.copy();
  const auto some = [](std::int32_t value) { return boxed(new StableIValue(boxed(value))); };  // the callee deletes it
  StableIValue stack[] = {
      boxed(self.release()), some(dtype_of(element).code), 0, 0, 0, some(aoti_torch_memory_format_contiguous_format())};
  check(torch_call_dispatcher("aten::empty_like", "", stack, TORCH_ABI_VERSION), "aten::empty_like");
  return Handle(unboxed<AtenTensorHandle>(stack[0]));
}

/// Calls an operation of PyTorch with a tensor, which it takes, and numbers.
template <class... Numbers>
Handle call_aten(const char* name, const char* overload, Handle tensor, Numbers... numbers) {
  StableIValue stack[] = {boxed(tensor.release()), boxed(numbers)...};
  check(torch_call_dispatcher(name, overload, stack, TORCH_ABI_VERSION), name);
  return Handle(unboxed<AtenTensorHandle>(stack[0]));
}

/// A tensor of `rank` axes: along `at` as long as `tensor`, which has `axes`, along its axis `axis`; along the
/// others 1. The other axes of `tensor` are reduced, which is legal also where one has no elements.
inline Handle along(const Handle& tensor, int axes, int axis, int at, int rank) {
  Handle made = tensor.copy();
  for (int i = 0; i < axes; ++i)
    if (i != axis) made = call_aten("aten::any", "dim", std::move(made), std::int64_t{i}, true);
  made = call_aten("aten::flatten", "using_ints", std::move(made), std::int64_t{0}, std::int64_t{-1});
  for (int i = 0; i < rank; ++i)
    if (i != at) made = call_aten("aten::unsqueeze", "", std::move(made), std::int64_t{i});
  return made;
}

/// Two of them together. An empty handle stands for axes of length 1.
inline Handle joined(Handle a, Handle b) {
  if (a.get() == nullptr) return b;
  if (b.get() == nullptr) return a;
  StableIValue stack[] = {boxed(a.release()), boxed(b.release())};
  check(torch_call_dispatcher("aten::logical_or", "", stack, TORCH_ABI_VERSION), "aten::logical_or");
  return Handle(unboxed<AtenTensorHandle>(stack[0]));
}

}  // namespace tessera::pytorch
