// What ends together when a process of a group fails: the communicators of this process, and the watch that tells the
// others.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mesh/watch.hpp"
#include "tessera/mesh/communicator.hpp"

namespace tessera::mesh {

class GroupWatch {
 public:
  /// Ends with the group: at once if it has ended already.
  void add(const std::shared_ptr<Communicator>& communicator) {
    std::optional<GroupFailure> ended;
    {
      const std::lock_guard lock(mutex_);
      communicators_.push_back(communicator);
      ended = failure_;
    }
    if (ended) communicator->abort(*ended);
  }
  /// Begins to watch the processes; all of them call it. Throws MeshError as Watch does.
  void start(const WatchOptions& options, SourceLocation where) {
    watch_.emplace(
        options, [this](const GroupFailure& failure) { end(failure); }, where);
  }
  void begin_step() noexcept {
    if (watch_) watch_->begin_step();
  }
  void end_step() noexcept {
    if (watch_) watch_->end_step();
  }
  /// This process has failed: tells the others.
  void report(const std::string& reason) {
    if (watch_) watch_->report(reason);
  }

 private:
  void end(const GroupFailure& failure) {
    std::vector<std::shared_ptr<Communicator>> live;
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = failure;
      for (const auto& weak : communicators_)
        if (auto communicator = weak.lock()) live.push_back(std::move(communicator));
    }
    for (const auto& communicator : live) communicator->abort(failure);
  }

  std::mutex mutex_;
  std::vector<std::weak_ptr<Communicator>> communicators_;
  std::optional<GroupFailure> failure_;
  std::optional<Watch> watch_;  // ends first
};

}  // namespace tessera::mesh
