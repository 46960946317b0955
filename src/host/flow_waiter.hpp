// The thread that waits for the device on behalf of spawned flows: one for the process, started with the first wait.
#pragma once
#include <memory>
#include <vector>

#include "tessera/host/flow_run.hpp"

namespace tessera::detail {

class FlowWaiter {
 public:
  /// Of this process; a child of fork() has its own.
  static FlowWaiter& instance();
  /// Posts `flow` to `run` when all of `work` has ended. Throws DeviceError if there is no thread.
  void add(std::shared_ptr<FlowRun> run, std::coroutine_handle<> flow, std::vector<runtime::Ticket> work);
  /// Forgets the waits of `run`.
  void remove(const FlowRun& run) noexcept;
  bool is_this_thread() const noexcept;
  /// Ends the thread after the flow that it drives has suspended.
  void stop() noexcept;

  FlowWaiter();
  ~FlowWaiter();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::detail
