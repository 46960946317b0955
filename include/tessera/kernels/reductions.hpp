// The definition of each reduction: its padding and identity, how two tiles combine, how a tile is reduced, and how the
// result follows from that and the number of elements. Classes without state, so that they can be template arguments.
#pragma once
#include <limits>

#include "tessera/kernels/common.hpp"

namespace tessera::kernels::reductions {

/// The 64-bit integer of T's sign: exact for sums of 2^31 elements of up to 32 bits.
template <class T>
using wide_t = std::conditional_t<element_class<T> == ElementClass::Signed, i64, u64>;

// A reduction of T is computed in three element types: `lane` accumulates at one position of the tiles, `across`
// combines the positions, `result` is stored.

struct Sum {
  /// A position adds at most 2^31 / 4096 elements: for 8-bit elements the sum fits in 32 bits, for 16-bit elements it
  /// does not.
  template <class T>
  struct Types {
    static constexpr bool floating = element_class<T> == ElementClass::Float;
    using small = std::conditional_t<element_class<T> == ElementClass::Signed, i32, u32>;
    using across = std::conditional_t<floating, compute_t<T>, wide_t<T>>;
    using lane = std::conditional_t<floating || sizeof(T) != 1, across, small>;
    using result = across;
  };
  static constexpr const char* name = "sum";
  static constexpr bool empty_ok = true;  ///< without elements the result is the identity
  template <class T>
  static auto padding() {
    return pad::zero;
  }
  template <class U>
  static constexpr U identity() {
    return U(0);
  }
  static auto combine(const auto& a, const auto& b) { return a + b; }
  static auto across(const auto& t) { return sum(t, axis<1>); }
  static auto finish(const auto& v, const auto&) { return v; }
};
struct Mean : Sum {
  template <class T>
  struct Types : Sum::Types<T> {
    using result = compute_t<T>;
  };
  static constexpr const char* name = "mean";
  static constexpr bool empty_ok = false;
  static auto finish(const auto& v, const auto& count) { return v / count; }
};
template <bool Largest>
struct Extreme {
  template <class T>
  struct Types {
    using lane = compute_t<T>;
    using across = lane;
    using result = lane;
  };
  static constexpr const char* name = Largest ? "max" : "min";
  static constexpr bool empty_ok = false;
  template <class U>
  static constexpr U identity() {
    using Limits = std::numeric_limits<U>;
    if constexpr (Limits::has_infinity)
      return Largest ? -Limits::infinity() : Limits::infinity();
    else
      return Largest ? Limits::lowest() : Limits::max();
  }
  template <class T>
  static auto padding() {
    if constexpr (!is_float<T>)
      return pad(identity<T>());
    else if constexpr (Largest)
      return pad::neg_inf;
    else
      return pad::pos_inf;
  }
  static auto combine(const auto& a, const auto& b) {
    if constexpr (Largest)
      return max(a, b);
    else
      return min(a, b);
  }
  static auto across(const auto& t) {
    if constexpr (Largest)
      return max(t, axis<1>);
    else
      return min(t, axis<1>);
  }
  static auto finish(const auto& v, const auto&) { return v; }

 private:
  template <class T>
  static constexpr bool is_float = element_class<T> == ElementClass::Float;
};
using Max = Extreme<true>;
using Min = Extreme<false>;

}  // namespace tessera::kernels::reductions
