// The fake device itself (its only source file, since tests are globbed by name), and tests that it detects misuse.
#include "runtime/fake_device.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>

#include "tessera/base/error.hpp"

namespace tessera::runtime::fake {

const char* name(Call call) {
  static constexpr const char* kNames[kCalls] = {"allocate", "make_queue", "launch", "record",    "wait",
                                                 "release",  "copy",       "fill",   "host_wait", "synchronize"};
  return kNames[static_cast<int>(call)];
}

namespace {

class FakeEvent final : public Event {
 public:
  FakeEvent(FakeDevice& device, std::shared_ptr<std::atomic<bool>> done) : device_(device), done_(std::move(done)) {}
  bool done() const override { return *done_; }
  void wait() const override {
    device_.enter(Call::HostWait);
    device_.host_wait(*done_);
  }
  const Backend& backend() const noexcept override { return device_; }
  const std::shared_ptr<std::atomic<bool>>& flag() const { return done_; }

 private:
  FakeDevice& device_;
  std::shared_ptr<std::atomic<bool>> done_;
};

class FakeQueue final : public Queue {
 public:
  FakeQueue(FakeDevice& device, std::shared_ptr<QueueState> state) : device_(device), state_(std::move(state)) {}
  ~FakeQueue() override { device_.queue_ended(); }
  void launch(const Submission& submission, std::uint64_t) override {
    device_.enter(Call::Launch);
    submission.work->launch({submission.grid, submission.args, submission.accesses, state_.get()});
  }
  EventRef record() override {
    device_.enter(Call::Record);
    auto done = std::make_shared<std::atomic<bool>>(false);
    Step step;
    step.kind = Step::Kind::Record;
    step.event = done;
    state_->push(std::move(step));
    return std::make_shared<FakeEvent>(device_, std::move(done));
  }
  void wait(const EventRef& event) override {
    device_.enter(Call::Wait);
    Step step;
    step.kind = Step::Kind::Wait;
    step.event = static_cast<const FakeEvent&>(*event).flag();
    state_->push(std::move(step));
  }
  void release(Retired& memory) override {
    device_.enter(Call::Release);
    Step step;
    step.kind = Step::Kind::Release;
    step.retired = std::move(memory);
    state_->push(std::move(step));
  }
  void synchronize() override {
    device_.enter(Call::Synchronize);
    device_.drain(*state_);
  }

 private:
  FakeDevice& device_;
  std::shared_ptr<QueueState> state_;
};

}  // namespace

void QueueState::push(Step step) { device->push(*this, std::move(step)); }

FakeDevice::FakeDevice(int ordinal) : ordinal_(ordinal), name_("fake:" + std::to_string(ordinal)) {}

FakeDevice::~FakeDevice() {
  close_default_stream();
  stop_ = true;
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  run_all();
}

void FakeDevice::enter(Call call) {
  ++counts_[static_cast<int>(call)];
  if (!dead_) {
    if (countdown_ < 0 || countdown_-- != 0) return;
    happened_ = true;
    if (dead_after_) die();
  }
  throw DeviceError(std::string("injected fault in ") + fake::name(call));
}

/// Nothing runs on a dead device: enqueued work is dropped, and with it the memory that it would have freed.
void FakeDevice::die() {
  std::vector<Retired> ended;
  {
    std::lock_guard lock(mutex_);
    dead_ = true;
    for (const auto& queue : queues_) {
      for (Step& step : queue->steps) {
        if (step.kind == Step::Kind::Release) end(step, ended);
      }
      queue->steps.clear();
    }
  }
  changed_.notify_all();
  free_memory(ended);
}

void FakeDevice::end(Step& step, std::vector<Retired>& ended) {
  if (step.retired.memory != nullptr) blocks_.erase(reinterpret_cast<std::uintptr_t>(step.retired.memory));
  ended.push_back(std::move(step.retired));
}

void FakeDevice::free_memory(const std::vector<Retired>& ended) {
  for (const Retired& memory : ended) {
    if (memory.memory != nullptr) ::operator delete(memory.memory, std::align_val_t(kStorageAlignment));
  }
}

void FakeDevice::fail_at(int k, bool dead) {
  happened_ = false;
  dead_after_ = dead;
  countdown_ = k;
}

void FakeDevice::heal() {
  countdown_ = -1;
  dead_ = false;
}

void FakeDevice::push(QueueState& queue, Step step) {
  std::lock_guard lock(mutex_);
  queue.steps.push_back(std::move(step));
  changed_.notify_all();
}

void FakeDevice::touch(const std::uint64_t* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  auto next = blocks_.upper_bound(at);
  if (next != blocks_.begin() && at + sizeof *address <= std::prev(next)->first + std::prev(next)->second) return;
  violation_ = "a step touched memory that had ended";
}

bool FakeDevice::step_locked(std::uint64_t pick, std::vector<Retired>& ended) {
  if (dead_) return false;
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    QueueState& queue = *queues_[(pick + i) % queues_.size()];
    if (queue.steps.empty()) continue;
    Step& step = queue.steps.front();
    if (step.kind == Step::Kind::Wait && !*step.event) continue;
    if (step.kind == Step::Kind::Record) *step.event = true;
    if (step.kind == Step::Kind::Release) end(step, ended);
    if (step.kind == Step::Kind::Work) {
      touch(step.target);
      for (const std::uint64_t* source : step.sources) touch(source);
      if (violation_.empty()) {
        std::uint64_t sum = 0;
        for (const std::uint64_t* source : step.sources) sum += *source;
        *step.target = mix(*step.target, sum, step.addend);
      }
    }
    queue.steps.pop_front();
    return true;
  }
  return false;
}

bool FakeDevice::step(std::uint64_t pick) {
  std::vector<Retired> ended;
  bool ran = false;
  {
    std::lock_guard lock(mutex_);
    ran = step_locked(pick, ended);
  }
  changed_.notify_all();
  free_memory(ended);
  return ran;
}

void FakeDevice::start_thread() {
  thread_ = std::thread([this] {
    std::mt19937_64 random(1);
    while (!stop_) {
      if (step(random())) continue;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(1));
    }
  });
}

void FakeDevice::host_wait(const std::atomic<bool>& done) {
  while (!done) {
    if (dead_) throw DeviceError("the fake device is dead");
    if (thread_.joinable()) {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, std::chrono::milliseconds(1));
    } else if (!step()) {
      throw InternalError("deadlock: the host waits, and no queue can go on");
    }
  }
}

void FakeDevice::drain(QueueState& queue) {
  std::atomic<bool> empty{false};
  while (!empty) {
    {
      std::lock_guard lock(mutex_);
      empty = queue.steps.empty();
    }
    if (!empty && !thread_.joinable() && !step())
      throw InternalError("deadlock: the host waits, and no queue can go on");
  }
}

int FakeDevice::live_blocks() const {
  std::lock_guard lock(mutex_);
  return static_cast<int>(blocks_.size());
}

int FakeDevice::pending_steps() const {
  std::lock_guard lock(mutex_);
  std::size_t steps = 0;
  for (const auto& queue : queues_) steps += queue->steps.size();
  return static_cast<int>(steps);
}

std::string FakeDevice::violation() const {
  std::lock_guard lock(mutex_);
  return violation_;
}

void* FakeDevice::allocate(std::size_t bytes) {
  enter(Call::Allocate);
  void* memory = ::operator new(bytes, std::align_val_t(kStorageAlignment));
  std::lock_guard lock(mutex_);
  blocks_[reinterpret_cast<std::uintptr_t>(memory)] = bytes;
  return memory;
}

void FakeDevice::free(void* memory, std::size_t) noexcept {
  {
    std::lock_guard lock(mutex_);
    blocks_.erase(reinterpret_cast<std::uintptr_t>(memory));
  }
  ::operator delete(memory, std::align_val_t(kStorageAlignment));
}

std::unique_ptr<Queue> FakeDevice::make_queue(bool, std::shared_ptr<QueueObserver>) {
  enter(Call::MakeQueue);
  auto state = std::make_shared<QueueState>();
  state->device = this;
  std::lock_guard lock(mutex_);
  state->id = static_cast<int>(queues_.size());
  queues_.push_back(state);
  ++queues_live_;
  return std::make_unique<FakeQueue>(*this, std::move(state));
}

void FakeDevice::copy(void* to, const void* from, std::size_t bytes) {
  enter(Call::Copy);
  std::lock_guard lock(mutex_);
  std::memmove(to, from, bytes);
}

void FakeDevice::fill(void* to, std::uint8_t value, std::size_t bytes) {
  enter(Call::Fill);
  std::lock_guard lock(mutex_);
  std::memset(to, value, bytes);
}

std::shared_ptr<const Launchable> mix_work() {
  static const auto work = host_work([](const LaunchContext& context) {
    Step step;
    step.target = reinterpret_cast<std::uint64_t*>(context.accesses[0].storage->data());
    for (const Access& access : context.accesses.subspan(1))
      step.sources.push_back(reinterpret_cast<const std::uint64_t*>(access.storage->data()));
    step.addend = context.args.empty() ? 0 : context.args[0];
    static_cast<QueueState*>(context.native_queue)->push(std::move(step));
  });
  return work;
}

namespace {

TEST(FakeDevice, SeesStepsThatTouchEndedMemory) {
  FakeDevice device;
  auto* memory = static_cast<std::uint64_t*>(device.allocate(8));
  auto queue = device.make_queue(false, nullptr);
  *memory = 0;
  QueueState* state = nullptr;
  const auto probe =
      host_work([&](const LaunchContext& context) { state = static_cast<QueueState*>(context.native_queue); });
  queue->launch({probe, {}, {}, {}, "probe", {}}, 1);
  Step step;
  step.target = memory;
  state->push(step);
  device.run_all();
  EXPECT_EQ(device.violation(), "");
  device.free(memory, 8);
  state->push(step);
  device.run_all();
  EXPECT_NE(device.violation(), "");
}

TEST(FakeDevice, WaitsHoldAQueueUntilTheEvent) {
  FakeDevice device;
  auto a = device.make_queue(false, nullptr), b = device.make_queue(false, nullptr);
  const EventRef event = a->record();
  b->wait(event);
  EXPECT_FALSE(event->done());
  EXPECT_TRUE(device.step(1)) << "b cannot go on, a can";
  EXPECT_TRUE(event->done());
  EXPECT_EQ(device.pending_steps(), 1);
}

}  // namespace
}  // namespace tessera::runtime::fake
