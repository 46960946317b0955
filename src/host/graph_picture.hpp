// Pictures of recordings: work by name and line, edges by the tensors that cause them.
#pragma once
#include <string>

#include "tessera/runtime/graph.hpp"

namespace tessera::detail {

std::string graph_dot(const runtime::GraphRecording& recording);  ///< Graphviz
std::string graph_svg(const runtime::GraphRecording& recording);

}  // namespace tessera::detail
