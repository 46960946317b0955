// Reductions along the last axis, and of whole tensors: sum, mean, max, min.
//
//   auto s = kernels::row_sum(x).sync();     // [rows, n] -> [rows]; any rank
//   auto t = kernels::sum_all(x).sync();     // one element
//
// 16-bit floats are summed in f32 and give f32. Integers (and bool) are summed in 64 bits, exactly as long as that is
// enough (for elements of 64 bits: modulo 2^64): a sum is i64 or u64, a mean has the elements' type and is rounded
// toward zero. Few long rows are split into parts, as whole tensors are. The order of a sum depends on the shape and
// the number of SMs alone. A NaN makes a sum NaN; max and min ignore it; of NaN alone they are -infinity and infinity.
#pragma once
#include "tessera/kernels/reductions.hpp"
#include "tessera/kernels/row_parts.hpp"

namespace tessera::kernels {

template <class F, class T>
using lane_of = typename F::template Types<T>::lane;
template <class F, class T>
using across_of = typename F::template Types<T>::across;
template <class F, class T>
using result_of = typename F::template Types<T>::result;

template <class F, class T, class R, int B, int C>
void reduce_rows(Mut<R, B> y, In<T, dyn, dyn> x, Scalar<across_of<F, T>> count) {
  using U = lane_of<F, T>;
  auto X = x.tiles(shape<B, C>, F::template padding<T>());
  auto [block] = y.index();
  auto acc = full<U, B, C>(F::template identity<U>());
  for (auto c : range(X.count(1))) acc = F::combine(acc, narrow<U>(X.load(block, c)));
  auto result = F::finish(F::across(narrow<across_of<F, T>>(acc)), count);
  y.store(narrow<R>(reshape(result, shape<B>)));
}
/// The result of a part of a row, before it is finished: [rows, parts].
template <class F, class T, int C>
void reduce_part(Mut<across_of<F, T>, 1, 1> y, In<T, dyn, dyn> x, Scalar<i32> steps) {
  using U = lane_of<F, T>;
  auto X = x.tiles(shape<1, C>, F::template padding<T>());
  auto [row, part] = y.index();
  auto acc = full<U, 1, C>(F::template identity<U>());
  for (auto c : steps_of_row_part(part, steps, X.count(1))) acc = F::combine(acc, narrow<U>(X.load(row, c)));
  y.store(F::across(narrow<across_of<F, T>>(acc)));
}
/// Partial results of a flattened tensor, one per block.
template <class F, class T, int C>
void reduce_line(Mut<across_of<F, T>, 1, 1> y, In<T, dyn> x) {
  using U = lane_of<F, T>;
  auto X = x.tiles(shape<C>, F::template padding<T>());
  auto [zero, block] = y.index();
  auto acc = full<U, 1, C>(F::template identity<U>());
  for (auto c : range(block, X.count(0), y.dim(1))) acc = F::combine(acc, reshape(narrow<U>(X.load(c)), shape<1, C>));
  y.store(F::across(narrow<across_of<F, T>>(acc)));
}

template <class F, Element T>
Op<Tensor<result_of<F, T>, 1>> reduced_in_parts(const RowSplit& split, const View<T, 2>& x, SourceLocation where) {
  using U = across_of<F, T>;
  using R = result_of<F, T>;
  auto partial = kernel<reduce_part<F, T, kPartChunk<T>>>(empty<U>(Dims<2>({x.dim(0), split.parts}, where), where), x,
                                                          split.steps, where);
  return kernel<reduce_rows<F, U, R, 1, kRowPartsLimit>>(empty<R>(Dims<1>(x.dim(0), where), where), std::move(partial),
                                                         static_cast<U>(x.dim(1)), where);
}
template <class F, Operand X>
auto rows_reduced(const X& x, RowParts parts, SourceLocation where) {
  using T = element_of<X>;
  using R = result_of<F, T>;
  const View<T, 2> rows = rows_of(x, where);
  const std::int64_t n = rows.dim(1);
  if constexpr (!F::empty_ok) expect_shape(n > 0, F::name, "x", x, "a row needs an element", where);
  const RowSplit split = chosen_split(F::name, rows, parts, reducing(sizeof(T)), where);
  const auto run = [&]() -> Op<Tensor<R, 1>> {
    if (split.parts > 1) return reduced_in_parts<F>(split, rows, where);
    const auto launch = with_extent<kShortestTile, kLongestTile>(n, [](auto c) {
      constexpr int B = c >= 2048 ? 1 : 2048 / c;  // short rows share a block: 2048 elements in flight
      return kernel<reduce_rows<F, T, R, B, c>>.launcher();
    });
    return launch(empty<R>(Dims<1>(rows.dim(0), where), where), rows, static_cast<across_of<F, T>>(n), where);
  };
  return as_rows_of(run(), x, where);
}
template <class F, Operand X>
Op<Tensor<result_of<F, element_of<X>>, 1>> all_reduced(const X& x, SourceLocation where) {
  using T = element_of<X>;
  using U = across_of<F, T>;
  using R = result_of<F, T>;
  const std::int64_t n = x.size(where), tiles = ceil_div(n, std::int64_t{kRowChunk});
  if constexpr (!F::empty_ok) expect_shape(n > 0, F::name, "x", x, "it needs an element", where);
  const Target target = target_of(x.device(where));
  const std::int64_t parts =
      std::max<std::int64_t>(1, std::min<std::int64_t>(tiles, target.gpu ? 8 * target.num_sms : 64));
  auto partial = kernel<reduce_line<F, T, kRowChunk>>(empty<U>(Dims<2>({1, parts}, where), where),
                                                      tessera::reshape(x.view(where), Dims<1>(n, where), where), where);
  return kernel<reduce_rows<F, U, R, 1, 2048>>(empty<R>(Dims<1>(1, where), where), std::move(partial),
                                               static_cast<U>(n), where);
}

#define TESSERA_REDUCTION(name, Function)                                                              \
  template <Operand X>                                                                                 \
  auto row_##name(const X& x, RowParts parts = {}, SourceLocation where = SourceLocation::current()) { \
    return rows_reduced<reductions::Function>(x, parts, where);                                        \
  }                                                                                                    \
  template <Operand X>                                                                                 \
  auto name##_all(const X& x, SourceLocation where = SourceLocation::current()) {                      \
    return all_reduced<reductions::Function>(x, where);                                                \
  }
TESSERA_REDUCTION(sum, Sum)
TESSERA_REDUCTION(mean, Mean)
TESSERA_REDUCTION(max, Max)
TESSERA_REDUCTION(min, Min)
#undef TESSERA_REDUCTION

}  // namespace tessera::kernels
