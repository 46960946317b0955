// The gradients of normalisations along the last axis.
#include "call.hpp"
#include "tessera/kernels/norm_backward.hpp"
#include "tessera/kernels/softmax_backward.hpp"

namespace tessera::python {

namespace {

float eps_of(const Call& c) { return static_cast<float>(c.number(0)); }

constexpr Function kFunctions[] = {
    row(Floats(), "softmax_backward", "dy, y", 2, 2, "", {},
        []<class T>(Call& c) {
          c.expect_same_extents(0, 1);
          c.put(kernels::softmax_backward(c.rows<T>(0), c.rows<T>(1), kNowhere), c.dims(1));
        }),
    row(Floats(), "log_softmax_backward", "dy, y", 2, 2, "", {},
        []<class T>(Call& c) {
          c.expect_same_extents(0, 1);
          c.put(kernels::log_softmax_backward(c.rows<T>(0), c.rows<T>(1), kNowhere), c.dims(1));
        }),
    row(Floats(), "rms_norm_backward", "dy, x, weight", 3, 3, "float eps=1e-6",
        {Result{Extents::Same, 1}, Result{Extents::Same, 2}},
        []<class T>(Call& c) {
          c.expect_same_extents(0, 1);
          c.put(kernels::rms_norm_backward(c.rows<T>(0), c.rows<T>(1), c.view<T, 1>(2), eps_of(c), kNowhere), c.dims(1),
                c.dims(2));
        }),
    row(Floats(), "layer_norm_backward", "dy, x, weight", 3, 3, "float eps=1e-5",
        {Result{Extents::Same, 1}, Result{Extents::Same, 2}, Result{Extents::Same, 2}}, []<class T>(Call& c) {
          c.expect_same_extents(0, 1);
          c.put(kernels::layer_norm_backward(c.rows<T>(0), c.rows<T>(1), c.view<T, 1>(2), eps_of(c), kNowhere),
                c.dims(1), c.dims(2), c.dims(2));
        })};

}  // namespace

std::span<const Function> row_gradient_functions() { return kFunctions; }

}  // namespace tessera::python
