// Time marks, and overwriting a storage.
#include "tessera/runtime/timing.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime {

std::shared_ptr<const TimeMark> place_time_mark(const Stream& stream) {
  auto mark = stream.device().backend().make_time_mark();
  Submission s;
  s.work = mark;
  s.label = "a time mark";
  stream.core()->submit(s);
  return mark;
}

void overwrite(const Stream& stream, const StorageRef& storage, const char* label) {
  const std::uint64_t args[] = {0, 4};  // the pattern's bits and bytes
  const Access access{storage, AccessMode::Write};
  Submission s;
  s.work = stream.device().backend().pattern_fill();
  s.args = args;
  s.accesses = {&access, 1};
  s.label = label;
  stream.core()->submit(s);
}

}  // namespace tessera::runtime
