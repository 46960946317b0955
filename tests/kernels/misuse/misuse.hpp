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
#include <array>
#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>
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
Tensor<T, R> filled(const std::vector<int>& extents, int limit) {
  std::array<std::int64_t, static_cast<std::size_t>(R)> dims{};
  std::copy_n(extents.begin(), R, dims.begin());
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
/// All axes from 1 to their ends, of a tensor that is read or lent.
template <int Axis = 0, class V>
V inner(V x, const std::vector<int>& ends) {
  if constexpr (Axis == V::rank)
    return x;
  else
    return inner<Axis + 1>(std::move(x).template slice<Axis>(1, ends[Axis]), ends);
}

/// An operand of a row during a misuse. What a row does with it is written once for all types (misuse.cpp): each row
/// has types of its own, and a template of all this took most of the time that these tests compile.
class Operand {
 public:
  virtual ~Operand() = default;
  /// Letters of its axes; none of a number.
  virtual const char* axes() const { return ""; }
  virtual bool given() const { return false; }
  virtual const Number* number() const { return nullptr; }
  virtual void set(double /*value*/) {}
  /// What it holds in a legal call, in a tensor of these extents.
  virtual void fill(const std::vector<int>& extents) = 0;
  /// Whether a tensor holds what it was filled with.
  virtual bool intact() const { return true; }
  virtual void make_empty() {}
  virtual void move_away() {}
  /// Calls `body` while an operation writes or reads the tensor.
  virtual void while_written(const std::function<void()>& /*body*/) {}
  virtual void while_read(const std::function<void()>& /*body*/) {}
  /// What pass_view() gives: the tensor, or its elements inside a larger tensor.
  virtual void view_all() {}
  virtual void view_with_gaps() {}
  /// pass_view() gives a view of `other`, if that has the same type and extents.
  virtual bool view_of(const Operand& /*other*/) { return false; }
};

template <Element T, int R>
class TensorOperand : public Operand {
 public:
  TensorOperand(const char* axes, int limit) : axes_(axes), limit_(limit) {}
  const char* axes() const final { return axes_; }
  void fill(const std::vector<int>& extents) final {
    t_ = filled<T, R>(extents, limit_);
    before_ = elements();
  }
  bool intact() const final { return elements() == before_; }
  void make_empty() final { t_ = {}; }
  void move_away() final { elsewhere_ = std::move(t_); }
  void while_written(const std::function<void()>& body) final {
    const auto other = clone(t_).sync();
    const auto writer = copy_into(mut(t_), other);
    body();
  }
  void while_read(const std::function<void()>& body) final {
    const auto reader = clone(t_);
    body();
  }

 protected:
  std::vector<double> elements() const { return host(cast<f64>(t_.view())).sync(); }
  const char* axes_;
  int limit_;
  Tensor<T, R> t_, elsewhere_;
  std::vector<double> before_;
};

template <class O>
class Slot;
template <Element T, int R>
class Slot<Read<T, R>> final : public TensorOperand<T, R> {
 public:
  explicit Slot(const Read<T, R>& spec) : TensorOperand<T, R>(spec.axes, spec.limit) {}
  const Tensor<T, R>& pass() { return this->t_; }
  const View<T, R>& pass_view() { return v_; }
  void view_all() override { v_ = this->t_.view(); }
  void view_with_gaps() override {
    std::vector<int> ends;
    for (int i = 0; i < R; ++i) ends.push_back(static_cast<int>(this->t_.dim(i)) + 1);
    auto big = filled<T, R>(ends, 1);
    copy_into(inner(mut(big), ends), this->t_).sync();
    v_ = inner(big.view(), ends);
  }
  bool view_of(const Operand& other) override;

 private:
  View<T, R> v_;
};
template <Element T, int R>
class Slot<Given<T, R>> final : public TensorOperand<T, R> {
 public:
  explicit Slot(const Given<T, R>& spec) : TensorOperand<T, R>(spec.axes, 3) {}
  bool given() const override { return true; }
  const Tensor<T, R>& tensor() const { return this->t_; }
  Tensor<T, R>&& pass() { return std::move(this->t_); }
  Tensor<T, R>&& pass_view() { return std::move(this->t_); }
};
template <Element T, int R>
bool Slot<Read<T, R>>::view_of(const Operand& other) {
  const auto* same = dynamic_cast<const Slot<Given<T, R>>*>(&other);
  if (!same || same->tensor().dims() != this->t_.dims()) return false;
  v_ = same->tensor().view();
  return true;
}
template <>
class Slot<Number> final : public Operand {
 public:
  explicit Slot(const Number& spec) : spec_(spec) {}
  const Number* number() const override { return &spec_; }
  void set(double value) override { value_ = value; }
  void fill(const std::vector<int>& /*extents*/) override { value_ = spec_.usual; }
  double pass() const { return value_; }
  double pass_view() const { return value_; }

 private:
  Number spec_;
  double value_ = 0;
};

/// How a row's call is made: built and not run, run, run with views for the tensors that are read.
enum class How { Built, Run, RunOnViews };
/// One legal call.
struct Row {
  const char* entry;
  SourceLocation where;
  std::vector<Axis> axes;
  std::vector<Operand*> operands;
  std::function<Values(How)> call;
};
/// Misuses the call in every way that its row allows.
void check(const Row& row);

}  // namespace detail

/// Misuses the entry in every way that its row allows. `where` is the row: messages name a line of its file.
template <class Call, class... O>
void misuse(const char* entry, std::vector<Axis> axes, Call call, std::tuple<O...> operands,
            SourceLocation where = SourceLocation::current()) {
  std::tuple<detail::Slot<O>...> slots(std::move(operands));
  const auto made = [&](detail::How how) {
    detail::Values results;
    const auto built = [&] { return std::apply([&](auto&... s) { return call(s.pass()...); }, slots); };
    if (how == detail::How::Built)
      (void)built();
    else if (how == detail::How::Run)
      detail::read_back(built().sync(), results);
    else
      detail::read_back(std::apply([&](auto&... s) { return call(s.pass_view()...); }, slots).sync(), results);
    return results;
  };
  std::vector<detail::Operand*> pointers;
  std::apply([&](auto&... s) { (pointers.push_back(&s), ...); }, slots);
  detail::check({entry, where, std::move(axes), std::move(pointers), made});
}

}  // namespace tessera::misuse
