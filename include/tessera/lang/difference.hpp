// Whether two recordings of a kernel say the same: the second differs where the kernel's body has read state of the
// host that has changed in between.
#pragma once
#include <optional>

#include "tessera/lang/trace.hpp"

namespace tessera::lang {

/// The first place where two recordings differ. One of them is unknown where only the other recording has something.
struct Difference {
  SourceLocation before, now;
};

/// Compares what two recordings compute and what they require; lines and names do not count. Empty if nothing differs.
/// The first one's module may have been taken out of it.
std::optional<Difference> first_difference(const ir::Module& module_before, const Trace& before, const Trace& now);

}  // namespace tessera::lang
