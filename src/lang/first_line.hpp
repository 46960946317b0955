// Where a kernel is, in its source.
#pragma once
#include "tessera/base/source_location.hpp"
#include "tessera/ir/operation.hpp"

namespace tessera::lang {

/// A kernel is at its first line, not where it was launched first: code for it is then found again in the cache when it
/// is launched from another line. What is recorded before the body, such as the parameters' views, is there too: its
/// location is that of the kernel, and names no function.
void locate_at_first_line(ir::Function& f, SourceLocation launch);

}  // namespace tessera::lang
