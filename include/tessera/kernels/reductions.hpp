// What a reduction computes: its padding and identity, how two tiles combine, what is left of a tile, and how the
// result follows from that and the number of elements. Classes without state, so that they can be template arguments.
#pragma once
#include <limits>

#include "tessera/lang/lang.hpp"

namespace tessera::kernels::reductions {

struct Sum {
  static constexpr const char* name = "sum";
  static constexpr bool empty_ok = true;  ///< of no elements: the identity
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
  static constexpr const char* name = "mean";
  static constexpr bool empty_ok = false;
  static auto finish(const auto& v, const auto& count) { return v / count; }
};
template <bool Largest>
struct Extreme {
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
