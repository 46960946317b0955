// The jit knows what is collected.
#include "tessera/host/collecting.hpp"

#include "tessera/jit/bundle.hpp"

namespace tessera {

CollectedGpu collected_gpu() {
  static const CollectedGpu known = [] {
    const auto target = jit::collected_target();
    return target.is_gpu() ? CollectedGpu{target.sm, target.multiprocessors} : CollectedGpu();
  }();
  return known;
}

}  // namespace tessera
