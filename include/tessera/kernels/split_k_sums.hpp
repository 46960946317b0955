// The second kernel of split-K: it adds the partials.
#pragma once
#include "tessera/kernels/epilogue.hpp"
#include "tessera/kernels/matmul_plan.hpp"

namespace tessera::kernels {

/// The first `Known` partials are loaded at once, any further ones one by one; they are added in order.
template <class E, int Known, class U, class S, int BM, int BN, class... P>
void sum_parts(Mut<U, BM, BN> c, In<S, dyn, dyn, dyn> parts, P... operands) {
  auto Parts = parts.tiles(shape<1, BM, BN>);
  auto [i, j] = c.index();
  auto acc = zeros<S, BM, BN>();
  for (int part = 0; part < Known; ++part) acc = acc + reshape(Parts.load(part, i, j), shape<BM, BN>);
  for (auto part : range(Known, parts.dim(0))) acc = acc + reshape(Parts.load(part, i, j), shape<BM, BN>);
  c.store(narrow<U>(E{}(acc, c, operands...)));
}

/// The sum of `count` partials of a tensor of `dims`, then the epilogue.
template <class C, class S, class E, class... P>
Op<Tensor<C, 2>> sum_parts_of(Op<Tensor<S, 3>> parts, const Dims<2>& dims, std::int64_t count,
                              const Fused<E, P...>& epilogue, SourceLocation where) {
  const int known = static_cast<int>(std::min<std::int64_t>(count, kMaxSplits));
  return with_constant<kMaxSplits>(known - 1, [&](auto last) {
    return std::apply(
        [&](const auto&... p) {
          return kernel<sum_parts<E, last + 1, C, S, 32, 64, epilogue_param<P>...>>(empty<C>(dims, where),
                                                                                    std::move(parts), p..., where);
        },
        epilogue.operands);
  });
}

}  // namespace tessera::kernels
