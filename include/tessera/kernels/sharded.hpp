// Products of tensors over a mesh, after Megatron-LM's splits (Shoeybi et al. 2019, section 3): weights by rows give
// columns of the result, columns times columns give summands.
//
//   Sharded<bf16, 2, 1> h = kernels::linear(x, w).sync();   // x replicated, w split by its rows
//   Partial<bf16, 2> p = kernels::linear(h, v).sync();      // both split along k: one summand on each rank
#pragma once
#include <utility>
#include <vector>

#include "tessera/kernels/linear.hpp"
#include "tessera/mesh/placement.hpp"

namespace tessera::kernels {

/// linear() on each rank, of the ranks' parts.
template <class Result, class U, class X, class W>
Op<Result> linear_of_ranks(const X& x, const W& w, SourceLocation where) {
  const Mesh& mesh = x.mesh(where);
  tessera::detail::check_same_mesh(mesh, w.mesh(where), "linear", where);
  std::vector<Op<Tensor<typename Result::element, 2>>> each;
  for (int i = 0; i < mesh.local_ranks(); ++i) {
    const int rank = mesh.first_rank() + i;
    each.push_back(linear<U>(x.part(rank, where), w.part(rank, where), Fused<epilogues::Plain>{}, {}, where));
  }
  return tessera::detail::each_rank<Result>(mesh, std::move(each), where);
}

/// x w^T: [m, k] times weights of [n, k], of which each rank has rows: each rank has those columns of the result.
template <class U = void, Element T>
Op<Sharded<product_t<U, T>, 2, 1>> linear(const Replicated<T, 2>& x, const Sharded<T, 2, 0>& w,
                                          SourceLocation where = SourceLocation::current()) {
  return linear_of_ranks<Sharded<product_t<U, T>, 2, 1>, U>(x, w, where);
}
/// Both split along k: each rank has one summand of the result.
template <class U = void, Element T>
Op<Partial<product_t<U, T>, 2>> linear(const Sharded<T, 2, 1>& x, const Sharded<T, 2, 1>& w,
                                       SourceLocation where = SourceLocation::current()) {
  return linear_of_ranks<Partial<product_t<U, T>, 2>, U>(x, w, where);
}
/// Rows of x on each rank, whole weights: rows of the result.
template <class U = void, Element T>
Op<Sharded<product_t<U, T>, 2, 0>> linear(const Sharded<T, 2, 0>& x, const Replicated<T, 2>& w,
                                          SourceLocation where = SourceLocation::current()) {
  return linear_of_ranks<Sharded<product_t<U, T>, 2, 0>, U>(x, w, where);
}
/// Each rank computes the whole product, equally.
template <class U = void, Element T>
Op<Replicated<product_t<U, T>, 2>> linear(const Replicated<T, 2>& x, const Replicated<T, 2>& w,
                                          SourceLocation where = SourceLocation::current()) {
  return linear_of_ranks<Replicated<product_t<U, T>, 2>, U>(x, w, where);
}

/// Explains which splits go together.
template <class U = void, class X, class W>
  requires(tessera::detail::is_placed<X> || tessera::detail::is_placed<W>)
Op<Replicated<f32, 2>> linear(const X&, const W&, SourceLocation where = SourceLocation::current()) {
  static_assert(
      tessera::detail::never_true<X>,
      "linear over a mesh takes a Replicated x and weights split by rows (axis 0), x and weights that are both "
      "split along k (axis 1), or x split by rows (axis 0) and Replicated weights, all of one element type");
  return tessera::detail::each_rank<Replicated<f32, 2>>(Mesh::cpu(1), {}, where);
}

}  // namespace tessera::kernels
