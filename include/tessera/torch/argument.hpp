// The tensors of a call: read through the ABI, checked against what the operator takes, and made into views and loans.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/host/borrow.hpp"
#include "tessera/host/guest.hpp"
#include "tessera/torch/abi.hpp"
#include "tessera/torch/signature.hpp"

namespace tessera::pytorch {

/// A tensor argument. Sizes and strides are PyTorch's, valid as long as the handle.
struct Argument {
  Handle handle;
  std::int32_t dtype = 0, device_type = 0, device_index = 0;
  std::span<const std::int64_t> dims, strides;
  void* data = nullptr;
  std::size_t bytes = 0;  ///< from the first element to the end of the last
};

inline std::string argument_text(const OperatorInfo& info, std::size_t i) {
  return concat(info.name, ": argument ", i, " (", info.names[i], ")");
}

inline void read_sizes(Argument& a) {
  std::int64_t rank = 0, *dims = nullptr, *strides = nullptr;
  check(aoti_torch_get_dim(a.handle.get(), &rank), "aoti_torch_get_dim");
  check(aoti_torch_get_sizes(a.handle.get(), &dims), "aoti_torch_get_sizes");
  check(aoti_torch_get_strides(a.handle.get(), &strides), "aoti_torch_get_strides");
  a.dims = {dims, static_cast<std::size_t>(rank)};
  a.strides = {strides, static_cast<std::size_t>(rank)};
}

/// True if an axis repeats its elements (expand): kernels and the code that is compiled for them count on distinct
/// ones.
inline bool repeats(const Argument& a) noexcept {
  for (std::size_t i = 0; i < a.dims.size(); ++i) {
    if (a.dims[i] > 1 && a.strides[i] == 0) return true;
  }
  return false;
}

/// A copy of the tensor without gaps, which PyTorch makes.
inline Handle contiguous(const Handle& tensor) {
  Handle self = tensor.copy();
  StableIValue stack[] = {boxed(self.release()), boxed(aoti_torch_memory_format_contiguous_format())};
  check(torch_call_dispatcher("aten::contiguous", "", stack, TORCH_ABI_VERSION), "aten::contiguous");
  return Handle(unboxed<AtenTensorHandle>(stack[0]));
}

inline std::size_t extent_in_bytes(const Argument& a, ElementType element) noexcept {
  std::int64_t last = 0;
  for (std::size_t i = 0; i < a.dims.size(); ++i) {
    if (a.dims[i] == 0) return 0;
    last += (a.dims[i] - 1) * a.strides[i];
  }
  return static_cast<std::size_t>(last + 1) * static_cast<std::size_t>(size_of(element));
}

inline std::string device_text(const Argument& a) {
  if (a.device_type == aoti_torch_device_type_cpu()) return "cpu";
  if (a.device_type == aoti_torch_device_type_cuda()) return concat("cuda:", a.device_index);
  return a.device_type == aoti_torch_device_type_meta() ? std::string("meta") : concat("device type ", a.device_type);
}

/// Reads rank, element type and device of argument `i`, and checks the rank and that its device is `first`'s.
inline void read_kind(const OperatorInfo& info, std::size_t i, Argument& a, const Argument* first) {
  const AtenTensorHandle handle = a.handle.get();
  std::int64_t rank = 0;
  check(aoti_torch_get_dtype(handle, &a.dtype), "aoti_torch_get_dtype");
  check(aoti_torch_get_device_type(handle, &a.device_type), "aoti_torch_get_device_type");
  check(aoti_torch_get_device_index(handle, &a.device_index), "aoti_torch_get_device_index");
  check(aoti_torch_get_dim(handle, &rank), "aoti_torch_get_dim");
  if (rank != info.parameters[i].rank) {
    throw ShapeError(
        concat(argument_text(info, i), " has ", rank, rank == 1 ? " axis" : " axes",
               "; the operator takes tensors with ", info.parameters[i].rank, ".\n  Reshape it to that many axes."),
        info.where);
  }
  if (first == nullptr || (first->device_type == a.device_type && first->device_index == a.device_index)) return;
  throw DeviceError(concat(argument_text(info, i), " is on ", device_text(a), ", an argument before it on ",
                           device_text(*first), ".\n  Move all arguments to one device."),
                    info.where);
}

[[noreturn]] inline void throw_element(const OperatorInfo& info, std::size_t i, std::int32_t found,
                                       std::span<const std::int32_t> allowed) {
  std::string names;
  for (std::size_t k = 0; k < allowed.size(); ++k)
    names += concat(k == 0 ? "" : k + 1 == allowed.size() ? " or " : ", ", dtype_text(allowed[k]));
  throw ShapeError(concat(argument_text(info, i), " has elements of ", dtype_text(found), "; the operator takes ",
                          names, ".\n  Convert it with .to(dtype)."),
                   info.where);
}

/// The position in info.elements of the operator's element type, 0 if there is one or none. Checks that all arguments
/// agree. `tensors` are the tensor arguments in order.
inline std::size_t choose_element(const OperatorInfo& info, std::span<Argument> tensors) {
  std::size_t chosen = 0, tensor = 0;
  bool known = false;
  for (std::size_t i = 0; i < info.parameters.size(); ++i) {
    if (!info.parameters[i].is_tensor()) continue;
    const std::int32_t found = tensors[tensor++].dtype;
    if (!info.varies[i]) {
      const std::int32_t wanted[] = {dtype_of(info.parameters[i].element).code};
      if (found != wanted[0]) throw_element(info, i, found, wanted);
    } else if (known) {
      if (found != info.elements[chosen]) throw_element(info, i, found, {&info.elements[chosen], 1});
    } else {
      while (chosen < info.elements.size() && info.elements[chosen] != found) ++chosen;
      if (chosen == info.elements.size()) throw_element(info, i, found, info.elements);
      known = true;
    }
  }
  return chosen;
}

/// Reads addresses, sizes and strides. An argument that repeats elements is copied, unless it is written: that is an
/// error.
inline void read_memory(const OperatorInfo& info, std::span<Argument> tensors, std::span<const ElementType> elements) {
  std::size_t tensor = 0;
  for (std::size_t i = 0; i < info.parameters.size(); ++i) {
    if (!info.parameters[i].is_tensor()) continue;
    Argument& a = tensors[tensor];
    const bool written = info.parameters[i].kind == Kind::Lend;
    read_sizes(a);
    if (!written && repeats(a)) {
      a.handle = contiguous(a.handle);
      read_sizes(a);
    }
    if (written) {
      check(torch_get_mutable_data_ptr(a.handle.get(), &a.data), "torch_get_mutable_data_ptr");
      detail::check_borrowed(info.names[i].c_str(), a.data, a.dims, a.strides, elements[tensor], info.where);
    } else {
      const void* data = nullptr;
      check(torch_get_const_data_ptr(a.handle.get(), &data), "torch_get_const_data_ptr");
      a.data = const_cast<void*>(data);  // a View of it is made, which is read-only
    }
    a.bytes = extent_in_bytes(a, elements[tensor]);
    ++tensor;
  }
}

/// Counts a write of the tensor, by which autograd finds that something was kept for a derivative and has changed
/// since. The ABI has no function for that alone: a copy of a tensor to itself is one that moves nothing.
inline void count_write(const Argument& a) {
  const bool enabled = aoti_torch_grad_mode_is_enabled();  // the write itself has no derivative
  aoti_torch_grad_mode_set_enabled(false);
  const AOTITorchError result = aoti_torch_copy_(a.handle.get(), a.handle.get(), 0);
  aoti_torch_grad_mode_set_enabled(enabled);
  check(result, "aoti_torch_copy_");
}

/// Throws BorrowError if what is written may share memory with another argument: the ranges of addresses count, gaps
/// between rows included.
inline void check_apart(const OperatorInfo& info, std::span<const Argument> tensors) {
  const auto parameter = [&](std::size_t tensor) {
    for (std::size_t i = 0;; ++i) {
      if (info.parameters[i].is_tensor() && tensor-- == 0) return i;
    }
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (info.parameters[parameter(i)].kind != Kind::Lend) continue;
    const auto begin = reinterpret_cast<std::uintptr_t>(tensors[i].data);
    for (std::size_t j = 0; j < tensors.size(); ++j) {
      const auto other = reinterpret_cast<std::uintptr_t>(tensors[j].data);
      if (i == j || other >= begin + tensors[i].bytes || begin >= other + tensors[j].bytes) continue;
      throw BorrowError(concat(argument_text(info, parameter(i)), " is written and shares memory with argument ",
                               parameter(j), " (", info.names[parameter(j)],
                               ").\n  Pass a copy of one of them: "
                               ".clone()."),
                        info.where);
    }
  }
}

/// Sizes and strides as Tessera's layout; the argument has R axes.
template <int R>
detail::Layout<R> layout_of(const Argument& a, Device device, SourceLocation where) {
  detail::Layout<R> l;
  for (std::size_t i = 0; i < R; ++i) l.dims[i] = a.dims[i], l.strides[i] = a.strides[i];
  l.storage = detail::guest_storage(device, a.data, a.bytes, where);
  return l;
}

/// An argument of the lambda, made from a tensor.
template <class P>
struct Holder;
template <Element T, int R>
struct Holder<View<T, R>> {
  View<T, R> view;
  Holder(const Argument& a, Device device, SourceLocation where)
      : view(detail::Reach::make<View<T, R>>(layout_of<R>(a, device, where))) {}
  View<T, R>& get() noexcept { return view; }
};
template <Element T, int R>
struct Holder<Lend<T, R>> {
  Tensor<T, R> tensor;
  Holder(const Argument& a, Device device, SourceLocation where)
      : tensor(detail::Reach::make<Tensor<T, R>>(layout_of<R>(a, device, where))) {}
  Lend<T, R> get() { return mut(tensor); }
};

/// A number of the lambda, from what PyTorch passes: a double or an int64.
template <class P>
P number_of(const OperatorInfo& info, std::size_t i, StableIValue bits) {
  if constexpr (std::is_same_v<P, bool>) {
    return unboxed<bool>(bits);
  } else if constexpr (std::is_floating_point_v<P>) {
    return static_cast<P>(unboxed<double>(bits));
  } else {
    const auto value = unboxed<std::int64_t>(bits);
    const auto number = static_cast<P>(value);
    if (static_cast<std::int64_t>(number) != value || (value < 0) != (number < P(0)))
      throw ShapeError(concat(argument_text(info, i), " is ", value, ", which the operator's integer of ",
                              8 * sizeof(P), " bits does not hold."),
                       info.where);
    return number;
  }
}

}  // namespace tessera::pytorch
