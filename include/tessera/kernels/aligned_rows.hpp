// Operands of products whose rows tensor copies cannot load, because they do not start at multiples of 16 bytes: a copy
// whose rows do. Loaded as they are, their elements go through registers one by one, and again for every tile of the
// other operand. When a copy pays: gemm_table.hpp, docs/kernels.md.
#pragma once
#include <utility>

#include "tessera/kernels/gemm_table.hpp"

namespace tessera::kernels {

/// Elements of x, in rows of y that are as long or longer; zeros beyond.
template <class T, int BM, int BN>
void align_rows(Mut<T, BM, BN> y, In<T, dyn, dyn> x) {
  auto [i, j] = y.index();
  y.store(x.tiles(shape<BM, BN>).load(i, j));
}
template <class T, int BM, int BN>
void align_rows_of_batch(Mut<T, 1, BM, BN> y, In<T, dyn, dyn, dyn> x) {
  auto [batch, i, j] = y.index();
  y.store(x.tiles(shape<1, BM, BN>).load(batch, i, j));
}

/// The matrices of x (its last two axes) with the two axes exchanged.
template <Element T, int R>
View<T, R> transposed_matrices(const View<T, R>& x) {
  if constexpr (R == 2)
    return x.template permute<1, 0>();
  else
    return x.template permute<0, 2, 1>();
}

/// A copy of x, whose last axis is contiguous, in rows of whole 64 bytes: what is beyond x in a row is zero.
template <Element T, int R>
Op<Tensor<T, R>> aligned_copy(const View<T, R>& x, SourceLocation where) {
  static_assert(R == 2 || R == 3);
  constexpr std::int64_t kRow = 64 / static_cast<std::int64_t>(sizeof(T));
  constexpr int BM = 16, BN = 256;
  const std::int64_t columns = ceil_div(x.dim(R - 1), kRow) * kRow;
  if constexpr (R == 2)
    return kernel<align_rows<T, BM, BN>>(empty<T>(Dims<2>({x.dim(0), columns}, where), where), x, where);
  else
    return kernel<align_rows_of_batch<T, BM, BN>>(empty<T>(Dims<3>({x.dim(0), x.dim(1), columns}, where), where), x,
                                                  where);
}

/// f(a, b), where an operand whose rows start anywhere is replaced by a view of an aligned copy. f returns the Op of
/// the product; the copies are enqueued before it, and live as long as it reads them. What f reads besides is leased by
/// the caller.
template <Element T, int R, class F>
auto with_aligned_rows(const View<T, R>& a, const View<T, R>& b, SourceLocation where, F f) -> decltype(f(a, b)) {
  // copied(x, next): next(view of the copy of x).
  const auto copied = [where](const View<T, R>& x, auto next) {
    const bool transposed = x.stride(R - 1) != 1 && x.stride(R - 2) == 1;
    const View<T, R> rows = transposed ? transposed_matrices(x) : x;
    return aligned_copy(rows, where)
        .then(
            [=](Tensor<T, R> made) {
              const View<T, R> same = made.view().template slice<R - 1>(0, rows.dim(R - 1));
              return next(transposed ? transposed_matrices(same) : same);
            },
            where);
  };
  if (row_starts(a) == RowStarts::Anywhere)
    return tessera::reading(
        copied(a, [=](const View<T, R>& aligned) { return with_aligned_rows(aligned, b, where, f); }), where, b);
  if (row_starts(b) == RowStarts::Anywhere)
    return tessera::reading(copied(b, [=](const View<T, R>& aligned) { return f(a, aligned); }), where, a);
  return f(a, b);
}

}  // namespace tessera::kernels
