// Waiting for work, throwing its failure, and clearing the failure from the storages that the work was to write.
#include "tessera/runtime/sync_scope.hpp"

#include <utility>

#include "tessera/base/profile.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::runtime {

namespace {

thread_local SubmissionSink* innermost_sink = nullptr;

/// Clears `failure`, which is about to be thrown to the user, from `storage`. Work that was enqueued to read the
/// storage must have inherited the failure before.
void forgive(Storage& storage, const FailureRef& failure) {
  storage.wait_unused();
  if (storage.failure() == failure) storage.set_failure(nullptr);
}

[[noreturn]] void deliver(const FailureRef& failure) {
  failure->delivered.store(true);
  std::rethrow_exception(failure->error);
}

}  // namespace

void wait(const Ticket& ticket, std::span<const Access> accesses) {
  if (!ticket.stream || ticket.number == 0) return;
  ticket.stream->host_wait(ticket.number);
  const FailureRef failure = ticket.stream->failure_of(ticket.number);
  if (!failure) return;
  for (const Access& access : accesses) {
    if (access.mode != AccessMode::Read) forgive(*access.storage, failure);
  }
  deliver(failure);
}

SubmissionSink* SubmissionSink::innermost() noexcept { return innermost_sink; }
SinkScope::SinkScope(SubmissionSink& sink) noexcept : outer_(std::exchange(innermost_sink, &sink)) {}
SinkScope::~SinkScope() { innermost_sink = outer_; }

void SyncScope::reserve(std::span<const Access> accesses) {
  tickets_.reserve(tickets_.size() + 1);
  written_.reserve(written_.size() + accesses.size());
}

void SyncScope::add(const Ticket& ticket, const Submission& submission) noexcept {
  tickets_.push_back(ticket);
  for (const Access& access : submission.accesses) {
    if (access.mode != AccessMode::Read) written_.push_back(access.storage);
  }
  label_ = submission.label;
  where_ = submission.where;
}

void SyncScope::wait() {
  if (tickets_.empty()) return;
  const ProfileRange range(ProfileTopic::Synchronize, label_, where_);
  const auto tickets = std::move(tickets_);
  const auto written = std::move(written_);
  FailureRef first;
  for (const Ticket& ticket : tickets) {
    ticket.stream->host_wait(ticket.number);
    const FailureRef failure = ticket.stream->failure_of(ticket.number);
    if (!failure) continue;
    for (const StorageRef& storage : written) forgive(*storage, failure);
    if (first) failure->delivered.store(true);
    if (!first) first = failure;
  }
  if (first) deliver(first);
}

}  // namespace tessera::runtime
