// Mut<T, extents...>: a kernel parameter, the block's own piece of a tensor that the launch owns or borrows
// exclusively. There is one block per piece.
#pragma once
#include "tessera/lang/parts.hpp"

namespace tessera {

template <Element T, int... D>
class Mut : public detail::PieceOf<T, D...> {
  using Base = detail::PieceOf<T, D...>;

 public:
  using Base::store;
  template <class X, class... More>
    requires(sizeof...(More) > 0 && !(std::is_same_v<More, SourceLocation> && ...))
  void store(const X&, const More&...) {
    static_assert(
        detail::never<X>,
        "a Mut can only store its own piece: y.store(tile), without an index. Use y.sub(shape<...>) for parts of the "
        "piece, or MutTiles to store several");
  }

 private:
  friend class lang::HandleAccess;
  explicit Mut(lang::PieceRef piece) : Base(piece) {}
};

}  // namespace tessera
