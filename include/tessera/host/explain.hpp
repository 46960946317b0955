// Why a call of kernel<K> does not fit: the first bad argument is explained in one sentence by a static_assert. Each
// check is a struct whose parameters are the facts, so the compiler's "in instantiation of" line names the argument's
// number, the parameter and what was passed.
#pragma once
#include <utility>

#include "tessera/host/operand.hpp"
#include "tessera/lang/kernel_signature.hpp"

namespace tessera::detail {

/// The argument that was passed: element type and rank of anything that is, lends, or makes a tensor.
template <class A>
struct Passed {
  static constexpr bool tensor = false;
};
template <class T, int R, bool Writable>
struct PassedTensor {
  static constexpr bool tensor = true;
  static constexpr bool writable = Writable;
  static constexpr int rank = R;
  using element = T;
};
template <Element T, int R>
struct Passed<Tensor<T, R>> : PassedTensor<T, R, true> {};
template <Element T, int R>
struct Passed<Lend<T, R>> : PassedTensor<T, R, true> {};
template <Element T, int R>
struct Passed<Op<Tensor<T, R>>> : PassedTensor<T, R, true> {};
template <Element T, int R>
struct Passed<View<T, R>> : PassedTensor<T, R, false> {};
template <Element T, int R>
struct Passed<Shared<T, R>> : PassedTensor<T, R, false> {};

/// Common to all tensor parameters. `Arg` is the argument's type as deduced: a reference if it has a name.
template <int Number, class Parameter, class Arg>
struct TensorArgument {
  using Traits = lang::ParamTraits<Parameter>;
  using P = Passed<std::remove_cvref_t<Arg>>;
  static_assert(P::tensor, "this kernel parameter takes a tensor (or an operation that makes one)");
  static constexpr bool fits() {
    if constexpr (P::tensor) {
      constexpr bool rank = P::rank == Traits::rank;
      constexpr bool element = std::is_same_v<typename P::element, typename Traits::element>;
      constexpr bool sums = Traits::spec.exact_sums;
      static_assert(!sums || (rank && element),
                    "an Acc of reproducible sums takes what zeros<reproducible<f32>>({...}) makes, with its extents");
      static_assert(sums || rank, "the tensor's rank is not that of the kernel parameter");
      static_assert(sums || !rank || element,
                    "the tensor's element type is not that of the kernel parameter: convert it with cast<T>(tensor)");
      return rank && element;
    }
    return false;
  }
};

template <int Number, class Parameter, class Arg>
struct MutableArgument {
  using P = Passed<std::remove_cvref_t<Arg>>;
  static constexpr bool named_op = is_op<std::remove_cvref_t<Arg>> && std::is_lvalue_reference_v<Arg>;
  static constexpr bool fits() {
    if constexpr (TensorArgument<Number, Parameter, Arg>::fits()) {
      static_assert(P::writable,
                    "this kernel parameter is written: Views and Shared tensors are read-only; pass a Tensor");
      static_assert(!P::writable || named_op || !std::is_lvalue_reference_v<Arg>,
                    "this kernel parameter takes exclusive access: write std::move(tensor) to give it to the launch, "
                    "or mut(tensor) to lend it (arguments stand in the order of the kernel's parameters)");
      static_assert(!named_op, "running an operation consumes it: write std::move(op)");
    }
    return true;
  }
};

template <class>
inline constexpr bool is_lend = false;
template <Element T, int R>
inline constexpr bool is_lend<Lend<T, R>> = true;

template <int Number, class Parameter, class Arg>
struct ReadArgument {
  using A = std::remove_cvref_t<Arg>;
  static constexpr bool fits() {
    if constexpr (TensorArgument<Number, Parameter, Arg>::fits()) {
      static_assert(!is_lend<A>, "this kernel parameter is only read: pass the tensor itself instead of mut(tensor)");
      static_assert(!is_op<A> || !std::is_lvalue_reference_v<Arg>,
                    "running an operation consumes it: write std::move(op)");
    }
    return true;
  }
};

template <int Number, class Parameter, class Arg>
struct NumberArgument {
  using A = std::remove_cvref_t<Arg>;
  using T = typename lang::ParamTraits<Parameter>::element;
  static constexpr bool number = std::is_arithmetic_v<A> || (Element<A>);
  static constexpr bool fits() {
    static_assert(number, "a Scalar<T> parameter takes a host number, or a GraphScalar<T>");
    static_assert(!number || NumberFor<A, T>,
                  "this number cannot become the Scalar's element type without changing its value (a floating-point "
                  "number is no integer, a bool is no number): convert it first (static_cast)");
    return true;
  }
};

template <int Number, class Parameter, class Arg>
struct ConstantArgument {
  using A = std::remove_cvref_t<Arg>;
  using T = typename lang::ParamTraits<Parameter>::element;
  static constexpr bool value = std::is_arithmetic_v<A> || std::is_enum_v<A> || (Element<A>);
  static constexpr bool fits() {
    static_assert(value, "a Constant<T> parameter takes a value of the host: a T");
    static_assert(!value || !std::is_enum_v<T> || NumberFor<A, T>,
                  "a Constant of an enumeration takes a value of that enumeration");
    static_assert(!value || std::is_enum_v<T> || NumberFor<A, T>,
                  "this value cannot become the Constant's type without changing its value: convert it first "
                  "(static_cast)");
    return true;
  }
};

template <int Number, class Parameter, class Arg>
struct PointerArgument {
  static constexpr bool fits() {
    static_assert(never_true<Arg>,
                  "an unsafe_::Ptr<T> parameter takes unsafe_::address(tensor) or unsafe_::address(pointer)");
    return true;
  }
};

template <int Number, class Parameter, class Arg>
constexpr bool explain_argument() {
  using enum lang::ParamKind;
  constexpr lang::ParamKind kind = lang::ParamTraits<Parameter>::kind;
  if constexpr (kind == Scalar) return NumberArgument<Number, Parameter, Arg>::fits();
  if constexpr (kind == Constant) return ConstantArgument<Number, Parameter, Arg>::fits();
  if constexpr (kind == UnsafePtr) return PointerArgument<Number, Parameter, Arg>::fits();
  if constexpr (kind == In) return ReadArgument<Number, Parameter, Arg>::fits();
  if constexpr (kind != Scalar && kind != Constant && kind != UnsafePtr && kind != In)
    return MutableArgument<Number, Parameter, Arg>::fits();
  return true;
}

}  // namespace tessera::detail
