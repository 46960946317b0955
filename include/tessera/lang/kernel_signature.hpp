// The signature of a kernel from its C++ type: its parameters, their kinds, element types and extents. Kernels are
// functions, instances of function templates, or captureless constexpr lambdas.
#pragma once
#include <array>
#include <bit>
#include <cstring>
#include <string_view>
#include <vector>

#include "tessera/lang/acc.hpp"
#include "tessera/lang/constant.hpp"
#include "tessera/lang/in.hpp"
#include "tessera/lang/mut.hpp"
#include "tessera/lang/mut_tiles.hpp"
#include "tessera/lang/recording.hpp"
#include "tessera/lang/unsafe.hpp"

namespace tessera::lang {

template <class... P>
struct TypeList {
  static constexpr int size = sizeof...(P);
};

/// For each kernel parameter type: kind, element, rank, extents, info(), and make(recording, number), which creates the
/// object.
template <class P>
struct ParamTraits {
  static constexpr bool is_param = false;
};

namespace detail {

template <class P, ParamKind Kind, class T, int... E>
struct TensorParam {
  static constexpr bool is_param = true;
  static constexpr ParamKind kind = Kind;
  using element = T;
  static constexpr int rank = sizeof...(E);
  static constexpr int extents[sizeof...(E) == 0 ? 1 : sizeof...(E)] = {E...};
  static ParamInfo info() { return {Kind, element_type<T>, rank, {E...}, {}, 0}; }
  static P make(const Recording& r, int number) {
    if constexpr (Kind == ParamKind::Mut || Kind == ParamKind::UnsafeMut) {
      return HandleAccess::make<P>(r.piece(number));
    } else {
      return HandleAccess::make<P>(r.tensor(number));
    }
  }
};
template <class P, ParamKind Kind, class T>
struct ValueParam {
  static constexpr bool is_param = true;
  static constexpr ParamKind kind = Kind;
  using element = T;
  static constexpr int rank = 0;
  static ParamInfo info() { return {Kind, element_type<T>, 0, {}, {}, 0}; }
  static P make(const Recording& r, int number) { return P(r.argument(number)); }
};
/// "bool", "i32", or the name of an enumeration.
template <class T>
std::string constant_name() {
  if constexpr (std::is_enum_v<T>) return type_label(__PRETTY_FUNCTION__);
  return tessera::info(tessera::detail::constant_element<T>()).name;
}

}  // namespace detail

template <class T, int... D>
struct ParamTraits<Mut<T, D...>> : detail::TensorParam<Mut<T, D...>, ParamKind::Mut, T, D...> {};
template <class T, int... D>
struct ParamTraits<MutTiles<T, D...>> : detail::TensorParam<MutTiles<T, D...>, ParamKind::MutTiles, T, D...> {};
template <class T, int... E>
struct ParamTraits<In<T, E...>> : detail::TensorParam<In<T, E...>, ParamKind::In, T, E...> {};
template <class T, int... E>
struct ParamTraits<Acc<T, E...>> : detail::TensorParam<Acc<T, E...>, ParamKind::Acc, T, E...> {};
template <class T, int... D>
struct ParamTraits<unsafe_::Mut<T, D...>> : detail::TensorParam<unsafe_::Mut<T, D...>, ParamKind::UnsafeMut, T, D...> {
};
template <class T>
struct ParamTraits<Tile<T>> : detail::ValueParam<Tile<T>, ParamKind::Scalar, T> {};
template <class T>
struct ParamTraits<unsafe_::Ptr<T>> : detail::ValueParam<unsafe_::Ptr<T>, ParamKind::UnsafePtr, T> {};
template <class T>
struct ParamTraits<Constant<T>> {
  static constexpr bool is_param = true;
  static constexpr ParamKind kind = ParamKind::Constant;
  using element = T;
  static constexpr int rank = 0;
  static ParamInfo info() {
    return {kind, tessera::detail::constant_element<T>(), 0, {}, "Constant<" + detail::constant_name<T>() + ">", 0};
  }
  static Constant<T> make(const Recording& r, int number) {
    const std::uint64_t bits = r.constant(number);
    std::array<std::byte, sizeof(T)> low;
    std::memcpy(low.data(), &bits, low.size());
    return Constant<T>(std::bit_cast<T>(low));
  }
};

/// Kernel parameters may be taken by value or by reference to const.
template <class P>
using param_t = std::remove_cvref_t<P>;

namespace detail {

/// Shows the parameter's number and type in the diagnostic.
template <int Number, class P>
struct KernelParameter {
  static_assert(ParamTraits<param_t<P>>::is_param,
                "a kernel parameter must be Mut<T, extents...>, MutTiles<T, extents...>, In<T, extents...>, Acc<T, "
                "extents...>, Scalar<T> or Constant<T>: a plain host value would be baked into the compiled kernel "
                "(Constant<T> compiles separate code for each value)");
  static_assert(!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>,
                "a kernel takes its parameters by value");
  static constexpr bool ok = ParamTraits<param_t<P>>::is_param &&
                             (!std::is_lvalue_reference_v<P> || std::is_const_v<std::remove_reference_t<P>>);
};

template <class F>
struct Signature {
  static_assert(tessera::detail::never<F>,
                "a kernel is a function or a captureless lambda whose parameter types are spelled out");
  using params = TypeList<>;
};
template <class R, class... P>
struct Signature<R (*)(P...)> {
  static_assert(std::is_void_v<R>, "a kernel returns nothing: results are stored through Mut parameters");
  using params = TypeList<P...>;
};
template <class R, class... P>
struct Signature<R (*)(P...) noexcept> : Signature<R (*)(P...)> {};
template <class C, class R, class... P>
struct Signature<R (C::*)(P...) const> : Signature<R (*)(P...)> {};
template <class C, class R, class... P>
struct Signature<R (C::*)(P...) const noexcept> : Signature<R (*)(P...)> {};
template <class F>
  requires requires { &F::operator(); }
struct Signature<F> : Signature<decltype(&F::operator())> {};

template <class... P, std::size_t... I>
constexpr bool parameters_ok(TypeList<P...>, std::index_sequence<I...>) {
  return (KernelParameter<static_cast<int>(I), P>::ok && ...);
}

}  // namespace detail

/// The parameter types of kernel K, as written.
template <auto K>
using kernel_params = typename detail::Signature<std::remove_cvref_t<decltype(K)>>::params;

/// True if every parameter type is a kernel parameter; instantiating it reports those that are not.
template <auto K>
constexpr bool kernel_params_ok() {
  return detail::parameters_ok(kernel_params<K>{}, std::make_index_sequence<kernel_params<K>::size>{});
}

/// The parameters of kernel K as run-time data (lay_out fills in slots and spelling).
template <auto K>
std::vector<ParamInfo> kernel_param_infos() {
  return []<class... P>(TypeList<P...>) {
    return std::vector<ParamInfo>{ParamTraits<param_t<P>>::info()...};
  }(kernel_params<K>{});
}

/// A readable label: the function's name without namespaces and template arguments. Compilers differ; never part of a
/// key.
template <auto K>
std::string kernel_name() {
  return kernel_label(__PRETTY_FUNCTION__);
}

/// Records kernel K: runs it once on this thread and returns its Tile IR. Throws TraceError for code that a recording
/// cannot express (docs/tracing.md).
template <auto K>
Trace trace(const Specialization& specialization = {}, SourceLocation where = SourceLocation::current()) {
  if constexpr (kernel_params_ok<K>()) {
    Recording recording(kernel_name<K>(), kernel_param_infos<K>(), specialization, where);
    recording.begin_body();
    [&]<class... P, std::size_t... I>(TypeList<P...>, std::index_sequence<I...>) {
      K(ParamTraits<param_t<P>>::make(recording, static_cast<int>(I))...);
    }(kernel_params<K>{}, std::make_index_sequence<kernel_params<K>::size>{});
    return recording.finish();
  } else {
    return {};
  }
}

}  // namespace tessera::lang
