// Extents and strides, and the errors about them.
#include "tessera/host/layout.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::detail {

// With an extent of 0 among them, the product of the others need not fit 63 bits.
std::int64_t LayoutRef::size() const noexcept {
  if (std::ranges::find(dims, 0) != dims.end()) return 0;
  std::int64_t n = 1;
  for (const std::int64_t d : dims) n *= d;
  return n;
}

bool LayoutRef::contiguous() const noexcept {
  if (size() == 0) return true;
  std::int64_t expected = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (dims[i] == 1) continue;  // the stride of this axis is never used
    if (strides[i] != expected) return false;
    expected *= dims[i];
  }
  return true;
}

Device device_of(const runtime::StorageRef& storage) noexcept { return storage->device(); }

std::byte* LayoutRef::data() const noexcept { return (*storage)->data() + offset * size_of(element); }

void set_contiguous(std::span<const std::int64_t> dims, std::span<std::int64_t> strides) noexcept {
  std::int64_t step = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    // Too large for 63 bits only in a tensor without elements, whose strides are never used.
    if (__builtin_mul_overflow(step, dims[i] > 0 ? dims[i] : 1, &step)) step = 1;
  }
}

void check_axis(int axis, int rank, SourceLocation where) {
  if (axis >= 0 && axis < rank) return;
  throw ShapeError(concat("axis ", axis, " of a tensor of rank ", rank, " was requested; axes are numbered from 0 to ",
                          rank - 1, "."),
                   where);
}

void check_slice(int axis, std::int64_t lo, std::int64_t hi, std::int64_t dim, SourceLocation where) {
  if (lo >= 0 && lo <= hi && hi <= dim) return;
  throw ShapeError(concat("slice<", axis, ">(", lo, ", ", hi, ") of an axis with ", dim,
                          " elements: the bounds must satisfy 0 <= lo <= hi <= ", dim, "."),
                   where);
}

void check_reshape(const LayoutRef& from, std::span<const std::int64_t> to, SourceLocation where) {
  check_extents(to, where);
  if (element_count(to, where) != from.size()) {
    throw ShapeError(
        concat("reshape of ", extents_text(from.dims), " (", from.size(), " elements) to ", extents_text(to), " (",
               element_count(to, where), " elements): the number of elements must stay the same."),
        where);
  }
  if (!from.contiguous()) {
    throw ShapeError(
        concat("reshape of a view with strides ", extents_text(from.strides), " over ", extents_text(from.dims),
               ": only row-major memory without gaps can be reshaped.\n  Make it contiguous first: clone(view)."),
        where);
  }
}

void check_windows(const LayoutRef& from, std::span<const std::int64_t> dims, std::span<const std::int64_t> strides,
                   SourceLocation where) {
  check_extents(dims, where);
  if (!from.contiguous())
    throw ShapeError(
        concat("windows of a view with strides ", extents_text(from.strides), " over ", extents_text(from.dims),
               ": only of row-major memory without gaps.\n", "  Make it contiguous first: clone(view)."),
        where);
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
  std::int64_t left = from.size() - 1;  // elements behind the last one that is reached
  for (std::size_t a = 0; a < dims.size(); ++a) {
    const std::int64_t steps = dims[a] - 1;
    if (strides[a] < 0 || left < 0 || (steps > 0 && strides[a] > left / steps))
      throw ShapeError(concat("windows of ", extents_text(dims), " with strides ", extents_text(strides),
                              " reach beyond the ", from.size(), " elements: reduce an extent or a stride."),
                       where);
    left -= steps * strides[a];
  }
}

std::string type_text(const char* what, ElementType element, int rank) {
  return concat(what, "<", info(element).name, ", ", rank, ">");
}

void throw_empty(const char* what, ElementType element, int rank, SourceLocation where) {
  throw BorrowError(concat("this ", type_text(what, element, rank),
                           " is empty: it was moved from (given to a launch, or std::move'd) or never assigned.\n"
                           "  Assign a tensor to it before using it, for example the one that the launch returns."),
                    where);
}

}  // namespace tessera::detail
