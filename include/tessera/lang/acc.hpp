// Acc<T, extents...>: a kernel parameter, a shared tensor that blocks can only update, atomically, by sums, extremes
// and bit operations. It cannot be read in the kernel, so no order can be observed: integer results do not depend on
// it, floating-point sums round in any order.
//
// Acc<reproducible<f32>, extents...>: sums that are exact until rounded<f32>() on the host rounds them, once, so that
// they have the same bits whatever the grid, the order and the number of devices.
#pragma once
#include "tessera/lang/gather.hpp"

namespace tessera {

namespace detail {

template <class T, lang::AccOp Op>
struct AccCheck {
  static constexpr bool wide_int =
      std::is_same_v<T, i32> || std::is_same_v<T, i64> || std::is_same_v<T, u32> || std::is_same_v<T, u64>;
  static constexpr bool addable =
      std::is_same_v<T, f64> || std::is_same_v<T, f32> || std::is_same_v<T, f16> || std::is_same_v<T, bf16>;
  static_assert(Op != lang::AccOp::Add || wide_int || addable,
                "Acc::add works on i32, i64, u32, u64, f16, bf16, f32 and f64: the hardware has no narrower atomics");
  static constexpr bool extreme = Op == lang::AccOp::Max || Op == lang::AccOp::Min;
  static constexpr bool ordered = wide_int || std::is_same_v<T, f64> || std::is_same_v<T, f32>;
  static_assert(!extreme || ordered, "Acc::max and min work on i32, i64, u32, u64, f32 and f64");
  static_assert(Op == lang::AccOp::Add || extreme || wide_int,
                "Acc::bit_and, bit_or and bit_xor work on i32, i64, u32 and u64");
  static constexpr bool ok = Op == lang::AccOp::Add ? wide_int || addable : extreme ? ordered : wide_int;
};

/// The value of an accumulation: a tile or a number, of the tensor's element type.
template <class T, class V>
struct AccValueCheck {
  static_assert(!is_tile<V> || std::is_same_v<T, typename ElementOfTile<V>::type>,
                "the value's element type differs from the Acc's: convert it with cast<T>(tile)");
  static constexpr bool ok = !is_tile<V> || std::is_same_v<T, typename ElementOfTile<V>::type>;
};
template <class Common>
struct AccShapeCheck {
  static_assert(!std::is_void_v<Common>, "the index tiles and the value must broadcast to one shape");
  static constexpr bool ok = !std::is_void_v<Common>;
};

/// What an accumulation returns: nothing. It has a type so that a use of the old value can be explained.
struct NoOldValue {};
template <class X>
struct ExplainOldValue {
  static_assert(
      never<X>,
      "count first and add the counts of all blocks in a second kernel, or give each block its own places with a "
      "running sum (cumsum): an Acc does not return the old value, which would depend on the order of blocks");
};
template <class X>
  requires std::is_same_v<X, NoOldValue>
struct PositionCheck<X> : ExplainOldValue<X> {
  static constexpr bool ok = false;
};
#define TESSERA_OLD_VALUE(token)                    \
  template <class X>                                \
  Tile<bool> operator token(NoOldValue, const X&) { \
    (void)sizeof(ExplainOldValue<X>);               \
    return *fake<void, Tile<bool>>();               \
  }                                                 \
  template <class X>                                \
    requires(!std::is_same_v<X, NoOldValue>)        \
  Tile<bool> operator token(const X&, NoOldValue) { \
    (void)sizeof(ExplainOldValue<X>);               \
    return *fake<void, Tile<bool>>();               \
  }
TESSERA_OLD_VALUE(==)
TESSERA_OLD_VALUE(<)
TESSERA_OLD_VALUE(<=)
TESSERA_OLD_VALUE(>)
TESSERA_OLD_VALUE(>=)
TESSERA_OLD_VALUE(+)
TESSERA_OLD_VALUE(-)
TESSERA_OLD_VALUE(*)
TESSERA_OLD_VALUE(/)
TESSERA_OLD_VALUE(%)
#undef TESSERA_OLD_VALUE

/// Accumulates `value` at one position per axis.
template <class T, lang::AccOp Op, class V, class... I>
NoOldValue accumulate(lang::TensorRef tensor, SourceLocation loc, const V& value, const I&... index) {
  using Common = typename JointOf<typename ShapeOf<I>::type..., typename ShapeOf<V>::type>::type;
  if constexpr (AccCheck<T, Op>::ok && (PositionCheck<I>::ok && ...) && AccValueCheck<T, V>::ok &&
                AccShapeCheck<Common>::ok) {
    const ir::Value at[] = {position(index, loc)...};
    ir::Value v;
    if constexpr (is_tile<V>) {
      v = value.value();
    } else {
      v = Tile<T>(value).value();
    }
    lang::accumulate(tensor, Op, element_class<T> != ElementClass::Unsigned, at, IntsOf<Common>::span(), v, loc);
  }
  return {};
}

/// The same for sums of T that are exact.
template <class T, class V, class... I>
NoOldValue accumulate_exactly(lang::TensorRef tensor, SourceLocation loc, const V& value, const I&... index) {
  using Common = typename JointOf<typename ShapeOf<I>::type..., typename ShapeOf<V>::type>::type;
  if constexpr ((PositionCheck<I>::ok && ...) && AccValueCheck<T, V>::ok && AccShapeCheck<Common>::ok) {
    const ir::Value at[] = {position(index, loc)...};
    ir::Value v;
    if constexpr (is_tile<V>) {
      v = value.value();
    } else {
      v = Tile<T>(value).value();
    }
    lang::accumulate_exactly(tensor, at, IntsOf<Common>::span(), v, loc);
  }
  return {};
}

}  // namespace detail

/// The grid of D... tiles of an Acc.
template <Accumulated T, int... D>
class AccTiles {
  static constexpr int kTile[] = {D...};

 public:
  Tile<i32> count(detail::AxisOf<sizeof...(D)> axis) const {
    return Tile<i32>(lang::tile_count(tensor_, axis.value, kTile[axis.value]));
  }
  /// Adds a whole tile at a tile index; elements outside the tensor are dropped.
  void add(detail::IndexFor<D>... index, const Tile<T, D...>& tile,
           SourceLocation loc = SourceLocation::current()) const {
    if constexpr (detail::AccCheck<T, lang::AccOp::Add>::ok) {
      const ir::Value at[] = {index.value()...};
      lang::accumulate_tile(tensor_, lang::AccOp::Add, true, kTile, at, tile.value(), loc);
    }
  }

 private:
  friend class lang::HandleAccess;
  explicit AccTiles(lang::TensorRef tensor) : tensor_(tensor) {}

  lang::TensorRef tensor_;
};

template <Accumulated T, int... E>
class Acc {
  static_assert(sizeof...(E) >= 1, "an Acc has one extent per axis, static or dyn: Acc<T, dyn>");
  static_assert(((E == dyn || E > 0) && ...), "an extent of an Acc is dyn or positive");
  static constexpr int kRank = sizeof...(E);

 public:
  using element = T;
  static constexpr int rank = kRank;

  Tile<i32> dim(detail::AxisOf<kRank> axis) const { return Tile<i32>(lang::tensor_dim(tensor_, axis.value)); }

  // add(i, value), add(i, j, value), ...: one integer tile or number per axis and the value, which broadcast to one
  // shape. An index outside the tensor is dropped. The same for max and min, of floats f32 and f64 (values that are
  // NaN are ignored, -0 is less than 0), and for the bit operations, of integers.
#define TESSERA_ACC_OP(name, Op)                                                                                  \
  template <class I, class V>                                                                                     \
    requires(kRank == 1)                                                                                          \
  detail::NoOldValue name(const I& i, const V& value, SourceLocation loc = SourceLocation::current()) const {     \
    return detail::accumulate<T, lang::AccOp::Op>(tensor_, loc, value, i);                                        \
  }                                                                                                               \
  template <class I, class J, class V>                                                                            \
    requires(kRank == 2)                                                                                          \
  detail::NoOldValue name(const I& i, const J& j, const V& value, SourceLocation loc = SourceLocation::current()) \
      const {                                                                                                     \
    return detail::accumulate<T, lang::AccOp::Op>(tensor_, loc, value, i, j);                                     \
  }                                                                                                               \
  template <class I, class J, class K, class V>                                                                   \
    requires(kRank == 3)                                                                                          \
  detail::NoOldValue name(const I& i, const J& j, const K& k, const V& value,                                     \
                          SourceLocation loc = SourceLocation::current()) const {                                 \
    return detail::accumulate<T, lang::AccOp::Op>(tensor_, loc, value, i, j, k);                                  \
  }                                                                                                               \
  template <class I, class J, class K, class L, class V>                                                          \
    requires(kRank == 4)                                                                                          \
  detail::NoOldValue name(const I& i, const J& j, const K& k, const L& l, const V& value,                         \
                          SourceLocation loc = SourceLocation::current()) const {                                 \
    return detail::accumulate<T, lang::AccOp::Op>(tensor_, loc, value, i, j, k, l);                               \
  }                                                                                                               \
  template <class... A>                                                                                           \
    requires(sizeof...(A) != kRank + 1)                                                                           \
  void name(const A&...) const {                                                                                  \
    static_assert(detail::never<A...>, "an Acc is added into at one index per axis: add(i, j, ..., value)");      \
  }
  TESSERA_ACC_OP(add, Add)
  TESSERA_ACC_OP(max, Max)
  TESSERA_ACC_OP(min, Min)
  TESSERA_ACC_OP(bit_and, And)
  TESSERA_ACC_OP(bit_or, Or)
  TESSERA_ACC_OP(bit_xor, Xor)
#undef TESSERA_ACC_OP

  /// The tensor as a grid of tiles that whole tiles can be added to.
  template <int... D>
  AccTiles<T, D...> tiles(Shape<D...>) const {
    static_assert(sizeof...(D) == sizeof...(E), "tiles(shape<...>) needs one extent per axis of the tensor");
    static_assert((detail::is_power_of_two(D) && ...),
                  "the extents of a tile must be powers of two: edges are clipped");
    return lang::HandleAccess::make<AccTiles<T, D...>>(tensor_);
  }

  template <int First, int... D, class... A>
  auto tiles(const A&...) const {
    (void)sizeof(detail::ExplainShapeInBrackets<First, D...>);
    return lang::HandleAccess::make<AccTiles<T, First, D...>>(tensor_);
  }
  template <class... A>
  Tile<T> load(const A&...) const {
    static_assert(
        detail::never<A...>,
        "an Acc cannot be read in the kernel that adds into it: the order of additions must stay unobservable");
    return *static_cast<Tile<T>*>(nullptr);
  }
  template <class... A>
  void store(const A&...) const {
    static_assert(detail::never<A...>,
                  "cannot store to an Acc: use add, max, min or the bit operations, or declare the parameter Mut");
  }

 private:
  friend class lang::HandleAccess;
  explicit Acc(lang::TensorRef tensor) : tensor_(tensor) {}

  lang::TensorRef tensor_;
};

/// The grid of D... tiles of an Acc of reproducible sums.
template <class T, int... D>
class AccTiles<reproducible<T>, D...> {
  static constexpr int kTile[] = {D...};

 public:
  Tile<i32> count(detail::AxisOf<sizeof...(D)> axis) const {
    return Tile<i32>(lang::tile_count(tensor_, axis.value + 1, kTile[axis.value]));
  }
  /// Adds a whole tile at a tile index; elements outside the tensor are dropped.
  void add(detail::IndexFor<D>... index, const Tile<T, D...>& tile,
           SourceLocation loc = SourceLocation::current()) const {
    const ir::Value at[] = {index.value()...};
    lang::accumulate_tile_exactly(tensor_, kTile, at, tile.value(), loc);
  }

 private:
  friend class lang::HandleAccess;
  explicit AccTiles(lang::TensorRef tensor) : tensor_(tensor) {}

  lang::TensorRef tensor_;
};

/// Reproducible sums of f32: each element is the exact sum of the values added, of which at most 2^31 are allowed. The
/// tensor is what zeros<reproducible<f32>>({...}) makes, on the host, and rounded<f32>() gives the sums.
template <class T, int... E>
class Acc<reproducible<T>, E...> {
  static_assert(reproducible<T>::bins > 0);  // explains another T here, before it is used
  static_assert(sizeof...(E) >= 1 && sizeof...(E) <= 4,
                "an Acc of reproducible sums has one to four extents, static or dyn: Acc<reproducible<f32>, dyn>");
  static_assert(((E == dyn || E > 0) && ...), "an extent of an Acc is dyn or positive");
  static constexpr int kRank = sizeof...(E);

 public:
  using element = reproducible<T>;
  static constexpr int rank = kRank;

  Tile<i32> dim(detail::AxisOf<kRank> axis) const { return Tile<i32>(lang::tensor_dim(tensor_, axis.value + 1)); }

  // add(i, value), add(i, j, value), ...: as those of Acc<f32, E...>.
  template <class I, class V>
    requires(kRank == 1)
  detail::NoOldValue add(const I& i, const V& value, SourceLocation loc = SourceLocation::current()) const {
    return detail::accumulate_exactly<T>(tensor_, loc, value, i);
  }
  template <class I, class J, class V>
    requires(kRank == 2)
  detail::NoOldValue add(const I& i, const J& j, const V& value, SourceLocation loc = SourceLocation::current()) const {
    return detail::accumulate_exactly<T>(tensor_, loc, value, i, j);
  }
  template <class I, class J, class K, class V>
    requires(kRank == 3)
  detail::NoOldValue add(const I& i, const J& j, const K& k, const V& value,
                         SourceLocation loc = SourceLocation::current()) const {
    return detail::accumulate_exactly<T>(tensor_, loc, value, i, j, k);
  }
  template <class I, class J, class K, class L, class V>
    requires(kRank == 4)
  detail::NoOldValue add(const I& i, const J& j, const K& k, const L& l, const V& value,
                         SourceLocation loc = SourceLocation::current()) const {
    return detail::accumulate_exactly<T>(tensor_, loc, value, i, j, k, l);
  }
  template <class... A>
    requires(sizeof...(A) != kRank + 1)
  void add(const A&...) const {
    static_assert(detail::never<A...>, "an Acc is added into at one index per axis: add(i, j, ..., value)");
  }

  /// The tensor as a grid of tiles that whole tiles can be added to.
  template <int... D>
  AccTiles<reproducible<T>, D...> tiles(Shape<D...>) const {
    static_assert(sizeof...(D) == sizeof...(E), "tiles(shape<...>) needs one extent per axis of the tensor");
    static_assert((detail::is_power_of_two(D) && ...),
                  "the extents of a tile must be powers of two: edges are clipped");
    return lang::HandleAccess::make<AccTiles<reproducible<T>, D...>>(tensor_);
  }

#define TESSERA_ACC_NEVER(name)                                                              \
  template <class... A>                                                                      \
  void name(const A&...) const {                                                             \
    static_assert(detail::never<A...>,                                                       \
                  "an Acc of reproducible sums has add only: declare another Acc<f32, ...> " \
                  "for max and min, and of an integer type for the bit operations");         \
  }
  TESSERA_ACC_NEVER(max)
  TESSERA_ACC_NEVER(min)
  TESSERA_ACC_NEVER(bit_and)
  TESSERA_ACC_NEVER(bit_or)
  TESSERA_ACC_NEVER(bit_xor)
#undef TESSERA_ACC_NEVER
  template <int First, int... D, class... A>
  auto tiles(const A&...) const {
    (void)sizeof(detail::ExplainShapeInBrackets<First, D...>);
    return lang::HandleAccess::make<AccTiles<T, First, D...>>(tensor_);
  }
  template <class... A>
  Tile<T> load(const A&...) const {
    static_assert(
        detail::never<A...>,
        "an Acc cannot be read in the kernel that adds into it: the order of additions must stay unobservable");
    return *static_cast<Tile<T>*>(nullptr);
  }
  template <class... A>
  void store(const A&...) const {
    static_assert(detail::never<A...>, "cannot store to an Acc: use add, or declare the parameter Mut");
  }

 private:
  friend class lang::HandleAccess;
  explicit Acc(lang::TensorRef tensor) : tensor_(tensor) {}

  lang::TensorRef tensor_;
};

}  // namespace tessera
