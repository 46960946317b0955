// Checks and texts of extents, for all ranks.
#include "tessera/base/dims.hpp"

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::detail {

std::string extents_text(std::span<const std::int64_t> extents) { return concat('[', join(extents), ']'); }

void check_extents(std::span<const std::int64_t> extents, SourceLocation where) {
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    const std::int64_t n = extents[axis];
    if (n >= 0 && n <= kMaxExtent) continue;
    throw ShapeError(concat("extent ", n, " of axis ", axis, " in shape ", extents_text(extents), " is ",
                            n < 0 ? "negative" : "too large", "; an axis holds 0 to ", kMaxExtent,
                            n < 0 ? " elements.\n  Was it computed from unsigned numbers or left unset?"
                                  : " elements.\n  Spread the data over more axes."),
                     where);
  }
}

std::int64_t element_count(std::span<const std::int64_t> extents, SourceLocation where) {
  for (const std::int64_t n : extents) {
    if (n == 0) return 0;
  }
  std::int64_t count = 1;
  for (const std::int64_t n : extents) {
    if (__builtin_mul_overflow(count, n, &count)) {
      throw ShapeError(concat("shape ", extents_text(extents), " has more than 2^63 - 1 elements"), where);
    }
  }
  return count;
}

void wrong_rank(int expected, std::span<const std::int64_t> found, SourceLocation where) {
  throw ShapeError(concat("expected a shape of ", expected, expected == 1 ? " axis" : " axes", ", found ",
                          extents_text(found), " with ", found.size()),
                   where);
}

}  // namespace tessera::detail
