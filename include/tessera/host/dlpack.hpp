// Tensors from and to other libraries through DLPack, without a copy:
//
//   auto t = from_dlpack<f32, 2>(managed);                 // takes it over; its deleter runs after the last use
//   auto w = shared_from_dlpack<f32, 2>(managed);          // read-only: the only way to take what is marked read-only
//   dlpack::Ptr<dlpack::ManagedTensorVersioned> p = to_dlpack(std::move(t));   other_library(p.release());
//   auto q = to_dlpack<dlpack::ManagedTensor>(std::move(t));                   // the form before DLPack 1.0
//   auto r = to_dlpack(t.view());                          // marked read-only; t cannot be written meanwhile
#pragma once
#include "tessera/host/dlpack_abi.hpp"
#include "tessera/host/transfer.hpp"

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

/// Verifies and adopts; fills `dims` and `strides`. For `shared` read-only tensors are taken too, and `owners` becomes
/// shared with the storage then, so that nobody can become its only owner.
runtime::StorageRef import_dlpack(Exchanged, ElementType, std::span<std::int64_t> dims, std::span<std::int64_t> strides,
                                  std::shared_ptr<char>* owners, SourceLocation where);
/// Waits for the elements, leases them for as long as the export lives and makes its ManagedTensor(Versioned).
void* export_dlpack(const LayoutRef&, bool versioned, bool read_only, std::shared_ptr<char> owners,
                    SourceLocation where);

template <Element T, int R>
Layout<R> imported(Exchanged x, std::shared_ptr<char>* owners, SourceLocation where) {
  static_assert(!std::is_same_v<T, tf32>, "DLPack has no tf32: exchange f32 and convert with cast<tf32>(t)");
  Layout<R> l;
  l.storage = import_dlpack(x, element_type<T>, l.dims, l.strides, owners, where);
  return l;
}
template <dlpack::Managed M, Element T, int R>
dlpack::Ptr<M> exported(const Layout<R>& l, bool read_only, std::shared_ptr<char> owners, SourceLocation where) {
  static_assert(!std::is_same_v<T, tf32>, "DLPack has no tf32: exchange f32 and convert with cast<f32>(t)");
  return dlpack::Ptr<M>(static_cast<M*>(
      export_dlpack(ref(l, element_type<T>), dlpack::Versioned<M>, read_only, std::move(owners), where)));
}

}  // namespace detail

/// A tensor over the memory of a DLPack tensor, which it takes over: the deleter is called once, when the last use of
/// the tensor, its views and the work on them has ended. Verified: layout version, element type, device, ndim, shape,
/// strides, byte_offset, alignment, and that no two elements share memory (ShapeError, DeviceError; BorrowError if it
/// is marked read-only or a tensor over the same memory exists, the library's own included, and of each export of
/// to_dlpack() one tensor is made). That host memory is as large as it says is the producer's word, as is that
/// `managed` has not been taken, and so may have been deleted, before. If it throws, nothing was taken and the caller
/// still owns `managed`. The elements must be there, or ordered before the work of the streams that will use them:
/// DLPack itself knows no streams. Of bool any byte but 0 is true to kernels, host() and cast; the memory keeps the
/// byte that is there.
template <Element T, int R, dlpack::Managed M>
[[nodiscard]] Tensor<T, R> from_dlpack(M* managed, SourceLocation where = SourceLocation::current()) {
  return detail::Reach::make<Tensor<T, R>>(detail::imported<T, R>(detail::exchanged(managed), nullptr, where));
}
template <Element T, int R, dlpack::Managed M>
[[nodiscard]] Tensor<T, R> from_dlpack(dlpack::Ptr<M>&& managed, SourceLocation where = SourceLocation::current()) {
  auto t = from_dlpack<T, R>(managed.get(), where);
  (void)managed.release();
  return t;
}

/// The same, read-only; tensors that are marked read-only too (try_unshare never makes those writable).
template <Element T, int R, dlpack::Managed M>
[[nodiscard]] Shared<T, R> shared_from_dlpack(M* managed, SourceLocation where = SourceLocation::current()) {
  auto owners = std::make_shared<char>();
  auto s = detail::Reach::make<Shared<T, R>>(detail::imported<T, R>(detail::exchanged(managed), &owners, where));
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

/// Hands a tensor to another library. Waits until the elements are there (and throws the failure that they carry).
/// Until the consumer calls the deleter the tensor counts as written by it: views that were kept give a BorrowError.
/// The deleter may be called while work of the consumer's on a GPU still uses the memory: it neither waits nor throws,
/// and the memory is used again only when everything that was enqueued on the GPU before has ended.
/// Throws BorrowError if the tensor is empty or in use by an operation that has not run yet; it is unchanged then.
template <dlpack::Managed M = dlpack::ManagedTensorVersioned, Element T, int R>
[[nodiscard]] dlpack::Ptr<M> to_dlpack(TESSERA_ARG_LIVE Tensor<T, R>&& tensor,
                                       SourceLocation where = SourceLocation::current()) {
  detail::Layout<R>& l = detail::Reach::layout(tensor);
  if (!l.storage) detail::throw_empty("Tensor", element_type<T>, R, where);
  auto p = detail::exported<M, T>(l, false, nullptr, where);
  l.storage.reset();
  return p;
}
/// The same for reading: marked read-only, which only the versioned form can say. Until the consumer calls the deleter
/// whoever writes the tensor gets a BorrowError.
template <dlpack::Versioned M = dlpack::ManagedTensorVersioned, Element T, int R>
[[nodiscard]] dlpack::Ptr<M> to_dlpack(const View<T, R>& view, SourceLocation where = SourceLocation::current()) {
  const detail::Layout<R>& l = detail::Reach::layout(view);
  if (!l.storage) detail::throw_empty("View", element_type<T>, R, where);
  return detail::exported<M, T>(l, true, nullptr, where);
}
template <dlpack::Versioned M = dlpack::ManagedTensorVersioned, Element T, int R>
[[nodiscard]] dlpack::Ptr<M> to_dlpack(const Shared<T, R>& shared, SourceLocation where = SourceLocation::current()) {
  const detail::Layout<R>& l = detail::Reach::layout(shared);
  if (!l.storage) detail::throw_empty("Shared", element_type<T>, R, where);
  return detail::exported<M, T>(l, true, detail::Reach::owners(shared), where);
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
