// One operator: the functions that PyTorch calls for tensors of a device and for fake ones. They are stateless, as the
// ABI wants: an operator is a type, made of the lambda's, and its OperatorInfo is set when it is registered.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <tuple>
#include <utility>

#include "tessera/torch/argument.hpp"
#include "tessera/torch/fake.hpp"

namespace tessera::pytorch {

/// `T...`: the element types; none for a lambda without template parameters.
template <class F, class Spec, class... T>
class Operator {
  static_assert(sizeof...(T) > 0 || Plain<F>,
                "name the element types of a lambda with a template parameter: m.op<f32, bf16>(...)");
  static_assert(sizeof...(T) == 0 || !Plain<F>,
                "a lambda without a template parameter has its element types already: m.op(...)");
  using Types = std::conditional_t<sizeof...(T) == 0, std::tuple<void>, std::tuple<T...>>;

 public:
  using First = SignatureOf<F, std::tuple_element_t<0, Types>>;
  static constexpr std::size_t tensors = [] {
    std::size_t n = 0;
    for (const Parameter& p : First::parameters) n += p.is_tensor() ? 1 : 0;
    return n;
  }();
  static_assert(tensors > 0, "an operator takes at least one tensor: its device is where the work runs");

  /// Set when the operator is registered. A pointer: static objects of templates may be made after those that register.
  static inline constinit const OperatorInfo* description = nullptr;

  /// Fills `info`, but for the names.
  static void describe(OperatorInfo& info) {
    info.parameters.assign(First::parameters.begin(), First::parameters.end());
    for (std::size_t i = 0; i < info.parameters.size(); ++i) {
      bool varies = sizeof...(T) > 0 && info.parameters[i].is_tensor();
      ((varies = varies && element_is<T>(i)), ...);
      info.varies.push_back(varies);
    }
    if constexpr (sizeof...(T) > 0) (info.elements.push_back(dtype_of(element_type<T>).code), ...);
  }
  static std::size_t results() noexcept { return First::results.size(); }

  /// For tensors of the CPU and of GPUs.
  static void run(StableIValue* stack, std::uint64_t, std::uint64_t) {
    std::array<Argument, tensors> arguments;
    const std::size_t chosen = take(stack, arguments);
    choose(chosen, [&]<class Type>() { run_typed<Type>(stack, arguments); });
  }
  /// For fake and meta tensors: the results without elements.
  static void fake(StableIValue* stack, std::uint64_t, std::uint64_t) {
    std::array<Argument, tensors> arguments;
    const std::size_t chosen = take(stack, arguments);
    choose(chosen, [&]<class Type>() { fake_typed<Type>(stack, arguments, Spec()); });
  }

 private:
  /// The parameter's element type is that of the operator.
  template <class Type>
  static bool element_is(std::size_t i) {
    return SignatureOf<F, Type>::parameters[i].element == element_type<Type>;
  }
  template <class Call>
  static void choose(std::size_t chosen, Call call) {
    if constexpr (sizeof...(T) == 0) {
      call.template operator()<void>();
    } else {
      std::size_t i = 0;
      ((i++ == chosen ? call.template operator()<T>() : void()), ...);
    }
  }
  /// Takes over the tensors of the stack, and finds the operator's element type.
  static std::size_t take(StableIValue* stack, std::array<Argument, tensors>& arguments) {
    std::size_t tensor = 0;
    for (std::size_t i = 0; i < First::count; ++i)
      if (First::parameters[i].is_tensor()) arguments[tensor++].handle = Handle(unboxed<AtenTensorHandle>(stack[i]));
    tensor = 0;
    for (std::size_t i = 0; i < First::count; ++i) {
      if (!First::parameters[i].is_tensor()) continue;
      read_kind(*description, i, arguments[tensor], tensor == 0 ? nullptr : &arguments[0]);
      ++tensor;
    }
    return choose_element(*description, arguments);
  }

  template <class Type>
  static void run_typed(StableIValue* stack, std::array<Argument, tensors>& arguments) {
    using S = SignatureOf<F, Type>;
    static constexpr std::array<ElementType, tensors> elements = [] {
      std::array<ElementType, tensors> all{};
      std::size_t n = 0;
      for (const Parameter& p : S::parameters)
        if (p.is_tensor()) all[n++] = p.element;
      return all;
    }();
    read_memory(*description, arguments, elements);
    check_apart(*description, arguments);
    const bool cpu = arguments[0].device_type == aoti_torch_device_type_cpu();
    const Device device = cpu ? Device::cpu() : Device::cuda(arguments[0].device_index);
    const Stream& stream = current_stream(device, arguments[0].device_index);
    for (std::size_t i = 0; i < S::count; ++i)
      if (S::parameters[i].kind == Kind::Lend) count_write(arguments[tensor_index(i)]);
    call<Type>(stack, arguments, device, stream, std::make_index_sequence<S::count>());
  }
  /// The position among the tensors of a parameter.
  static constexpr std::size_t tensor_index(std::size_t parameter) noexcept {
    std::size_t n = 0;
    for (std::size_t i = 0; i < parameter; ++i) n += First::parameters[i].is_tensor() ? 1 : 0;
    return n;
  }
  template <std::size_t I>
  static constexpr std::size_t tensor_at() {
    return tensor_index(I);
  }
  template <class P, std::size_t I>
  static auto hold(StableIValue* stack, std::array<Argument, tensors>& arguments, Device device) {
    if constexpr (First::parameters[I].is_tensor()) {
      return Holder<P>(arguments[tensor_at<I>()], device, description->where);
    } else {
      return Number<P>{number_of<P>(*description, I, stack[I])};
    }
  }
  template <class P>
  struct Number {
    P value;
    P get() const noexcept { return value; }
  };

  template <class Type, std::size_t... I>
  static void call(StableIValue* stack, std::array<Argument, tensors>& arguments, Device device, const Stream& stream,
                   std::index_sequence<I...>) {
    using S = SignatureOf<F, Type>;
    std::tuple holders{hold<std::tuple_element_t<I, typename S::arguments>, I>(stack, arguments, device)...};
    auto operation = [&] {
      if constexpr (std::is_void_v<Type>) {
        return F{}(std::get<I>(holders).get()...);
      } else {
        return F{}.template operator()<Type>(std::get<I>(holders).get()...);
      }
    }();
    if constexpr (std::is_void_v<typename S::value_type>) {
      std::move(operation).on(stream, description->where);
    } else {
      put(stack, std::move(operation).on(stream, description->where));
    }
  }
  template <Element E, int R>
  static void put(StableIValue* stack, Tensor<E, R> result) {
    stack[0] = boxed(handle_of(std::move(result)).release());
  }
  template <class... R>
  static void put(StableIValue* stack, std::tuple<R...> results) {
    std::array<Handle, sizeof...(R)> made;  // all of them before any is handed over
    std::size_t n = 0;
    std::apply([&](R&... result) { ((made[n++] = handle_of(std::move(result))), ...); }, results);
    for (std::size_t i = 0; i < sizeof...(R); ++i) stack[i] = boxed(made[i].release());
  }
  /// A tensor of PyTorch over the memory that PyTorch's allocator gave for the result.
  template <Element E, int R>
  static Handle handle_of(Tensor<E, R>&& result) {
    const detail::Layout<R>& l = detail::Reach::layout(static_cast<const Tensor<E, R>&>(result));
    const std::shared_ptr<void> owner = detail::guest_owner(l.storage, description->where);
    AtenTensorHandle made = nullptr;
    check(aoti_torch__alloc_from_pool(static_cast<Handle*>(owner.get())->get(),
                                      l.offset * static_cast<std::int64_t>(sizeof(E)), dtype_of(element_type<E>).code,
                                      R, l.dims.data(), l.strides.data(), &made),
          "aoti_torch__alloc_from_pool");
    return Handle(made);
  }

  template <class Type, int... A>
  static void fake_typed(StableIValue* stack, std::array<Argument, tensors>& arguments, Like<A...>) {
    using S = SignatureOf<F, Type>;
    static_assert(sizeof...(A) == S::results.size(),
                  "like<...> names one argument for each result of the operation: like<0>, or like<0, 0> for two");
    static_assert(
        ((A >= 0 && static_cast<std::size_t>(A) < S::count && S::parameters[static_cast<std::size_t>(A)].is_tensor()) &&
         ...),
        "like<...> counts the lambda's parameters from 0 and names tensors");
    check_ranks<S, A...>(std::make_index_sequence<sizeof...(A)>());
    std::array<Handle, sizeof...(A)> made;
    std::size_t n = 0;
    ((made[n] = empty_like(arguments[tensor_at<static_cast<std::size_t>(A)>()].handle, S::results[n].element), ++n),
     ...);
    for (std::size_t i = 0; i < sizeof...(A); ++i) stack[i] = boxed(made[i].release());
  }
  template <class S, int... A, std::size_t... I>
  static void check_ranks(std::index_sequence<I...>) {
    static_assert(((S::results[I].rank == S::parameters[static_cast<std::size_t>(A)].rank) && ...),
                  "a result that is like an argument has as many axes");
  }
  template <class Type, class... Axes>
  static void fake_typed(StableIValue* stack, std::array<Argument, tensors>& arguments, Shaped<Axes...>) {
    using S = SignatureOf<F, Type>;
    static_assert(S::results.size() == 1, "shaped<...> describes one result");
    static_assert((!std::is_same_v<Axes, AxisOfOne> || ...),
                  "shaped<...> has an axis of an argument: of<parameter, axis>");
    static_assert(S::results[0].rank == static_cast<int>(sizeof...(Axes)),
                  "shaped<...> has an entry for each axis of the result: of<parameter, axis>, or one");
    Handle shape;
    int at = 0;
    ((shape = joined(std::move(shape), axis_like(arguments, Axes(), at++, static_cast<int>(sizeof...(Axes))))), ...);
    stack[0] = boxed(empty_like(shape, S::results[0].element).release());
  }
  template <int A, int D>
  static Handle axis_like(const std::array<Argument, tensors>& arguments, AxisOf<A, D>, int at, int rank) {
    static_assert(A >= 0 && static_cast<std::size_t>(A) < First::count,
                  "of<...> counts the lambda's parameters from 0");
    constexpr Parameter parameter = First::parameters[static_cast<std::size_t>(A)];
    static_assert(D >= 0 && D < parameter.rank, "of<parameter, axis> names an axis of a tensor");
    return along(arguments[tensor_at<static_cast<std::size_t>(A)>()].handle, parameter.rank, D, at, rank);
  }
  static Handle axis_like(const std::array<Argument, tensors>&, AxisOfOne, int, int) { return Handle(); }

  template <class Type, int... A>
  static void fake_typed(StableIValue*, std::array<Argument, tensors>&, InPlace<A...>) {
    using S = SignatureOf<F, Type>;
    static_assert(S::results.size() == 0, "an operator in place has no result: its operation returns nothing");
    static_assert(
        [] {
          std::size_t written = 0;
          for (const Parameter& p : S::parameters) written += p.kind == Kind::Lend ? 1 : 0;
          return written == sizeof...(A) && ((S::parameters[static_cast<std::size_t>(A)].kind == Kind::Lend) && ...);
        }(),
        "in_place<...> names the parameters that the lambda takes as Lend<T, rank>, and no others");
  }
};

/// What PyTorch calls. Tessera's errors pass as std::runtime_error, which becomes Python's RuntimeError; the code of
/// the error's class may be another library's.
template <void (*F)(StableIValue*, std::uint64_t, std::uint64_t)>
void guarded(StableIValue* stack, std::uint64_t arguments, std::uint64_t results) {
  std::string text;
  try {
    return F(stack, arguments, results);
  } catch (const std::exception& e) { text = e.what(); }
  throw std::runtime_error(text);
}

}  // namespace tessera::pytorch
