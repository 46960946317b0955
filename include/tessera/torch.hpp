// Kernels as operators of PyTorch (docs/torch.md). One file of a library that the CMake function
// tessera_torch_library() builds:
//
//   #include <tessera/torch.hpp>
//   TESSERA_TORCH_LIBRARY(my, m) {
//     m.op<f32, bf16>("softmax(x)", like<0>, []<class T>(View<T, 2> x) { return kernel<softmax<T, 1024>>(empty_like(x),
//     x); }); m.op<f32>("scale_(y, a)", in_place<0>, []<class T>(Lend<T, 2> y, float a) { return kernel<scale<T,
//     1024>>(y, a); });
//   }
//
// In Python: torch.ops.load_library("libmy_ops.so"); torch.ops.my.softmax(x).
//
// The header needs PyTorch's, of release 2.10 or newer, and no other header of Tessera includes it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tessera/tessera.hpp"
#include "tessera/torch/autograd.hpp"
#include "tessera/torch/operator.hpp"

namespace tessera::pytorch {

/// What TESSERA_TORCH_LIBRARY's block is given. Everything is registered for tensors of the CPU, of GPUs and fake ones.
class Library {
 public:
  Library(const char* space, const char* file, int line) : space_(space) {
    check(aoti_torch_library_init_fragment(space, file, static_cast<std::uint32_t>(line), &definitions_),
          "aoti_torch_library_init_fragment");
    for (std::size_t i = 0; i < kKeys.size(); ++i)
      check(aoti_torch_library_init_impl(space, kKeys[i], file, static_cast<std::uint32_t>(line), &functions_[i]),
            "aoti_torch_library_init_impl");
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Makes torch.ops.<space>.<name>. `name` is the name alone, or with the names of the parameters: "softmax(x, eps)".
  /// `spec` is like<i...>, the arguments that the results are shaped like; shaped<of<i, axis>..., one>, the axes of
  /// arguments that the axes of the only result are as long as (`one`: 1); or in_place<i...>, those that are written
  /// when there is no result. `f` is a lambda that captures nothing and returns the operation. Its parameters are
  /// View<T, rank> (a tensor that is read), Lend<T, rank> (one that is written), floating-point numbers, integers and
  /// bool. Where it has a template parameter, `T...` are the element types that it is made for; the tensors of that
  /// type choose.
  template <class... T, class Spec, class F>
  void op(std::string_view name, Spec, F f, SourceLocation where = SourceLocation::current()) {
    define<Operator<F, Spec, T...>>(name, where);
    (void)f;
  }

  /// The derivative of the operator `name`, itself the operator <name>_backward: `f` takes the gradient of each result
  /// with floating-point elements, then all arguments of the forward in order, and its operation makes the gradient of
  /// each tensor argument with floating-point elements, shaped like it. Without T a lambda with a template parameter is
  /// made for f32, bf16, f16 and f64.
  template <class... T, class F>
  void autograd(std::string_view name, F f, SourceLocation where = SourceLocation::current()) {
    (void)f;
    derivative<T...>(name, F(), where);
  }
  /// A derivative that needs more than gradients. saves<argument<I>..., result<I>...> is kept for it, and `f` takes it
  /// after the gradients; like<i...> are the parameters of `f` that the gradients are shaped like.
  template <class... T, class... Which, int... A, class F>
  void autograd(std::string_view name, Saves<Which...>, Like<A...>, F,
                SourceLocation where = SourceLocation::current()) {
    const std::vector<Kept> kept{kept_of(Which())...};
    if constexpr (sizeof...(T) == 0 && !Plain<F>) {
      derivative_of<F, Like<A...>, f32, bf16, f16, f64>(name, kept, where);
    } else {
      derivative_of<F, Like<A...>, T...>(name, kept, where);
    }
  }

 private:
  static constexpr std::array<const char*, 3> kKeys{"CPU", "CUDA", "Meta"};

  struct Defined {
    std::string name;
    std::vector<Parameter> parameters, results;
    std::vector<std::size_t> float_parameters, float_results;  ///< the tensors of floating-point elements
    bool writes = false;
  };

  template <class Op>
  const Defined& define(std::string_view name, SourceLocation where) {
    OperatorInfo& info = *new OperatorInfo;  // as long as the process
    const std::string bare(name.substr(0, name.find('(')));
    info.name = space_ + "::" + bare;
    info.where = where;
    info.names = split_names(name, Op::First::count);
    Op::describe(info);
    Op::description = &info;
    if (info.names.size() != Op::First::count)
      throw ShapeError(concat(info.name, ": \"", name, "\" names ", info.names.size(),
                              " parameters, and the lambda has ", Op::First::count, "."),
                       where);
    check(aoti_torch_library_def(definitions_, schema_of(name, info, Op::results()).c_str()), "aoti_torch_library_def");
    for (std::size_t i = 0; i < kKeys.size(); ++i) {
      const auto function = i == 2 ? &guarded<Op::fake> : &guarded<Op::run>;
      check(torch_library_impl(functions_[i], bare.c_str(), function, TORCH_ABI_VERSION), "torch_library_impl");
    }
    Defined made;
    made.name = bare;
    made.parameters = info.parameters;
    made.results.assign(Op::First::results.begin(), Op::First::results.end());
    made.float_parameters = floating(Op::First::parameters);
    made.float_results = floating(Op::First::results);
    for (const Parameter& p : Op::First::parameters) made.writes = made.writes || p.kind == Kind::Lend;
    return defined_.emplace_back(std::move(made));
  }

  template <class... T, class F>
  void derivative(std::string_view name, F, SourceLocation where) {
    if constexpr (sizeof...(T) == 0 && !Plain<F>) {
      derivative_like<F, f32, bf16, f16, f64>(name, where);
    } else {
      derivative_like<F, T...>(name, where);
    }
  }
  /// Gradients are like the arguments, which `f` takes behind as many gradients as it has parameters more.
  template <class F, class... T>
  void derivative_like(std::string_view name, SourceLocation where) {
    using S =
        SignatureOf<F,
                    std::tuple_element_t<0, std::conditional_t<sizeof...(T) == 0, std::tuple<void>, std::tuple<T...>>>>;
    std::vector<Kept> kept;
    for (std::size_t i = 0; i < find(name, where).parameters.size(); ++i) kept.push_back({false, i});
    derivative_of<F, typename LikeLast<S>::type, T...>(name, std::move(kept), where);
  }
  template <class F, class Spec, class... T>
  void derivative_of(std::string_view name, std::vector<Kept> kept, SourceLocation where) {
    const Defined forward = find(name, where);
    if (forward.writes)
      throw ShapeError(concat(space_, "::", name,
                              " writes an argument: PyTorch has derivatives of operators that return "
                              "their results. Register one that does, with empty_like."),
                       where);
    for (Kept& k : kept) {
      const std::vector<Parameter>& all = k.is_result ? forward.results : forward.parameters;
      if (k.place >= all.size())
        throw ShapeError(concat(space_, "::", name, " has ", all.size(), k.is_result ? " results" : " parameters",
                                ": saves<...> counts them from 0."),
                         where);
      k.is_tensor = all[k.place].is_tensor();
    }
    const Defined& made = define<Operator<F, Spec, T...>>(forward.name + "_backward", where);
    check_counts(forward, made, kept.size(), where);
    run_python(autograd_program({space_, forward.name, made.name, forward.parameters.size(), forward.results.size(),
                                 forward.float_results, forward.float_parameters, std::move(kept)}));
  }
  void check_counts(const Defined& forward, const Defined& backward, std::size_t kept, SourceLocation where) const {
    if (backward.parameters.size() != forward.float_results.size() + kept)
      throw ShapeError(concat("autograd(\"", forward.name, "\"): the lambda has ", backward.parameters.size(),
                              " parameters; it takes the gradients of results with floating-point elements (",
                              forward.float_results.size(), ") and what is kept (", kept, ")."),
                       where);
    if (backward.results.size() != forward.float_parameters.size())
      throw ShapeError(
          concat("autograd(\"", forward.name, "\"): the lambda's operation makes ", backward.results.size(),
                 " tensors; it makes the gradients of tensor arguments with floating-point elements (",
                 forward.float_parameters.size(), ")."),
          where);
  }
  template <int I>
  static Kept kept_of(SavedArgument<I>) {
    static_assert(I >= 0, "argument<I> counts the operator's parameters from 0");
    return {false, I};
  }
  template <int I>
  static Kept kept_of(SavedResult<I>) {
    static_assert(I >= 0, "result<I> counts the operator's results from 0");
    return {true, I};
  }
  const Defined& find(std::string_view name, SourceLocation where) const {
    for (const Defined& d : defined_)
      if (d.name == name) return d;
    throw ShapeError(
        concat("autograd(\"", name, "\"): register the operator ", space_, "::", name, " first, with op()."), where);
  }

  std::string space_;
  TorchLibraryHandle definitions_ = nullptr;
  std::array<TorchLibraryHandle, kKeys.size()> functions_{};  // kept as long as the process
  std::vector<Defined> defined_;
};

/// The names that the block uses: members of the class that it is a function of, so that they are found before
/// std::in_place and need no namespace.
struct Names {
  template <int... I>
  static constexpr Like<I...> like{};
  template <int... I>
  static constexpr InPlace<I...> in_place{};
  template <class... Axes>
  static constexpr Shaped<Axes...> shaped{};
  template <int Argument, int Axis>
  using of = AxisOf<Argument, Axis>;
  using one = AxisOfOne;
  template <int I>
  using argument = SavedArgument<I>;
  template <int I>
  using result = SavedResult<I>;
  template <class... Which>
  static constexpr Saves<Which...> saves{};
};

}  // namespace tessera::pytorch

/// Registers operators of PyTorch when the library is loaded: TESSERA_TORCH_LIBRARY(my, m) { m.op(...); } makes
/// torch.ops.my.<name>. A namespace may have several such blocks, also in several libraries.
#define TESSERA_TORCH_LIBRARY(space, m) TESSERA_TORCH_LIBRARY_(space, m, __COUNTER__)
#define TESSERA_TORCH_LIBRARY_(space, m, n) TESSERA_TORCH_LIBRARY__(space, m, n)
#define TESSERA_TORCH_LIBRARY__(space, m, n)                                                                      \
  namespace {                                                                                                     \
  struct tessera_torch_##space##_##n : ::tessera::pytorch::Names {                                                \
    static bool make() {                                                                                          \
      static ::tessera::pytorch::Library& library = *new ::tessera::pytorch::Library(#space, __FILE__, __LINE__); \
      define(library);                                                                                            \
      return true;                                                                                                \
    }                                                                                                             \
    static void define(::tessera::pytorch::Library& m);                                                           \
  };                                                                                                              \
  const bool tessera_torch_##space##_##n##_made = tessera_torch_##space##_##n::make();                            \
  }                                                                                                               \
  void tessera_torch_##space##_##n::define(::tessera::pytorch::Library& m)
