// Recording submissions and their order; what a thread that captures may not do.
#include "tessera/runtime/graph.hpp"

#include <algorithm>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime {

namespace {

thread_local bool capturing_here = false;

}  // namespace

void check_not_capturing(const char* what, const char* instead, SourceLocation where) {
  if (!capturing_here) [[likely]]
    return;
  throw DeviceError(concat(what, " cannot be captured into a graph.\n  ", instead), where);
}

CaptureScope::CaptureScope(GraphRecording& recording, SourceLocation where) {
  check_not_capturing("capture() inside a flow that is being captured", "Await the inner flow instead.", where);
  stream_ = StreamCore::create(recording.device());
  stream_->begin_capture(recording);
  capturing_here = true;
}

CaptureScope::~CaptureScope() {
  capturing_here = false;
  stream_->end_capture();
}

GraphRecording::Uses& GraphRecording::uses_of(const Access& access) {
  const auto [at, added] = numbers_.try_emplace(access.storage.get(), accesses_.size());
  if (!added) {
    AccessMode& mode = accesses_[at->second].mode;
    if (mode == AccessMode::Read && access.mode != AccessMode::Read) mode = AccessMode::ReadWrite;
    return uses_[at->second];
  }
  uses_.emplace_back();
  accesses_.push_back({access.storage, access.mode, nullptr});
  return uses_.back();
}

void GraphRecording::add(const Submission& submission) {
  RecordedWork entry{submission.work,
                     submission.grid,
                     {submission.args.begin(), submission.args.end()},
                     {submission.accesses.begin(), submission.accesses.end()},
                     submission.label,
                     submission.where,
                     {}};
  const std::size_t number = work_.size();
  for (Access& access : entry.accesses) {
    access.lease = nullptr;
    Uses& uses = uses_of(access);
    if (uses.writer != kNone) entry.after.push_back(uses.writer);
    if (access.mode == AccessMode::Read) {
      uses.readers.push_back(number);
      continue;
    }
    entry.after.insert(entry.after.end(), uses.readers.begin(), uses.readers.end());
    uses.writer = number;
    uses.readers.clear();
  }
  order(entry);
  work_.push_back(std::move(entry));
}

/// Sorts `after`, and leaves out what another of them follows already.
void GraphRecording::order(RecordedWork& entry) const {
  std::vector<std::size_t>& after = entry.after;
  std::sort(after.begin(), after.end());
  after.erase(std::unique(after.begin(), after.end()), after.end());
  std::erase(after, work_.size());  // a storage that one submission reads and writes
  std::vector<std::size_t> implied;
  for (const std::size_t other : after) {
    const auto& before = work_[other].after;
    implied.insert(implied.end(), before.begin(), before.end());
  }
  std::erase_if(after, [&](std::size_t n) { return std::find(implied.begin(), implied.end(), n) != implied.end(); });
}

}  // namespace tessera::runtime
