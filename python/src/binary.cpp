// Functions of two values, element by element: of two tensors, or of a tensor and a number (`..._number`).
#include "call.hpp"
#include "tessera/kernels/elementwise.hpp"

namespace tessera::python {

namespace {

template <class F, class... T>
constexpr Function tensors(Types<T...> types, const char* name, const char* parameters = "x, y") {
  return row(types, name, parameters, 2, 2, "", {Extents::Broadcast}, []<class E>(Call& c) {
    c.join_axes();
    c.put(kernels::map_to<E>(F{}, kNowhere, c.joined<E>(0), c.joined<E>(1)), c.broadcast_dims());
  });
}
template <class F>
constexpr Function number(const char* name) {
  return row(Types<f64, f32, bf16, f16>(), name, "x", 1, 1, "float y", {}, []<class T>(Call& c) {
    c.join_axes();
    c.put(kernels::map_to<T>(F{}, kNowhere, c.joined<T>(0), static_cast<kernels::compute_t<T>>(c.number(0))),
          c.broadcast_dims());
  });
}

using Numbers = Types<f64, f32, bf16, f16, i32>;
using Fractions = Types<f64, f32, bf16, f16>;
namespace fs = kernels::functions;

constexpr Function kFunctions[] = {tensors<fs::Add>(Numbers(), "add"),
                                   tensors<fs::Sub>(Numbers(), "sub"),
                                   tensors<fs::Mul>(Numbers(), "mul"),
                                   tensors<fs::Div>(Fractions(), "div"),
                                   tensors<fs::Maximum>(Numbers(), "maximum"),
                                   tensors<fs::Minimum>(Numbers(), "minimum"),
                                   tensors<fs::SiluMul>(Floats(), "silu_mul", "gate, up"),
                                   tensors<fs::GeluMul>(Floats(), "gelu_mul", "gate, up"),
                                   number<fs::Add>("add_number"),
                                   number<fs::Sub>("sub_number"),
                                   number<fs::Mul>("mul_number"),
                                   number<fs::Div>("div_number"),
                                   number<fs::Maximum>("maximum_number"),
                                   number<fs::Minimum>("minimum_number")};

}  // namespace

std::span<const Function> binary_functions() { return kFunctions; }

}  // namespace tessera::python
