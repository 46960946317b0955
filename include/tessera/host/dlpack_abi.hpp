// The binary interface of DLPack 1.1, as far as tensors are exchanged through it (dmlc/dlpack,
// include/dlpack/dlpack.h): plain data that any library may fill. Declared here so that dlpack.h is not needed to
// build; a program that includes dlpack.h may pass the types of that header instead of these.
#pragma once
#include <cstdint>
#include <memory>

namespace tessera::dlpack {

/// A new major version changes the layout after `flags`; a minor one only adds values.
struct Version {
  std::uint32_t major, minor;
};
inline constexpr Version kVersion{1, 1};

/// DLDeviceType, the values that Tessera supports.
inline constexpr std::int32_t kCpu = 1, kCuda = 2, kCudaHost = 3;
struct DeviceId {
  std::int32_t device_type;
  std::int32_t device_id;
};

/// DLDataTypeCode, the values that Tessera supports. `bits` is the size of one of `lanes` elements.
inline constexpr std::uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kBool = 6, kFloat8E4M3FN = 10,
                              kFloat8E5M2 = 12;
struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
  bool operator==(const DataType&) const = default;
};

/// DLTensor. Element (0, ..., 0) is at data + byte_offset; strides are in elements, null means row-major.
struct Tensor {
  void* data;
  DeviceId device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

/// DLManagedTensor: the form before version 1.0, still the most common one. The deleter may be null.
struct ManagedTensor {
  Tensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(ManagedTensor*);
};

inline constexpr std::uint64_t kReadOnly = 1;  ///< bit of `flags`
/// DLManagedTensorVersioned.
struct ManagedTensorVersioned {
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensorVersioned*);
  std::uint64_t flags;
  Tensor dl_tensor;
};

static_assert(sizeof(void*) == 8 && sizeof(Tensor) == 48 && sizeof(ManagedTensor) == 64 &&
              sizeof(ManagedTensorVersioned) == 80);

/// The two forms, from this header or from dlpack.h.
template <class M>
concept Legacy = sizeof(M) == sizeof(ManagedTensor) && requires(M m) {
  m.dl_tensor.byte_offset;
  m.manager_ctx;
  m.deleter;
};
template <class M>
concept Versioned = sizeof(M) == sizeof(ManagedTensorVersioned) && requires(M m) {
  m.version.major;
  m.flags;
  m.dl_tensor.byte_offset;
  m.deleter;
};
template <class M>
concept Managed = Legacy<M> || Versioned<M>;

/// Returns an exported tensor by calling its deleter, as its consumer must, once.
struct Release {
  template <class M>
  void operator()(M* managed) const {
    if (managed->deleter) managed->deleter(managed);
  }
};
/// An exported tensor that no library has taken yet: pass `p.release()` to the other library, which calls the deleter.
template <Managed M>
using Ptr = std::unique_ptr<M, Release>;

}  // namespace tessera::dlpack
