// Tensors and streams of other libraries: Stream::wait_for, record_read and record_write.
//
//   Stream theirs = Stream::wrap(at::cuda::getCurrentCUDAStream().stream(), Device::cuda(0));
//   theirs.wait_for(x);                // their work from now on finds x complete
//   launch_their_kernel(pointer_to_x); // on that stream
//   theirs.record_read(x);             // later writes of x, and its end, come behind that
#pragma once
#include "tessera/host/operand.hpp"

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
    if (l.storage->ownership() != Reach::ownership(x)) throw_stale_lend(what, where);
    return ref(l, element_type<T>);
  }
};

}  // namespace tessera::detail
