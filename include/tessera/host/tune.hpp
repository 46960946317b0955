// tune(space, arguments of a call...): measures every point of the space for these arguments.
//
//   TuningReport found = tune(products, mut(c), a, b);
//   products.tuned(found.best)(mut(c), a, b).sync();
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tessera/host/create.hpp"
#include "tessera/host/transfer.hpp"
#include "tessera/host/tuner.hpp"
#include "tessera/host/tuning_space.hpp"
#include "tessera/jit/tuning_file.hpp"

namespace tessera {
namespace detail {

/// The tuner makes the calls: their errors have no line of the user's, and the tuner's own line would not help.
inline constexpr SourceLocation kOfTuner{};

/// How an argument of a run is stored, copied, passed and compared.
template <class A>
struct TuneArg {  // a number
  using Copy = std::tuple<>;
  using Values = std::tuple<>;
  A value;
  explicit TuneArg(const A& a) : value(a) {}
  std::string text() const {
    if constexpr (std::is_enum_v<A> || std::is_unsigned_v<A>) return concat(static_cast<unsigned long long>(value));
    if constexpr (std::is_integral_v<A>) return concat(static_cast<long long>(value));
    return concat(static_cast<double>(value));
  }
  Copy copy(bool) const { return {}; }
  A pass(Copy&) const { return value; }
  Values values(const Copy&) const { return {}; }
};

template <class A>
concept TuneTensor = requires(const A& a) {
  typename A::element;
  a.view();
};

template <TuneTensor A>
struct TuneArg<A> {  // read
  using Copy = std::tuple<>;
  using Values = std::tuple<>;
  View<typename A::element, A::rank> view;
  explicit TuneArg(const A& a) : view(a.view(kOfTuner)) {}
  std::string text() const { return argument_text(ref(Reach::layout(view), element_type<typename A::element>), false); }
  Copy copy(bool) const { return {}; }
  const auto& pass(Copy&) const { return view; }
  Values values(const Copy&) const { return {}; }
};

template <Element T, int R>
struct TuneArg<Lend<T, R>> {  // written: every candidate gets a copy
  using Copy = Tensor<T, R>;
  using Values = std::vector<T>;
  View<T, R> view;
  explicit TuneArg(const Lend<T, R>& lend) : view(Reach::make<View<T, R>>(Layout<R>(Reach::layout(lend)))) {
    if (!view.contiguous()) throw ShapeError("tune: a tensor that is lent must be contiguous: its copies are");
  }
  std::string text() const { return argument_text(ref(Reach::layout(view), element_type<T>), true); }
  Copy copy(bool contents) const { return contents ? clone(view, kOfTuner).sync() : empty_like(view, kOfTuner).sync(); }
  Lend<T, R> pass(Copy& copy) const { return mut(copy, kOfTuner); }
  Values values(const Copy& copy) const { return host(copy, kOfTuner).sync(kOfTuner); }
};

/// The default tolerance: twice the rounding of a result that is stored in T, plus room for sums in another order.
template <Element T>
constexpr double default_tolerance() {
  return sizeof(T) == 1            ? 0.25
         : std::is_same_v<T, bf16> ? 0.02
         : std::is_same_v<T, f16>  ? 4e-3
         : sizeof(T) == 4          ? 2e-4
                                   : 1e-10;
}

inline std::string difference_of(const std::tuple<>&, const std::tuple<>&, std::size_t, double) { return {}; }
/// Integers must be equal; floats may differ by the tolerance, relative to the value or, near zero, to the size of all
/// values; NaN equals NaN.
template <Element T>
std::string difference_of(const std::vector<T>& found, const std::vector<T>& wanted, std::size_t argument,
                          double tolerance) {
  if constexpr (element_class<T> != ElementClass::Float) {
    for (std::size_t i = 0; i < found.size(); ++i) {
      if (found[i] != wanted[i])
        return difference_text(argument, i, static_cast<double>(found[i]), static_cast<double>(wanted[i]));
    }
  } else {
    if (std::memcmp(found.data(), wanted.data(), found.size() * sizeof(T)) == 0) return {};  // the common case
    const double allowed = tolerance > 0 ? tolerance : default_tolerance<T>();
    double squares = 0;
    std::size_t finite = 0;
    for (const T& w : wanted) {
      const double x = static_cast<double>(w);
      if (std::isfinite(x)) squares += x * x, ++finite;
    }
    const double size = finite > 0 ? std::sqrt(squares / static_cast<double>(finite)) : 0;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double f = static_cast<double>(found[i]), w = static_cast<double>(wanted[i]);
      if (f == w || (std::isnan(f) && std::isnan(w))) continue;
      // An infinity is near no other number.
      const bool near = std::isfinite(w) && std::abs(f - w) <= allowed * std::max(std::abs(w), size);
      if (!near) return difference_text(argument, i, f, w);
    }
  }
  return {};
}

template <class S, class... A>
class TuneSubjectOf final : public TuneSubject {
  struct Copies final : TuneCopies {
    std::tuple<typename TuneArg<A>::Copy...> args;
    explicit Copies(std::tuple<typename TuneArg<A>::Copy...>&& made) : args(std::move(made)) {}
  };
  struct Values final : TuneValues {
    std::tuple<typename TuneArg<A>::Values...> args;
    explicit Values(std::tuple<typename TuneArg<A>::Values...>&& made) : args(std::move(made)) {}
  };
  using Numbers = std::index_sequence_for<A...>;

 public:
  explicit TuneSubjectOf(const S& space, const A&... args) : space_(space), args_(TuneArg<A>(args)...) {}
  const char* name() const override { return space_.name(); }
  const char* hints() const override { return space_.hints(); }
  std::size_t candidates() const override { return kCandidates; }
  const char* candidate(std::size_t i) const override {
    return with(i, [](const auto& c) { return c.name; });
  }
  bool takes_hints(std::size_t i) const override {
    return with(i, [](const auto& c) { return std::remove_cvref_t<decltype(c)>::takes_hints; });
  }
  Device device() const override { return first_device<0>(); }
  std::string arguments() const override {
    std::string text;
    std::apply([&](const auto&... a) { ((text += concat(text.empty() ? "" : " ", a.text())), ...); }, args_);
    return text;
  }
  std::unique_ptr<TuneCopies> copies(bool contents) const override {
    return std::apply(
        [&](const auto&... a) {
          return std::make_unique<Copies>(std::tuple<typename TuneArg<A>::Copy...>{a.copy(contents)...});
        },
        args_);
  }
  Op<void> launch(std::size_t i, const TuningRecord& hints, TuneCopies& copies) const override {
    return with(i, [&](const auto& c) { return launch_with(c, hints, static_cast<Copies&>(copies), Numbers{}); });
  }
  std::unique_ptr<TuneValues> values(const TuneCopies& copies) const override {
    return values_of(static_cast<const Copies&>(copies), Numbers{});
  }
  std::string difference(const TuneValues& found, const TuneValues& wanted, double tolerance) const override {
    return compare(static_cast<const Values&>(found), static_cast<const Values&>(wanted), tolerance, Numbers{});
  }

 private:
  static constexpr std::size_t kCandidates =
      std::tuple_size_v<std::remove_cvref_t<decltype(std::declval<S>().candidates())>>;

  template <std::size_t I = 0, class F>
  auto with(std::size_t i, F&& f) const {
    if constexpr (I + 1 < kCandidates) {
      if (i != I) return with<I + 1>(i, std::forward<F>(f));
    }
    return f(std::get<I>(space_.candidates()));
  }
  template <std::size_t I>
  Device first_device() const {
    static_assert(I < sizeof...(A), "tune: at least one argument is a tensor");
    const auto& arg = std::get<I>(args_);
    if constexpr (requires { arg.view; })
      return arg.view.device(kOfTuner);
    else
      return first_device<I + 1>();
  }
  template <class C, std::size_t... I>
  Op<void> launch_with(const C& c, const TuningRecord& hints, Copies& copies, std::index_sequence<I...>) const {
    using Result = decltype(c.tuned(hints, kOfTuner)(std::get<I>(args_).pass(std::get<I>(copies.args))...));
    static_assert(std::is_same_v<Result, Op<void>>,
                  "tune: lend the tensors that the kernels write, tune(space, mut(y), x)");
    if constexpr (C::takes_hints) {
      if (!hints.hints.empty())
        return c.tuned(hints, kOfTuner)(std::get<I>(args_).pass(std::get<I>(copies.args))..., kOfTuner);
      return c.call(std::get<I>(args_).pass(std::get<I>(copies.args))..., kOfTuner);
    } else {
      return c.call(std::get<I>(args_).pass(std::get<I>(copies.args))...);
    }
  }
  template <std::size_t... I>
  std::unique_ptr<TuneValues> values_of(const Copies& copies, std::index_sequence<I...>) const {
    return std::make_unique<Values>(
        std::tuple<typename TuneArg<A>::Values...>{std::get<I>(args_).values(std::get<I>(copies.args))...});
  }
  template <std::size_t... I>
  std::string compare(const Values& found, const Values& wanted, double tolerance, std::index_sequence<I...>) const {
    std::string text;
    (void)((text = difference_of(std::get<I>(found.args), std::get<I>(wanted.args), I + 1, tolerance), !text.empty()) ||
           ...);
    return text;
  }

  const S& space_;
  std::tuple<TuneArg<A>...> args_;
};

}  // namespace detail

/// Compiles, checks and measures every point of `space` for these arguments: those of a call, with everything that is
/// written lent (mut(y)) and contiguous; no argument changes. Throws CompileError if no point can be used, IoError if
/// the file of `options` cannot be.
template <class... F, class... A>
TuningReport tune(const TuningSpace<F...>& space, const TuneOptions& options, const A&... args) {
  return detail::run_tuner(detail::TuneSubjectOf<TuningSpace<F...>, A...>(space, args...), options);
}
template <class... F, class First, class... A>
  requires(!std::is_same_v<First, TuneOptions>)
TuningReport tune(const TuningSpace<F...>& space, const First& first, const A&... args) {
  return tune(space, TuneOptions{}, first, args...);
}

/// Of the records of a file, the one for these arguments on their device; null if there is none.
template <class... F, class... A>
const TuningRecord* find_record(const std::vector<TuningRecord>& records, const TuningSpace<F...>& space,
                                const A&... args) {
  return detail::find_record(records, detail::TuneSubjectOf<TuningSpace<F...>, A...>(space, args...));
}

}  // namespace tessera
