// The same elements with other extents, for operations and for extents from dims(): for code that works for any rank.
//
//   auto y = reshape(kernel<relu<128>>(empty<f32>({n}), reshape(x, Dims{n})), x.dims()).sync();
#pragma once
#include <memory>
#include <utility>

#include "tessera/host/op.hpp"

namespace tessera {

namespace detail {

template <Element T, int R, int N>
class ReshapeNode final : public OpNode<Tensor<T, N>> {
 public:
  /// Takes `first`.
  ReshapeNode(OwnedOp<OpNode<Tensor<T, R>>>& first, const Dims<N>& dims, SourceLocation where)
      : first_(std::move(first)), dims_(dims), where_(where) {}
  runtime::Backend* device() const noexcept override { return device_of(*first_); }
  bool promise(std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept override {
    for (std::size_t i = 0; i < N; ++i) dims[i] = dims_.array()[i];
    set_contiguous(dims, strides);
    return true;
  }
  Tensor<T, N> run(const Stream& stream) override {
    Tensor<T, R> made = run_node(*first_, stream);
    return Reach::make<Tensor<T, N>>(reshaped(std::move(Reach::layout(made)), element_type<T>, dims_, where_));
  }

 private:
  OwnedOp<OpNode<Tensor<T, R>>> first_;
  Dims<N> dims_;
  SourceLocation where_;
};

}  // namespace detail

/// A view of the same elements with other extents. Throws ShapeError unless it is contiguous and the numbers of
/// elements are equal.
template <Element T, int R, int N>
View<T, N> reshape(const View<T, R>& x, const Dims<N>& dims, SourceLocation where = SourceLocation::current()) {
  return detail::Reach::make<View<T, N>>(
      detail::reshaped(detail::Layout<R>(detail::Reach::layout(x.view(where))), element_type<T>, dims, where));
}
/// The same memory as a tensor of other extents; `x` is empty afterwards, and unchanged if this throws.
template <Element T, int R, int N>
[[nodiscard]] Tensor<T, N> reshape(TESSERA_ARG_LIVE Tensor<T, R>&& x, const Dims<N>& dims,
                                   SourceLocation where = SourceLocation::current()) {
  auto layout = detail::reshaped(detail::Layout<R>(detail::Reach::layout(x.view(where))), element_type<T>, dims, where);
  detail::Reach::layout(x).storage.reset();
  return detail::Reach::make<Tensor<T, N>>(std::move(layout));
}
/// The tensor that an operation makes, with other extents. Running it throws ShapeError unless that tensor is
/// contiguous and has as many elements.
template <Element T, int R, int N>
Op<Tensor<T, N>> reshape(Op<Tensor<T, R>>&& op, const Dims<N>& dims, SourceLocation where = SourceLocation::current()) {
  detail::Reach::check_live(op, where);
  return Op<Tensor<T, N>>(std::make_unique<detail::ReshapeNode<T, R, N>>(detail::Reach::node(op), dims, where));
}

}  // namespace tessera
