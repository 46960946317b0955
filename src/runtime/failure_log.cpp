// Recording failures must not fail: it works, with less detail, when memory is exhausted.
#include "runtime/failure_log.hpp"

#include <algorithm>
#include <new>

#include "tessera/base/error.hpp"

namespace tessera::runtime {

namespace {

/// Allocated before any work can fail, and never destroyed: work may outlive main().
FailureRef prepared(const char* text) {
  auto failure = std::make_shared<Failure>();
  failure->error = std::make_exception_ptr(DeviceError(text));
  return failure;
}

const FailureRef& out_of_memory() {
  static const FailureRef& failure =
      *new FailureRef(prepared("work on a stream failed, and there was no host memory left to keep its error"));
  return failure;
}

const FailureRef& forgotten() {
  static const FailureRef& failure = *new FailureRef(
      prepared("the result of this work is not known any more: too many pieces of work failed on its stream since.\n"
               "  Call Stream::synchronize() to see failures as they happen."));
  return failure;
}

FailureRef current_failure() noexcept {
  try {
    auto failure = std::make_shared<Failure>();
    try {
      throw;
    } catch (const std::bad_alloc&) {
      failure->error = std::make_exception_ptr(
          DeviceError("out of host memory while work of a stream ran.\n  Free tensors that are not needed."));
    } catch (...) { failure->error = std::current_exception(); }
    return failure;
  } catch (...) { return out_of_memory(); }
}

}  // namespace

FailureLog::FailureLog() {
  out_of_memory();
  forgotten();
}

bool FailureLog::may_run(std::uint64_t number, std::span<const Access> accesses) noexcept {
  for (const Access& access : accesses) {
    if (access.mode == AccessMode::Write || !access.storage->has_failure()) continue;
    if (const FailureRef failure = access.storage->failure()) {
      fail(number, accesses, failure);
      return false;
    }
  }
  return true;
}

void FailureLog::finished(std::uint64_t number, std::span<const Access> accesses, bool failed) noexcept {
  if (failed) return fail(number, accesses, current_failure());
  for (const Access& access : accesses) {
    if (access.mode == AccessMode::Write && access.storage->has_failure()) access.storage->set_failure(nullptr);
  }
}

void FailureLog::fail(std::uint64_t number, std::span<const Access> accesses, const FailureRef& failure) noexcept {
  for (const Access& access : accesses) {
    if (access.mode != AccessMode::Read) access.storage->set_failure(failure);
  }
  log(number, failure);
}

void FailureLog::log(std::uint64_t number, const FailureRef& failure) noexcept {
  std::lock_guard lock(mutex_);
  try {
    entries_.push_back({number, failure});
  } catch (...) { forgotten_until_ = number; }
  if (entries_.size() > kMaxEntries) {
    forgotten_until_ = std::max(forgotten_until_, entries_.front().number);
    entries_.pop_front();
  }
}

FailureRef FailureLog::first_of(std::uint64_t first, std::uint64_t last) const noexcept {
  std::lock_guard lock(mutex_);
  for (const Entry& entry : entries_) {
    if (entry.number >= first && entry.number <= last) return entry.failure;
  }
  return first <= forgotten_until_ ? forgotten() : nullptr;
}

FailureRef FailureLog::deliver(std::uint64_t first, std::uint64_t last) noexcept {
  std::lock_guard lock(mutex_);
  FailureRef found;
  for (const Entry& entry : entries_) {
    if (entry.number < first || entry.number > last) continue;
    if (!entry.failure->delivered.exchange(true) && !found) found = entry.failure;
  }
  return found;
}

}  // namespace tessera::runtime
