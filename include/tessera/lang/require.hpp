// require(condition, "message"): what a launch must satisfy, over dimensions, strides, scalar parameters and constants.
// It is evaluated on the host before anything is enqueued (ShapeError) and costs the kernel nothing.
#pragma once
#include <string_view>

#include "tessera/lang/reports.hpp"
#include "tessera/lang/tile.hpp"

namespace tessera {

inline void require(const Tile<bool>& condition, std::string_view message,
                    SourceLocation loc = SourceLocation::current()) {
  lang::require_value(condition.value(), message, loc);
}
/// A condition over the kernel's template arguments alone: ShapeError while recording if it is false.
template <class B>
  requires(std::is_same_v<B, bool>)
void require(B condition, std::string_view message, SourceLocation loc = SourceLocation::current()) {
  lang::require_while_recording(condition, message, loc);
}

}  // namespace tessera
