// Matrix products.
#include "call.hpp"
#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/linear.hpp"

namespace tessera::python {

namespace {

/// x with its axes before the last as rows, times the rows of w.
template <class T>
void linear(Call& c) {
  const auto x = c.rows<T>(0);
  const auto w = c.view<T, 2>(1);
  std::vector<std::int64_t> dims = c.dims(0, 1);
  dims.push_back(c.tensor(1).dims[0]);
  if (c.tensors() == 2)
    c.put(kernels::linear(x, w, kernels::Fused<kernels::epilogues::Plain>{}, {}, kNowhere), dims);
  else
    c.put(kernels::linear(x, w, kernels::bias(c.view<T, 1>(2)), {}, kNowhere), dims);
}

constexpr Function kFunctions[] = {
    row(Floats(), "matmul", "a, b", 2, 2, "", {Extents::Product},
        []<class T>(Call& c) {
          const auto a = c.view<T, 2>(0), b = c.view<T, 2>(1);
          const std::array dims{c.tensor(0).dims[0], c.tensor(1).dims[1]};
          c.put(kernels::gemm(a, b, kernels::Fused<kernels::epilogues::Plain>{}, {}, kNowhere), dims);
        }),
    row(Floats(), "linear", "x, w, bias", 2, 3, "", {Extents::Linear}, []<class T>(Call& c) { linear<T>(c); })};

}  // namespace

std::span<const Function> product_functions() { return kFunctions; }

}  // namespace tessera::python
