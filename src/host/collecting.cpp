// The JIT stores for which GPUs kernels are collected.
#include "tessera/host/collecting.hpp"

#include "tessera/jit/bundle.hpp"

namespace tessera {

CollectedGpu collected_gpu() {
  static const CollectedGpu known = [] {
    const auto target = jit::collected_target();
    return target.is_gpu() ? CollectedGpu{target.sm, target.num_sms} : CollectedGpu();
  }();
  return known;
}

}  // namespace tessera
