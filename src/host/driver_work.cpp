// Submissions of Backend::pattern_fill, range_copy and range_fill.
#include "host/driver_work.hpp"

#include <array>

#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::detail {

/// These know their storages by the accesses.
static void submit(const Stream& stream, runtime::Submission submission) {
  submission.movable = true;
  stream.core()->submit(submission);
}

bool fill_by_driver(const Stream& stream, const runtime::StorageRef& to, const Recipe& recipe) {
  if (recipe.fill != fill_value || to->bytes() == 0) return false;
  const auto work = to->device().backend().pattern_fill();
  if (!work) return false;
  auto size = static_cast<std::uint64_t>(size_of(recipe.element));
  std::uint64_t bits = recipe.first;
  if (size == 8) {
    if (bits >> 32 != (bits & 0xFFFFFFFF)) return false;
    size = 4;
  }
  if (bits == 0 && to->bytes() % 4 == 0) size = 4;  // the widest memset is the fastest
  const std::array<std::uint64_t, 2> args{bits, size};
  const runtime::Access access{to, runtime::AccessMode::Write};
  submit(stream, {work, {}, args, {&access, 1}, recipe.label, recipe.where});
  to->host_wrote(0, to->bytes());  // checked mode's map; the storage is new, and carries no failure
  return true;
}

bool copy_by_driver(const Stream& stream, const runtime::StorageRef& to, std::size_t to_offset,
                    const runtime::StorageRef& from, std::size_t from_offset, std::size_t bytes, const char* label,
                    SourceLocation where) {
  if (to->device() != stream.device() || from->device() != stream.device()) return false;
  const auto work = stream.device().backend().range_copy();
  if (!work || bytes == 0) return false;
  const auto mode = bytes == to->bytes() ? runtime::AccessMode::Write : runtime::AccessMode::ReadWrite;
  const std::array<std::uint64_t, 3> args{to_offset, from_offset, bytes};
  const std::array<runtime::Access, 2> accesses{runtime::Access{to, mode},
                                                runtime::Access{from, runtime::AccessMode::Read}};
  submit(stream, {work, {}, args, accesses, label, where});
  return true;
}

/// If the device has no such operation, everything counts as written: an error may stay undetected, but no false one is
/// reported.
void mark_written(const Stream& stream, const runtime::StorageRef& to, std::size_t offset, std::size_t bytes,
                  const char* label, SourceLocation where) {
  if (bytes == 0 || to->shadow() == nullptr) return;
  const auto work = stream.device().backend().range_fill();
  if (!work || bytes == to->bytes()) return to->count_as_written();
  const runtime::Storage::Range marks = to->shadow_range(offset, bytes);
  const std::array<std::uint64_t, 3> args{marks.offset, marks.bytes, 0};
  const runtime::Access access{to, runtime::AccessMode::ReadWrite};
  submit(stream, {work, {}, args, {&access, 1}, label, where});
}

}  // namespace tessera::detail
