// Attention forward.
#include "tessera/kernels/attention.hpp"
#include "call.hpp"

namespace tessera::python {

namespace {

constexpr Function kFunctions[] = {
    row(Types<bf16, f16, f32>(), "attention", "q, k, v", 3, 3, "float scale=0.0, bool causal=False, int window=0", {},
        []<class T>(Call& c) {
          kernels::AttentionOptions options;
          options.scale = static_cast<float>(c.number(0));
          options.causal = c.number(1) != 0;
          options.window = static_cast<int>(c.number(2));
          c.put(kernels::attention(c.view<T, 4>(0), c.view<T, 4>(1), c.view<T, 4>(2), options, kNowhere), c.dims(0));
        })};

}  // namespace

std::span<const Function> attention_functions() { return kFunctions; }

}  // namespace tessera::python
