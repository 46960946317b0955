// Hints of one access.
#pragma once
#include <string_view>

#include "tessera/ir/operation.hpp"

namespace tessera::passes {

/// Sets one optimization hint of a load or store, for every architecture: a module is compiled for one target.
void set_hint(ir::Operation& access, std::string_view key, ir::Attribute value);
/// The hint, or null.
const ir::Attribute* hint(const ir::Operation& access, std::string_view key);

}  // namespace tessera::passes
