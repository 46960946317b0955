// Tile<T, D...>: a value of a kernel, with its element type and extents in its C++ type. A tile object is a variable:
// copying makes a new one, assigning changes it, also inside device loops and branches.
//
// Its last part names the element type and the shape of an argument that may be a tile or a host number.
#pragma once
#include <cstddef>
#include <type_traits>

#include "tessera/lang/constant.hpp"
#include "tessera/lang/emit.hpp"
#include "tessera/lang/shape.hpp"

namespace tessera {

template <class T, int... D>
class Tile;
/// One value: a tile of rank 0.
template <class T>
using Scalar = Tile<T>;

namespace detail {

/// A number of the host that may be combined with a tile: it takes the tile's element type.
template <class S>
concept HostNumber = std::is_arithmetic_v<host_value_t<S>> || Element<host_value_t<S>>;

template <class T>
inline constexpr bool is_float = element_class<T> == ElementClass::Float;
template <class T>
inline constexpr bool is_integer =
    element_class<T> == ElementClass::Signed || element_class<T> == ElementClass::Unsigned;
/// Arithmetic is defined on it (Tile IR computes on f16, bf16, f32, f64 and integers only).
template <class T>
inline constexpr bool is_number = is_integer<T> || std::is_same_v<T, f16> || std::is_same_v<T, bf16> ||
                                  std::is_same_v<T, f32> || std::is_same_v<T, f64>;

template <class T, class S>
inline constexpr lang::TileSpec spec_of{};
template <class T, int... D>
inline constexpr lang::TileSpec spec_of<T, Shape<D...>>{element_type<T>, sizeof...(D), Shape<D...>::extents};

template <class T, class S>
struct TileOf;
template <class T, int... D>
struct TileOf<T, Shape<D...>> {
  using type = Tile<T, D...>;
};
template <class T, class S>
using tile_of_t = typename TileOf<T, S>::type;

// Checks are small structs whose template parameters are the facts, so that compilers show them in the diagnostic.
template <class T, class U>
struct SameElement {
  static_assert(std::is_same_v<T, U>, "tile element types do not match: convert one side with cast<T>(tile)");
  static constexpr bool ok = std::is_same_v<T, U>;
};
template <class A, class B>
struct SameShape {
  static_assert(fits(A{}, B{}), "tile shapes do not match: every extent must be equal, or 1 on one side");
  static constexpr bool ok = fits(A{}, B{});
};
template <class T, class S>
struct Literal {
  static constexpr bool floating = !std::is_integral_v<S>;
  static constexpr bool boolean = std::is_same_v<S, bool>;
  static_assert(
      !(floating && !is_float<T>),
      "a floating-point number cannot be combined with a tile of integers or bool: use an integer, or cast<f32>(tile)");
  static_assert(boolean == std::is_same_v<T, bool> || (floating && !is_float<T>),
                "only true and false combine with a tile of bool, and only numbers with other tiles: compare, or "
                "cast the tile");
  static_assert(std::is_arithmetic_v<S> || std::is_same_v<S, T> || !is_float<T>,
                "a narrow host number must have the tile's element type: convert it with float(x)");
  static constexpr bool ok = floating ? is_float<T> : boolean == std::is_same_v<T, bool>;
};
template <class T, class S>
struct Literal<T, Constant<S>> : Literal<T, S> {};
template <class T, class N>
constexpr N used_on_host() {
  static_assert(
      never<T>,
      "this value lives on the device: use tile_if, tile_while, range or tile operations, and exp(t) instead of "
      "std::exp(t). The host cannot use it as a number while the kernel is traced, and a function of the C "
      "library takes no tile");
  return N();
}
template <class S, class T>
T* fake();  ///< gives code after a static_assert a type; never called

template <class To, class From>
struct Assignable {
  static_assert(std::is_same_v<To, From>,
                "cannot assign: a tile variable keeps its element type and shape for life. Declare a new variable, or "
                "convert with "
                "cast, reshape or broadcast");
  static constexpr bool ok = std::is_same_v<To, From>;
};

}  // namespace detail

/// A tile of a kernel. `D...` are powers of two; no extents: a scalar. Tiles exist only while a kernel is traced
/// (TraceError otherwise).
template <class T, int... D>
class Tile {
  static_assert(Element<T>,
                "a tile's element type must be one of f64 f32 tf32 f16 bf16 f8e4m3 f8e5m2 i64..i8 u64..u8 bool");
  static_assert((detail::is_power_of_two(D) && ...),
                "a tile's extents must be powers of two: use the next larger one and pad");
  static_assert((1LL * ... * D) <= (1LL << 24), "a tile holds at most 2^24 elements: split it");

 public:
  using element = T;
  using shape_t = Shape<D...>;
  static constexpr const lang::TileSpec& spec = detail::spec_of<T, Shape<D...>>;

  explicit Tile(ir::Value v) : var_(lang::Tracer::current().fresh(v)) {}
  Tile(const Tile& o) : Tile(o.value()) {}
  template <detail::HostNumber S>
    requires(sizeof...(D) == 0)
  Tile(S s) : Tile(literal(s)) {}
  Tile() = delete;  // a tile has no default value: write zeros<T, D...>() or full<T, D...>(x)

  Tile& operator=(const Tile& o) {
    lang::Tracer::current().write(var_, o.value());
    return *this;
  }
  template <class U, int... E>
  Tile& operator=(const Tile<U, E...>&) {
    (void)detail::Assignable<Tile, Tile<U, E...>>::ok;
    return *this;
  }
  template <detail::HostNumber S>
    requires(sizeof...(D) != 0)
  Tile& operator=(S) {
    static_assert(detail::never<S>, "cannot assign a number to a tile: write full<T, D...>(number)");
    return *this;
  }

  /// The SSA value that the variable holds now.
  ir::Value value() const { return lang::Tracer::current().read(var_); }

  explicit operator bool() const {
    static_assert(detail::never<T>,
                  "this condition lives on the device: write tile_if (condition) {...} else {...} for a branch, for "
                  "(auto i : range(n)) for a loop that counts, tile_while (condition) {...} for any other, or "
                  "where(condition, a, b) to choose element by element. The host cannot branch on it while the kernel "
                  "is traced");
    return false;
  }
  // Uses as a number of the host are rejected. (A member of a class template is compiled only where it is used.)
  // `switch` and indices of arrays take the integer; functions of the C library take the double, whose constraint
  // decides between the two where a use fits both, so that a call of std::exp is not ambiguous and its error is the
  // sentence.
  operator std::ptrdiff_t() const { return detail::used_on_host<T, std::ptrdiff_t>(); }  // NOLINT: implicit
  constexpr operator double() const                                                      // NOLINT: implicit
    requires(sizeof...(D) >= 0)
  {
    return detail::used_on_host<T, double>();
  }

  /// A tile has no elements to name: explains what there is instead.
  template <class I>
  Tile<T> operator[](const I&) const {
    static_assert(detail::never<I>,
                  "take a part of a tile with extract(t, shape<...>, i, j), or load the element from its tensor with "
                  "x.load_at or x.gather: elements of a tile are spread over threads, and it has no operator[]");
    return *detail::fake<void, Tile<T>>();
  }
  template <class... A>
  Tile gather(const A&...) const {
    static_assert(detail::never<A...>,
                  "gather from the tensor, x.gather(...), or from the block's piece, y.gather(...), after storing the "
                  "tile there: a tile is spread over threads and has no positions in memory");
    return *this;
  }
  template <class... A>
  void scatter(const A&...) const {
    static_assert(
        detail::never<A...>,
        "scatter into the block's piece, y.scatter(...), and read it back with y.load(): a tile is spread over "
        "threads and has no positions in memory");
  }

  template <class O>
  Tile& operator+=(const O& o) {
    return assign(*this + o);
  }
  template <class O>
  Tile& operator-=(const O& o) {
    return assign(*this - o);
  }
  template <class O>
  Tile& operator*=(const O& o) {
    return assign(*this * o);
  }
  template <class O>
  Tile& operator/=(const O& o) {
    return assign(*this / o);
  }
  template <class O>
  Tile& operator%=(const O& o) {
    return assign(*this % o);
  }
  template <class O>
  Tile& operator&=(const O& o) {
    return assign(*this & o);
  }
  template <class O>
  Tile& operator|=(const O& o) {
    return assign(*this | o);
  }
  template <class O>
  Tile& operator^=(const O& o) {
    return assign(*this ^ o);
  }
  template <class O>
  Tile& operator<<=(const O& o) {
    return assign(*this << o);
  }
  template <class O>
  Tile& operator>>=(const O& o) {
    return assign(*this >> o);
  }
  Tile& operator++() { return assign(*this + one()); }
  Tile& operator--() { return assign(*this - one()); }
  Tile operator++(int) {
    Tile before = *this;
    assign(*this + one());
    return before;
  }
  Tile operator--(int) {
    Tile before = *this;
    assign(*this - one());
    return before;
  }

 private:
  template <class S>
  static ir::Value literal(S s) {
    if constexpr (detail::Literal<T, S>::ok)
      return lang::splat(spec, s);
    else
      return lang::splat(spec, 0);
  }
  static constexpr auto one() {
    if constexpr (detail::is_float<T>)
      return 1.0f;
    else
      return 1;
  }
  template <class U>
  Tile& assign(const U& o) {
    return *this = o;
  }

  lang::Var var_;
};

// A number of the host that a kernel adds a tile to: explains that it has to be a variable of the kernel.
#define TESSERA_HOST_ASSIGNMENT(token)                                                                                 \
  template <class S, class T, int... D>                                                                                \
    requires std::is_arithmetic_v<S>                                                                                   \
  S& operator token(S& s, const Tile<T, D...>&) {                                                                      \
    static_assert(detail::never<S>,                                                                                    \
                  "declare the variable as a tile, as in Scalar<f32> total = 0.0f or auto total = zeros<f32, ...>(): " \
                  "a variable of the host cannot hold a value of the device");                                         \
    return s;                                                                                                          \
  }
TESSERA_HOST_ASSIGNMENT(+=)
TESSERA_HOST_ASSIGNMENT(-=)
TESSERA_HOST_ASSIGNMENT(*=)
TESSERA_HOST_ASSIGNMENT(/=)
TESSERA_HOST_ASSIGNMENT(%=)
TESSERA_HOST_ASSIGNMENT(&=)
TESSERA_HOST_ASSIGNMENT(|=)
TESSERA_HOST_ASSIGNMENT(^=)
TESSERA_HOST_ASSIGNMENT(<<=)
TESSERA_HOST_ASSIGNMENT(>>=)
#undef TESSERA_HOST_ASSIGNMENT

}  // namespace tessera

namespace tessera::detail {

template <class X>
inline constexpr bool is_tile = false;
template <class T, int... D>
inline constexpr bool is_tile<Tile<T, D...>> = true;

/// Element type of a tile; void for anything else.
template <class X>
struct ElementOfTile {
  using type = void;
};
template <class T, int... D>
struct ElementOfTile<Tile<T, D...>> {
  using type = T;
};

/// Shape of a tile; rank 0 for a host number.
template <class X>
struct ShapeOf {
  using type = Shape<>;
};
template <class T, int... D>
struct ShapeOf<Tile<T, D...>> {
  using type = Shape<D...>;
};

}  // namespace tessera::detail
