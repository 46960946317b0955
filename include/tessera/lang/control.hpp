// Control flow on the device. Plain C++ control flow runs while the kernel is traced (it specialises and unrolls);
// these run in the kernel:
//
//   for (auto i : range(n)) {...}          range(lo, hi), range(lo, hi, step): i32 or another integer type, step > 0
//   tile_if (c) {...} else tile_if (d) {...} else {...}
//   tile_while (c) {...}
//
// Bodies are traced once. Tiles assigned in them keep their values afterwards, tiles declared in them end with them;
// `break` and `return` out of them are a TraceError. `continue` in a body is not reported: C++ gives the tracer no way
// to see it. In tile_if it ends only the arm, and what follows the tile_if in the loop's body runs in any case. (One
// case is a TraceError: a true arm that records nothing at all.) The lint tests/structure/regions_lint.py finds it, and
// host variables that a body assigns: docs/guide/06-control-flow.md.
#pragma once
#include "tessera/lang/ops.hpp"

namespace tessera {
namespace lang {

/// An open region of the trace. It is closed exactly once, by every path that leaves it.
class Region {
 public:
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

 protected:
  explicit Region(SourceLocation loc);
  /// `advice` is the message if the region was left without being closed and no exception is in flight.
  void leave(const char* advice) noexcept;
  void opened();
  void closed() { tracer_ = nullptr; }
  bool is_open() const { return tracer_ != nullptr; }

  SourceLocation loc_;

 private:
  Tracer* tracer_ = nullptr;  ///< while open
  std::size_t depth_ = 0;
  int exceptions_;
};

/// The arguments of range() as variables, which are read where a loop over it begins.
struct RangeBounds {
  RangeBounds(ir::Value lo, ir::Value hi, ir::Value step, bool is_unsigned, SourceLocation loc);
  Var lo, hi, step;
  bool is_unsigned;
  SourceLocation loc;
};

/// One loop over a range: open from its construction until close().
class ForLoop : Region {
 public:
  explicit ForLoop(const RangeBounds&);
  ~ForLoop();
  ir::Value induction() const;  ///< throws TraceError after close()
  void close();                 ///< throws TraceError the second time
  using Region::is_open;

 private:
  ir::Value induction_;
};

/// tile_if: visits the true arm, then the false arm.
class Branch : Region {
 public:
  Branch(ir::Value condition, SourceLocation loc);
  ~Branch();

  struct End {};
  class Iterator {
   public:
    explicit Iterator(Branch* branch) : branch_(branch) {}
    bool operator*() const { return branch_->enter(arm_ == 0); }
    Iterator& operator++() {
      branch_->leave_arm(arm_++ == 0);
      return *this;
    }
    bool operator!=(End) const { return arm_ < 2; }

   private:
    Branch* branch_;
    int arm_ = 0;
  };
  Iterator begin() { return Iterator(this); }
  End end() const { return {}; }

 private:
  bool enter(bool first);
  void leave_arm(bool first);
  Var condition_;
};

/// tile_while: a loop that ends when its condition is false.
class While : Region {
 public:
  explicit While(SourceLocation loc = SourceLocation::current());
  ~While();
  template <class Condition>
  bool next(Condition&& condition);

 private:
  bool begin_body();  ///< false after the body has been traced
  void test(ir::Value condition);
  bool traced_ = false;
};

}  // namespace lang

namespace detail {

template <class C>
struct ConditionOf {
  static_assert(never<C>,
                "tile_if and tile_while need a condition of the device: a Scalar<bool>. For a host condition write if");
};
template <class T, int... D>
struct ConditionOf<Tile<T, D...>> {
  static_assert(std::is_same_v<T, bool>, "tile_if and tile_while need a Scalar<bool>: compare first, as in x != 0");
  static_assert(
      !std::is_same_v<T, bool> || sizeof...(D) == 0,
      "tile_if and tile_while need one condition for the whole block: a Scalar<bool>. Use where(mask, a, b) to choose "
      "element by element, or any(mask) or all(mask) for one condition");
  static constexpr bool ok = std::is_same_v<T, bool> && sizeof...(D) == 0;
};

template <class C>
ir::Value condition(const C& c) {
  (void)sizeof(ConditionOf<C>);
  if constexpr (requires { c.value(); })
    return c.value();
  else
    return lang::splat(spec_of<bool, Shape<>>, 0);
}

template <class C>
lang::Branch branch(const C& c, SourceLocation loc = SourceLocation::current()) {
  return lang::Branch(condition(c), loc);
}

template <class T>
class Range {
 public:
  Range(ir::Value lo, ir::Value hi, ir::Value step, SourceLocation loc)
      : bounds_(lo, hi, step, element_class<T> == ElementClass::Unsigned, loc) {}

  struct End {};
  class Iterator : lang::ForLoop {
   public:
    using lang::ForLoop::ForLoop;
    Tile<T> operator*() const { return Tile<T>(induction()); }
    Iterator& operator++() {
      close();
      return *this;
    }
    bool operator!=(End) const { return is_open(); }
  };
  Iterator begin() const { return Iterator(bounds_); }
  End end() const { return {}; }

 private:
  lang::RangeBounds bounds_;
};

/// A bound of a range: a scalar tile of integers or an integer of the host.
template <class X>
struct Bound {
  static constexpr bool ok = is_host_integer<X>;
  static constexpr bool is_tile = false;
  using element = i32;
};
template <class T, int... D>
struct Bound<Tile<T, D...>> {
  static constexpr bool ok = is_integer<T> && sizeof...(D) == 0;
  static constexpr bool is_tile = true;
  using element = T;
};
template <class A, class B, class C>
using bound_element =
    std::conditional_t<Bound<A>::is_tile, typename Bound<A>::element,
                       std::conditional_t<Bound<B>::is_tile, typename Bound<B>::element, typename Bound<C>::element>>;

template <class A, class B, class C>
struct RangeCheck {
  using T = bound_element<A, B, C>;
  static constexpr bool integers = Bound<A>::ok && Bound<B>::ok && Bound<C>::ok;
  template <class X>
  static constexpr bool same = !Bound<X>::is_tile || std::is_same_v<typename Bound<X>::element, T>;
  static_assert(integers, "range takes integers of the host and scalars of integers: convert with cast<i32>(x)");
  static_assert(!integers || (same<A> && same<B> && same<C>),
                "the bounds and step of a range must have one element type: convert with cast<i32>(x)");
  static constexpr bool ok = integers && same<A> && same<B> && same<C>;
};

template <class T, class X>
ir::Value bound(const X& x) {
  if constexpr (Bound<X>::is_tile)
    return x.value();
  else
    return lang::splat(spec_of<T, Shape<>>, x);
}

template <class A, class B, class C>
auto make_range(const A& lo, const B& hi, const C& step, SourceLocation loc) {
  using T = bound_element<A, B, C>;
  if constexpr (RangeCheck<A, B, C>::ok) {
    const ir::Value a = bound<T>(lo), b = bound<T>(hi);
    return Range<T>(a, b, bound<T>(step), loc);
  } else {
    const ir::Value zero = lang::splat(spec_of<i32, Shape<>>, 0);
    return Range<i32>(zero, zero, zero, loc);
  }
}

}  // namespace detail

template <class Condition>
bool lang::While::next(Condition&& condition) {
  if (!begin_body()) return false;
  test(::tessera::detail::condition(condition()));
  return true;
}

/// 0, 1, ..., n - 1 on the device; nothing if n <= 0.
template <class N>
auto range(const N& n, SourceLocation loc = SourceLocation::current()) {
  return detail::make_range(0, n, 1, loc);
}
/// lo, lo + 1, ..., hi - 1
template <class A, class B>
auto range(const A& lo, const B& hi, SourceLocation loc = SourceLocation::current()) {
  return detail::make_range(lo, hi, 1, loc);
}
/// lo, lo + step, ... below hi. The step must be positive: a host number that is not is a TraceError; a device value
/// below 1 counts as 1.
template <class A, class B, class C>
auto range(const A& lo, const B& hi, const C& step, SourceLocation loc = SourceLocation::current()) {
  return detail::make_range(lo, hi, step, loc);
}

}  // namespace tessera

// A range over both arms, so that the language's own `else` binds.
#define tile_if(...)                                               \
  for (bool tessera_arm_ : ::tessera::detail::branch(__VA_ARGS__)) \
    if (tessera_arm_)
#define tile_while(...) for (::tessera::lang::While tessera_while_; tessera_while_.next([&] { return (__VA_ARGS__); });)
