// Misuse of handles: queries and views of Tensor, View and Shared, changes of owner, lends.
#include "misuse/misuse.hpp"
#include "tessera/host/transfer.hpp"

namespace tessera {
namespace {

using misuse::Outcome;

// The queries of all three handles are one implementation, repeated for Tensor.
#define QUERIES(Handle, handle)                                                                           \
  LOOKS(Handle##Dims, #Handle "::dims", (handle).dims().to_string())                                      \
  LOOKS(Handle##Dim, #Handle "::dim", (handle).dim(c.axis(1, 2)))                                         \
  LOOKS(Handle##Stride, #Handle "::stride", (handle).stride(c.axis(1, 2)) > 0)                            \
  LOOKS(Handle##Size, #Handle "::size", (handle).size())                                                  \
  LOOKS(Handle##Contiguous, #Handle "::contiguous", (handle).contiguous() ? "yes or no" : "yes or no")    \
  LOOKS(Handle##Device, #Handle "::device", (handle).device().name())                                     \
  MISUSE(Handle##View, #Handle "::view") { c.result((handle).view()); }                                   \
  MISUSE(Handle##Slice, #Handle "::slice") { c.result((handle).slice<1>(c.bound(1, 6), c.bound(4, 6))); } \
  MISUSE(Handle##Permute, #Handle "::permute") { c.result((handle).permute<1, 0>()); }                    \
  MISUSE(Handle##Reshape, #Handle "::reshape") {                                                          \
    c.elements_apart(Outcome::Rejected);                                                                  \
    c.result((handle).reshape({c.extent(3), c.extent(8)}));                                               \
  }
#define LOOKS(name, entry, value) \
  MISUSE(name, entry) {           \
    c.looks_only();               \
    c.result(value);              \
  }
QUERIES(Tensor, (c.in<f32, 2>({4, 6})))
QUERIES(View, (c.view<f32, 2>({4, 6})))
QUERIES(Shared, (c.shared<f32, 2>({4, 6})))

MISUSE(TensorReshapeGiven, "Tensor::reshape") {
  auto& t = c.given<f32, 2>({4, 6});
  c.result(std::move(t).reshape({c.extent(24)}));
}
MISUSE(ReshapeView, "reshape") {
  c.elements_apart(Outcome::Rejected);
  c.result(reshape(c.view<f32, 2>({4, 6}), Dims{8, 3}));
}
MISUSE(ReshapeTensor, "reshape") { c.result(reshape(std::move(c.given<f32, 2>({4, 6})), Dims{8, 3})); }
MISUSE(ReshapeOp, "reshape") { c.result(reshape(c.op<f32, 2>({4, 6}), Dims{8, 3}).sync()); }

MISUSE(Windows, "windows") {
  c.elements_apart(Outcome::Rejected);
  c.result(windows(c.view<f32, 2>({2, 3}), Dims(4, 3), {1, 1}));
}

MISUSE(Share, "share") { c.result(share(std::move(c.given<f32, 1>({5})))); }
MISUSE(TryUnshare, "try_unshare") {
  auto back = try_unshare(c.shared<f32, 1>({5}));
  c.result(back.value().view());
}

MISUSE(Mut, "mut") {
  auto& t = c.out<f32, 1>({5});
  copy_into(mut(t), full<f32>(t.dims(), 3)).sync();
  c.result(t);
}
MISUSE(LendSlice, "Lend::slice") {
  auto& t = c.out<f32, 2>({4, 6});
  copy_into(mut(t).slice<0>(c.bound(1, 4), c.bound(3, 4)), full<f32>({2, 6}, 3)).sync();
  c.result(t);
}
MISUSE(LendPermute, "Lend::permute") {
  auto& t = c.out<f32, 2>({4, 6});
  copy_into(mut(t).permute<1, 0>(), c.view<f32, 2>({6, 4})).sync();
  c.result(t);
}

}  // namespace
}  // namespace tessera
