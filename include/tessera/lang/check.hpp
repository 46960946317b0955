// check(condition, "message"): an assertion that runs on the device. Where it fails, waiting for the result throws a
// DeviceError with the message and this line; the context stays usable.
#pragma once
#include <string_view>

#include "tessera/lang/reports.hpp"
#include "tessera/lang/tile.hpp"

namespace tessera {

/// Every element of `condition` must be true.
template <int... D>
void check(const Tile<bool, D...>& condition, std::string_view message,
           SourceLocation loc = SourceLocation::current()) {
  lang::check_tile(condition.value(), message, loc);
}
/// A condition that is known while the kernel is recorded. Throws TraceError if it is false.
inline void check(bool condition, std::string_view message, SourceLocation loc = SourceLocation::current()) {
  lang::check_while_recording(condition, message, loc);
}

}  // namespace tessera
