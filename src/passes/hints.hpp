// Hints of an access and of an entry.
#pragma once
#include <string_view>

#include "tessera/ir/operation.hpp"
#include "tessera/passes/optimize.hpp"

namespace tessera::passes {

/// Sets one optimization hint of a load or store, for every architecture: a module is compiled for one target.
void set_hint(ir::Operation& access, std::string_view key, ir::Attribute value);
/// The hint, or null.
const ir::Attribute* hint(const ir::Operation& access, std::string_view key);

/// Sets the hints of an entry: warps, CTAs and occupancy, without those that are left to the assembler.
void set_entry_hints(ir::Function& f, const Choices& c);

}  // namespace tessera::passes
