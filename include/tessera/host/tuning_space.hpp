// A tuning space: candidates (kernels that take the same arguments and compute the same result) times hints. A space is
// a constant next to its kernels (docs/tuning.md).
//
//   constexpr auto products = space("products", "warps=4,8 latency=2,4,6", candidate<gemm<64, 128>>("64x128"),
//                                   candidate<gemm<128, 128>>("128x128"));
#pragma once
#include <cstring>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/host/kernel.hpp"

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

}  // namespace tessera
