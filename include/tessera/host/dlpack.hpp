// Tensors from and to other libraries through DLPack, without a copy:
//
//   auto t = from_dlpack<f32, 2>(managed);                 // takes ownership; its deleter runs after the last use
//   auto w = shared_from_dlpack<f32, 2>(managed);          // read-only: required for tensors that are marked read-only
//   dlpack::Ptr<dlpack::ManagedTensorVersioned> p = to_dlpack(std::move(t));   other_library(p.release());
//   auto q = to_dlpack<dlpack::ManagedTensor>(std::move(t));                   // the form before DLPack 1.0
//   auto r = to_dlpack(t.view());                          // marked read-only; t cannot be written meanwhile
#pragma once
#include <cstdint>
#include <memory>

#include "tessera/host/borrow.hpp"
#include "tessera/host/transfer.hpp"

// The binary interface of DLPack 1.1, as far as tensors are exchanged through it (dmlc/dlpack,
// include/dlpack/dlpack.h): plain data that any library may fill. Declared here so that dlpack.h is not needed to
// build; a program that includes dlpack.h may pass the types of that header instead of these.

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

namespace tessera {

namespace detail {

/// A DLPack tensor of either form.
struct Exchanged {
  void* managed = nullptr;
  bool versioned = false;
};
template <dlpack::Managed M>
Exchanged exchanged(M* managed) {
  return {managed, dlpack::Versioned<M>};
}

/// Verifies and adopts; fills `dims` and `strides`. With `shared`, read-only tensors are accepted too; `owners` is then
/// shared with the storage, so that no handle can become its only owner. With `producer` the elements count as written
/// by what is on that stream now.
runtime::StorageRef import_dlpack(Exchanged, ElementType, std::span<std::int64_t> dims, std::span<std::int64_t> strides,
                                  std::shared_ptr<char>* owners, const Stream* producer, SourceLocation where);
/// Waits for the elements (with `consumer` that stream waits, not the host), leases them for as long as the export
/// lives and makes its ManagedTensor(Versioned).
void* export_dlpack(const LayoutRef&, bool versioned, bool read_only, std::shared_ptr<char> owners,
                    const Stream* consumer, SourceLocation where);

template <Element T, int R>
Layout<R> imported(Exchanged x, std::shared_ptr<char>* owners, const Stream* producer, SourceLocation where) {
  static_assert(!std::is_same_v<T, tf32>, "DLPack has no tf32: exchange f32 and convert with cast<tf32>(t)");
  Layout<R> l;
  l.storage = import_dlpack(x, element_type<T>, l.dims, l.strides, owners, producer, where);
  return l;
}
template <dlpack::Managed M, Element T, int R>
dlpack::Ptr<M> exported(const Layout<R>& l, bool read_only, std::shared_ptr<char> owners, const Stream* consumer,
                        SourceLocation where) {
  static_assert(!std::is_same_v<T, tf32>, "DLPack has no tf32: exchange f32 and convert with cast<f32>(t)");
  return dlpack::Ptr<M>(static_cast<M*>(
      export_dlpack(ref(l, element_type<T>), dlpack::Versioned<M>, read_only, std::move(owners), consumer, where)));
}

}  // namespace detail

/// A tensor over the memory of a DLPack tensor, which it takes over: the deleter is called once, when the last use of
/// the tensor, its views and the work on them has ended. Verified: layout version, element type, device, ndim, shape,
/// strides, byte_offset, alignment, and that no two elements share memory (ShapeError, DeviceError; BorrowError if it
/// is marked read-only, if a tensor of the same structure exists, or one over the same memory, the library's own
/// included; of each export of to_dlpack() one tensor is made). If it throws, nothing was taken and the caller still
/// owns `managed`. The caller's duties, which nothing checks:
///  - The elements are finished. DLPack's structure names no stream, and Tessera's streams are non-blocking, so work
///    that the producer still has in flight races with the kernels that use the tensor, also if it is on the legacy
///    default stream. Synchronize the producer's stream first: torch.cuda.current_stream().synchronize() in PyTorch.
///  - Host memory is as large as `managed` says.
///  - `managed` exists: a tensor that was made of it and has gone has deleted it.
/// Of bool any byte but 0 is true to kernels, host() and cast; the memory keeps the byte that is there.
template <Element T, int R, dlpack::Managed M>
[[nodiscard]] Tensor<T, R> from_dlpack(M* managed, SourceLocation where = SourceLocation::current()) {
  return detail::Reach::make<Tensor<T, R>>(detail::imported<T, R>(detail::exchanged(managed), nullptr, nullptr, where));
}
template <Element T, int R, dlpack::Managed M>
[[nodiscard]] Tensor<T, R> from_dlpack(dlpack::Ptr<M>&& managed, SourceLocation where = SourceLocation::current()) {
  auto t = from_dlpack<T, R>(managed.get(), where);
  (void)managed.release();
  return t;
}

/// The same, read-only; also accepts tensors that are marked read-only (try_unshare never makes those writable).
template <Element T, int R, dlpack::Managed M>
[[nodiscard]] Shared<T, R> shared_from_dlpack(M* managed, SourceLocation where = SourceLocation::current()) {
  auto owners = std::make_shared<char>();
  auto s =
      detail::Reach::make<Shared<T, R>>(detail::imported<T, R>(detail::exchanged(managed), &owners, nullptr, where));
  detail::set_shared(detail::Reach::layout(s).storage, owners);
  detail::Reach::owners(s) = std::move(owners);
  return s;
}
template <Element T, int R, dlpack::Managed M>
[[nodiscard]] Shared<T, R> shared_from_dlpack(dlpack::Ptr<M>&& managed,
                                              SourceLocation where = SourceLocation::current()) {
  auto s = shared_from_dlpack<T, R>(managed.get(), where);
  (void)managed.release();
  return s;
}

/// The same for elements that are finished behind the work that is on `producer` now: work on the tensor is ordered
/// behind that, and the host waits for nothing. The other duties stay. In PyTorch the producer is its current stream:
/// Stream::wrap(at::cuda::getCurrentCUDAStream().stream(), device).
template <Element T, int R, dlpack::Managed M>
[[nodiscard]] Tensor<T, R> from_dlpack(M* managed, const Stream& producer,
                                       SourceLocation where = SourceLocation::current()) {
  return detail::Reach::make<Tensor<T, R>>(
      detail::imported<T, R>(detail::exchanged(managed), nullptr, &producer, where));
}
template <Element T, int R, dlpack::Managed M>
[[nodiscard]] Tensor<T, R> from_dlpack(dlpack::Ptr<M>&& managed, const Stream& producer,
                                       SourceLocation where = SourceLocation::current()) {
  auto t = from_dlpack<T, R>(managed.get(), producer, where);
  (void)managed.release();
  return t;
}
template <Element T, int R, dlpack::Managed M>
[[nodiscard]] Shared<T, R> shared_from_dlpack(M* managed, const Stream& producer,
                                              SourceLocation where = SourceLocation::current()) {
  auto owners = std::make_shared<char>();
  auto s =
      detail::Reach::make<Shared<T, R>>(detail::imported<T, R>(detail::exchanged(managed), &owners, &producer, where));
  detail::set_shared(detail::Reach::layout(s).storage, owners);
  detail::Reach::owners(s) = std::move(owners);
  return s;
}

/// Exports a tensor to another library. Waits until the elements are complete (and throws the error of the work that
/// failed to write them). Until the consumer calls the deleter the tensor counts as being written: using views that
/// were kept is a BorrowError. The deleter may be called while the consumer's work on a GPU still uses the memory: it
/// neither waits nor throws, and the memory is reused only when all work that was enqueued on the GPU before has ended.
/// Throws BorrowError if the tensor is empty or in use by an operation that has not run yet; it is unchanged then.
template <dlpack::Managed M = dlpack::ManagedTensorVersioned, Element T, int R>
[[nodiscard]] dlpack::Ptr<M> to_dlpack(TESSERA_ARG_LIVE Tensor<T, R>&& tensor,
                                       SourceLocation where = SourceLocation::current()) {
  detail::Layout<R>& l = detail::Reach::layout(tensor);
  if (!l.storage) detail::throw_empty("Tensor", element_type<T>, R, where);
  auto p = detail::exported<M, T>(l, false, nullptr, nullptr, where);
  l.storage.reset();
  return p;
}
/// The same for reading: marked read-only, which only the versioned form supports. Until the consumer calls the
/// deleter, writing the tensor is a BorrowError.
template <dlpack::Versioned M = dlpack::ManagedTensorVersioned, Element T, int R>
[[nodiscard]] dlpack::Ptr<M> to_dlpack(const View<T, R>& view, SourceLocation where = SourceLocation::current()) {
  const detail::Layout<R>& l = detail::Reach::layout(view);
  if (!l.storage) detail::throw_empty("View", element_type<T>, R, where);
  return detail::exported<M, T>(l, true, nullptr, nullptr, where);
}
template <dlpack::Versioned M = dlpack::ManagedTensorVersioned, Element T, int R>
[[nodiscard]] dlpack::Ptr<M> to_dlpack(const Shared<T, R>& shared, SourceLocation where = SourceLocation::current()) {
  const detail::Layout<R>& l = detail::Reach::layout(shared);
  if (!l.storage) detail::throw_empty("Shared", element_type<T>, R, where);
  return detail::exported<M, T>(l, true, detail::Reach::owners(shared), nullptr, where);
}

/// The same for a consumer whose work is on `consumer`: that stream waits for the elements, the host does not. A
/// failure of their work that is known already is thrown; of one that is found later only Tessera's own waits tell.
template <dlpack::Managed M = dlpack::ManagedTensorVersioned, Element T, int R>
[[nodiscard]] dlpack::Ptr<M> to_dlpack(TESSERA_ARG_LIVE Tensor<T, R>&& tensor, const Stream& consumer,
                                       SourceLocation where = SourceLocation::current()) {
  detail::Layout<R>& l = detail::Reach::layout(tensor);
  if (!l.storage) detail::throw_empty("Tensor", element_type<T>, R, where);
  auto p = detail::exported<M, T>(l, false, nullptr, &consumer, where);
  l.storage.reset();
  return p;
}
template <dlpack::Versioned M = dlpack::ManagedTensorVersioned, Element T, int R>
[[nodiscard]] dlpack::Ptr<M> to_dlpack(const View<T, R>& view, const Stream& consumer,
                                       SourceLocation where = SourceLocation::current()) {
  const detail::Layout<R>& l = detail::Reach::layout(view);
  if (!l.storage) detail::throw_empty("View", element_type<T>, R, where);
  return detail::exported<M, T>(l, true, nullptr, &consumer, where);
}

/// Explains what to_dlpack takes.
template <class M = dlpack::ManagedTensorVersioned, Element T, int R>
void to_dlpack(Tensor<T, R>&, SourceLocation = SourceLocation::current()) {
  static_assert(detail::never_true<T>,
                "to_dlpack hands a tensor over: write to_dlpack(std::move(t)), or to_dlpack(t.view()) for reading");
}
template <dlpack::Legacy M, Element T, int R>
void to_dlpack(const View<T, R>&, SourceLocation = SourceLocation::current()) {
  static_assert(
      detail::never_true<T>,
      "only DLPack's versioned form can say that a tensor is read-only: leave the form out, or give the tensor");
}

}  // namespace tessera
