// Normalisations along the last axis.
#include "call.hpp"
#include "tessera/kernels/layer_norm.hpp"
#include "tessera/kernels/rms_norm.hpp"
#include "tessera/kernels/softmax.hpp"

namespace tessera::python {

namespace {

constexpr Function kFunctions[] = {
    row(Floats(), "softmax", "x", 1, 1, "", {},
        []<class T>(Call& c) { c.put(kernels::softmax(c.rows<T>(0), {}, kNowhere), c.dims(0)); }),
    row(Floats(), "log_softmax", "x", 1, 1, "", {},
        []<class T>(Call& c) { c.put(kernels::log_softmax(c.rows<T>(0), {}, kNowhere), c.dims(0)); }),
    row(Floats(), "rms_norm", "x, weight", 2, 2, "float eps=1e-6", {},
        []<class T>(Call& c) {
          c.put(kernels::rms_norm(c.rows<T>(0), c.view<T, 1>(1), static_cast<float>(c.number(0)), {}, kNowhere),
                c.dims(0));
        }),
    row(Floats(), "layer_norm", "x, weight, bias", 3, 3, "float eps=1e-5", {}, []<class T>(Call& c) {
      c.put(kernels::layer_norm(c.rows<T>(0), c.view<T, 1>(1), c.view<T, 1>(2), static_cast<float>(c.number(0)), {},
                                kNowhere),
            c.dims(0));
    })};

}  // namespace

std::span<const Function> row_functions() { return kFunctions; }

}  // namespace tessera::python
