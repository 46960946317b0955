// Rows of a table by index: y[i] = table[ids[i]]. An index outside the table gives a row of zeros.
//
//   auto h = kernels::embedding(table, ids).sync();      // [vocabulary, d], [tokens] -> [tokens, d]
#pragma once
#include "tessera/kernels/common.hpp"

namespace tessera::kernels {

template <class T, int B>
void gather_row(Mut<T, 1, B> y, In<T, dyn, dyn> table, In<i32, dyn> ids) {
  require(y.dim(1) == table.dim(1), "y's rows are as long as the table's");
  auto [i, part] = y.index();
  auto id = ids.gather(i);
  auto row = table.tiles(shape<1, B>).load(clamp(id, 0, table.dim(0) - 1), part);
  y.store(where(id >= 0 && id < table.dim(0), row, zeros<T, 1, B>()));
}

template <Operand E, Operand I>
Op<Tensor<element_of<E>, 2>> embedding(const E& table, const I& ids, SourceLocation where = SourceLocation::current()) {
  static_assert(E::rank == 2, "the table is a matrix: one row for each number");
  static_assert(std::is_same_v<element_of<I>, i32> && I::rank == 1, "ids must be i32 of rank 1");
  using T = element_of<E>;
  const Dims<2> dims({ids.dim(0, where), table.dim(1, where)}, where);
  const auto launch = with_extent<64, 2048>(dims[1], [](auto b) { return kernel<gather_row<T, b>>.launcher(); });
  return launch(empty<T>(dims, where), table.view(where), ids.view(where), where);
}

}  // namespace tessera::kernels
