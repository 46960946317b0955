// Shared by the kernels: the arguments of host functions, the description of the device that heuristics read, and the
// errors of wrong shapes.
#pragma once
#include <array>
#include <string>
#include <utility>

#include "tessera/host/collecting.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/tessera.hpp"

namespace tessera::kernels {

/// A tensor to be read: Tensor, Shared or View.
template <class X>
concept Operand = requires(const X& x) {
  typename X::element;
  x.view();
  x.dims();
};
template <Operand X>
using element_of = typename X::element;

template <class X>
concept HostNumber = std::is_arithmetic_v<X> && !std::is_same_v<X, bool>;

/// The element type that sums and functions of T are computed in: f32 for floats of 16 bits and fewer, else T itself.
template <Element T>
using compute_t = std::conditional_t<element_class<T> == ElementClass::Float && !std::is_same_v<T, f64>, f32, T>;

/// compute_t of a tile.
template <class T, int... D>
auto widen(const Tile<T, D...>& x) {
  if constexpr (std::is_same_v<compute_t<T>, T>)
    return x;
  else
    return cast<compute_t<T>>(x);
}
/// A tile converted for storing in a tensor of U.
template <class U, class T, int... D>
auto narrow(const Tile<T, D...>& x) {
  if constexpr (std::is_same_v<U, T>)
    return x;
  else
    return cast<U>(x);
}

/// In<T, dyn, ...> of rank R.
template <Element T, int R, class = std::make_integer_sequence<int, R>>
struct DynamicIn;
template <Element T, int R, int... I>
struct DynamicIn<T, R, std::integer_sequence<int, I...>> {
  using type = In<T, (I * 0 + dyn)...>;
};
/// A piece of B elements along the last axis, of rank R.
template <Element T, int R, int B, class = std::make_integer_sequence<int, R>>
struct RowPiece;
template <Element T, int R, int B, int... I>
struct RowPiece<T, R, B, std::integer_sequence<int, I...>> {
  using type = Mut<T, (I == R - 1 ? B : 1)...>;
};

/// The device that a kernel is chosen for.
struct Target {
  bool gpu = false;
  int num_sms = 1;       ///< of a GPU
  bool clusters = true;  ///< a tile may be computed by two SMs (sm_90 to sm_110)
  bool overlaps = true;  ///< kernels may start before those before them have ended (sm_90 and newer)
};
inline bool has_clusters(int sm) { return machine::machine_of(sm).clusters; }
inline Target target_of(const Device& device) {
  if (device.kind() != DeviceKind::Cuda) {
    const CollectedGpu gpu = collected_gpu();
    return {gpu.sm > 0, gpu.num_sms, gpu.sm == 0 || has_clusters(gpu.sm), gpu.sm >= machine::kDependentLaunch};
  }
  const runtime::cuda::DeviceInfo& info = runtime::cuda::device_info(device);
  return {true, info.num_sms, has_clusters(info.sm()), info.sm() >= machine::kDependentLaunch};
}

/// A configuration chosen by its number instead of by the heuristics. A tuner sets it.
struct Row {
  int number = -1;  ///< row of the kernel's table; -1: chosen by the heuristics
};

/// f(std::integral_constant<int, i>) for a run-time i from 0 to N - 1.
template <int N, int I = 0, class F>
auto with_constant(int i, F&& f) {
  if constexpr (I + 1 < N) {
    if (i != I) return with_constant<N, I + 1>(i, std::forward<F>(f));
  }
  return f(std::integral_constant<int, I>{});
}
/// f(std::integral_constant<int, E>) with the smallest power of two E from Lo to Hi that is at least n (Hi if there is
/// none).
template <int Lo, int Hi, class F>
auto with_extent(std::int64_t n, F&& f) {
  if constexpr (Lo < Hi) {
    if (n > Lo) return with_extent<2 * Lo, Hi>(n, std::forward<F>(f));
  }
  return f(std::integral_constant<int, Lo>{});
}

/// Throws ShapeError: "kernels::gemm: argument b has the extents [3, 4]: its rows must be a's columns (5)".
[[noreturn]] inline void wrong_shape(const char* kernel, const char* argument, const std::string& extents,
                                     const std::string& expected, SourceLocation where) {
  throw ShapeError(
      std::string("kernels::") + kernel + ": argument " + argument + " has the extents " + extents + ": " + expected,
      where);
}
template <Operand X>
void expect_shape(bool ok, const char* kernel, const char* argument, const X& x, const char* expected,
                  SourceLocation where) {
  if (!ok) wrong_shape(kernel, argument, x.dims(where).to_string(), expected, where);
}
template <Operand X>
void expect_dim(const char* kernel, const char* argument, const X& x, int axis, std::int64_t extent,
                SourceLocation where) {
  if (x.dim(axis, where) == extent) return;
  wrong_shape(kernel, argument, x.dims(where).to_string(),
              "axis " + std::to_string(axis) + " must be " + std::to_string(extent), where);
}

}  // namespace tessera::kernels
