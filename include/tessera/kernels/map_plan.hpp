// How an elementwise kernel iterates over its operands, and its parameter for each: tensors and numbers.
#pragma once
#include <algorithm>

#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

/// The kernel parameter for an operand: In<T, dyn...> of rank R, or a Scalar of the type that is computed in.
template <class C, int R, class A>
struct MapParam {
  using type = Scalar<C>;
};
template <class C, int R, Operand A>
struct MapParam<C, R, A> {
  using type = typename DynamicIn<element_of<A>, R>::type;
};
template <class C, int R, class A>
using map_param = typename MapParam<C, R, A>::type;

template <class T, int... E, class Y>
auto operand_like(const In<T, E...>& x, const Y& y) {
  return widen(x.load_like(y));
}
template <class T, class Y>
Scalar<T> operand_like(const Scalar<T>& x, const Y&) {
  return x;
}

/// An operand as the kernel's argument, flattened to one axis or as it is.
template <Operand A>
auto flat(const A& a, const Dims<1>& line, SourceLocation where) {
  return tessera::reshape(a.view(where), line, where);
}
template <HostNumber A>
A flat(const A& a, const Dims<1>&, SourceLocation) {
  return a;
}
template <Operand A>
auto as_is(const A& a, SourceLocation where) {
  return a.view(where);
}
template <HostNumber A>
A as_is(const A& a, SourceLocation) {
  return a;
}

template <int R>
struct MapPlan {
  Dims<R> dims;  ///< the result's extents
  std::int64_t size = 0;
  bool flat = true;  ///< all tensors are contiguous and have the result's extents
};

/// The common extents of the operands; ShapeError that names the argument's number if they do not fit.
template <Operand X, class... A>
MapPlan<X::rank> plan_map(const char* kernel, SourceLocation where, const X& x, const A&... rest) {
  constexpr int R = X::rank;
  std::array<std::int64_t, R> common = x.dims(where).array();
  int number = 1;
  [[maybe_unused]] const auto join = [&]<class B>(const B& b) {
    ++number;
    if constexpr (Operand<B>) {
      static_assert(B::rank == R, "the tensors of an elementwise kernel must have one rank: reshape one, as in {1, n}");
      for (std::size_t i = 0; i < R; ++i) {
        const std::int64_t d = b.dims(where).array()[i];
        if (d != common[i] && d != 1 && common[i] != 1)
          wrong_shape(kernel, std::to_string(number).c_str(), b.dims(where).to_string(),
                      "each axis must be as long as the other arguments', or 1: " + Dims<R>::from(common).to_string(),
                      where);
        if (common[i] == 1) common[i] = d;
      }
    }
  };
  (join(rest), ...);
  MapPlan<R> plan{Dims<R>::from(common, where), 0, true};
  plan.size = plan.dims.numel(where);
  [[maybe_unused]] const auto look = [&]<class B>(const B& b) {
    if constexpr (Operand<B>) plan.flat = plan.flat && b.dims(where) == plan.dims && b.contiguous(where);
  };
  look(x);
  (look(rest), ...);
  plan.flat = plan.flat && plan.size <= kMaxExtent;
  return plan;
}

}  // namespace tessera::kernels
