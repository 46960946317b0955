// What a lambda's parameters and result say about an operator: its schema, which arguments are written, which element
// types it takes.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/host/op.hpp"
#include "tessera/host/tensor.hpp"

namespace tessera::pytorch {

/// The results are shaped like these arguments, one for each result.
template <int... Arguments>
struct Like {};
/// One result, with an entry for each of its axes.
template <class... Axes>
struct Shaped {};
template <int Argument, int Axis>
struct AxisOf {};
struct AxisOfOne {};
/// There is no result: these arguments are written.
template <int... Arguments>
struct InPlace {};
/// What a backward keeps of the forward: argument<I>, result<I>.
template <int I>
struct SavedArgument {};
template <int I>
struct SavedResult {};
template <class... Which>
struct Saves {};

enum class Kind : std::uint8_t { View, Lend, Float, Int, Bool };

/// One parameter, as a tensor (rank > 0) or a number.
struct Parameter {
  Kind kind = Kind::Float;
  int rank = 0;
  ElementType element{};
  constexpr bool is_tensor() const noexcept { return kind == Kind::View || kind == Kind::Lend; }
};

template <class P>
struct ParameterOf {
  static_assert(std::is_arithmetic_v<P>,
                "a parameter of an operator is a View<T, rank> (read), a Lend<T, rank> (written), a floating-point "
                "number, an integer or a bool");
  static constexpr Parameter value{std::is_same_v<P, bool> ? Kind::Bool
                                   : std::is_integral_v<P> ? Kind::Int
                                                           : Kind::Float};
};
template <Element T, int R>
struct ParameterOf<View<T, R>> {
  static constexpr Parameter value{Kind::View, R, element_type<T>};
};
template <Element T, int R>
struct ParameterOf<Lend<T, R>> {
  static constexpr Parameter value{Kind::Lend, R, element_type<T>};
};

/// The tensors of a result: Tensor, std::tuple of them, or void.
template <class R>
struct Results {
  static_assert(detail::never_true<R>, "an operator returns an operation, an Op, of one tensor, several or none");
};
template <>
struct Results<void> {
  static constexpr std::array<Parameter, 0> value{};
};
template <Element T, int R>
struct Results<Tensor<T, R>> {
  static constexpr std::array<Parameter, 1> value{Parameter{Kind::View, R, element_type<T>}};
};
template <Element... T, int... R>
struct Results<std::tuple<Tensor<T, R>...>> {
  static constexpr std::array<Parameter, sizeof...(T)> value{Parameter{Kind::View, R, element_type<T>}...};
};

/// The parameters and the result of a lambda that has no template parameters, or whose element type is chosen.
template <class Member>
struct Signature;
template <class F, class Result, class... P>
struct Signature<Result (F::*)(P...) const> {
  static_assert(
      detail::is_op<Result>,
      "the function of an operator returns the operation, kernel<K>(...) or kernels::f(...), and does not run "
      "it: leave .sync() and .on(stream) out");
  using value_type = typename Result::value_type;
  using arguments = std::tuple<std::remove_cvref_t<P>...>;
  static constexpr std::size_t count = sizeof...(P);
  static constexpr std::array<Parameter, count> parameters{ParameterOf<std::remove_cvref_t<P>>::value...};
  static constexpr auto results = Results<value_type>::value;
};
/// `void` for T: a lambda without template parameters.
template <class F, class T>
struct MemberOf {
  using type = decltype(&F::template operator()<T>);
};
template <class F>
struct MemberOf<F, void> {
  using type = decltype(&F::operator());
};
template <class F, class T>
using SignatureOf = Signature<typename MemberOf<F, T>::type>;

template <class F>
concept Plain = requires { &F::operator(); };

constexpr bool is_float(ElementType element) {
  switch (element) {
#define TESSERA_ELEMENT(name, host, ir, bits, cls) \
  case ElementType::name: return ElementClass::cls == ElementClass::Float;
#include "tessera/base/element_types.def"
  }
  return false;
}

/// Like<...> of the last tensors with floating-point elements among the parameters, as many as there are results.
template <class S>
struct LikeLast {
  static constexpr std::size_t count = S::results.size();
  static constexpr std::array<int, count> places = [] {
    std::array<int, count> found{};
    std::size_t left = count;
    for (std::size_t i = S::count; i-- > 0 && left > 0;)
      if (S::parameters[i].is_tensor() && is_float(S::parameters[i].element)) found[--left] = static_cast<int>(i);
    return found;
  }();
  template <std::size_t... I>
  static Like<places[I]...> make(std::index_sequence<I...>);
  using type = decltype(make(std::make_index_sequence<count>()));
};

/// What is the same for every element type, at run time.
struct OperatorInfo {
  std::string name;                    ///< "my::softmax"
  std::vector<std::string> names;      ///< of the parameters
  std::vector<Parameter> parameters;   ///< `element` where it does not vary
  std::vector<bool> varies;            ///< the parameter's element type is the operator's
  std::vector<std::int32_t> elements;  ///< the operator's element types, as PyTorch numbers them; empty: nothing varies
  SourceLocation where;
};

/// "softmax(x, eps)" is the name and the parameters' names; without names they are arg0, arg1, ...
inline std::vector<std::string> split_names(std::string_view text, std::size_t count) {
  std::vector<std::string> names;
  const std::size_t open = text.find('(');
  if (open == std::string_view::npos) {
    for (std::size_t i = 0; i < count; ++i) names.push_back("arg" + std::to_string(i));
    return names;
  }
  std::string name;
  for (const char c : text.substr(open + 1)) {
    if (c == ',' || c == ')') {
      if (!name.empty()) names.push_back(std::move(name));
      name.clear();
    } else if (c != ' ') {
      name += c;
    }
  }
  return names;
}

/// PyTorch's schema: "softmax(Tensor x, float eps) -> Tensor", with Tensor(a!) for what is written.
inline std::string schema_of(std::string_view name, const OperatorInfo& info, std::size_t results) {
  std::string text = std::string(name.substr(0, name.find('('))) + "(";
  char alias = 'a';
  for (std::size_t i = 0; i < info.parameters.size(); ++i) {
    if (i != 0) text += ", ";
    switch (info.parameters[i].kind) {
      case Kind::View: text += "Tensor "; break;
      case Kind::Lend: text += std::string("Tensor(") + alias++ + "!) "; break;
      case Kind::Float: text += "float "; break;
      case Kind::Int: text += "int "; break;
      case Kind::Bool: text += "bool "; break;
    }
    text += info.names[i];
  }
  if (results == 1) return text + ") -> Tensor";
  text += ") -> (";
  for (std::size_t i = 0; i < results; ++i) text += i == 0 ? "Tensor" : ", Tensor";
  return text + ")";
}

}  // namespace tessera::pytorch
