// The signature of a kernel from its C++ type: its parameters, their kinds, element types and extents. Kernels are
// functions, instances of function templates, or captureless constexpr lambdas.
#pragma once
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "tessera/lang/acc.hpp"
#include "tessera/lang/constant.hpp"
#include "tessera/lang/handles.hpp"
#include "tessera/lang/in.hpp"
#include "tessera/lang/mut.hpp"
#include "tessera/lang/mut_tiles.hpp"
#include "tessera/lang/unsafe.hpp"

namespace tessera::lang {

enum class ParamKind : std::uint8_t { Mut, MutTiles, In, Scalar, Acc, UnsafeMut, UnsafePtr, Constant };

/// A block owns one piece of such a parameter.
constexpr bool has_own_piece(ParamKind k) { return k == ParamKind::Mut || k == ParamKind::UnsafeMut; }
/// Such a parameter determines how many blocks there are, or what they share.
constexpr bool has_pieces(ParamKind k) { return has_own_piece(k) || k == ParamKind::MutTiles; }

inline constexpr std::int64_t kDyn = -1;

/// One kernel parameter, from its C++ type.
struct ParamSpec {
  ParamKind kind;
  ElementType element;
  int rank;
  const int* extents;          ///< as many as the rank
  const char* enum_text = "";  ///< of a Constant of an enumeration: a text for type_label()
  bool exact_sums = false;     ///< an Acc of reproducible<f32>: its first axis are the bins
};

/// A kernel as the untyped code has it: its parameters, and its function, which runs on a recording's objects.
struct KernelBody {
  const char* text;  ///< for kernel_label()
  const ParamSpec* params;
  std::size_t count;
  void (*run)(const Recording&);
};

template <class... P>
struct TypeList {
  static constexpr int size = sizeof...(P);
};

/// For each kernel parameter type: kind, element, rank, spec, and make(recording, number), which creates the
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
  static constexpr ParamSpec spec{Kind, element_type<T>, rank, extents};
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
  static constexpr ParamSpec spec{Kind, element_type<T>, 0, nullptr};
  static P make(const Recording& r, int number) { return P(r.argument(number)); }
};
template <class T>
constexpr const char* type_text() {
  return std::is_enum_v<T> ? __PRETTY_FUNCTION__ : "";
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
template <class T, int... E>
struct ParamTraits<Acc<reproducible<T>, E...>>
    : detail::TensorParam<Acc<reproducible<T>, E...>, ParamKind::Acc, i64, reproducible<T>::bins, E...> {
  static constexpr ParamSpec spec{ParamKind::Acc, ElementType::i64, sizeof...(E) + 1, ParamTraits::extents, "", true};
};
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
  static constexpr ParamSpec spec{kind, tessera::detail::constant_element<T>(), 0, nullptr, detail::type_text<T>()};
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

namespace detail {

template <class Params>
struct ParamSpecs;
template <class... P>
struct ParamSpecs<TypeList<P...>> {
  static constexpr ParamSpec all[sizeof...(P) + 1] = {ParamTraits<param_t<P>>::spec...};
};

template <auto K>
constexpr const char* kernel_text() {
  return __PRETTY_FUNCTION__;
}
template <auto K, class... P, std::size_t... I>
void run_kernel(const Recording& recording, TypeList<P...>, std::index_sequence<I...>) {
  K(ParamTraits<param_t<P>>::make(recording, static_cast<int>(I))...);
}
template <auto K>
void run_kernel(const Recording& recording) {
  run_kernel<K>(recording, kernel_params<K>{}, std::make_index_sequence<kernel_params<K>::size>{});
}

}  // namespace detail

/// Kernel K, untyped. Its parameters are kernel parameters (kernel_params_ok).
template <auto K>
inline constexpr KernelBody kernel_body{detail::kernel_text<K>(), detail::ParamSpecs<kernel_params<K>>::all,
                                        kernel_params<K>::size, detail::run_kernel<K>};

}  // namespace tessera::lang
