// Verification of foreign memory.
#include "tessera/host/borrow.hpp"

#include <algorithm>
#include <array>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/host/kernel.hpp"
#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::detail {

std::size_t check_borrowed(const char* what, const void* pointer, std::span<const std::int64_t> dims,
                           std::span<const std::int64_t> strides, ElementType element, SourceLocation where) {
  const auto size = static_cast<std::int64_t>(size_of(element));
  if (element_count(dims, where) == 0) return 0;
  if (!pointer)
    throw ShapeError(concat(what, " of ", extents_text(dims),
                            " elements got a null pointer.\n  Pass the address of the first element."),
                     where);
  if (reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(size) != 0) {
    throw ShapeError(concat(what, " got an address that is not a multiple of the element size, ", size,
                            " bytes.\n  Pass the address of an element; for a part of it, borrow all and take a view."),
                     where);
  }
  // From the innermost axis outwards, each stride must exceed the range that the inner axes cover.
  std::array<std::size_t, kMaxRank> order{};
  for (std::size_t i = 0; i < dims.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(dims.size()),
            [&](std::size_t a, std::size_t b) { return strides[a] < strides[b]; });
  std::int64_t reach = 0;  // the largest offset so far
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const std::size_t axis = order[i];
    if (dims[axis] == 1) continue;
    if (strides[axis] < 0) {
      throw ShapeError(concat(what, ": the strides ", extents_text(strides), " over ", extents_text(dims),
                              " contain a negative one (axis ", axis,
                              "): elements lie at growing addresses along each axis.\n  Copy the elements into that "
                              "order first."),
                       where);
    }
    if (strides[axis] <= reach) {
      throw ShapeError(concat(what, ": with the strides ", extents_text(strides), " over ", extents_text(dims),
                              " several elements share memory (axis ", axis,
                              "): a tensor's elements are distinct.\n  Give strides (in elements) that are larger than "
                              "what the inner axes cover."),
                       where);
    }
    std::int64_t step = 0;
    if (__builtin_mul_overflow(dims[axis] - 1, strides[axis], &step) || __builtin_add_overflow(reach, step, &reach)) {
      throw ShapeError(concat(what, ": the strides ", extents_text(strides), " over ", extents_text(dims),
                              " reach past 2^63 - 1.\n  Strides are numbers of elements, not of bytes."),
                       where);
    }
  }
  std::int64_t bytes = 0;
  if (reach == INT64_MAX || __builtin_mul_overflow(reach + 1, size, &bytes)) {
    throw ShapeError(concat(what, ": the strides ", extents_text(strides), " over ", extents_text(dims),
                            " reach past 2^63 - 1 bytes.\n  Strides are numbers of elements, not of bytes."),
                     where);
  }
  return static_cast<std::size_t>(bytes);
}

runtime::StorageRef adopt(Device device, void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                          SourceLocation where, bool exclusive) {
  runtime::StorageOptions options;
  options.exclusive = exclusive;
  options.track_writes = check_mode();
  options.where = where;
  return runtime::Storage::adopt(device, memory, bytes, std::move(owner), options);
}

void record_write_of(runtime::Storage& storage, const Stream& stream, SourceLocation where) {
  runtime::at_line(where, [&] { storage.record(stream.core(), runtime::AccessMode::Write); });
}

}  // namespace tessera::detail
