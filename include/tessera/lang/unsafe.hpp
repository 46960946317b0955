// Opting out: accesses without bounds, raw pointers, assumptions and overlapping pieces. A kernel has undefined
// behaviour only through what is declared here. On the host two more calls have duties that nothing checks: borrow()
// (the size of host memory, the lifetime of its owner) and from_dlpack() (finished elements, memory of the stated
// size).
#pragma once
#include "tessera/lang/in.hpp"
#include "tessera/lang/mut.hpp"
#include "tessera/lang/mut_tiles.hpp"

namespace tessera::unsafe_ {

/// A tile of pointers, or one pointer (no extents): a kernel parameter is a Ptr<T>. Addresses are not checked.
template <Element T, int... D>
class Ptr {
 public:
  explicit Ptr(ir::Value pointers) : pointers_(lang::Tracer::current().fresh(pointers)) {}
  ir::Value value() const { return lang::Tracer::current().read(pointers_); }

 private:
  lang::Var pointers_;
};

namespace detail {
template <class T, class Common>
struct PtrOf;
template <class T, int... D>
struct PtrOf<T, Shape<D...>> {
  using type = Ptr<T, D...>;
};
template <class T, int... D, class M>
ir::Value mask_value(const M& mask) {
  if constexpr (std::is_same_v<M, Tile<bool, D...>>) {
    return mask.value();
  } else {
    static_assert(tessera::detail::never<M>, "the mask must be a Tile<bool, ...> of the pointers' shape");
    return {};
  }
}
}  // namespace detail

/// Offsets in elements: an integer tile or number that broadcasts with the pointers.
template <Element T, int... D, class I>
  requires(tessera::detail::is_position<I>)
auto operator+(const Ptr<T, D...>& pointers, const I& offsets) {
  using Common = typename tessera::detail::Joint<Shape<D...>, typename tessera::detail::ShapeOf<I>::type>::type;
  static_assert(!std::is_void_v<Common>, "pointer + offsets: the shapes must broadcast to one shape");
  const SourceLocation loc = lang::Tracer::current().location();
  return typename detail::PtrOf<T, Common>::type(lang::raw_offset(
      pointers.value(), tessera::detail::position(offsets, loc), tessera::detail::IntsOf<Common>::span()));
}

/// Loads through pointers; where the mask is false nothing is read and the element is zero.
template <Element T, int... D>
Tile<T, D...> load(const Ptr<T, D...>& pointers, SourceLocation loc = SourceLocation::current()) {
  return Tile<T, D...>(lang::raw_load(pointers.value(), ir::Value{}, loc));
}
template <Element T, int... D, class M>
Tile<T, D...> load(const Ptr<T, D...>& pointers, const M& mask, SourceLocation loc = SourceLocation::current()) {
  return Tile<T, D...>(lang::raw_load(pointers.value(), detail::mask_value<T, D...>(mask), loc));
}
/// Stores through pointers; where the mask is false nothing is written. Accesses through raw pointers keep their order
/// in a block.
template <Element T, int... D>
void store(const Ptr<T, D...>& pointers, const Tile<T, D...>& value, SourceLocation loc = SourceLocation::current()) {
  lang::raw_store(pointers.value(), value.value(), {}, loc);
}
template <Element T, int... D, class M>
void store(const Ptr<T, D...>& pointers, const Tile<T, D...>& value, const M& mask,
           SourceLocation loc = SourceLocation::current()) {
  lang::raw_store(pointers.value(), value.value(), detail::mask_value<T, D...>(mask), loc);
}

// Assumptions: promises that the compiler relies on without checking.
struct DivBy {
  std::uint64_t divisor;
};
/// Every element is a multiple of `divisor`, a power of two.
constexpr DivBy div_by(std::uint64_t divisor) { return {divisor}; }
struct Bounded {
  std::int64_t lower, upper;
};
/// Every element lies in [lower, upper].
constexpr Bounded bounded(std::int64_t lower, std::int64_t upper) { return {lower, upper}; }

/// The value with the promise attached: use the result.
template <Element T, int... D>
[[nodiscard]] Tile<T, D...> assume(const Tile<T, D...>& value, DivBy promise,
                                   SourceLocation loc = SourceLocation::current()) {
  return Tile<T, D...>(lang::assume_divisible(value.value(), promise.divisor, loc));
}
template <Element T, int... D>
[[nodiscard]] Tile<T, D...> assume(const Tile<T, D...>& value, Bounded promise,
                                   SourceLocation loc = SourceLocation::current()) {
  return Tile<T, D...>(lang::assume_bounded(value.value(), promise.lower, promise.upper, loc));
}
template <Element T, int... D>
[[nodiscard]] Ptr<T, D...> assume(const Ptr<T, D...>& pointers, DivBy promise,
                                  SourceLocation loc = SourceLocation::current()) {
  return Ptr<T, D...>(lang::assume_divisible(pointers.value(), promise.divisor, loc));
}

// Accesses without bounds checks. The caller claims that every access through the result lies inside its tensor, whole
// tiles included: it is recorded without bounds check, mask and padding. If the claim is false, the kernel reads and
// writes memory outside the tensor. Checked mode checks the claim: it reports the first access that is not inside, with
// the kernel's line, and performs the safe access.
//
//   auto A = unsafe_::assume_inbounds(a.tiles(shape<BM, BK>));
//   void twin(Mut<f32, 128> y, In<f32, dyn> x) { safe(unsafe_::assume_inbounds(y), unsafe_::assume_inbounds(x)); }

namespace detail {
/// Objects whose references claim that accesses are in bounds.
class Promise {
 public:
  template <class Handle, class... A>
  static Handle inbounds(const Handle& handle, const A&... more) {
    auto ref = lang::HandleAccess::ref(handle);
    ref.inbounds_ = true;
    return lang::HandleAccess::make<Handle>(ref, more...);
  }
};
}  // namespace detail

/// A shared tensor: its tiles, load_like, load_at and gather.
template <Element T, int... E>
[[nodiscard]] In<T, E...> assume_inbounds(const In<T, E...>& tensor) {
  return detail::Promise::inbounds(tensor);
}
/// The tiles of one view of it.
template <Element T, int... D>
[[nodiscard]] TileGrid<T, D...> assume_inbounds(const TileGrid<T, D...>& tiles) {
  return detail::Promise::inbounds(tiles, tiles.padding());
}
/// A block's piece, and the pieces of a MutTiles: load, store and the tiles of sub(). A sub-tile outside the piece may
/// belong to another block: then it is a race.
template <Element T, int... D>
[[nodiscard]] tessera::Mut<T, D...> assume_inbounds(const tessera::Mut<T, D...>& piece) {
  return detail::Promise::inbounds(piece);
}
template <Element T, int... D>
[[nodiscard]] MutTiles<T, D...> assume_inbounds(const MutTiles<T, D...>& pieces) {
  return detail::Promise::inbounds(pieces);
}
template <Element T, int... D>
[[nodiscard]] Piece<T, D...> assume_inbounds(const Piece<T, D...>& piece) {
  return detail::Promise::inbounds(piece);
}

/// A Mut whose tensor may overlap with itself or with other arguments, and whose block may also access any other
/// region. The launch does not check it.
template <Element T, int... D>
class Mut : public Piece<T, D...> {
 public:
  /// The tile at element offsets in the whole tensor; elements outside read as padding.
  template <int... S>
  Tile<T, S...> load_at(Shape<S...>, tessera::detail::IndexFor<D>... start,
                        tessera::detail::Padding<T> padding = pad::zero,
                        SourceLocation loc = SourceLocation::current()) const {
    static_assert(sizeof...(S) == sizeof...(D), "load_at(shape<...>, ...) needs one extent per axis of the tensor");
    static constexpr int tile[] = {S...};
    const ir::Value at[] = {start.offset(loc)...};
    return Tile<T, S...>(lang::load_anywhere(lang::HandleAccess::ref(*this), tile, at, padding.spec(), loc));
  }
  /// Writes a tile at element offsets in the whole tensor; elements outside are not stored.
  template <int... S>
  void store_at(tessera::detail::IndexFor<D>... start, const Tile<T, S...>& tile,
                SourceLocation loc = SourceLocation::current()) {
    static_assert(sizeof...(S) == sizeof...(D), "store_at needs a tile of the tensor's rank");
    static constexpr int extents[] = {S...};
    const ir::Value at[] = {start.offset(loc)...};
    lang::store_anywhere(lang::HandleAccess::ref(*this), extents, at, tile.value(), loc);
  }

 private:
  friend class lang::HandleAccess;
  explicit Mut(lang::PieceRef piece) : Piece<T, D...>(piece) {}
};

}  // namespace tessera::unsafe_
