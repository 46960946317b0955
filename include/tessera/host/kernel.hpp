// kernel<K>: a kernel as an object to call. Its call operator has a parameter list computed from K's signature, so a
// call is an ordinary C++ call: editors show the parameters, conversions apply, static analysers see through it.
//
//   y = kernel<saxpy<128>>(std::move(y), 2.0f, x).sync();   // give: ownership in, ownership out
//   kernel<saxpy<128>>(mut(y), 3.0f, x).sync();             // lend
//
// Each mutable parameter can be given or lent, and the result's type depends on which: there is one call operator per
// combination.
#pragma once
#include <array>
#include <tuple>
#include <utility>

#include "tessera/host/explain.hpp"
#include "tessera/host/graph_scalar.hpp"
#include "tessera/host/launch.hpp"
#include "tessera/host/unsafe_address.hpp"
#include "tessera/jit/tuning_use.hpp"

namespace tessera {

namespace detail {

/// The parameter of the call operator for a kernel parameter of type P.
template <class P, bool IsLent, lang::ParamKind Kind = lang::ParamTraits<P>::kind>
struct HostParameter {  // Mut, MutTiles, Acc, unsafe_::Mut
  using Traits = lang::ParamTraits<P>;
  using type = std::conditional_t<IsLent, Lent<typename Traits::element, Traits::rank>,
                                  Give<typename Traits::element, Traits::rank>>;
};
template <class P, bool IsLent>
struct HostParameter<P, IsLent, lang::ParamKind::In> {
  using type = Read<typename lang::ParamTraits<P>::element, lang::ParamTraits<P>::rank>;
};
template <class P, bool IsLent>
struct HostParameter<P, IsLent, lang::ParamKind::Scalar> {
  using type = ScalarNumber<typename lang::ParamTraits<P>::element>;
};
template <class P, bool IsLent>
struct HostParameter<P, IsLent, lang::ParamKind::Constant> {
  using type = Number<typename lang::ParamTraits<P>::element>;
};
template <class P, bool IsLent>
struct HostParameter<P, IsLent, lang::ParamKind::UnsafePtr> {
  using type = unsafe_::Address<typename lang::ParamTraits<P>::element>;
};
template <class P, bool IsLent>
using HostParam = typename HostParameter<lang::param_t<P>, IsLent>::type;

template <class P>
constexpr bool is_mutable_param() {
  using enum lang::ParamKind;
  constexpr lang::ParamKind kind = lang::ParamTraits<lang::param_t<P>>::kind;
  return kind != In && kind != Scalar && kind != UnsafePtr && kind != Constant;
}
/// Slots of the entry's arguments. The values of Constants follow after them.
template <class P>
constexpr int slots_of() {
  using enum lang::ParamKind;
  using Traits = lang::ParamTraits<lang::param_t<P>>;
  if (Traits::kind == Constant) return 0;
  return Traits::kind == Scalar || Traits::kind == UnsafePtr ? 1 : 1 + 2 * Traits::rank;
}

/// A tensor that was given to the launch and is returned: its number among the tensors, and where its extents are.
template <class T, int R, int Ordinal, int Slot>
struct Returned {
  static constexpr int ordinal = Ordinal, slot = Slot, rank = R;
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
typename R::tensor hand_back(runtime::Access& access, const LaunchOperand& operand, const std::uint64_t* slots) {
  Layout<R::rank> l;
  l.storage = std::move(access.storage);
  l.offset = operand.offset;
  for (int i = 0; i < R::rank; ++i) {
    const auto a = static_cast<std::size_t>(i);
    l.dims[a] = static_cast<std::int64_t>(slots[R::slot + 1 + i]);
    l.strides[a] = static_cast<std::int64_t>(slots[R::slot + 1 + R::rank + i]);
  }
  return Reach::make<typename R::tensor>(std::move(l));
}

template <int Tensors, int Slots, class... R>
class LaunchNode final : public OpNode<typename ResultOf<R...>::type> {
 public:
  using Result = typename ResultOf<R...>::type;
  LaunchNode(KernelRecord& record, const LaunchOptions& options, SourceLocation where, Launch::Arguments args)
      : launch_(record, options, where, {operands_, accesses_, slots_}) {
    launch_.bind(args);
  }
  runtime::Backend* device() const noexcept override { return launch_.device(); }
  bool promise(std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept override {
    if constexpr (sizeof...(R) == 1) {
      constexpr int ordinal = (R::ordinal + ...), slot = (R::slot + ...), rank = (R::rank + ...);
      for (int i = 0; i < rank; ++i) {
        const auto a = static_cast<std::size_t>(i);
        dims[a] = static_cast<std::int64_t>(slots_[slot + 1 + i]);
        strides[a] = static_cast<std::int64_t>(slots_[slot + 1 + rank + i]);
      }
      return operands_[ordinal].known;
    }
    return false;
  }
  bool compile(const CompileRequest& request, jit::CodeReport& report) override {
    return launch_.compile(request, report);
  }
  Result run(const Stream& stream) override {
    launch_.enqueue(stream);
    if constexpr (sizeof...(R) > 0) {
      return Result{hand_back<R>(accesses_[R::ordinal], operands_[R::ordinal], slots_)...};
    }
  }

 private:
  static constexpr int kTensors = Tensors > 0 ? Tensors : 1;
  runtime::Access
      accesses_[kTensors];  // before the operands: leases must end before the references that keep the storages
  LaunchOperand operands_[kTensors];
  std::uint64_t slots_[Slots > 0 ? Slots : 1];
  Launch launch_;
};

/// The properties of a parameter list that the call operators are generated from.
template <class... P>
struct ParameterList {
  static constexpr std::size_t count = sizeof...(P);
  static constexpr std::array<bool, count + 1> is_mutable{is_mutable_param<P>()..., false};
  static constexpr std::array<int, count + 1> slot_counts{slots_of<P>()..., 0};
  static constexpr std::size_t mutables = (std::size_t{0} + ... + (is_mutable_param<P>() ? 1u : 0u));
  static constexpr int constants = (0 + ... + (lang::ParamTraits<lang::param_t<P>>::kind == lang::ParamKind::Constant));
  static constexpr bool counts_blocks = !(false || ... || lang::has_pieces(lang::ParamTraits<lang::param_t<P>>::kind));
  static constexpr int slots = ((constants + (counts_blocks ? 1 : 0)) + ... + slots_of<P>());
  static constexpr int tensors = (0 + ... + (slots_of<P>() > 1 ? 1 : 0));

  static constexpr int first_slot(std::size_t param) {
    int slot = 0;
    for (std::size_t i = 0; i < param; ++i) slot += slot_counts[i];
    return slot;
  }
  static constexpr int tensor_ordinal(std::size_t param) {
    int ordinal = 0;
    for (std::size_t i = 0; i < param; ++i) ordinal += slot_counts[i] > 1 ? 1 : 0;
    return ordinal;
  }
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
  template <int Tensors, int Slots>
  using node = LaunchNode<Tensors, Slots, T...>;
};
template <class P, bool Kept, int Ordinal, int Slot>
auto returned_of() {
  if constexpr (Kept) {
    using Traits = lang::ParamTraits<lang::param_t<P>>;
    return Concatenated<Returned<typename Traits::element, Traits::rank, Ordinal, Slot>>{};
  } else {
    return Concatenated<>{};
  }
}

/// One call operator. `Self` has record() and options().
template <class Self, std::size_t Mask, class Params, class Numbers>
class CallOperator;
template <class Self, std::size_t Mask, class... P, std::size_t... I>
class CallOperator<Self, Mask, lang::TypeList<P...>, std::index_sequence<I...>> {
  using List = ParameterList<P...>;
  template <std::size_t Param>
  static constexpr bool given = List::is_mutable[Param] && !List::lent(Mask, Param);
  using Results =
      decltype((Concatenated<>{} + ... + returned_of<P, given<I>, List::tensor_ordinal(I), List::first_slot(I)>()));
  using Node = typename Results::template node<List::tensors, List::slots>;

 public:
  Op<typename Node::Result> operator()(HostParam<P, List::lent(Mask, I)>... args,
                                       SourceLocation where = SourceLocation::current()) const {
    const ArgRef* const refs[] = {&args.arg()...};
    const Self& self = static_cast<const Self&>(*this);
    return Op<typename Node::Result>(std::make_unique<Node>(self.record(), self.options(), where, refs));
  }
};

/// All call operators of a kernel.
template <class Self, class Params, class Numbers>
class CallOperators;
template <class Self, class... P, std::size_t... N>
class CallOperators<Self, lang::TypeList<P...>, std::index_sequence<N...>>
    : public CallOperator<Self, ParameterList<P...>::mask(N), lang::TypeList<P...>, std::index_sequence_for<P...>>... {
 public:
  using CallOperator<Self, ParameterList<P...>::mask(N), lang::TypeList<P...>,
                     std::index_sequence_for<P...>>::operator()...;
};

template <class Self, class Params>
struct CallOperatorsOf;
template <class Self, class... P>
struct CallOperatorsOf<Self, lang::TypeList<P...>> {
  using type = CallOperators<Self, lang::TypeList<P...>, std::make_index_sequence<ParameterList<P...>::masks>>;
};

/// True if the arguments convert, one by one, to the parameters (given or lent); a SourceLocation may follow them.
template <class Params, class Args>
inline constexpr bool call_fits = false;
template <class... P, class... A>
  requires(sizeof...(P) == sizeof...(A))
inline constexpr bool call_fits<lang::TypeList<P...>, lang::TypeList<A...>> =
    ((std::is_convertible_v<A, HostParam<P, false>> || std::is_convertible_v<A, HostParam<P, true>>)&&...);
template <class... P, class... A>
  requires(sizeof...(P) + 1 == sizeof...(A))
inline constexpr bool call_fits<lang::TypeList<P...>, lang::TypeList<A...>> =
    []<std::size_t... I>(std::index_sequence<I...>) {
      using Args = std::tuple<A...>;
      return std::is_same_v<std::remove_cvref_t<std::tuple_element_t<sizeof...(P), Args>>, SourceLocation> &&
             ((std::is_convertible_v<std::tuple_element_t<I, Args>, HostParam<P, false>> ||
               std::is_convertible_v<std::tuple_element_t<I, Args>, HostParam<P, true>>)&&...);
    }(std::index_sequence_for<P...>{});

/// True if a SourceLocation follows the arguments.
template <class... A>
inline constexpr bool ends_with_place = false;
template <class First, class... A>
inline constexpr bool ends_with_place<First, A...> =
    std::is_same_v<std::remove_cvref_t<std::tuple_element_t<sizeof...(A), std::tuple<First, A...>>>, SourceLocation>;

template <class... P, class... A, std::size_t... I>
constexpr void explain_call(lang::TypeList<P...>, lang::TypeList<A...>, std::index_sequence<I...>) {
  using Args = std::tuple<A...>;
  (void)(explain_argument<static_cast<int>(I) + 1, lang::param_t<P>, std::tuple_element_t<I, Args>>() && ...);
}

template <auto K>
inline constinit KernelRecord kernel_record{lang::kernel_name<K>, lang::kernel_param_infos<K>, lang::trace<K>};

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

/// A kernel with its options. A value: setting an option returns a new one.
template <auto K>
class Kernel : public CallOperatorsOf<Kernel<K>, lang::kernel_params<K>>::type {
  using Params = lang::kernel_params<K>;
  using Calls = typename CallOperatorsOf<Kernel<K>, Params>::type;

 public:
  constexpr Kernel() = default;
  using Calls::operator();

  /// A call that does not fit: explains why, at compile time.
  template <class... A>
    requires(!call_fits<Params, lang::TypeList<A...>>)
  auto operator()(A&&...) const {  // `auto`: the body is looked at here, before the rest of the user's statement
    constexpr std::size_t count = sizeof...(A) - (ends_with_place<A...> ? 1 : 0);
    static_assert(count == Params::size,
                  "wrong number of arguments: a launch takes one for each parameter of the kernel");
    if constexpr (count == Params::size) {
      explain_call(Params{}, lang::TypeList<A...>{}, std::make_index_sequence<count>{});
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
  /// Accuracy of math functions whose calls do not set it, instead of the default rule (approximate if the result
  /// reaches only floating-point outputs of at most 16 bits).
  constexpr Kernel precise() const { return with(lang::Accuracy::Precise); }
  constexpr Kernel approximate() const { return with(lang::Accuracy::Approximate); }

 private:
  template <class, std::size_t, class, class>
  friend class CallOperator;
  static KernelRecord& record() { return kernel_record<K>; }
  const LaunchOptions& options() const { return options_; }
  constexpr Kernel with(lang::Accuracy accuracy) const {
    Kernel k = *this;
    k.options_.accuracy_given = true;
    k.options_.accuracy = accuracy;
    return k;
  }
  LaunchOptions options_;
};

}  // namespace detail

/// The kernel K (a function, an instance of a function template, or a captureless lambda), ready to be called.
template <auto K>
  requires(lang::kernel_params_ok<K>())
inline constexpr detail::Kernel<K> kernel{};

}  // namespace tessera
