// Any function, element by element, of tensors of any rank. All elementwise kernels use it.
//
//   auto y = kernels::map([](auto x, auto a) { return exp(x) * a; }, x, 2.0f).sync();      // a new tensor
//   y = kernels::map_in_place(kernels::functions::Relu{}, std::move(y)).sync();
//
// The function is called with tiles of compute_t (f32 for 16-bit floats). Axes of 1 broadcast. If all tensors are
// contiguous and of equal extents they are processed as one axis; otherwise piece by piece along the last axis.
#pragma once
#include "tessera/kernels/map_plan.hpp"

namespace tessera::kernels {

template <class F, class Y, class... P>
void map_elements(Y y, P... operands) {
  y.store(narrow<typename Y::element>(F{}(operand_like(operands, y)...)));
}
template <class F, class Y, class... P>
void map_elements_in_place(Y y, P... operands) {
  y.store(narrow<typename Y::element>(F{}(widen(y.load()), operand_like(operands, y)...)));
}

/// Elements of a piece, for a GPU and for the CPU.
inline constexpr int kMapPiece[] = {1024, 8192};
inline int map_heuristic(const Target& target) { return target.gpu ? 0 : 1; }

/// f of the operands (tensors and numbers, at least one tensor first), as a tensor of U.
template <class U, class F, Operand X, class... A>
Op<Tensor<U, X::rank>> map_to(F, SourceLocation where, const X& x, const A&... rest) {
  constexpr int R = X::rank;
  using C = compute_t<element_of<X>>;
  const MapPlan<R> plan = plan_map("map", where, x, rest...);
  return with_constant<2>(map_heuristic(target_of(x.device(where))), [&](auto row) {
    constexpr int B = kMapPiece[row];
    if (plan.flat) {
      const Dims<1> line(plan.size, where);
      return tessera::reshape(kernel<map_elements<F, Mut<U, B>, map_param<C, 1, X>, map_param<C, 1, A>...>>(
                                  empty<U>(line, where), flat(x, line, where), flat(rest, line, where)..., where),
                              plan.dims, where);
    } else {
      using Y = typename RowPiece<U, R, kMapPiece[0]>::type;
      return kernel<map_elements<F, Y, map_param<C, R, X>, map_param<C, R, A>...>>(
          empty<U>(plan.dims, where), as_is(x, where), as_is(rest, where)..., where);
    }
  });
}
/// f of x and the other operands in x's own memory. x is unchanged if this throws.
template <class F, Element T, int R, class... A>
Op<Tensor<T, R>> map_onto(F, SourceLocation where, Tensor<T, R>&& x, const A&... rest) {
  using C = compute_t<T>;
  const View<T, R> self = x.view(where);
  const MapPlan<R> plan = plan_map("map_in_place", where, self, rest...);
  expect_shape(plan.dims == self.dims(where), "map_in_place", "1", self, "the other arguments may not be longer",
               where);
  if (!plan.flat) {
    using Y = typename RowPiece<T, R, kMapPiece[0]>::type;
    return kernel<map_elements_in_place<F, Y, map_param<C, R, A>...>>(std::move(x), as_is(rest, where)..., where);
  }
  return with_constant<2>(map_heuristic(target_of(self.device(where))), [&](auto row) {
    const Dims<1> line(plan.size, where);
    // Before x is moved: x may be among the operands, which the launch reports.
    const std::tuple operands{flat(rest, line, where)...};
    Tensor<T, 1> given = tessera::reshape(std::move(x), line, where);
    try {
      return std::apply(
          [&](const auto&... operand) {
            return tessera::reshape(kernel<map_elements_in_place<F, Mut<T, kMapPiece[row]>, map_param<C, 1, A>...>>(
                                        std::move(given), operand..., where),
                                    plan.dims, where);
          },
          operands);
    } catch (...) {
      x = tessera::reshape(std::move(given), plan.dims, where);
      throw;
    }
  });
}

}  // namespace tessera::kernels
