// Compares two recordings of a kernel. The second differs if the kernel's body has read host state that has changed in
// between.
#pragma once
#include <optional>

#include "tessera/lang/trace.hpp"

namespace tessera::lang {

/// The first place where two recordings differ. A location is unknown if only the other recording has an operation
/// there.
struct Difference {
  SourceLocation before, now;
};

/// Compares what two recordings compute and what they require; lines and names do not count. Empty if nothing differs.
/// The first one's module may have been taken out of it.
std::optional<Difference> first_difference(const ir::Module& module_before, const Trace& before, const Trace& now);

}  // namespace tessera::lang
