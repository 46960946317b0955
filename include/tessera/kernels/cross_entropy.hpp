// Cross entropy of rows of logits with the classes that are wanted, and its gradient. The softmax is not stored.
//
//   auto [losses, lse] = kernels::cross_entropy(logits, targets, {.label_smoothing = 0.1f}).sync();
//   auto d_logits = kernels::cross_entropy_backward(d_losses, logits, targets, lse, {.label_smoothing = 0.1f}).sync();
//
// logits is [rows, classes], targets (i32 or i64) [rows]; losses, their gradients and lse are f32 [rows]. Sums are f32.
#pragma once
#include "tessera/kernels/softmax.hpp"

namespace tessera::kernels {

struct CrossEntropyOptions {
  std::int64_t ignore_index = -100;  ///< rows with this target have the loss 0 and no gradient
  float label_smoothing = 0;         ///< this share of the target is spread over all classes evenly
};

/// Rows are read once, in chunks of C elements. A target that is no class gives NaN.
template <bool Smooth, class T, class I, int C>
void cross_entropy_row(Mut<f32, 1> losses, Mut<f32, 1> lse, In<T, dyn, dyn> logits, In<I, dyn> targets,
                       Scalar<I> ignored, Scalar<f32> smoothing) {
  auto X = logits.tiles(shape<1, C>, pad::neg_inf);
  auto [row] = losses.index();
  auto n = logits.dim(1);
  LanesSoftmax<f32, C> seen;
  auto sums = zeros<f32, 1, C>();
  for (auto c : range(X.count(1))) {
    auto t = cast<f32>(X.load(row, c));
    seen.add(t);
    if constexpr (Smooth) sums = sums + where(iota<i32, 1, C>(axis<1>) + c * C < n, t, 0.0f);
  }
  auto top = seen.top();
  auto total = reshape(top + log(seen.total(top)), shape<1>);
  auto target = targets.load_like(losses);
  auto wanted = cast<f32>(logits.gather(full<i32, 1>(row), target));
  auto loss = total - wanted;
  if constexpr (Smooth)
    loss = total - (1.0f - smoothing) * wanted - smoothing * reshape(sum(sums, axis<1>), shape<1>) / cast<f32>(n);
  loss = where(target >= 0 && target < cast<I>(n), loss, std::numeric_limits<float>::quiet_NaN());
  losses.store(where(target == ignored, 0.0f, loss));
  lse.store(total);
}

/// Rows of at most C elements, several in a block.
template <bool Smooth, class T, class I, int R, int C>
void cross_entropy_rows(Mut<f32, R> losses, Mut<f32, R> lse, In<T, dyn, dyn> logits, In<I, dyn> targets,
                        Scalar<I> ignored, Scalar<f32> smoothing) {
  auto [block] = losses.index();
  auto n = logits.dim(1);
  auto t = cast<f32>(logits.tiles(shape<R, C>, pad::neg_inf).load(block, 0));
  auto top = max(max(t, axis<1>), full<f32, R, 1>(std::numeric_limits<f32>::lowest()));  // of -inf alone
  auto total = reshape(top + log(sum(exp(t - top), axis<1>)), shape<R>);
  auto target = targets.load_like(losses);
  auto wanted = cast<f32>(logits.gather(iota<i32, R>() + block * R, target));
  auto loss = total - wanted;
  if constexpr (Smooth) {
    auto sums = sum(where(iota<i32, 1, C>(axis<1>) < n, t, 0.0f), axis<1>);
    loss = total - (1.0f - smoothing) * wanted - smoothing * reshape(sums, shape<R>) / cast<f32>(n);
  }
  loss = where(target >= 0 && target < cast<I>(n), loss, std::numeric_limits<float>::quiet_NaN());
  losses.store(where(target == ignored, 0.0f, loss));
  lse.store(total);
}

template <bool Smooth, class T, class I, int C>
void cross_entropy_backward_chunk(Mut<T, 1, C> dx, In<f32, dyn> d_losses, In<T, dyn, dyn> logits, In<I, dyn> targets,
                                  In<f32, dyn> lse, Scalar<I> ignored, Scalar<f32> smoothing) {
  auto target = targets.load_like(dx, axes<0>);
  auto [row, chunk] = dx.index();
  auto g = where(target == ignored, 0.0f, d_losses.load_like(dx, axes<0>));
  g = where(target == ignored || (target >= 0 && target < cast<I>(logits.dim(1))), g,
            std::numeric_limits<float>::quiet_NaN());
  auto p = exp(cast<f32>(logits.load_like(dx)) - lse.load_like(dx, axes<0>));
  auto own = cast<I>(iota<i32, 1, C>(axis<1>) + chunk * C) == target;
  if constexpr (Smooth)
    p = p - smoothing / cast<f32>(logits.dim(1)) - where(own, 1.0f - smoothing, 0.0f);
  else
    p = p - where(own, 1.0f, 0.0f);
  dx.store(cast<T>(where(broadcast(target == ignored, shape<1, C>), 0.0f, g * p)));  // also where p is infinite
}

template <Operand X, Operand Y>
void check_cross_entropy(const char* name, const X& logits, const Y& targets, const CrossEntropyOptions& options,
                         SourceLocation where) {
  using I = element_of<Y>;
  static_assert(X::rank == 2 && Y::rank == 1, "logits are [rows, classes] and targets [rows]");
  static_assert(std::is_same_v<I, i32> || std::is_same_v<I, i64>, "targets are i32 or i64");
  expect_dim(name, "targets", targets, 0, logits.dim(0, where), where);
  expect_shape(logits.dim(1, where) >= 1, name, "logits", logits, "there is at least one class", where);
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1))
    throw ShapeError(std::string("kernels::") + name + ": label_smoothing is " +
                         std::to_string(options.label_smoothing) + ": it must be 0 to 1",
                     where);
  if (options.ignore_index < std::numeric_limits<I>::min() || options.ignore_index > std::numeric_limits<I>::max())
    throw ShapeError(std::string("kernels::") + name + ": ignore_index does not fit the type of the targets", where);
}

/// {losses, lse}, f32 [rows]: the loss of a row is lse - logits[target], with lse the logarithm of the sum of the
/// exponentials of the row, for the gradient. With a label smoothing s, (1 - s) of it and s of its mean over all
/// classes. The loss is 0 where the target is ignored, and NaN where it is no class. Throws ShapeError for extents and
/// options that do not fit.
template <Operand X, Operand Y>
Op<std::tuple<Tensor<f32, 1>, Tensor<f32, 1>>> cross_entropy(const X& logits, const Y& targets,
                                                             const CrossEntropyOptions& options = {},
                                                             SourceLocation where = SourceLocation::current()) {
  using I = element_of<Y>;
  check_cross_entropy("cross_entropy", logits, targets, options, where);
  const Dims<1> rows({logits.dim(0, where)}, where);
  const std::int64_t classes = logits.dim(1, where);
  const auto launch = with_constant<2>(options.label_smoothing != 0 ? 1 : 0, [&](auto smooth) {
    if (shares_block(rows[0], classes))
      return with_extent<kShortestSharedRow, kLongestSharedRow>(classes, [&](auto c) {
        return kernel<cross_entropy_rows<smooth == 1, element_of<X>, I, kSharedElements / c, c>>.launcher();
      });
    return with_extent<256, kRowChunk>(
        classes, [&](auto c) { return kernel<cross_entropy_row<smooth == 1, element_of<X>, I, c>>.launcher(); });
  });
  return launch(empty<f32>(rows, where), empty<f32>(rows, where), logits.view(where), targets.view(where),
                static_cast<I>(options.ignore_index), options.label_smoothing, where);
}
/// The gradient for the logits, for the gradients d_losses (f32 [rows]) of the losses; lse: as cross_entropy gave it
/// for the same operands and options. Throws ShapeError for extents and options that do not fit.
template <Operand G, Operand X, Operand Y, Operand L>
Op<Tensor<element_of<X>, 2>> cross_entropy_backward(const G& d_losses, const X& logits, const Y& targets, const L& lse,
                                                    const CrossEntropyOptions& options = {},
                                                    SourceLocation where = SourceLocation::current()) {
  using T = element_of<X>;
  using I = element_of<Y>;
  static_assert(
      std::is_same_v<element_of<G>, f32> && std::is_same_v<element_of<L>, f32> && G::rank == 1 && L::rank == 1,
      "d_losses and lse are f32 [rows]");
  check_cross_entropy("cross_entropy_backward", logits, targets, options, where);
  expect_dim("cross_entropy_backward", "d_losses", d_losses, 0, logits.dim(0, where), where);
  expect_dim("cross_entropy_backward", "lse", lse, 0, logits.dim(0, where), where);
  const auto launch = with_constant<2>(options.label_smoothing != 0 ? 1 : 0, [&](auto smooth) {
    return with_extent<256, kRowChunk>(logits.dim(1, where), [&](auto c) {
      return kernel<cross_entropy_backward_chunk<smooth == 1, T, I, c>>.launcher();
    });
  });
  return launch(empty<T>(logits.dims(where), where), d_losses.view(where), logits.view(where), targets.view(where),
                lse.view(where), static_cast<I>(options.ignore_index), options.label_smoothing, where);
}

}  // namespace tessera::kernels
