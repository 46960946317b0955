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
