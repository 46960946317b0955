// kernel<K>: a kernel as an object to call. Its call operator has a parameter list computed from K's signature, so a
// call is an ordinary C++ call: editors show the parameters, conversions apply, static analysers see through it.
//
//   y = kernel<saxpy<128>>(std::move(y), 2.0f, x).sync();   // give: ownership in, ownership out
//   kernel<saxpy<128>>(mut(y), 3.0f, x).sync();             // lend
//
// Each mutable parameter can be given or lent, and the result's type depends on which: there is one call operator per
// combination.
//
// The process-wide switch of checked mode.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>

#include "tessera/host/explain.hpp"
#include "tessera/host/operand.hpp"
#include "tessera/jit/tuning.hpp"

namespace tessera {

namespace detail {

/// The options set by `.blocks(n)`, `.on_device(d)`, `.tuned(record)`, `.hints({...})`, `.precise()` and
/// `.approximate()`.
struct LaunchOptions {
  std::int64_t blocks = 0;
  bool blocks_given = false;
  runtime::Backend* device = nullptr;  ///< null: the device of the arguments
  bool accuracy_given = false;
  lang::Accuracy accuracy = lang::Accuracy::Precise;
  std::uint32_t tuning = 0;  ///< jit::TuningId
};

class KernelState;
/// A kernel's signature and its recordings so far, which are made out of line (src/host/launch.hpp).
class KernelRecord {
 public:
  explicit constexpr KernelRecord(const lang::KernelBody& body) noexcept : body_(&body) {}
  KernelRecord(const KernelRecord&) = delete;
  KernelRecord& operator=(const KernelRecord&) = delete;

 private:
  friend KernelState;
  const lang::KernelBody* body_;
  KernelState* state_ = nullptr;  ///< made once, by any thread; never destroyed
};

class Launch;
/// A launch as the part of an operation, untyped. Parameters are numbered from 0.
class LaunchHandle {
 public:
  /// Checks the arguments and takes the leases. Takes nothing from the caller if it throws.
  LaunchHandle(KernelRecord& record, const LaunchOptions& options, SourceLocation where,
               std::span<const ArgRef* const> arguments);
  ~LaunchHandle();
  LaunchHandle(const LaunchHandle&) = delete;
  LaunchHandle& operator=(const LaunchHandle&) = delete;
  /// As the members of OpBase.
  runtime::Backend* device() const noexcept;
  bool compile(const CompileRequest& request, jit::CodeReport& report);
  bool promise(int param, std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept;
  void enqueue(const Stream& stream);
  /// Moves a tensor argument out, after enqueue().
  void hand_back(int param, Place& place) noexcept;

 private:
  Launch* launch_;
};

/// What the host knows of a kernel parameter. Many kernels have the same: Mut<f32, 1, 64> and MutTiles<f32, 1, 128> are
/// one here, so what calls them is compiled once.
template <lang::ParamKind Kind, class T, int R>
struct HostSpec {
  static constexpr lang::ParamKind kind = Kind;
  using element = T;
  static constexpr int rank = R;
};
template <class Params>
struct HostSpecs;
template <class... P>
struct HostSpecs<lang::TypeList<P...>> {
  /// All that are given or lent are alike.
  static constexpr lang::ParamKind of_host(lang::ParamKind kind) {
    using enum lang::ParamKind;
    return kind == In || kind == Scalar || kind == UnsafePtr || kind == Constant ? kind : Mut;
  }
  template <class Traits>
  using Of = HostSpec<of_host(Traits::kind), typename Traits::element, Traits::rank>;
  using type = lang::TypeList<Of<lang::ParamTraits<lang::param_t<P>>>...>;
};

/// The parameter of the call operator for a kernel parameter.
template <class S, bool IsLent, lang::ParamKind Kind = S::kind>
struct HostParameter {  // Mut: also of MutTiles, Acc, unsafe_::Mut
  using type = std::conditional_t<IsLent, Lent<typename S::element, S::rank>, Give<typename S::element, S::rank>>;
};
template <class S, bool IsLent>
struct HostParameter<S, IsLent, lang::ParamKind::In> {
  using type = Read<typename S::element, S::rank>;
};
template <class S, bool IsLent>
struct HostParameter<S, IsLent, lang::ParamKind::Scalar> {
  using type = ScalarNumber<typename S::element>;
};
template <class S, bool IsLent>
struct HostParameter<S, IsLent, lang::ParamKind::Constant> {
  using type = Number<typename S::element>;
};
template <class S, bool IsLent>
struct HostParameter<S, IsLent, lang::ParamKind::UnsafePtr> {
  using type = unsafe_::Address<typename S::element>;
};
template <class S, bool IsLent>
using HostParam = typename HostParameter<S, IsLent>::type;

template <class S>
constexpr bool is_mutable_param() {
  return S::kind == lang::ParamKind::Mut;
}

/// A tensor that was given to the launch and is returned: the number of its parameter.
template <class T, int R, int Param>
struct Returned {
  static constexpr int param = Param, rank = R;
  using tensor = Tensor<T, R>;
};

/// The result of a launch: nothing, the one tensor given, or a tuple.
template <class... R>
struct ResultOf {
  using type = std::tuple<typename R::tensor...>;
};
template <class R>
struct ResultOf<R> {
  using type = typename R::tensor;
};
template <>
struct ResultOf<> {
  using type = void;
};

template <class R>
typename R::tensor hand_back(LaunchHandle& launch) {
  Layout<R::rank> l;
  Place place{{}, 0, l.dims.data(), l.strides.data()};
  launch.hand_back(R::param, place);
  l.storage = std::move(place.storage);
  l.offset = place.offset;
  return Reach::make<typename R::tensor>(std::move(l));
}

template <class... R>
class LaunchNode final : public OpNode<typename ResultOf<R...>::type> {
 public:
  using Result = typename ResultOf<R...>::type;
  LaunchNode(KernelRecord& record, const LaunchOptions& options, SourceLocation where,
             std::span<const ArgRef* const> arguments)
      : launch_(record, options, where, arguments) {}
  runtime::Backend* device() const noexcept override { return launch_.device(); }
  bool promise(std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept override {
    if constexpr (sizeof...(R) == 1) return launch_.promise((R::param + ...), dims, strides);
    return false;
  }
  bool compile(const CompileRequest& request, jit::CodeReport& report) override {
    return launch_.compile(request, report);
  }
  Result run(const Stream& stream) override {
    launch_.enqueue(stream);
    if constexpr (sizeof...(R) > 0) return Result{hand_back<R>(launch_)...};
  }

 private:
  LaunchHandle launch_;
};

/// The properties of a parameter list that the call operators are generated from.
template <class... S>
struct ParameterList {
  static constexpr std::size_t count = sizeof...(S);
  static constexpr std::array<bool, count + 1> is_mutable{is_mutable_param<S>()..., false};
  static constexpr std::size_t mutables = (std::size_t{0} + ... + (is_mutable_param<S>() ? 1u : 0u));
  /// Bit k of a mask is set if the k-th mutable parameter is lent.
  static constexpr bool lent(std::size_t mask, std::size_t param) {
    std::size_t ordinal = 0;
    for (std::size_t i = 0; i < param; ++i) ordinal += is_mutable[i] ? 1u : 0u;
    return is_mutable[param] && (mask >> ordinal & 1u) != 0;
  }
  /// All combinations up to five mutable parameters; beyond, all given or all lent.
  static constexpr std::size_t masks = mutables <= 5 ? std::size_t{1} << mutables : 2;
  static constexpr std::size_t mask(std::size_t number) { return mutables <= 5 ? number : number * ~std::size_t{0}; }
};

template <class... T>
struct Concatenated {
  template <class... U>
  Concatenated<T..., U...> operator+(Concatenated<U...>) const;
  using node = LaunchNode<T...>;
};
template <class S, bool Kept, int Param>
auto returned_of() {
  if constexpr (Kept) {
    return Concatenated<Returned<typename S::element, S::rank, Param>>{};
  } else {
    return Concatenated<>{};
  }
}

/// One call operator. `Calls` has record() and options().
template <class Calls, std::size_t Mask, class Specs, class Numbers>
class CallOperator;
template <class Calls, std::size_t Mask, class... S, std::size_t... I>
class CallOperator<Calls, Mask, lang::TypeList<S...>, std::index_sequence<I...>> {
  using List = ParameterList<S...>;
  template <std::size_t Param>
  static constexpr bool given = List::is_mutable[Param] && !List::lent(Mask, Param);
  using Results = decltype((Concatenated<>{} + ... + returned_of<S, given<I>, static_cast<int>(I)>()));
  using Node = typename Results::node;

 public:
  Op<typename Node::Result> operator()(HostParam<S, List::lent(Mask, I)>... args,
                                       SourceLocation where = SourceLocation::current()) const {
    const ArgRef* const refs[] = {&args.arg()...};
    const Calls& calls = static_cast<const Calls&>(*this);
    return Op<typename Node::Result>(new Node(*calls.record_, calls.options_, where, refs));
  }
};

/// All call operators of the kernels with these parameters, and what they need of the kernel.
template <class Specs, class Numbers>
class CallOperators;
template <class... S, std::size_t... N>
class CallOperators<lang::TypeList<S...>, std::index_sequence<N...>>
    : public CallOperator<CallOperators<lang::TypeList<S...>, std::index_sequence<N...>>, ParameterList<S...>::mask(N),
                          lang::TypeList<S...>, std::index_sequence_for<S...>>... {
  template <class, std::size_t, class, class>
  friend class CallOperator;

 public:
  using CallOperator<CallOperators, ParameterList<S...>::mask(N), lang::TypeList<S...>,
                     std::index_sequence_for<S...>>::operator()...;

 protected:
  explicit constexpr CallOperators(KernelRecord& record) noexcept : record_(&record) {}
  LaunchOptions options_;

 private:
  KernelRecord* record_;
};

template <class Specs>
struct CallOperatorsOf;
template <class... S>
struct CallOperatorsOf<lang::TypeList<S...>> {
  using type = CallOperators<lang::TypeList<S...>, std::make_index_sequence<ParameterList<S...>::masks>>;
};

/// True if the arguments convert, one by one, to the parameters (given or lent); a SourceLocation may follow them.
template <class Specs, class Args>
inline constexpr bool call_fits = false;
template <class... S, class... A>
  requires(sizeof...(S) == sizeof...(A))
inline constexpr bool call_fits<lang::TypeList<S...>, lang::TypeList<A...>> =
    ((std::is_convertible_v<A, HostParam<S, false>> || std::is_convertible_v<A, HostParam<S, true>>)&&...);
template <class... S, class... A>
  requires(sizeof...(S) + 1 == sizeof...(A))
inline constexpr bool call_fits<lang::TypeList<S...>, lang::TypeList<A...>> =
    []<std::size_t... I>(std::index_sequence<I...>) {
      using Args = std::tuple<A...>;
      return std::is_same_v<std::remove_cvref_t<std::tuple_element_t<sizeof...(S), Args>>, SourceLocation> &&
             ((std::is_convertible_v<std::tuple_element_t<I, Args>, HostParam<S, false>> ||
               std::is_convertible_v<std::tuple_element_t<I, Args>, HostParam<S, true>>)&&...);
    }(std::index_sequence_for<S...>{});

/// True if a SourceLocation follows the arguments.
template <class... A>
inline constexpr bool ends_with_place = false;
template <class First, class... A>
inline constexpr bool ends_with_place<First, A...> =
    std::is_same_v<std::remove_cvref_t<std::tuple_element_t<sizeof...(A), std::tuple<First, A...>>>, SourceLocation>;

/// A constant, so that compilers explain it where it is used and not at the end of the file.
template <class Params, class Args, class Numbers>
inline constexpr bool explained_call = false;
template <class... P, class... A, std::size_t... I>
inline constexpr bool explained_call<lang::TypeList<P...>, lang::TypeList<A...>, std::index_sequence<I...>> =
    (explain_argument<static_cast<int>(I) + 1, lang::param_t<P>, std::tuple_element_t<I, std::tuple<A...>>>() && ...);

template <auto K>
inline constinit KernelRecord kernel_record{lang::kernel_body<K>};

/// The result of a call that does not fit, after the static_assert: it accepts everything that is done with an
/// operation, so that the reason is the first error.
struct NoOperation {
  template <class... A>
  NoOperation sync(A&&...) const {
    return {};
  }
  template <class... A>
  NoOperation on(A&&...) const {
    return {};
  }
};

/// Launches over more than one device: true for the types of arguments that are spread over devices. A layer above
/// (tessera/mesh) specializes it, and defines LaunchOver<Kernel>::call(kernel, where, arguments...), which returns the
/// operation.
template <class Arg>
inline constexpr bool is_spread = false;
template <class... A>
inline constexpr bool any_spread = (is_spread<std::remove_cvref_t<A>> || ...);
template <class Kernel>
struct LaunchOver;

template <class Kernel, class... A>
auto launch_over(const Kernel& kernel, SourceLocation where, A&&... args) {
  return LaunchOver<Kernel>::call(kernel, where, std::forward<A>(args)...);
}

/// The call operator of such launches. Each number of arguments has a class of its own, because the caller's line
/// cannot be a default argument after a parameter pack; a class of all would make every call of a kernel look at all of
/// them. With more than eight arguments the errors have no line.
template <class Kernel, std::size_t Count>
class SpreadCall {
 public:
  template <class... A>
    requires(sizeof...(A) == Count && any_spread<A...>)
  auto operator()(A&&... args) const {
    return launch_over(static_cast<const Kernel&>(*this), {}, std::forward<A>(args)...);
  }
};
template <class Kernel>
class SpreadCall<Kernel, 1> {
 public:
  template <class A>
    requires(any_spread<A>)
  auto operator()(A&& a, SourceLocation where = SourceLocation::current()) const {
    return launch_over(static_cast<const Kernel&>(*this), where, std::forward<A>(a));
  }
};
template <class Kernel>
class SpreadCall<Kernel, 2> {
 public:
  template <class A, class B>
    requires(any_spread<A, B>)
  auto operator()(A&& a, B&& b, SourceLocation where = SourceLocation::current()) const {
    return launch_over(static_cast<const Kernel&>(*this), where, std::forward<A>(a), std::forward<B>(b));
  }
};
template <class Kernel>
class SpreadCall<Kernel, 3> {
 public:
  template <class A, class B, class C>
    requires(any_spread<A, B, C>)
  auto operator()(A&& a, B&& b, C&& c, SourceLocation where = SourceLocation::current()) const {
    return launch_over(static_cast<const Kernel&>(*this), where, std::forward<A>(a), std::forward<B>(b),
                       std::forward<C>(c));
  }
};
template <class Kernel>
class SpreadCall<Kernel, 4> {
 public:
  template <class A, class B, class C, class D>
    requires(any_spread<A, B, C, D>)
  auto operator()(A&& a, B&& b, C&& c, D&& d, SourceLocation where = SourceLocation::current()) const {
    return launch_over(static_cast<const Kernel&>(*this), where, std::forward<A>(a), std::forward<B>(b),
                       std::forward<C>(c), std::forward<D>(d));
  }
};
template <class Kernel>
class SpreadCall<Kernel, 5> {
 public:
  template <class A, class B, class C, class D, class E>
    requires(any_spread<A, B, C, D, E>)
  auto operator()(A&& a, B&& b, C&& c, D&& d, E&& e, SourceLocation where = SourceLocation::current()) const {
    return launch_over(static_cast<const Kernel&>(*this), where, std::forward<A>(a), std::forward<B>(b),
                       std::forward<C>(c), std::forward<D>(d), std::forward<E>(e));
  }
};
template <class Kernel>
class SpreadCall<Kernel, 6> {
 public:
  template <class A, class B, class C, class D, class E, class F>
    requires(any_spread<A, B, C, D, E, F>)
  auto operator()(A&& a, B&& b, C&& c, D&& d, E&& e, F&& f, SourceLocation where = SourceLocation::current()) const {
    return launch_over(static_cast<const Kernel&>(*this), where, std::forward<A>(a), std::forward<B>(b),
                       std::forward<C>(c), std::forward<D>(d), std::forward<E>(e), std::forward<F>(f));
  }
};
template <class Kernel>
class SpreadCall<Kernel, 7> {
 public:
  template <class A, class B, class C, class D, class E, class F, class G>
    requires(any_spread<A, B, C, D, E, F, G>)
  auto operator()(A&& a, B&& b, C&& c, D&& d, E&& e, F&& f, G&& g,
                  SourceLocation where = SourceLocation::current()) const {
    return launch_over(static_cast<const Kernel&>(*this), where, std::forward<A>(a), std::forward<B>(b),
                       std::forward<C>(c), std::forward<D>(d), std::forward<E>(e), std::forward<F>(f),
                       std::forward<G>(g));
  }
};
template <class Kernel>
class SpreadCall<Kernel, 8> {
 public:
  template <class A, class B, class C, class D, class E, class F, class G, class H>
    requires(any_spread<A, B, C, D, E, F, G, H>)
  auto operator()(A&& a, B&& b, C&& c, D&& d, E&& e, F&& f, G&& g, H&& h,
                  SourceLocation where = SourceLocation::current()) const {
    return launch_over(static_cast<const Kernel&>(*this), where, std::forward<A>(a), std::forward<B>(b),
                       std::forward<C>(c), std::forward<D>(d), std::forward<E>(e), std::forward<F>(f),
                       std::forward<G>(g), std::forward<H>(h));
  }
};

/// A kernel with its options. A value: setting an option returns a new one.
template <auto K>
class Kernel : public CallOperatorsOf<typename HostSpecs<lang::kernel_params<K>>::type>::type,
               public SpreadCall<Kernel<K>, lang::kernel_params<K>::size> {
  using Params = lang::kernel_params<K>;
  using Specs = typename HostSpecs<Params>::type;
  using Calls = typename CallOperatorsOf<Specs>::type;

 public:
  constexpr Kernel() : Calls(kernel_record<K>) {}
  using Calls::operator();
  using SpreadCall<Kernel, Params::size>::operator();
  using HostParameters = Specs;

  /// The kernel without its name, with its options. Kernels with equal parameters on the host have launchers of one
  /// type, so that code that chooses one of many compiles the call once.
  constexpr const Calls& launcher() const { return *this; }

  /// A call that does not fit: explains why, at compile time.
  template <class... A>
    requires(!call_fits<Specs, lang::TypeList<A...>> &&
             !(any_spread<A...> &&
               (sizeof...(A) == Params::size || (sizeof...(A) == Params::size + 1 && ends_with_place<A...>))))
  auto operator()(A&&...) const {  // `auto`: the body is looked at here, before the rest of the user's statement
    constexpr std::size_t count = sizeof...(A) - (ends_with_place<A...> ? 1 : 0);
    static_assert(count == Params::size,
                  "wrong number of arguments: a launch takes one for each parameter of the kernel");
    if constexpr (count == Params::size) {
      constexpr bool explained = explained_call<Params, lang::TypeList<A...>, std::make_index_sequence<count>>;
      (void)explained;
    }
    return NoOperation{};
  }

  /// The number of blocks. Required for a kernel without Mut or MutTiles; an upper bound for MutTiles; a ShapeError
  /// with Mut.
  constexpr Kernel blocks(Extent n) const {
    Kernel k = *this;
    k.options_.blocks = n.value;
    k.options_.blocks_given = true;
    return k;
  }
  /// Runs on `device`; all tensors must be there (DeviceError). Needed only if no argument determines the device.
  Kernel on_device(Device device) const {
    Kernel k = *this;
    k.options_.device = &device.backend();
    return k;
  }
  /// Compiles with the hints of a tuning record (docs/tuning.md). Where the launch compiles, a stale record (of another
  /// version of the kernel, another device or another assembler) is a CompileError, as are invalid hints. On the CPU
  /// hints have no effect.
  Kernel tuned(const TuningRecord& record, SourceLocation where = SourceLocation::current()) const {
    Kernel k = *this;
    k.options_.tuning = jit::intern_tuning(record, where);
    return k;
  }
  /// Compiles with these hints instead of what the cost model chooses (docs/tuning.md); those of `tuned` and `hints`
  /// replace one another. Throws CompileError for a number that no GPU takes. On the CPU hints have no effect.
  Kernel hints(const Hints& hints, SourceLocation where = SourceLocation::current()) const {
    Kernel k = *this;
    k.options_.tuning = jit::intern_hints(hints, where);
    return k;
  }
  /// Accuracy of math functions whose calls do not set it, instead of the default rule (approximate if the result
  /// reaches only floating-point outputs of at most 16 bits).
  constexpr Kernel precise() const { return with(lang::Accuracy::Precise); }
  constexpr Kernel approximate() const { return with(lang::Accuracy::Approximate); }

 private:
  constexpr Kernel with(lang::Accuracy accuracy) const {
    Kernel k = *this;
    k.options_.accuracy_given = true;
    k.options_.accuracy = accuracy;
    return k;
  }
};

}  // namespace detail

/// The kernel K (a function, an instance of a function template, or a captureless lambda), ready to be called.
template <auto K>
  requires(lang::kernel_params_ok<K>())
inline constexpr detail::Kernel<K> kernel{};

/// What runs of kernels check. Strict adds positions outside a tensor in gather, load_at, scatter and the updates of an
/// Acc, which otherwise read padding and are dropped: code that relies on that fails in it.
enum class CheckMode : std::uint8_t { Off, On, Strict };

/// True if kernels run checked: out-of-range tile indices, reads of never-written elements, overlaps, overflowing index
/// arithmetic and sums of signed integers that wrap become DeviceErrors, recordings that change a TraceError. Initially
/// TESSERA_CHECK (default off).
bool check_mode();
/// True if single positions outside a tensor are errors as well. Initially TESSERA_CHECK=strict.
bool strict_check_mode();
/// Changes it for operations built from now on. Tensors made while it was off do not know what was written, and count
/// as written: reads of their elements are never reported. On the CPU a checked launch runs on one thread.
void set_check_mode(bool on) noexcept;
void set_check_mode(CheckMode mode) noexcept;

}  // namespace tessera
