// NVIDIA's text form of Tile IR, as `tileirdisasm` prints it.
#pragma once
#include <string>

#include "tessera/ir/operation.hpp"

namespace tessera::ir {

struct PrintOptions {
  bool locations = false;  ///< append loc("file":line:column) to every operation
};
std::string print(const Module&, PrintOptions = {});
std::string print(const Function&, PrintOptions = {});
std::string print(const Operation&, PrintOptions = {});

}  // namespace tessera::ir
