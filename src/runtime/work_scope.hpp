// Marks the threads that run a queue's work, so that such work cannot wait for itself.
#pragma once
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {

class WorkScope {
 public:
  WorkScope() noexcept;
  ~WorkScope();
  WorkScope(const WorkScope&) = delete;
  WorkScope& operator=(const WorkScope&) = delete;

 private:
  bool outer_;
};

/// Runs `work` between the observer's calls, or skips it; its exceptions go to the observer. Takes no lock.
void run_work(const Launchable& work, const LaunchContext& context, std::uint64_t number,
              QueueObserver& observer) noexcept;

}  // namespace tessera::runtime
