// Kernels as operators of PyTorch, with their derivatives: torch.ops.tessera_example.softmax, silu_mul and scale_.
// README.md in this folder builds and calls them; docs/torch.md explains the registration.
#include <tessera/torch.hpp>

using namespace tessera;

namespace {

template <class T>
using wide_t = std::conditional_t<std::is_same_v<T, f64>, f64, f32>;  // what is computed in

template <class T, int N>
void softmax(Mut<T, 1, N> y, In<T, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = cast<wide_t<T>>(x.load_like(y, pad::neg_inf));
  t = exp(t - max(t, axis<1>));
  y.store(cast<T>(t / sum(t, axis<1>)));
}

template <class T, int N>
void softmax_backward(Mut<T, 1, N> dx, In<T, dyn, dyn> dy, In<T, dyn, dyn> y) {
  require(y.dim(1) <= N, "a row must fit in one piece");
  const auto d = cast<wide_t<T>>(dy.load_like(dx)), p = cast<wide_t<T>>(y.load_like(dx));
  dx.store(cast<T>(p * (d - sum(d * p, axis<1>))));
}

template <class Wide, class X>
auto sigmoid(const X& g) {
  return Wide(1) / (Wide(1) + exp(-g));
}

template <class T>
void silu_mul(Mut<T, 8, 128> y, In<T, dyn, dyn> gate, In<T, dyn, dyn> up) {
  using Wide = wide_t<T>;
  const auto g = cast<Wide>(gate.load_like(y)), u = cast<Wide>(up.load_like(y));
  y.store(cast<T>(g * sigmoid<Wide>(g) * u));
}

template <class T>
void silu_mul_backward(Mut<T, 8, 128> d_gate, Mut<T, 8, 128> d_up, In<T, dyn, dyn> grad, In<T, dyn, dyn> gate,
                       In<T, dyn, dyn> up) {
  using Wide = wide_t<T>;
  const auto d = cast<Wide>(grad.load_like(d_gate)), g = cast<Wide>(gate.load_like(d_gate)),
             u = cast<Wide>(up.load_like(d_gate));
  const auto s = sigmoid<Wide>(g);
  d_gate.store(cast<T>(d * u * s * (Wide(1) + g * (Wide(1) - s))));
  d_up.store(cast<T>(d * g * s));
}

template <class T>
void scale(Mut<T, 8, 128> y, Scalar<f32> a) {
  y.store(cast<T>(cast<f32>(y.load()) * a));
}

}  // namespace

TESSERA_TORCH_LIBRARY(tessera_example, m) {
  m.op<f32, bf16, f16, f64>("softmax(x)", like<0>,
                            []<class T>(View<T, 2> x) { return kernel<softmax<T, 1024>>(empty_like(x), x); });
  m.autograd("softmax", saves<result<0>>, like<0>, []<class T>(View<T, 2> dy, View<T, 2> y) {
    return kernel<softmax_backward<T, 1024>>(empty_like(y), dy, y);
  });

  m.op<f32, bf16, f16, f64>("silu_mul(gate, up)", like<0>, []<class T>(View<T, 2> gate, View<T, 2> up) {
    return kernel<silu_mul<T>>(empty_like(gate), gate, up);
  });
  m.autograd("silu_mul", []<class T>(View<T, 2> grad, View<T, 2> gate, View<T, 2> up) {
    return kernel<silu_mul_backward<T>>(empty_like(gate), empty_like(up), grad, gate, up);
  });

  m.op<f32, bf16>("scale_(y, a)", in_place<0>, []<class T>(Lend<T, 2> y, float a) { return kernel<scale<T>>(y, a); });
}
