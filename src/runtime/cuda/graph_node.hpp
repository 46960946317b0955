// A kernel of a graph whose arguments are changed.
#pragma once
#include "runtime/cuda/driver.hpp"

namespace tessera::runtime::cuda {

/// What LaunchContext::native_node points to.
struct GraphNode {
  CUgraphNode node = nullptr;
  CUgraphExec exec = nullptr;  ///< in this executable graph; null: in the graph that the node belongs to
};

}  // namespace tessera::runtime::cuda
