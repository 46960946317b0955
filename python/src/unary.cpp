// Functions of one value, element by element.
#include "call.hpp"
#include "tessera/kernels/elementwise.hpp"

namespace tessera::python {

namespace {

template <class F>
constexpr Function unary(const char* name) {
  return row(Types<f64, f32, bf16, f16>(), name, "x", 1, 1, "", {}, []<class T>(Call& c) {
    c.join_axes();
    c.put(kernels::map_to<T>(F{}, kNowhere, c.joined<T>(0)), c.broadcast_dims());
  });
}

constexpr Function kFunctions[] = {
    unary<kernels::functions::Relu>("relu"),          unary<kernels::functions::Sigmoid>("sigmoid"),
    unary<kernels::functions::Silu>("silu"),          unary<kernels::functions::Gelu>("gelu"),
    unary<kernels::functions::GeluTanh>("gelu_tanh"), unary<kernels::functions::Exp>("exp"),
    unary<kernels::functions::Tanh>("tanh")};

}  // namespace

std::span<const Function> unary_functions() { return kFunctions; }

}  // namespace tessera::python
