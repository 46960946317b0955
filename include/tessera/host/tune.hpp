// tune(space, arguments of a call...): measures every point of the space for these arguments.
//
//   TuningReport found = tune(products, mut(c), a, b);
//   products.tuned(found.best)(mut(c), a, b).sync();
//
// A tuning space is candidates (kernels that take the same arguments and compute the same result) times hints. A space
// is a constant next to its kernels (docs/tuning.md).
//
//   constexpr auto products = space("products", "warps=4,8 latency=2,4,6", candidate<gemm<64, 128>>("64x128"),
//                                   candidate<gemm<128, 128>>("128x128"));
#pragma once
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/host/create.hpp"
#include "tessera/host/kernel.hpp"
#include "tessera/host/op.hpp"
#include "tessera/host/transfer.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/tuning.hpp"

namespace tessera {

/// One candidate. `call`: a kernel<K> with its options, or a function that returns a launch; only the former can take
/// hints.
template <class F>
struct Candidate {
  static constexpr bool takes_hints = requires(const F& f, const TuningRecord& r) { f.tuned(r); };
  const char* name;
  F call;

  /// The call with the hints of a record, if it can take them.
  auto tuned(const TuningRecord& record, SourceLocation where = SourceLocation::current()) const {
    if constexpr (takes_hints)
      return call.tuned(record, where);
    else
      return call;
  }
};

/// The kernel K under a name, which must be a literal: only the pointer is stored.
template <auto K>
constexpr Candidate<detail::Kernel<K>> candidate(const char* name) {
  return {name, kernel<K>};
}
template <class F>
constexpr Candidate<F> candidate(const char* name, F call) {
  return {name, call};
}

namespace detail {

[[noreturn]] inline void throw_no_candidate(const char* space, const std::string& choice, SourceLocation where) {
  throw CompileError(concat("space ", space, ": a tuning record names the candidate \"", choice,
                            "\", which is not there.\n  Tune again: candidates were renamed or taken out."),
                     where);
}

/// A space with a record: it calls the candidate that the record names.
template <class... F>
class TunedSpace {
 public:
  TunedSpace(const std::tuple<Candidate<F>...>& candidates, std::size_t chosen, const TuningRecord& record,
             SourceLocation where)
      : candidates_(candidates), chosen_(chosen), record_(record), where_(where) {}
  /// Takes the arguments of the kernels. Errors have the source location of tuned().
  template <class... A>
  auto operator()(A&&... args) const {
    return call<0>(std::forward<A>(args)...);
  }

 private:
  template <std::size_t I, class... A>
  auto call(A&&... args) const {
    if constexpr (I + 1 < sizeof...(F)) {
      if (chosen_ != I) return call<I + 1>(std::forward<A>(args)...);
    }
    const auto& candidate = std::get<I>(candidates_);
    constexpr bool has_place = (std::is_same_v<std::remove_cvref_t<A>, SourceLocation> || ...);
    if constexpr (std::remove_cvref_t<decltype(candidate)>::takes_hints && !has_place)
      return candidate.tuned(record_, where_)(std::forward<A>(args)..., where_);
    else
      return candidate.tuned(record_, where_)(std::forward<A>(args)...);
  }
  std::tuple<Candidate<F>...> candidates_;
  std::size_t chosen_;
  const TuningRecord& record_;
  SourceLocation where_;
};

}  // namespace detail

/// Candidates times hints. The first candidate is the default.
template <class... F>
class TuningSpace {
  static_assert(sizeof...(F) > 0, "a space has at least one candidate");

 public:
  constexpr TuningSpace(const char* name, const char* hints, Candidate<F>... candidates)
      : name_(name), hints_(hints), candidates_(candidates...) {}
  constexpr const char* name() const { return name_; }
  constexpr const char* hints() const { return hints_; }
  constexpr const std::tuple<Candidate<F>...>& candidates() const { return candidates_; }

  /// The candidate of a record with its hints, to be called like a kernel while the record lives. CompileError if there
  /// is no such candidate, and, where the launch compiles, if the record is stale.
  detail::TunedSpace<F...> tuned(const TuningRecord& record, SourceLocation where = SourceLocation::current()) const {
    const std::size_t chosen = index_of(record.choice);
    if (chosen == sizeof...(F)) detail::throw_no_candidate(name_, record.choice, where);
    return {candidates_, chosen, record, where};
  }
  /// The number of the candidate of this name; how many there are, if there is none.
  std::size_t index_of(std::string_view name) const {
    return std::apply(
        [&](const auto&... c) {
          std::size_t at = 0;
          (void)((name == c.name || (++at, false)) || ...);
          return at;
        },
        candidates_);
  }

 private:
  const char* name_;
  const char* hints_;
  std::tuple<Candidate<F>...> candidates_;
};

/// `hints`: "warps=4,8 latency=2,4,6", the values of each combined; "" leaves them all to the cost model. Names and
/// hints are literals.
template <class... F>
constexpr TuningSpace<F...> space(const char* name, const char* hints, Candidate<F>... candidates) {
  return TuningSpace<F...>(name, hints, candidates...);
}

struct TuneOptions {
  std::string file =
      {};  ///< where the record is added and the journal is kept, so that an interrupted run continues; empty: none
  std::string hints = {};  ///< instead of the space's ("-": none)
  std::string first = {};  ///< the default candidate; empty: the space's first
  /// No new measurements after this time. The points that a model of the times expects most of are compiled and
  /// measured; 0: all.
  double seconds = 0;
  double tolerance = 0;  ///< of results, relative; 0: by element type. Integers are compared exactly
  bool keep = false;     ///< returns a record of the file that is not stale, without measuring again
  bool warm = false;     ///< caches are not cleared between launches
  int jobs = 0;          ///< compilations at a time; 0: one per processor
  int launches = 10;     ///< launches of each point before the last round
  int rounds = 15;       ///< rounds of the last comparison
  int only_compile =
      0;  ///< compute capability of a GPU that need not be present (90): compiles for it and runs nothing
};

enum class TrialOutcome : std::uint8_t {
  Measured,
  Slow,      ///< given up after two launches
  Wrong,     ///< its result differs from the default's
  Pressure,  ///< the assembler warns of registers
  Failed,    ///< did not compile, or its launch failed
  Same,      ///< the same code as an earlier point
  NotTried,  ///< the time limit was reached
  Compiled,  ///< only_compile
};
/// "measured", "slow", ...
const char* name_of(TrialOutcome outcome);

/// One point of a space.
struct TuningTrial {
  std::string choice, hints;
  TrialOutcome outcome = TrialOutcome::NotTried;
  double ms = 0;         ///< median; for Slow the minimum
  std::string note;      ///< why it was dropped
  bool resumed = false;  ///< from the journal of an interrupted run
  jit::CodeReport code;  ///< complete as far as it was compiled
};

struct TuningReport {
  TuningRecord best;  ///< empty if only compiled
  std::vector<TuningTrial> trials;
  bool kept = false;  ///< `best` is from the file, and nothing was measured
};

namespace detail {

/// The tensors that a candidate writes to, and their contents afterwards.
class TuneCopies {
 public:
  virtual ~TuneCopies();
};
class TuneValues {
 public:
  virtual ~TuneValues();
};

/// A space with the arguments of a run.
class TuneSubject {
 public:
  virtual ~TuneSubject();
  virtual const char* name() const = 0;
  virtual const char* hints() const = 0;
  virtual std::size_t candidates() const = 0;
  virtual const char* candidate(std::size_t i) const = 0;
  virtual bool takes_hints(std::size_t i) const = 0;
  virtual Device device() const = 0;
  virtual std::string arguments() const = 0;
  /// Copies of the lent tensors, with their contents or uninitialised.
  virtual std::unique_ptr<TuneCopies> copies(bool contents) const = 0;
  virtual Op<void> launch(std::size_t candidate, const TuningRecord& hints, TuneCopies& copies) const = 0;
  virtual std::unique_ptr<TuneValues> values(const TuneCopies& copies) const = 0;
  /// Describes the first difference; empty if they agree.
  virtual std::string difference(const TuneValues& found, const TuneValues& wanted, double tolerance) const = 0;
};

/// Throws CompileError if no point of the space can be used, IoError for the file.
TuningReport run_tuner(const TuneSubject& subject, const TuneOptions& options);

/// The last record of this subject and its device; null if there is none.
const TuningRecord* find_record(const std::vector<TuningRecord>& records, const TuneSubject& subject);

/// "argument 2: element 17 is 3.5, expected 4".
std::string difference_text(std::size_t argument, std::size_t element, double found, double wanted);
/// "f16[4096, 4096]:4096,1"
std::string argument_text(const LayoutRef& layout, bool lent);

}  // namespace detail
namespace detail {

/// The first float that differs by more than `allowed`, relative to its value or to the size of all that are wanted;
/// NaN equals NaN. `value` reads an element.
std::string float_difference(const void* found, const void* wanted, std::size_t count,
                             double (*value)(const void*, std::size_t), std::size_t argument, double allowed);

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
    const auto value = [](const void* of, std::size_t i) { return static_cast<double>(static_cast<const T*>(of)[i]); };
    const double allowed = tolerance > 0 ? tolerance : default_tolerance<T>();
    return float_difference(found.data(), wanted.data(), found.size(), value, argument, allowed);
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
