// Work that does not end before the test says so.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>

#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/stream.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime {

/// A stream of the CPU whose first work ends when the gate is opened or destroyed.
class Gate {
 public:
  Gate() {
    stream.core()->submit({host_work([state = state_](const LaunchContext&) {
                             std::unique_lock lock(state->mutex);
                             state->changed.wait(lock, [&] { return state->open; });
                           }),
                           {},
                           {},
                           {},
                           "gate"});
  }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }
  void open() {
    std::lock_guard lock(state_->mutex);
    state_->open = true;
    state_->changed.notify_all();
  }
  Stream stream{Device::cpu()};

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool open = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace tessera::runtime
