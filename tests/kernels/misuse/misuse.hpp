// The table of misuse. A row is one legal call of a public entry of the kernel library: the extents of its operands by
// letters, its numbers, and the call. The misuses are derived from that:
//   - every axis one longer and one shorter: rejected where the letter stands elsewhere too, legal where it does not
//   - every letter 0, and so large that extents overflow beside a 0
//   - every operand empty, moved away, written or (where it is given) read by an operation that has not run
//   - a given operand read by the same call
//   - numbers out of range
// Each is a tessera::Error that names a line of the row's file; the operands keep what they hold, and the legal call
// works afterwards. Views with gaps, and numbers at the ends of their ranges, are legal.
#pragma once
#include <gtest/gtest.h>
#include <algorithm>

#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tessera/tessera.hpp"

namespace tessera::misuse {

/// A letter of the extents. `least` and `most`: the range that the function accepts. `tied`: no other extent is legal
/// by itself.
struct Axis {
  char name;
  int value;
  int least = 0, most = 1 << 20;
  bool tied = false;
};

/// A tensor that is read, its axes by letters; integers are below `limit`.
template <Element T, int R>
struct Read {
  const char* axes;
  int limit = 3;
};
/// A tensor that is given and returned.
template <Element T, int R>
struct Given {
  const char* axes;
};
/// A number: the usual one, rejected ones, further accepted ones.
struct Number {
  double usual;
  std::vector<double> rejected, taken;
};

namespace detail {

using Values = std::vector<std::vector<double>>;

template <class T>
void read_back(const T& result, Values& out) {
  if constexpr (requires { result.dims(); })
    out.push_back(host(cast<f64>(result.view())).sync());
  else
    std::apply([&](const auto&... part) { (read_back(part, out), ...); }, result);
}

template <Element T, int R>
Tensor<T, R> filled(const std::array<int, static_cast<std::size_t>(R)>& extents, int limit) {
  std::array<std::int64_t, static_cast<std::size_t>(R)> dims{};
  std::copy(extents.begin(), extents.end(), dims.begin());
  const Dims<R> all = Dims<R>::from(dims);
  std::vector<T> v(static_cast<std::size_t>(all.numel()));
  for (std::size_t i = 0; i < v.size(); ++i) {
    if constexpr (std::is_integral_v<T>)
      v[i] = static_cast<T>(static_cast<int>(i) % limit);
    else
      v[i] = static_cast<T>(static_cast<float>(static_cast<int>(i * 37 % 19) - 9) / 8);
  }
  return from(v, all).sync();
}
/// All axes from 1 on.
template <int Axis, Element T, int R>
View<T, R> inner(const View<T, R>& x) {
  if constexpr (Axis == R)
    return x;
  else
    return inner<Axis + 1>(x.template slice<Axis>(1, x.dim(Axis)));
}

/// The state of a row's operand during a misuse.
template <class O>
struct Slot;
template <Element T, int R>
struct Slot<Read<T, R>> {
  static constexpr bool tensor = true, given = false;
  Tensor<T, R> t;
  View<T, R> v;
  std::vector<double> before;
  const Tensor<T, R>& pass() { return t; }
  const View<T, R>& pass_view() { return v; }
};
template <Element T, int R>
struct Slot<Given<T, R>> {
  static constexpr bool tensor = true, given = true;
  Tensor<T, R> t;
  std::vector<double> before;
  Tensor<T, R>&& pass() { return std::move(t); }
  Tensor<T, R>&& pass_view() { return std::move(t); }
};
template <>
struct Slot<Number> {
  static constexpr bool tensor = false, given = false;
  double value = 0;
  double pass() const { return value; }
  double pass_view() const { return value; }
};

template <class Call, class... O>
class Row {
 public:
  Row(const char* entry, std::vector<Axis> axes, Call call, SourceLocation where, std::tuple<O...> operands)
      : entry_(entry), file_(where.file), axes_(std::move(axes)), call_(call), operands_(std::move(operands)) {
    file_.erase(0, file_.rfind('/') + 1);
    fill();
    legal_ = run();
    fill();
  }
  void check() {
    each([&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
      if constexpr (is_tensor<I>) {
        check_extents<I>();
        check_absent<I>();
        check_leases<I>();
      } else {
        check_numbers<I>();
      }
    });
    check_letters();
    check_overflow();
    check_views();
    check_aliases();
  }

 private:
  static constexpr auto kAll = std::index_sequence_for<O...>{};
  template <std::size_t I>
  using operand = std::tuple_element_t<I, std::tuple<O...>>;
  template <std::size_t I>
  static constexpr bool is_tensor = Slot<operand<I>>::tensor;

  template <class F>
  void each(F f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) { (f(std::integral_constant<std::size_t, I>{}), ...); }(kAll);
  }
  const Axis& axis(char name) const {
    for (const Axis& a : axes_)
      if (a.name == name) return a;
    throw std::logic_error(std::string("no axis ") + name);
  }
  template <Element T, int R, class Spec>
  Tensor<T, R> made(const Spec& spec, int axis_changed, int extent, int limit) const {
    std::array<int, static_cast<std::size_t>(R)> dims{};
    for (std::size_t i = 0; i < dims.size(); ++i) {
      const auto set = overrides_.find(spec.axes[i]);
      dims[i] = set != overrides_.end() ? set->second : axis(spec.axes[i]).value;
      if (static_cast<int>(i) == axis_changed) dims[i] = extent;
    }
    return filled<T, R>(dims, limit);
  }
  template <Element T, int R>
  void fill_one(Slot<Read<T, R>>& s, const Read<T, R>& spec, int axis_changed = -1, int extent = 0) const {
    s.t = made<T, R>(spec, axis_changed, extent, spec.limit);
    s.before = host(cast<f64>(s.t.view())).sync();
  }
  template <Element T, int R>
  void fill_one(Slot<Given<T, R>>& s, const Given<T, R>& spec, int axis_changed = -1, int extent = 0) const {
    s.t = made<T, R>(spec, axis_changed, extent, 3);
    s.before = host(cast<f64>(s.t.view())).sync();
  }
  void fill_one(Slot<Number>& s, const Number& spec, int = -1, int = 0) const { s.value = spec.usual; }
  void fill() {
    each([&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
      fill_one(std::get<I>(slots_), std::get<I>(operands_));
    });
  }
  auto build() {
    return std::apply([&](auto&... s) { return call_(s.pass()...); }, slots_);
  }
  Values run() {
    Values out;
    read_back(build().sync(), out);
    return out;
  }
  Values run_views() {
    Values out;
    read_back(std::apply([&](auto&... s) { return call_(s.pass_view()...); }, slots_).sync(), out);
    return out;
  }

  void expect_message(const Error& e, const std::string& what) const {
    const std::string text = e.what();
    EXPECT_NE(text.find(file_ + ":"), std::string::npos) << what << " names another line: " << text;
  }
  /// The tensors hold what they held, except for `but`; the legal call works as before.
  void expect_intact(const std::string& what, std::size_t but = sizeof...(O)) {
    each([&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
      if constexpr (is_tensor<I>) {
        if (I == but) return;
        auto& s = std::get<I>(slots_);
        try {
          EXPECT_EQ(host(cast<f64>(s.t.view())).sync(), s.before) << what << " changed operand " << I + 1;
        } catch (const Error& e) { ADD_FAILURE() << what << " took operand " << I + 1 << ": " << e.what(); }
      }
    });
    overrides_.clear();
    fill();
    try {
      expect_same(run(), what + ", and the legal call afterwards");
    } catch (const Error& e) { ADD_FAILURE() << what << " breaks the legal call: " << e.what(); }
    fill();
  }
  void expect_same(const Values& got, const std::string& what) const {
    ASSERT_EQ(got.size(), legal_.size()) << what;
    for (std::size_t r = 0; r < got.size(); ++r) {
      ASSERT_EQ(got[r].size(), legal_[r].size()) << what;
      for (std::size_t i = 0; i < got[r].size(); ++i) {
        if (std::isnan(got[r][i]) && std::isnan(legal_[r][i])) continue;
        ASSERT_NEAR(got[r][i], legal_[r][i], 1e-2 + 1e-2 * std::abs(legal_[r][i])) << what;
      }
    }
  }
  enum class Want { Rejected, Legal, Either };
  /// Runs the call with the current slots.
  template <class Expected = Error>
  void attempt(Want want, const std::string& how, std::size_t but = sizeof...(O)) {
    const std::string what = std::string(entry_) + ", " + how;
    SCOPED_TRACE(what);
    bool thrown = false;
    try {
      (void)run();
    } catch (const Expected& e) {
      thrown = true;
      expect_message(e, what);
      EXPECT_NE(want, Want::Legal) << what << " is legal: " << e.what();
    } catch (const std::exception& e) {
      thrown = true;
      ADD_FAILURE() << what << " throws something else: " << e.what();
    }
    if (!thrown) {
      EXPECT_NE(want, Want::Rejected) << what << " was accepted";
      fill();  // given tensors are gone
    }
    expect_intact(what, thrown ? but : sizeof...(O));
  }

  int uses(char name) const {
    int n = 0;
    const auto count = [&](const auto& spec) {
      if constexpr (requires { spec.axes; })
        for (const char* c = spec.axes; *c; ++c) n += *c == name;
    };
    std::apply([&](const auto&... spec) { (count(spec), ...); }, operands_);
    return n;
  }
  template <std::size_t I>
  void check_extents() {
    const auto& spec = std::get<I>(operands_);
    for (int i = 0; spec.axes[i]; ++i) {
      const Axis& a = axis(spec.axes[i]);
      for (const int extent : {a.value - 1, a.value + 1, 0}) {
        const bool free = uses(a.name) == 1 && !a.tied && extent >= a.least && extent <= a.most;
        fill_one(std::get<I>(slots_), spec, i, extent);
        const bool multiple = a.tied && extent == 0 && a.least == 0 && uses(a.name) == 1;  // 0 is one of any number
        attempt(free       ? Want::Legal
                : multiple ? Want::Either
                           : Want::Rejected,
                "operand " + std::to_string(I + 1) + ", axis " + std::to_string(i) + " of " + std::to_string(a.value) +
                    " made " + std::to_string(extent));
      }
    }
  }
  template <std::size_t I>
  void check_absent() {
    auto& s = std::get<I>(slots_);
    s.t = {};
    attempt<BorrowError>(Want::Rejected, "operand " + std::to_string(I + 1) + " empty", I);
    const auto elsewhere = std::move(s.t);
    attempt<BorrowError>(Want::Rejected, "operand " + std::to_string(I + 1) + " moved away", I);
  }
  template <std::size_t I>
  void check_leases() {
    auto& s = std::get<I>(slots_);
    const std::string number = std::to_string(I + 1);
    const auto rejected = [&](const std::string& how) {
      try {
        (void)build();
        ADD_FAILURE() << entry_ << ", operand " << number << how << " was accepted";
      } catch (const BorrowError& e) { expect_message(e, std::string(entry_) + ", operand " + number + how); }
    };
    {
      const auto other = clone(s.t).sync();
      const auto writer = copy_into(mut(s.t), other);
      rejected(" being written");
    }
    expect_intact("operand " + number + " being written");
    if constexpr (Slot<operand<I>>::given) {
      const auto reader = clone(s.t);
      rejected(" being read");
    }
    expect_intact("operand " + number + " being read");
  }
  template <std::size_t I>
  void check_numbers() {
    const Number& spec = std::get<I>(operands_);
    for (const double bad : spec.rejected) {
      std::get<I>(slots_).value = bad;
      attempt(Want::Rejected, "number " + std::to_string(I + 1) + " = " + std::to_string(bad));
    }
    for (const double good : spec.taken) {
      std::get<I>(slots_).value = good;
      attempt(Want::Legal, "number " + std::to_string(I + 1) + " = " + std::to_string(good));
    }
  }
  /// No elements along an axis.
  void check_letters() {
    for (const Axis& a : axes_) {
      overrides_ = {{a.name, 0}};
      fill();
      attempt(a.least > 0 ? Want::Rejected : Want::Either, std::string("axis ") + a.name + " made 0 everywhere");
    }
  }
  /// 2^31 - 1 elements along some axes of operands without elements: the result of the call may be impossible.
  void check_overflow() {
    for (const Axis& zero : axes_) {
      if (!all_have(zero.name)) continue;
      for (const Axis& a : axes_) overrides_[a.name] = a.most < (1 << 20) ? a.most : 0x7fffffff;
      overrides_[zero.name] = 0;
      fill();
      const std::string what = std::string(entry_) + ", all axes but " + zero.name + " as long as can be";
      try {
        (void)build();
        fill();
      } catch (const Error& e) { expect_message(e, what); } catch (const std::exception& e) {
        ADD_FAILURE() << what << " throws something else: " << e.what();
      }
      expect_intact(what);
    }
  }
  bool all_have(char name) const {
    bool all = true;
    const auto look = [&](const auto& spec) {
      if constexpr (requires { spec.axes; }) all = all && std::string(spec.axes).find(name) != std::string::npos;
    };
    std::apply([&](const auto&... spec) { (look(spec), ...); }, operands_);
    return all;
  }
  template <Element T, int R>
  void widen_slot(Slot<Read<T, R>>& s) const {  // the same elements inside a larger tensor
    std::array<int, static_cast<std::size_t>(R)> dims{};
    for (int i = 0; i < R; ++i) dims[static_cast<std::size_t>(i)] = static_cast<int>(s.t.dim(i)) + 1;
    auto big = filled<T, R>(dims, 1);
    copy_inner<0>(mut(big), s.t);
    s.v = inner<0>(big.view());
  }
  template <int, Element T, int R>
  static void copy_inner(Lend<T, R> to, const Tensor<T, R>& from) {
    if constexpr (R == 1)
      copy_into(std::move(to).template slice<0>(1, from.dim(0) + 1), from).sync();
    else if constexpr (R == 2)
      copy_into(std::move(to).template slice<0>(1, from.dim(0) + 1).template slice<1>(1, from.dim(1) + 1), from).sync();
    else if constexpr (R == 3)
      copy_into(std::move(to)
                    .template slice<0>(1, from.dim(0) + 1)
                    .template slice<1>(1, from.dim(1) + 1)
                    .template slice<2>(1, from.dim(2) + 1),
                from)
          .sync();
    else
      copy_into(std::move(to)
                    .template slice<0>(1, from.dim(0) + 1)
                    .template slice<1>(1, from.dim(1) + 1)
                    .template slice<2>(1, from.dim(2) + 1)
                    .template slice<3>(1, from.dim(3) + 1),
                from)
          .sync();
  }
  template <class S>
  void widen_slot(S&) const {}
  void check_views() {
    fill();
    std::apply([&](auto&... s) { (widen_slot(s), ...); }, slots_);
    try {
      expect_same(run_views(), std::string(entry_) + ", views with gaps");
    } catch (const ShapeError& e) {  // an entry that takes no gaps says so
      expect_message(e, std::string(entry_) + ", views with gaps");
      EXPECT_NE(std::string(e.what()).find("contiguous"), std::string::npos) << entry_ << ": " << e.what();
    }
    fill();
    set_views();
    expect_same(run_views(), std::string(entry_) + ", views");
    fill();
    expect_intact(std::string(entry_) + ", views");
  }
  void set_views() {
    each([&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
      if constexpr (is_tensor<I> && !Slot<operand<I>>::given) std::get<I>(slots_).v = std::get<I>(slots_).t.view();
    });
  }
  /// A given operand that the same call reads.
  void check_aliases() {
    each([&]<std::size_t G>(std::integral_constant<std::size_t, G>) {
      if constexpr (is_tensor<G> && Slot<operand<G>>::given) check_aliases_of(std::get<G>(slots_));
    });
  }
  void check_aliases_of(auto& given) {
    each([&]<std::size_t I>(std::integral_constant<std::size_t, I>) {
      if constexpr (is_tensor<I> && !Slot<operand<I>>::given) {
        auto& read = std::get<I>(slots_);
        if constexpr (std::is_same_v<decltype(given.t), decltype(read.t)>) {
          fill();
          set_views();
          if (given.t.dims() != read.t.dims()) return;
          read.v = given.t.view();
          const std::string what = std::string(entry_) + ", operand " + std::to_string(I + 1) + " is the given one";
          try {
            (void)run_views();
            ADD_FAILURE() << what << " was accepted";
          } catch (const BorrowError& e) { expect_message(e, what); }
          expect_intact(what);
        }
      }
    });
  }

  const char* entry_;
  std::string file_;
  std::vector<Axis> axes_;
  Call call_;
  std::tuple<O...> operands_;
  std::tuple<Slot<O>...> slots_;
  std::map<char, int> overrides_;
  Values legal_;
};

}  // namespace detail

/// Misuses the entry in every way that its row allows. `where` is the row: messages name a line of its file.
template <class Call, class... O>
void misuse(const char* entry, std::vector<Axis> axes, Call call, std::tuple<O...> operands,
            SourceLocation where = SourceLocation::current()) {
  SCOPED_TRACE(entry);
  try {
    detail::Row<Call, O...>(entry, std::move(axes), call, where, std::move(operands)).check();
  } catch (const std::exception& e) { ADD_FAILURE() << entry << ": " << e.what(); }
}

}  // namespace tessera::misuse
