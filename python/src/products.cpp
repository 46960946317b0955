// Matrix products.
#include "call.hpp"
#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/linear.hpp"

namespace tessera::python {

namespace {

namespace fs = kernels::functions;

/// x with its axes before the last as rows, times the rows of w.
template <class T>
void linear(Call& c, const auto& epilogue) {
  const auto x = c.rows<T>(0);
  const auto w = c.view<T, 2>(1);
  std::vector<std::int64_t> dims = c.dims(0, 1);
  dims.push_back(c.tensor(1).dims[0]);
  c.put(kernels::linear(x, w, epilogue, {}, kNowhere), dims);
}

/// F(x w^T + bias) in one kernel, with or without a bias.
template <class F, class... T>
constexpr Function activated(Types<T...> types, const char* name) {
  return row(types, name, "x, w, bias", 2, 3, "", {Extents::Linear}, []<class E>(Call& c) {
    if (c.tensors() == 3)
      linear<E>(c, kernels::bias_then<F>(c.view<E, 1>(2)));
    else
      linear<E>(c, kernels::then<F>());
  });
}
using Small = Types<bf16, f16>;

constexpr Function kFunctions[] = {
    row(Floats(), "matmul", "a, b", 2, 2, "", {Extents::Product},
        []<class T>(Call& c) {
          const auto a = c.view<T, 2>(0), b = c.view<T, 2>(1);
          const std::array dims{c.tensor(0).dims[0], c.tensor(1).dims[1]};
          c.put(kernels::gemm(a, b, kernels::Fused<kernels::epilogues::Plain>{}, {}, kNowhere), dims);
        }),
    row(Floats(), "linear", "x, w, bias", 2, 3, "", {Extents::Linear},
        []<class T>(Call& c) {
          if (c.tensors() == 3)
            linear<T>(c, kernels::bias(c.view<T, 1>(2)));
          else
            linear<T>(c, kernels::Fused<kernels::epilogues::Plain>{});
        }),
    activated<fs::Relu>(Small(), "linear_relu"),
    activated<fs::Silu>(Small(), "linear_silu"),
    activated<fs::Gelu>(Small(), "linear_gelu"),
    activated<fs::GeluTanh>(Small(), "linear_gelu_tanh"),
    row(Floats(), "linear_add", "x, w, residual", 3, 3, "", {Extents::Linear},
        []<class T>(Call& c) { linear<T>(c, kernels::residual(c.rows<T>(2))); })};

}  // namespace

std::span<const Function> product_functions() { return kFunctions; }

}  // namespace tessera::python
