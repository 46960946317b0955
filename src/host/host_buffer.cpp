// Pinned memory as a storage of the CPU, and the host's waits for it.
#include "tessera/host/host_buffer.hpp"

#include <algorithm>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/graph.hpp"

namespace tessera::detail {

runtime::StorageRef make_host_buffer(std::int64_t count, ElementType element, Device device, SourceLocation where) {
  std::int64_t bytes = 0;
  const auto size = static_cast<std::int64_t>(size_of(element));
  if (count < 0 || __builtin_mul_overflow(count, size, &bytes)) {
    throw ShapeError(concat("a HostBuffer of ", count,
                            " elements: expected 0 or more, and at most 2^63 - 1 bytes.\n  Was the number computed "
                            "from unsigned ones?"),
                     where);
  }
  return runtime::at_line(where, [&] {
    auto memory = device.backend().make_host_memory(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)));
    void* const address = memory.get();
    runtime::StorageOptions options;
    options.label = "HostBuffer";
    options.where = where;
    return runtime::Storage::adopt(Device::cpu(), address, static_cast<std::size_t>(bytes), std::move(memory), options);
  });
}

void throw_empty_buffer(SourceLocation where) {
  throw BorrowError(
      "this HostBuffer is empty: it was moved or given to an operation, or never made.\n  Assign what the "
      "operation returns, or a new HostBuffer.",
      where);
}

void check_buffer_size(const char* what, std::int64_t count, std::span<const std::int64_t> dims, SourceLocation where) {
  const std::int64_t wanted = element_count(dims, where);
  if (count == wanted) return;
  throw ShapeError(
      concat(what, ": the HostBuffer has ", count, " elements, and the extents ", extents_text(dims), " have ", wanted,
             ": the numbers must be equal.\n  Use a buffer of that size, or copy_into(mut(t).slice<axis>(lo, hi), "
             "buffer)."),
      where);
}

void check_buffer_range(std::int64_t count, std::int64_t first, std::span<const std::int64_t> dims,
                        SourceLocation where) {
  const std::int64_t wanted = element_count(dims, where);
  if (first >= 0 && wanted <= count && first <= count - wanted) return;
  throw ShapeError(concat("copy_into: the HostBuffer has ", count, " elements, and the extents ", extents_text(dims),
                          " need ", wanted, " from element ", first,
                          " on.\n  Copy into a part with "
                          "mut(t).slice<axis>(lo, hi)."),
                   where);
}

void wait_to_read(runtime::Storage& storage, SourceLocation where) {
  runtime::at_line(where, [&] { storage.wait_written(); });
}

void wait_to_write(runtime::Storage& storage, SourceLocation where) {
  runtime::check_not_capturing("HostBuffer::write()", "Write the buffer before the capture or after the replay.",
                               where);
  runtime::at_line(where, [&] { storage.wait_unused(); });
  storage.host_wrote(0, storage.bytes());
}

}  // namespace tessera::detail
