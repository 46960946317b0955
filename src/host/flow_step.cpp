// A step of a flow that an event loop takes. One that is destroyed uncalled ends the execution.
#include <atomic>
#include <memory>
#include <utility>

#include "tessera/host/flow_run.hpp"

namespace tessera {

struct FlowStep::Once {
  std::shared_ptr<detail::FlowRun> run;
  std::atomic<bool> called{false};
  explicit Once(std::shared_ptr<detail::FlowRun> r) noexcept : run(std::move(r)) {}
  Once(const Once&) = delete;
  Once& operator=(const Once&) = delete;
  ~Once() {
    if (!called.load(std::memory_order_acquire)) run->step_lost();
  }
};

FlowStep::FlowStep(std::shared_ptr<detail::FlowRun> run) : once_(std::make_shared<Once>(std::move(run))) {}

void FlowStep::operator()() const {
  once_->called.store(true, std::memory_order_release);
  once_->run->step();
}

}  // namespace tessera
