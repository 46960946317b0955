// What a scheduler of the fake driver may choose from.
#include <utility>

#include "runtime/cuda_fake_driver.hpp"

namespace tessera::runtime::cuda::fake {

/// The next kernel that may start although the first step of the stream, a kernel, has not ended.
FakeDriver::Step* FakeDriver::next_early(Stream& stream) {
  if (stream.steps.empty() || stream.steps.front().kind != Step::Kind::Kernel) return nullptr;
  for (std::size_t i = 1; i < stream.steps.size(); ++i) {
    Step& step = stream.steps[i];
    if (step.kind == Step::Kind::Alloc || step.kind == Step::Kind::Free || step.kind == Step::Kind::Record) continue;
    if (step.kind != Step::Kind::Kernel || !step.programmatic) return nullptr;
    if (step.early != nullptr) return &step;
  }
  return nullptr;
}

std::vector<FakeDriver::Action> FakeDriver::actions() {
  std::vector<Action> found;
  for (std::size_t i = 0; poisoned_ == 0 && i < streams_.size(); ++i) {
    Stream& stream = *streams_[i];
    if (stream.steps.empty() || stream.capture != nullptr) continue;
    const Step& front = stream.steps.front();
    const bool waits = front.kind == Step::Kind::Wait;
    if (waits && front.record != nullptr && !front.record->reached) continue;
    found.push_back({i, false, waits || front.kind == Step::Kind::Record, front.args, {front.to, front.from}});
    if (const Step* early = next_early(stream); early != nullptr) found.push_back({i, true, false, early->args, {}});
  }
  return found;
}

void FakeDriver::perform(const Action& action) {
  Stream& stream = *streams_[action.stream];
  if (action.early) {
    Step& step = *next_early(stream);
    Call call{*this, step.grid, step.args};
    std::exchange(step.early, nullptr)(call);
    step.kept = std::move(call.kept);
    return;
  }
  Step step = std::move(stream.steps.front());
  stream.steps.pop_front();
  run(step);
}

}  // namespace tessera::runtime::cuda::fake
