// require(condition, "message"): a condition that a launch must satisfy, over dimensions, strides, scalar parameters
// and constants. It is evaluated on the host before anything is enqueued (ShapeError) and costs the kernel nothing.
#pragma once
#include <string_view>

#include "tessera/lang/reports.hpp"
#include "tessera/lang/tile.hpp"

namespace tessera {

inline void require(const Tile<bool>& condition, std::string_view message,
                    SourceLocation loc = SourceLocation::current()) {
  lang::require_value(condition.value(), message, loc);
}
template <class T, int... D>
  requires(sizeof...(D) > 0 || !std::is_same_v<T, bool>)
void require(const Tile<T, D...>&, std::string_view) {
  static_assert(detail::never<T>,
                "require needs one condition for the launch, a Scalar<bool> over dimensions and scalar parameters; "
                "for the elements of a tile use check");
}
/// A condition over template arguments and Constants alone. Throws ShapeError while recording if it is false.
template <class B>
  requires(std::is_same_v<detail::host_value_t<B>, bool>)
void require(B condition, std::string_view message, SourceLocation loc = SourceLocation::current()) {
  lang::require_while_recording(condition, message, loc);
}

}  // namespace tessera
