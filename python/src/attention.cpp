// Attention forward.
#include "tessera/kernels/attention.hpp"
#include "attention_options.hpp"

namespace tessera::python {

namespace {

constexpr Function kFunctions[] = {
    row(Types<bf16, f16, f32>(), "attention", "q, k, v", 3, 3, kAttentionNumbers, {}, []<class T>(Call& c) {
      c.put(kernels::attention(c.view<T, 4>(0), c.view<T, 4>(1), c.view<T, 4>(2), attention_options(c), kNowhere),
            c.dims(0));
    })};

}  // namespace

std::span<const Function> attention_functions() { return kFunctions; }

}  // namespace tessera::python
