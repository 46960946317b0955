// Attention with what its gradients need, and the gradients.
#include "attention_options.hpp"
#include "tessera/kernels/attention_backward.hpp"

namespace tessera::python {

namespace {

constexpr Function kFunctions[] = {
    row(Types<bf16, f16, f32>(), "attention_with_lse", "q, k, v", 3, 3, kAttentionNumbers,
        {Result{}, result_of<f32>(Extents::WithoutLast)},
        []<class T>(Call& c) {
          c.put(kernels::attention_with_lse(c.view<T, 4>(0), c.view<T, 4>(1), c.view<T, 4>(2), attention_options(c),
                                            kNowhere),
                c.dims(0), c.dims(0, 1));
        }),
    row(Types<bf16, f16, f32>(), "attention_backward", "d_o, q, k, v, o, lse", 6, 6, kAttentionNumbers,
        {Result{Extents::Same, 1}, Result{Extents::Same, 2}, Result{Extents::Same, 3}}, []<class T>(Call& c) {
          c.put(kernels::attention_backward(c.view<T, 4>(0), c.view<T, 4>(1), c.view<T, 4>(2), c.view<T, 4>(3),
                                            c.view<T, 4>(4), c.view<f32, 3>(5), attention_options(c), kNowhere),
                c.dims(1), c.dims(2), c.dims(3));
        })};

}  // namespace

std::span<const Function> attention_gradient_functions() { return kFunctions; }

}  // namespace tessera::python
