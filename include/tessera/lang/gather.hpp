// Index arguments of gathers, scatters and accumulations: integer tiles that broadcast to each other, and the resulting
// shapes.
//
// Index is a tile index or an element offset as an argument: an int, a Scalar<i32> or a Scalar<u32>, with the line of
// the call.
//
// The arguments of a scatter into a block's own piece are checked while compiling.
//
// The value of loaded elements that lie outside the tensor: pad::zero (the default), pad::neg_inf, pad::pos_inf,
// pad::nan, pad(value).
#pragma once
#include <type_traits>

#include "tessera/lang/access.hpp"
#include "tessera/lang/shape.hpp"
#include "tessera/lang/tile.hpp"

namespace tessera {

namespace detail {

template <lang::PadKind K>
struct NamedPad {};

template <class V>
struct GivenPad {
  V value;
};

struct MakePad {
  /// Any value of the tensor's element type: a number, or a Scalar computed in the kernel.
  template <class V>
  constexpr GivenPad<host_value_t<V>> operator()(const V& value) const {
    return {value};
  }
};

template <class V>
struct IsScalarTile : std::false_type {};
template <class T>
struct IsScalarTile<Tile<T>> : std::true_type {};

/// Padding as a parameter of loads from a tensor of T.
template <Element T>
class Padding {
 public:
  template <lang::PadKind K>
  Padding(NamedPad<K>) {  // NOLINT(google-explicit-constructor)
    static_assert(K == lang::PadKind::Zero || element_class<T> == ElementClass::Float,
                  "pad::neg_inf, pad::pos_inf and pad::nan need a floating element type; use pad(value)");
    static_assert(!std::is_same_v<T, f8e4m3> || K == lang::PadKind::Zero || K == lang::PadKind::NaN,
                  "f8e4m3 has no infinity; use pad(value)");
    spec_.kind = K;
  }
  template <class V>
  Padding(const GivenPad<V>& pad) {  // NOLINT(google-explicit-constructor)
    if constexpr (IsScalarTile<V>::value) {
      static_assert(std::is_same_v<V, Tile<T>>,
                    "the padding value's element type differs from the tensor's: convert it with cast");
      set(pad.value);
    } else if constexpr (std::is_floating_point_v<V> && element_class<T> != ElementClass::Float) {
      static_assert(never<V, T>, "a floating value pads a tensor of integers: write an integer, as in pad(-1)");
    } else {
      if constexpr (std::is_convertible_v<V, double>) {
        const double v = static_cast<double>(pad.value);
        if (v == 0 && !__builtin_signbit(v)) return;
      }
      set(Tile<T>(pad.value));
    }
  }
  /// Explains a padding value without pad(...).
  template <class V>
    requires(HostNumber<V> || IsScalarTile<V>::value)
  Padding(const V&) {  // NOLINT(google-explicit-constructor)
    static_assert(never<V, T>,
                  "write the padding as pad(value), or pad::neg_inf, pad::pos_inf or pad::nan; a position has "
                  "one index per axis, and no more");
  }
  const lang::PadSpec& spec() const { return spec_; }

 private:
  void set(const Tile<T>& value) { spec_ = {lang::PadKind::Value, value.value()}; }
  lang::PadSpec spec_;
};

}  // namespace detail

struct pad {
  static constexpr detail::NamedPad<lang::PadKind::Zero> zero{};
  static constexpr detail::NamedPad<lang::PadKind::NegInf> neg_inf{};
  static constexpr detail::NamedPad<lang::PadKind::PosInf> pos_inf{};
  static constexpr detail::NamedPad<lang::PadKind::NaN> nan{};
};
/// pad(value). A function beside the struct of the same name, which has pad::zero and the others.
inline constexpr detail::MakePad pad{};

}  // namespace tessera

namespace tessera::detail {

class Index {
 public:
  template <class I>
    requires(is_host_integer<I>)
  Index(const I& v, SourceLocation loc = SourceLocation::current())  // NOLINT(google-explicit-constructor)
      : value_(lang::index_constant(clamped(host_value_t<I>(v)), loc)) {}
  Index(const Tile<i32>& v) : value_(v.value()) {}                      // NOLINT(google-explicit-constructor)
  Index(const Tile<u32>& v) : value_(v.value()), is_unsigned_(true) {}  // NOLINT(google-explicit-constructor)
  template <class X>
    requires(!is_host_integer<X>)
  Index(const X&) {  // NOLINT(google-explicit-constructor)
    static_assert(
        never<X>,
        "an index is one i32 for the whole block: pass an int, a Scalar<i32> or a Scalar<u32> (convert others "
        "with cast<i32>(...))");
  }
  /// As 32 bits. It must be compared (unsigned) with its bound before anything is computed from it.
  ir::Value value() const { return value_; }
  /// As the base that positions inside a tile are added to: i64 for a u32, because near 2^32 the sum would wrap around
  /// to the tensor's start.
  ir::Value offset(SourceLocation loc) const { return is_unsigned_ ? lang::widened_offset(value_, loc) : value_; }

 private:
  template <class I>
  static constexpr std::int64_t clamped(I v) {
    if constexpr (std::is_unsigned_v<I> && sizeof(I) == 8) {
      return v > static_cast<I>(INT64_MAX) ? INT64_MAX : static_cast<std::int64_t>(v);
    } else {
      return static_cast<std::int64_t>(v);
    }
  }
  ir::Value value_;
  bool is_unsigned_ = false;
};

/// One Index per axis: `IndexFor<D>... index` for a pack of extents D.
template <int>
struct IndexPerAxis {
  using type = Index;
};
template <int E>
using IndexFor = typename IndexPerAxis<E>::type;

/// Shapes of equal rank broadcast where one side is 1; rank 0 fits anything; void if they do not fit.
template <class A, class B>
struct Joint {
  using type = void;
};
template <int... A, int... B>
  requires(sizeof...(A) == sizeof...(B) && ((A == B || A == 1 || B == 1) && ...))
struct Joint<Shape<A...>, Shape<B...>> {
  using type = Shape<(A > B ? A : B)...>;
};
template <int... A>
  requires(sizeof...(A) > 0)
struct Joint<Shape<A...>, Shape<>> {
  using type = Shape<A...>;
};
template <int... B>
  requires(sizeof...(B) > 0)
struct Joint<Shape<>, Shape<B...>> {
  using type = Shape<B...>;
};
template <class B>
struct Joint<void, B> {
  using type = void;
};

/// The common shape of any number of shapes; void if they do not fit.
template <class First, class... Rest>
struct JointOf {
  using type = First;
};
template <class First, class Second, class... Rest>
struct JointOf<First, Second, Rest...> : JointOf<typename Joint<First, Second>::type, Rest...> {};

template <class X>
inline constexpr bool is_position = is_host_integer<X>;
template <class T, int... D>
inline constexpr bool is_position<Tile<T, D...>> =
    element_class<T> == ElementClass::Signed || element_class<T> == ElementClass::Unsigned;

template <class X>
struct PositionCheck {
  static_assert(is_position<X>, "an index must be an integer or a tile of integers");
  static constexpr bool ok = is_position<X>;
};

/// An index widened to a position: i32 or i64.
template <class T, int... D>
ir::Value position(const Tile<T, D...>& index, SourceLocation) {
  return lang::as_position(index.value(), element_class<T> == ElementClass::Signed);
}
template <class I>
  requires(is_host_integer<I>)
ir::Value position(I index, SourceLocation loc) {
  return Index(index, loc).value();
}

template <class S>
struct IntsOf;
template <int... D>
struct IntsOf<Shape<D...>> : Ints<D...> {
  static constexpr lang::Extents span() { return {Ints<D...>::values, sizeof...(D)}; }
  template <class T>
  using tile = Tile<T, D...>;
};

/// The number of elements of a tile that has at most one extent other than 1; 0 for other tiles.
template <class S>
struct LineOf;
template <int... D>
struct LineOf<Shape<D...>> {
  static constexpr int length = ((D > 1 ? 1 : 0) + ... + 0) <= 1 ? (1 * ... * D) : 0;
};

/// The result shape of gathering along axis K: the index's length along K, the whole static extent along the others.
template <int K, int N, int... E>
struct GatherShape {
  template <int... I>
  static auto make(std::integer_sequence<int, I...>) -> Shape<(I == K ? N : E)...>;
  using type = decltype(make(std::make_integer_sequence<int, sizeof...(E)>{}));
  template <int... I>
  static constexpr bool others_static(std::integer_sequence<int, I...>) {
    return ((I == K || is_power_of_two(E)) && ...);
  }
};
template <int K, class Index, int... E>
struct GatherCheck {
  static constexpr bool axis_ok = K >= 0 && K < static_cast<int>(sizeof...(E));
  static constexpr bool line_ok = LineOf<typename ShapeOf<Index>::type>::length > 0;
  static constexpr bool static_ok =
      GatherShape<K, 1, E...>::others_static(std::make_integer_sequence<int, sizeof...(E)>{});
  static_assert(axis_ok, "gather(axis<k>, index): the tensor has no such axis");
  static_assert(is_position<Index>, "gather(axis<k>, index): the index must be a tile of integers");
  static_assert(line_ok, "gather(axis<k>, index): the index tile may have one axis longer than 1 only");
  static_assert(
      static_ok,
      "gather(axis<k>, index) takes whole slices: the other axes of the tensor need static extents that are powers of "
      "two, as in In<T, dyn, 64>");
  static constexpr bool ok = axis_ok && is_position<Index> && line_ok && static_ok;
};

/// The arguments of gather(i, j, ...) that are no one index per axis and a padding: what is wrong with them.
template <int Rank, class... A>
struct ExplainGather {
  static_assert(
      sizeof...(A) == Rank || sizeof...(A) == Rank + 1,
      "gather takes one index per axis and then the padding, if any: gather(i, j, ..., pad(value)), or slices "
      "along one axis: gather(axis<k>, index, pad(value))");
  static_assert(
      (sizeof...(A) != Rank && sizeof...(A) != Rank + 1) || (is_position<A> && ...),
      "an index of a gather must be an integer or a tile of integers: cast<i32>(index), and the padding, which "
      "comes last, is written pad(value), pad::neg_inf, pad::pos_inf or pad::nan");
};

/// gather(i, j, ..., padding) of a tensor or piece of T, which `load(positions, shape, padding, location)` loads from.
template <class T, class F, class... I>
auto gathered(F load, const Padding<T>& padding, SourceLocation loc, const I&... index) {
  using Common = typename JointOf<typename ShapeOf<I>::type...>::type;
  static_assert(!std::is_void_v<Common>, "gather: the index tiles must broadcast to one shape");
  using Result = IntsOf<std::conditional_t<std::is_void_v<Common>, Shape<>, Common>>;
  lang::Tracer::current(loc).at(loc);  // for what computes positions
  const ir::Value at[] = {position(index, loc)...};
  return typename Result::template tile<T>(load(at, Result::span(), padding.spec(), loc));
}
/// True for the indices of gather(i, j, ..., padding) in a tensor of this rank.
template <int Rank, class... I>
inline constexpr bool gathers = sizeof...(I) == Rank && (is_position<I> && ...);
/// True if the first arguments are such indices.
template <int Rank, class... A>
constexpr bool starts_with_positions() {
  const bool positions[] = {is_position<A>..., true};
  for (int i = 0; i < Rank && i < static_cast<int>(sizeof...(A)); ++i)
    if (!positions[i]) return false;
  return sizeof...(A) >= Rank;
}

/// The most indices of one scatter. Every index is compared with the later ones, so that the last of equal indices
/// wins; the assembler's time grows with the square (tileiras 13.5, sm_90: 1 s for 256 indices, 12 s for 1024, minutes
/// for 4096).
inline constexpr long long kScatteredIndices = 1024;

/// The scattered values: a tile or a number, of the tensor's element type.
template <class T, class V>
struct ScatterValueCheck {
  static_assert(!is_tile<V> || std::is_same_v<T, typename ElementOfTile<V>::type>,
                "scatter: the values' element type differs from the tensor's: convert them with cast<T>(tile)");
  static constexpr bool ok = !is_tile<V> || std::is_same_v<T, typename ElementOfTile<V>::type>;
};

template <long long Indices>
struct ScatterSizeCheck {
  static constexpr bool ok = Indices <= kScatteredIndices;
  static_assert(ok, "a scatter takes at most 1024 indices at once, which are compared with each other: scatter parts");
};

/// scatter(axis<k>, index, values) into a piece of D....
template <int K, class T, class Index, class Values, int... D>
struct ScatterSlicesCheck {
  static constexpr bool axis_ok = K >= 0 && K < static_cast<int>(sizeof...(D));
  static constexpr int length = LineOf<typename ShapeOf<Index>::type>::length;
  using Expected = typename GatherShape<K, length == 0 ? 1 : length, D...>::type;
  static constexpr bool index_ok = is_position<Index> && length > 0;
  static constexpr bool shape_ok = is_tile<Values> && std::is_same_v<typename ShapeOf<Values>::type, Expected>;
  static_assert(axis_ok, "scatter(axis<k>, index, values): the piece has no such axis");
  static_assert(is_position<Index>, "scatter(axis<k>, index, values): the index must be a tile of integers");
  static_assert(length > 0, "scatter(axis<k>, index, values): the index tile may have one axis longer than 1 only");
  static_assert(!axis_ok || !index_ok || shape_ok,
                "scatter(axis<k>, index, values): the values must be a tile of the piece's shape, with one slice per "
                "index along axis k");
  static constexpr bool ok =
      axis_ok && index_ok && shape_ok && ScatterValueCheck<T, Values>::ok && ScatterSizeCheck<length>::ok;
};

/// The shape of scatter(i, j, ..., values): the one that indices and values broadcast to.
template <class Common>
struct ScatterShapeCheck {
  static_assert(!std::is_void_v<Common>, "scatter: the index tiles and the values must broadcast to one shape");
  static constexpr bool ok = false;
};
template <int... D>
struct ScatterShapeCheck<Shape<D...>> {
  static constexpr bool ok = ScatterSizeCheck<Shape<D...>::size>::ok;
};

/// One argument of scatter(i, j, ..., values): a position, or the values of a tensor of T.
template <class T, bool IsValue, class X>
struct ScatterArgument {
  static constexpr bool ok = PositionCheck<X>::ok;
  static ir::Value get(const X& x, SourceLocation loc) { return position(x, loc); }
};
template <class T, class X>
struct ScatterArgument<T, true, X> {
  static constexpr bool ok = ScatterValueCheck<T, X>::ok;
  static ir::Value get(const X& x, SourceLocation) {
    if constexpr (is_tile<X>)
      return x.value();
    else
      return Tile<T>(x).value();
  }
};

}  // namespace tessera::detail

// Members for one to four indices: a location cannot follow a parameter pack. `elements(at, shape, padding, loc)`
// loads.
#define TESSERA_GATHERS(Rank)                                                                                     \
  template <class I>                                                                                              \
    requires detail::gathers<Rank, I>                                                                             \
  auto gather(const I& i, detail::Padding<T> padding = pad::zero, SourceLocation loc = SourceLocation::current()) \
      const {                                                                                                     \
    return detail::gathered<T>(elements(), padding, loc, i);                                                      \
  }                                                                                                               \
  template <class I, class J>                                                                                     \
    requires detail::gathers<Rank, I, J>                                                                          \
  auto gather(const I& i, const J& j, detail::Padding<T> padding = pad::zero,                                     \
              SourceLocation loc = SourceLocation::current()) const {                                             \
    return detail::gathered<T>(elements(), padding, loc, i, j);                                                   \
  }                                                                                                               \
  template <class I, class J, class K>                                                                            \
    requires detail::gathers<Rank, I, J, K>                                                                       \
  auto gather(const I& i, const J& j, const K& k, detail::Padding<T> padding = pad::zero,                         \
              SourceLocation loc = SourceLocation::current()) const {                                             \
    return detail::gathered<T>(elements(), padding, loc, i, j, k);                                                \
  }                                                                                                               \
  template <class I, class J, class K, class L>                                                                   \
    requires detail::gathers<Rank, I, J, K, L>                                                                    \
  auto gather(const I& i, const J& j, const K& k, const L& l, detail::Padding<T> padding = pad::zero,             \
              SourceLocation loc = SourceLocation::current()) const {                                             \
    return detail::gathered<T>(elements(), padding, loc, i, j, k, l);                                             \
  }                                                                                                               \
  /* With more indices: the line of the nearest named call before. */                                             \
  template <class... I>                                                                                           \
    requires(Rank > 4 && detail::gathers<Rank, I...>)                                                             \
  auto gather(const I&... index) const {                                                                          \
    return detail::gathered<T>(elements(), pad::zero, lang::Tracer::current().location(), index...);              \
  }                                                                                                               \
  template <class... A>                                                                                           \
    requires(!(detail::is_axis<A> || ...) &&                                                                      \
             (sizeof...(A) < Rank || sizeof...(A) > Rank + 2 || !detail::starts_with_positions<Rank, A...>()))    \
  auto gather(const A&...) const {                                                                                \
    (void)sizeof(detail::ExplainGather<Rank, A...>);                                                              \
    return *detail::fake<void, Tile<T>>();                                                                        \
  }
