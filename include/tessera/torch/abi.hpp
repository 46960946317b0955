// PyTorch's stable ABI as plain C functions, with errors as exceptions and handles that end by themselves. Nothing else
// of PyTorch is called (docs/torch.md lists the functions), so one binary serves every release from 2.10 on.
#pragma once
#if !__has_include(<torch/csrc/stable/c/shim.h>)
#error \
    "tessera/torch.hpp needs the headers of PyTorch 2.10 or newer: build with the CMake function tessera_torch_library()"
#endif
#ifndef TORCH_TARGET_VERSION
#define TORCH_TARGET_VERSION 0x020a000000000000  // the oldest release that the binary serves
#endif
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>
#include <torch/headeronly/version.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "tessera/base/element.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/host/guest.hpp"

// In libtorch_cuda, which a PyTorch for CPUs alone does not have: null there.
extern "C" __attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(std::int32_t device_index,
                                                                                   void** ret_stream);

namespace tessera::pytorch {

/// Throws DeviceError if a function of PyTorch reports one; PyTorch has printed the cause.
inline void check(AOTITorchError result, const char* call) {
  if (result == AOTI_TORCH_SUCCESS) [[likely]]
    return;
  throw DeviceError(concat("PyTorch's ", call, " failed; its message is above."));
}

/// A value as PyTorch passes it: its bytes at the low end of 8.
template <class T>
StableIValue boxed(T value) noexcept {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(StableIValue));
  StableIValue bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}
template <class T>
T unboxed(StableIValue bits) noexcept {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// One reference to a tensor of PyTorch.
class Handle {
 public:
  Handle() noexcept = default;
  explicit Handle(AtenTensorHandle handle) noexcept : handle_(handle) {}
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Handle() {
    if (handle_ != nullptr) aoti_torch_delete_tensor_object(handle_);
  }
  AtenTensorHandle get() const noexcept { return handle_; }
  AtenTensorHandle release() noexcept { return std::exchange(handle_, nullptr); }
  /// Another reference, which a call of the dispatcher takes.
  Handle copy() const {
    AtenTensorHandle made = nullptr;
    check(aoti_torch_new_tensor_handle(handle_, &made), "aoti_torch_new_tensor_handle");
    return Handle(made);
  }

 private:
  AtenTensorHandle handle_ = nullptr;
};

struct DType {
  std::int32_t code = -1;  ///< PyTorch's number, which a release may change
  const char* name = "";   ///< "torch.float32"
};
/// PyTorch's element type; the code is -1 where PyTorch has none (tf32).
inline DType dtype_of(ElementType element) {
  switch (element) {
    case ElementType::f64: return {aoti_torch_dtype_float64(), "torch.float64"};
    case ElementType::f32: return {aoti_torch_dtype_float32(), "torch.float32"};
    case ElementType::f16: return {aoti_torch_dtype_float16(), "torch.float16"};
    case ElementType::bf16: return {aoti_torch_dtype_bfloat16(), "torch.bfloat16"};
    case ElementType::f8e4m3: return {aoti_torch_dtype_float8_e4m3fn(), "torch.float8_e4m3fn"};
    case ElementType::f8e5m2: return {aoti_torch_dtype_float8_e5m2(), "torch.float8_e5m2"};
    case ElementType::i64: return {aoti_torch_dtype_int64(), "torch.int64"};
    case ElementType::i32: return {aoti_torch_dtype_int32(), "torch.int32"};
    case ElementType::i16: return {aoti_torch_dtype_int16(), "torch.int16"};
    case ElementType::i8: return {aoti_torch_dtype_int8(), "torch.int8"};
    case ElementType::u64: return {aoti_torch_dtype_uint64(), "torch.uint64"};
    case ElementType::u32: return {aoti_torch_dtype_uint32(), "torch.uint32"};
    case ElementType::u16: return {aoti_torch_dtype_uint16(), "torch.uint16"};
    case ElementType::u8: return {aoti_torch_dtype_uint8(), "torch.uint8"};
    case ElementType::boolean: return {aoti_torch_dtype_bool(), "torch.bool"};
    default: return {};
  }
}
/// The name of PyTorch's element type with this number.
inline std::string dtype_text(std::int32_t code) {
#define TESSERA_ELEMENT(element, ...) \
  if (const DType type = dtype_of(ElementType::element); type.code == code) return type.name;
#include "tessera/base/element_types.def"
  if (code == aoti_torch_dtype_complex64()) return "torch.complex64";
  if (code == aoti_torch_dtype_complex128()) return "torch.complex128";
  return "another element type";
}

/// Memory of results: tensors of bytes from PyTorch's allocator, for its current stream. While PyTorch captures a graph
/// that is the graph's pool.
class TorchMemory final : public runtime::GuestMemory {
 public:
  static TorchMemory& instance() {
    static TorchMemory& memory = *new TorchMemory;  // never destroyed: guest streams of threads refer to it
    return memory;
  }
  Block allocate(Device device, std::size_t bytes) override {
    const bool cpu = device.kind() == DeviceKind::Cpu;
    const auto size = static_cast<std::int64_t>(bytes);
    const std::int64_t one = 1;
    AtenTensorHandle made = nullptr;
    check(aoti_torch_empty_strided(1, &size, &one, aoti_torch_dtype_uint8(),
                                   cpu ? aoti_torch_device_type_cpu() : aoti_torch_device_type_cuda(),
                                   cpu ? -1 : device.ordinal(), &made),
          "aoti_torch_empty_strided");
    auto owner = std::make_shared<Handle>(made);
    void* memory = nullptr;
    check(torch_get_mutable_data_ptr(made, &memory), "torch_get_mutable_data_ptr");
    return {memory, std::move(owner)};
  }
};

/// The guest stream for PyTorch's current stream of a device.
inline const Stream& current_stream(Device device, std::int32_t index) {
  void* native = nullptr;
  if (device.kind() == DeviceKind::Cuda) {
    if (aoti_torch_get_current_cuda_stream == nullptr)
      throw DeviceError("this PyTorch has tensors of GPUs and no libtorch_cuda, where its streams are");
    check(aoti_torch_get_current_cuda_stream(index, &native), "aoti_torch_get_current_cuda_stream");
  }
  return detail::guest_stream(device, native, TorchMemory::instance());
}

}  // namespace tessera::pytorch
