// The numbers that attention and its gradients take.
#pragma once
#include "call.hpp"
#include "tessera/kernels/attention_state.hpp"

namespace tessera::python {

inline constexpr const char* kAttentionNumbers = "float scale=0.0, bool causal=False, int window=0";

inline kernels::AttentionOptions attention_options(const Call& c) {
  kernels::AttentionOptions options;
  options.scale = static_cast<float>(c.number(0));
  options.causal = c.number(1) != 0;
  options.window = static_cast<int>(c.number(2));
  return options;
}

}  // namespace tessera::python
