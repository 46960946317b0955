// Reductions and scans. A reduction along an axis keeps the axis with extent 1, so that its result broadcasts back;
// without an axis it gives a scalar. They are computed in the tile's element type, or in the type that is named, as in
// sum<f32>(x, axis<1>), in an order that the device chooses but that does not change from run to run. Sums and products
// of 8-bit and 16-bit integers name their type.
//
//   - sum prod max min: numbers; max and min ignore NaN (IEEE 754-2019 maximumNumber; of NaN alone: NaN)
//   - any all: bool
//   - argmax argmin: {value, index}, the lowest index (i32) of equal values; a NaN counts as the extreme, as in NumPy
//   - reduce scan: any associative function of two scalars, with its identity
//   - cumsum cumprod: running sums and products, including the element itself
#pragma once
#include <concepts>

#include "tessera/lang/shape_ops.hpp"

namespace tessera {

/// Scans from the last element to the first: `cumsum(x, axis<0>, backward)`.
struct Backward {};
inline constexpr Backward backward{};

namespace detail {

template <class S, int A>
using reduced_t = with_extent_t<S, A, 1>;

template <lang::ReduceOp O, Operands K, int A, class T, int... D>
auto reduced(const Tile<T, D...>& x, SourceLocation loc) {
  if constexpr (AxisCheck<sizeof...(D), A>::ok && ElementClassCheck<K, T>::ok)
    return tile_of_t<T, reduced_t<Shape<D...>, A>>(lang::reduce(O, x.value(), Tile<T, D...>::spec, A, loc));
  else
    return x;
}
template <class T>
inline constexpr bool is_narrow_integer = is_integer<T> && sizeof(T) < 4;
enum class Unnamed {};  ///< takes the place of a type in overloads that are called without one
/// Explains a sum or product of narrow integers in their own type.
template <class T>
struct ExplainNarrowTotal {
  static_assert(
      !is_narrow_integer<T>,
      "name the type of the result, as in sum<i32>(t, axis<1>), or sum<i8>(t, axis<1>) where it is known to fit: "
      "sums and products of 8-bit and 16-bit integers mostly do not fit their own type, and would wrap");
};

template <lang::ReduceOp O, Operands K, class T, int... D>
Tile<T> reduced_to_scalar(const Tile<T, D...>& x, SourceLocation loc) {
  if constexpr (ElementClassCheck<K, T>::ok)
    return Tile<T>(lang::reduce_all(O, x.value(), Tile<T, D...>::spec, loc));
  else
    return Tile<T>(x.value());
}

}  // namespace detail

#define TESSERA_REDUCTION(name, Name, Accepted)                                                 \
  template <class T, int... D, int A>                                                           \
  auto name(const Tile<T, D...>& x, Axis<A>, SourceLocation loc = SourceLocation::current()) {  \
    return detail::reduced<lang::ReduceOp::Name, detail::Operands::Accepted, A>(x, loc);        \
  }                                                                                             \
  template <class T, int... D>                                                                  \
  Tile<T> name(const Tile<T, D...>& x, SourceLocation loc = SourceLocation::current()) {        \
    return detail::reduced_to_scalar<lang::ReduceOp::Name, detail::Operands::Accepted>(x, loc); \
  }
TESSERA_REDUCTION(max, Max, Numbers)
TESSERA_REDUCTION(min, Min, Numbers)
TESSERA_REDUCTION(any, Or, Bools)
TESSERA_REDUCTION(all, And, Bools)
#undef TESSERA_REDUCTION

// Sums and products in another type than the tile's: sum<i32>(x, axis<1>).
#define TESSERA_TOTAL(name, Name)                                                                             \
  template <class T, int... D, int K>                                                                         \
    requires(!detail::is_narrow_integer<T>)                                                                   \
  auto name(const Tile<T, D...>& x, Axis<K>, SourceLocation loc = SourceLocation::current()) {                \
    return detail::reduced<lang::ReduceOp::Name, detail::Operands::Numbers, K>(x, loc);                       \
  }                                                                                                           \
  template <class T, int... D>                                                                                \
    requires(!detail::is_narrow_integer<T>)                                                                   \
  Tile<T> name(const Tile<T, D...>& x, SourceLocation loc = SourceLocation::current()) {                      \
    return detail::reduced_to_scalar<lang::ReduceOp::Name, detail::Operands::Numbers>(x, loc);                \
  }                                                                                                           \
  template <class To, class T, int... D, int K>                                                               \
    requires(detail::is_narrow_integer<T> || !std::is_same_v<To, T>)                                          \
  auto name(const Tile<T, D...>& x, Axis<K>, SourceLocation loc = SourceLocation::current()) {                \
    return detail::reduced<lang::ReduceOp::Name, detail::Operands::Numbers, K>(cast<To>(x, loc), loc);        \
  }                                                                                                           \
  template <class To, class T, int... D>                                                                      \
    requires(detail::is_narrow_integer<T> || !std::is_same_v<To, T>)                                          \
  auto name(const Tile<T, D...>& x, SourceLocation loc = SourceLocation::current()) {                         \
    return detail::reduced_to_scalar<lang::ReduceOp::Name, detail::Operands::Numbers>(cast<To>(x, loc), loc); \
  }                                                                                                           \
  template <detail::Unnamed = detail::Unnamed(), class T, int... D, int K>                                    \
    requires detail::is_narrow_integer<T>                                                                     \
  auto name(const Tile<T, D...>& x, Axis<K>, SourceLocation loc = SourceLocation::current()) {                \
    (void)sizeof(detail::ExplainNarrowTotal<T>);                                                              \
    return detail::reduced<lang::ReduceOp::Name, detail::Operands::Numbers, K>(x, loc);                       \
  }                                                                                                           \
  template <detail::Unnamed = detail::Unnamed(), class T, int... D>                                           \
    requires detail::is_narrow_integer<T>                                                                     \
  Tile<T> name(const Tile<T, D...>& x, SourceLocation loc = SourceLocation::current()) {                      \
    (void)sizeof(detail::ExplainNarrowTotal<T>);                                                              \
    return detail::reduced_to_scalar<lang::ReduceOp::Name, detail::Operands::Numbers>(x, loc);                \
  }
TESSERA_TOTAL(sum, Add)
TESSERA_TOTAL(prod, Mul)
#undef TESSERA_TOTAL

// sum(t, 1): explains that an axis is axis<1>. max(t, 1) and min(t, 1) do in math.hpp.
#define TESSERA_AXIS_NUMBER(name)               \
  template <class T, int... D, std::integral S> \
  auto name(const Tile<T, D...>& x, S) {        \
    (void)sizeof(detail::ExplainAxisNumber<S>); \
    return x;                                   \
  }
TESSERA_AXIS_NUMBER(sum)
TESSERA_AXIS_NUMBER(prod)
TESSERA_AXIS_NUMBER(any)
TESSERA_AXIS_NUMBER(all)
TESSERA_AXIS_NUMBER(cumsum)
TESSERA_AXIS_NUMBER(cumprod)
#undef TESSERA_AXIS_NUMBER

/// The result of argmax and argmin.
template <class T, int... D>
struct Extremum {
  Tile<T, D...> value;
  Tile<i32, D...> index;
};

namespace detail {

template <class T, class S>
struct ExtremumOf;
template <class T, int... D>
struct ExtremumOf<T, Shape<D...>> {
  using type = Extremum<T, D...>;
};

template <bool Largest, int A, class T, int... D>
auto extremum(const Tile<T, D...>& x, SourceLocation loc) {
  if constexpr (AxisCheck<sizeof...(D), A>::ok && ElementClassCheck<Operands::Numbers, T>::ok) {
    using S = reduced_t<Shape<D...>, A>;
    const lang::Extremum e = lang::reduce_extremum(Largest, x.value(), Tile<T, D...>::spec, A, loc);
    return typename ExtremumOf<T, S>::type{tile_of_t<T, S>(e.value), tile_of_t<i32, S>(e.index)};
  } else {
    return Extremum<T, D...>{x, Tile<i32, D...>(x.value())};
  }
}
template <bool Largest, class T, int... D>
Extremum<T> extremum_of_all(const Tile<T, D...>& x, SourceLocation loc) {
  constexpr int size = static_cast<int>(Shape<D...>::size);
  const auto [value, index] = extremum<Largest, 0>(reshape(x, shape<size>, loc), loc);
  return {reshape(value, shape<>, loc), reshape(index, shape<>, loc)};
}

}  // namespace detail

template <class T, int... D, std::integral S>
Extremum<T, D...> argmax(const Tile<T, D...>& x, S) {
  (void)sizeof(detail::ExplainAxisNumber<S>);
  return {x, Tile<i32, D...>(x.value())};
}
template <class T, int... D, std::integral S>
Extremum<T, D...> argmin(const Tile<T, D...>& x, S) {
  (void)sizeof(detail::ExplainAxisNumber<S>);
  return {x, Tile<i32, D...>(x.value())};
}
template <class T, int... D, int A>
auto argmax(const Tile<T, D...>& x, Axis<A>, SourceLocation loc = SourceLocation::current()) {
  return detail::extremum<true, A>(x, loc);
}
template <class T, int... D, int A>
auto argmin(const Tile<T, D...>& x, Axis<A>, SourceLocation loc = SourceLocation::current()) {
  return detail::extremum<false, A>(x, loc);
}
/// Over all elements; the index is row-major.
template <class T, int... D>
Extremum<T> argmax(const Tile<T, D...>& x, SourceLocation loc = SourceLocation::current()) {
  return detail::extremum_of_all<true>(x, loc);
}
template <class T, int... D>
Extremum<T> argmin(const Tile<T, D...>& x, SourceLocation loc = SourceLocation::current()) {
  return detail::extremum_of_all<false>(x, loc);
}

namespace detail {

template <class T, class R>
struct CombinerResult {
  static constexpr bool ok = std::is_same_v<R, Tile<T>>;
  static_assert(ok, "the function given to reduce or scan must return a Scalar of the tile's element type");
};
template <class T, class F>
struct CombinerCheck {
  static constexpr bool callable = requires(F f, const Tile<T>& a) { f(a, a); };
  static_assert(callable, "reduce and scan need a function of two Scalar<T>: [](auto a, auto b) { return a + b; }");
  static constexpr bool ok = callable;
};

/// Records `f(accumulator, element)` as the region of a reduce or scan.
template <class T, class F>
ir::Value combined(const lang::Combiner& combiner, F&& f) {
  lang::CombinerRegion region(combiner);
  const Tile<T> accumulator(combiner.accumulator), element(combiner.element);
  auto result = f(accumulator, element);
  (void)sizeof(CombinerResult<T, decltype(result)>);
  return region.close(result.value());
}

}  // namespace detail

/// Combines the elements along an axis with `f`, which must be associative; `identity` must satisfy f(identity, x) =
/// f(x, identity) = x. It is not an initial value: a device may combine it any number of times. `f` may use only its
/// arguments and host numbers (TraceError otherwise).
template <class T, int... D, int A, detail::HostNumber S, class F>
auto reduce(const Tile<T, D...>& x, Axis<A>, S identity, F&& f, SourceLocation loc = SourceLocation::current()) {
  if constexpr (detail::AxisCheck<sizeof...(D), A>::ok && detail::Literal<T, S>::ok &&
                detail::CombinerCheck<T, F>::ok) {
    using Result = detail::tile_of_t<T, detail::reduced_t<Shape<D...>, A>>;
    const lang::Combiner c = lang::open_reduce(x.value(), Tile<T, D...>::spec, A, lang::host_value(identity), loc);
    return Result(lang::reshape(detail::combined<T>(c, f), Result::spec, loc));
  } else {
    return x;
  }
}

namespace detail {

template <int A, class T, int... D, class S, class F>
Tile<T, D...> scanned(const Tile<T, D...>& x, S identity, F&& f, bool reverse, SourceLocation loc) {
  if constexpr (AxisCheck<sizeof...(D), A>::ok && Literal<T, S>::ok && CombinerCheck<T, F>::ok) {
    const lang::Combiner c =
        lang::open_scan(x.value(), Tile<T, D...>::spec, A, reverse, lang::host_value(identity), loc);
    return Tile<T, D...>(combined<T>(c, f));
  } else {
    return x;
  }
}
template <lang::ReduceOp O, int A, class T, int... D>
Tile<T, D...> accumulated(const Tile<T, D...>& x, bool reverse, SourceLocation loc) {
  if constexpr (AxisCheck<sizeof...(D), A>::ok && ElementClassCheck<Operands::Numbers, T>::ok)
    return Tile<T, D...>(lang::scan(O, x.value(), Tile<T, D...>::spec, A, reverse, loc));
  else
    return x;
}

}  // namespace detail

/// Element i of the result combines the elements 0 to i of `x` along the axis; as reduce otherwise.
template <class T, int... D, int A, detail::HostNumber S, class F>
auto scan(const Tile<T, D...>& x, Axis<A>, S identity, F&& f, SourceLocation loc = SourceLocation::current()) {
  return detail::scanned<A>(x, identity, f, false, loc);
}
template <class T, int... D, int A, detail::HostNumber S, class F>
auto scan(const Tile<T, D...>& x, Axis<A>, S identity, F&& f, Backward,
          SourceLocation loc = SourceLocation::current()) {
  return detail::scanned<A>(x, identity, f, true, loc);
}

namespace detail {

/// Explains a reduce or scan whose arguments are no tile, axis<k> and one number.
template <class X, class A, class S>
struct ExplainCombined {
  static_assert(
      is_tile<X>,
      "reduce and scan combine one tile: several values that belong together, as in a linear recurrence, take "
      "a loop over slices (extract), or running sums and products of each tile (cumsum, cumprod)");
  static_assert(!is_tile<X> || is_axis<A>, "write the axis as axis<k>, as in scan(t, axis<1>, 0.0f, f)");
  static_assert(!is_tile<X> || !is_axis<A> || HostNumber<S>,
                "the identity of reduce and scan is a number of the host, as in reduce(t, axis<1>, 0.0f, f)");
};
/// What reduce and scan take.
template <class X, class A, class S>
inline constexpr bool combines = is_tile<X> && is_axis<A> && HostNumber<S>;

}  // namespace detail

#define TESSERA_COMBINED_CHECK(name)                               \
  template <class X, class A, class S, class F, class... More>     \
    requires(!detail::combines<X, A, S>)                           \
  auto name(const X& x, const A&, const S&, F&&, const More&...) { \
    (void)sizeof(detail::ExplainCombined<X, A, S>);                \
    return x;                                                      \
  }
TESSERA_COMBINED_CHECK(reduce)
TESSERA_COMBINED_CHECK(scan)
#undef TESSERA_COMBINED_CHECK

#define TESSERA_RUNNING(name, Name)                                                                                \
  template <class T, int... D, int A>                                                                              \
    requires(!detail::is_narrow_integer<T>)                                                                        \
  Tile<T, D...> name(const Tile<T, D...>& x, Axis<A>, SourceLocation loc = SourceLocation::current()) {            \
    return detail::accumulated<lang::ReduceOp::Name, A>(x, false, loc);                                            \
  }                                                                                                                \
  template <class T, int... D, int A>                                                                              \
    requires(!detail::is_narrow_integer<T>)                                                                        \
  Tile<T, D...> name(const Tile<T, D...>& x, Axis<A>, Backward, SourceLocation loc = SourceLocation::current()) {  \
    return detail::accumulated<lang::ReduceOp::Name, A>(x, true, loc);                                             \
  }                                                                                                                \
  template <class To, class T, int... D, int A>                                                                    \
    requires(detail::is_narrow_integer<T> || !std::is_same_v<To, T>)                                               \
  Tile<To, D...> name(const Tile<T, D...>& x, Axis<A>, SourceLocation loc = SourceLocation::current()) {           \
    return detail::accumulated<lang::ReduceOp::Name, A>(cast<To>(x, loc), false, loc);                             \
  }                                                                                                                \
  template <class To, class T, int... D, int A>                                                                    \
    requires(detail::is_narrow_integer<T> || !std::is_same_v<To, T>)                                               \
  Tile<To, D...> name(const Tile<T, D...>& x, Axis<A>, Backward, SourceLocation loc = SourceLocation::current()) { \
    return detail::accumulated<lang::ReduceOp::Name, A>(cast<To>(x, loc), true, loc);                              \
  }                                                                                                                \
  template <detail::Unnamed = detail::Unnamed(), class T, int... D, int A, class... Direction>                     \
    requires detail::is_narrow_integer<T>                                                                          \
  Tile<T, D...> name(const Tile<T, D...>& x, Axis<A>, Direction...) {                                              \
    (void)sizeof(detail::ExplainNarrowTotal<T>);                                                                   \
    return x;                                                                                                      \
  }
TESSERA_RUNNING(cumsum, Add)
TESSERA_RUNNING(cumprod, Mul)
#undef TESSERA_RUNNING

}  // namespace tessera
