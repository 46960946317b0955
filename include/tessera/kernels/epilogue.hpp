// Epilogues: what a product does with a finished tile before it is stored. An epilogue is any function of the
// accumulator, the piece of the output that it is stored to, and further operands.
//
//   gemm(a, b, bias(v));                     // a b + v, one element of v per column
//   gemm(a, b, bias_then<functions::Silu>(v));
//   gemm(a, b, residual(r));                 // a b + r
//   gemm(a, b, scaled(row_scales, column_scales));   // of quantised operands
//   gemm(a, b, fuse([](auto acc, auto, auto scale) { return acc * scale; }, 0.5f));
#pragma once
#include <tuple>

#include "tessera/kernels/functions.hpp"
#include "tessera/kernels/gemm_table.hpp"
#include "tessera/kernels/map_plan.hpp"

namespace tessera::kernels {

/// A function class E and the operands (views and numbers) that it takes besides the accumulator and the piece.
template <class E, class... P>
struct Fused {
  std::tuple<P...> operands;
};

/// A view of a tensor; a number as it is. An empty tensor becomes an empty view; the product reports it, with its
/// caller's line.
template <class A>
auto held(const A& a) {
  if constexpr (Operand<A>) {
    try {
      return a.view();
    } catch (const BorrowError&) { return decltype(a.view()){}; }
  } else {
    return a;
  }
}
template <class A>
using held_t = decltype(held(std::declval<const A&>()));
/// The kernel parameter for an operand of an epilogue: In<T, dyn...>, or Scalar<f32>.
template <class A>
struct EpilogueParam {
  using type = Scalar<f32>;
};
template <Operand A>
struct EpilogueParam<A> {
  using type = typename DynamicIn<element_of<A>, A::rank>::type;
};
template <class A>
using epilogue_param = typename EpilogueParam<A>::type;

template <class E, class... A>
Fused<E, held_t<A>...> fuse(E, const A&... operands) {
  return {{held(operands)...}};
}

namespace epilogues {
struct Plain {
  auto operator()(const auto& acc, const auto&) const { return acc; }
};
template <class Function>
struct Then {
  auto operator()(const auto& acc, const auto&) const { return Function{}(acc); }
};
/// Function(acc + bias): one element of bias per column of the output.
template <class Function>
struct BiasThen {
  template <class T, int... D>
  auto operator()(const Tile<T, D...>& acc, const auto& out, const auto& v) const {
    if constexpr (std::remove_cvref_t<decltype(v)>::rank == 2)  // columns in groups: of a convolution
      return Function{}(acc + narrow<T>(v.load_like(out, axes<sizeof...(D) - 2, sizeof...(D) - 1>)));
    else
      return Function{}(acc + narrow<T>(v.load_like(out, axes<sizeof...(D) - 1>)));
  }
  template <int R>
  static void check(const Dims<R>& out, const char* kernel, SourceLocation where, const auto& v) {
    expect_dim(kernel, "bias", v, 0, out[R - 1], where);
  }
};
struct Residual {
  template <class T, int... D>
  auto operator()(const Tile<T, D...>& acc, const auto& out, const auto& r) const {
    return acc + narrow<T>(r.load_like(out));
  }
  template <int R, Operand V>
  static void check(const Dims<R>& out, const char* kernel, SourceLocation where, const V& r) {
    static_assert(V::rank == R, "a residual has as many axes as the result");
    for (int axis = 0; axis < R; ++axis) {
      if (R == 3 && axis == 0 && r.dim(0, where) == 1) continue;  // one for the whole batch
      expect_dim(kernel, "residual", r, axis, out[axis], where);
    }
  }
};
/// acc times one factor per row and one per column, in f32.
struct Scaled {
  template <class T, int... D>
  auto operator()(const Tile<T, D...>& acc, const auto& out, const auto& by_row, const auto& by_column) const {
    constexpr int r = sizeof...(D);
    return cast<f32>(acc) * by_row.load_like(out, axes<r - 2>) * by_column.load_like(out, axes<r - 1>);
  }
  template <int R>
  static void check(const Dims<R>& out, const char* kernel, SourceLocation where, const auto& by_row,
                    const auto& by_column) {
    expect_dim(kernel, "row_scales", by_row, 0, out[R - 2], where);
    expect_dim(kernel, "column_scales", by_column, 0, out[R - 1], where);
  }
};
}  // namespace epilogues

template <Operand V>
auto bias(const V& v) {
  return fuse(epilogues::BiasThen<functions::Identity>{}, v);
}
template <class Function, Operand V>
auto bias_then(const V& v) {
  return fuse(epilogues::BiasThen<Function>{}, v);
}
template <class Function>
auto then() {
  return fuse(epilogues::Then<Function>{});
}
template <Operand V>
auto residual(const V& r) {
  return fuse(epilogues::Residual{}, r);
}
template <Operand V, Operand W>
auto scaled(const V& row_scales, const W& column_scales) {
  return fuse(epilogues::Scaled{}, row_scales, column_scales);
}

/// True for views of so many axes.
template <int Rank, class V>
consteval bool has_rank() {
  if constexpr (requires { V::rank; })
    return V::rank == Rank;
  else
    return false;
}
/// What the epilogue of a result of this rank does. It loads a tile if an operand has as many axes as the result.
template <int Rank, class E, class... P>
constexpr EpilogueWork epilogue_work(const Fused<E, P...>&) {
  if ((has_rank<Rank, P>() || ...)) return EpilogueWork::LoadsTile;
  return std::is_same_v<E, epilogues::Plain> ? EpilogueWork::None : EpilogueWork::Computes;
}

template <class T, class V>
Op<T> reading_operand(Op<T> op, const V& v, SourceLocation where) {
  if constexpr (Operand<V>)
    return tessera::reading(std::move(op), where, v);
  else
    return op;
}
/// An operation that does what `op` does, and leases the tensors of the epilogue from now on: where a function of
/// then() launches the kernel with the epilogue, nothing else leases them before that.
template <class T, class E, class... P>
Op<T> reading_operands(Op<T> op, const Fused<E, P...>& epilogue, SourceLocation where) {
  std::apply([&](const auto&... p) { ((op = reading_operand(std::move(op), p, where)), ...); }, epilogue.operands);
  return op;
}

/// Throws ShapeError if an operand of the epilogue does not fit an output of these extents. Operands of a caller's own
/// function are checked by the launch.
template <class E, int R, class... P>
void check_epilogue(const Fused<E, P...>& e, const char* kernel, const Dims<R>& out, SourceLocation where) {
  std::apply(
      [&](const auto&... p) {
        if constexpr (requires { E::check(out, kernel, where, p...); }) E::check(out, kernel, where, p...);
      },
      e.operands);
}

}  // namespace tessera::kernels
