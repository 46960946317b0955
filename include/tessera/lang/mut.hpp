// Mut<T, extents...>: a kernel parameter, the block's own piece of a tensor that the launch owns or borrows
// exclusively. There is one block per piece.
#pragma once
#include "tessera/lang/piece.hpp"

namespace tessera {

template <Element T, int... D>
class Mut : public Piece<T, D...> {
 public:
  using Piece<T, D...>::Piece;
};

}  // namespace tessera
