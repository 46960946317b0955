// The scheduler, the memory with its generations, and the queues and events in front of them.
#include "runtime/model/device.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "runtime/model/model_graph.hpp"
#include "runtime/work_scope.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::model {

namespace {

constexpr std::uint64_t kPool = std::uint64_t{1} << 40;
std::uint64_t event_bit(int event) { return std::uint64_t{1} << (41 + event % 20); }
std::uint64_t block_bit(int block) { return std::uint64_t{1} << block; }

}  // namespace

class ModelEvent final : public Event {
 public:
  ModelEvent(ModelDevice& device, int event) : device_(device), event_(event) {}
  bool done() const override {
    device_.enter("ask an event", {event_bit(event_), 0});
    return reached();
  }
  void wait() const override {
    device_.may_fail("wait for an event");
    const bool could = device_.host_when("wait for an event", {}, [&] { return reached() || device_.dead(); });
    if (!could || device_.dead()) throw DeviceError(concat(kInjected, ": the device is dead"));
  }
  const Backend& backend() const noexcept override { return device_; }
  int number() const { return event_; }

 private:
  bool reached() const { return device_.events_[static_cast<std::size_t>(event_)] != 0; }
  ModelDevice& device_;
  int event_;
};

class ModelQueue final : public Queue {
 public:
  ModelQueue(ModelDevice& device, std::shared_ptr<QueueState> state) : device_(device), state_(std::move(state)) {}
  ~ModelQueue() override { --device_.live_queues_; }

  void launch(const Submission& submission, std::uint64_t number) override {
    call("launch");
    const auto* graph = dynamic_cast<const ModelGraph*>(submission.work.get());
    if (graph != nullptr && device_.options_.flavour == Flavour::Gpu) return launch_entries(*graph);
    if (graph != nullptr) graph->locate_all(device_);
    Step step;
    step.work = graph != nullptr ? &graph->whole(submission.accesses)
                                 : reinterpret_cast<Work*>(static_cast<std::uintptr_t>(submission.args[0]));
    step.number = number;
    device_.locate(*step.work, submission.accesses);
    if (device_.options_.flavour == Flavour::Cpu) {
      step.launchable = submission.work;
      step.accesses.assign(submission.accesses.begin(), submission.accesses.end());
    }
    state_->steps.push_back(std::move(step));
  }
  void* allocate(std::size_t bytes, std::uint64_t) override {
    if (device_.options_.flavour == Flavour::Cpu || bytes > 8) return nullptr;
    call("allocate", {0, kPool});
    const int block = device_.choose_block(state_->id);
    void* memory = device_.hand_out(block);
    Step step;
    step.kind = Step::Kind::Alloc;
    step.block = block;
    step.generation = device_.blocks_[static_cast<std::size_t>(block)].handed_out;
    state_->steps.push_back(std::move(step));
    return memory;
  }
  EventRef record() override {
    call("record an event");
    Step step;
    step.kind = Step::Kind::Record;
    step.event = static_cast<int>(device_.events_.size());
    auto made = std::make_shared<ModelEvent>(device_, step.event);
    device_.events_.push_back(0);
    state_->steps.push_back(std::move(step));
    return made;
  }
  void wait(const EventRef& event) override {
    call("wait for an event of another queue");
    Step step;
    step.kind = Step::Kind::Wait;
    step.event = static_cast<const ModelEvent&>(*event).number();
    state_->steps.push_back(std::move(step));
  }
  void release(Retired& memory) override {
    call("release");
    Step step;
    step.kind = Step::Kind::Release;
    if (memory.owner) step.block = device_.foreign_block_;
    step.owner = std::move(memory.owner);
    if (memory.memory != nullptr) {
      step.block = device_.block_at(memory.memory);
      ModelDevice::Block& block = device_.blocks_[static_cast<std::size_t>(step.block)];
      step.generation = block.handed_out;
      block.free_pending_on = state_->id;
      memory.memory = nullptr;
      if (device_.options_.defect == Defect::FreesAtOnce)
        return device_.end_block(step.block, step.generation, "the end of memory");
    }
    state_->steps.push_back(std::move(step));
  }
  void synchronize() override {
    device_.may_fail("synchronize");
    device_.host_when("synchronize", {}, [&] { return state_->steps.empty(); });
  }

 private:
  void launch_entries(const ModelGraph& graph) {
    graph.locate_all(device_);
    for (const RecordedWork& entry : graph.recording().work()) {
      Step step;
      step.work = &graph.work_of(entry);
      state_->steps.push_back(std::move(step));
    }
  }
  void call(const char* what, Footprint footprint = {}) {
    device_.enter(what, footprint);
    device_.may_fail(what);
    if (device_.options_.log) device_.note(concat("host: ", what, " on queue ", state_->id));
  }
  ModelDevice& device_;
  std::shared_ptr<QueueState> state_;
};

ModelDevice::ModelDevice(Choices& choices, const Options& options)
    : choices_(choices), options_(options), arena_(new std::byte[kBlockBytes * kBlocks]) {}

ModelDevice::~ModelDevice() { close_default_stream(); }

void ModelDevice::violate(const std::string& text) {
  if (!violation_.empty() || redundant_) return;
  violation_ = text;
  stopped_ = true;
  note(concat("violation: ", text));
}

void ModelDevice::note(const std::string& line) {
  if (options_.log) log_.push_back(line);
}

// -- scheduling --

bool ModelDevice::ready(const Step& step) const {
  if (step.kind != Step::Kind::Wait || options_.defect == Defect::IgnoresWaits) return true;
  return events_[static_cast<std::size_t>(step.event)] != 0;
}

/// Nothing depends on when these steps happen, except what they allow to happen after them.
bool ModelDevice::invisible(const Step& step) const {
  return step.kind == Step::Kind::Wait || (step.kind == Step::Kind::Record && !options_.events_are_asked);
}

Footprint ModelDevice::footprint(const Step& step) const {
  Footprint made;
  if (step.kind == Step::Kind::Record) made.writes = event_bit(step.event);
  if (step.kind == Step::Kind::Alloc) made.writes = block_bit(step.block);
  if (step.kind == Step::Kind::Release) {
    made.reads = kPool;  // adding to the pool is independent of adding to it, and not of taking from it
    made.writes = block_bit(step.block);
  }
  if (step.kind != Step::Kind::Kernel) return made;
  for (const Work::Touch& touch : step.work->touches)
    (touch.mode == AccessMode::Read ? made.reads : made.writes) |= block_bit(touch.block);
  if (options_.flavour == Flavour::Cpu && step.begun) made.reads |= kPool;  // it may drop the last reference
  return made;
}

std::size_t ModelDevice::actions(std::array<Action, kMaxActions>& found, std::size_t count) const {
  for (const auto& queue : queues_) {
    if (queue->steps.empty() || !ready(queue->steps.front()) || count == found.size()) continue;
    found[count++] = {static_cast<std::uint8_t>(queue->id + 1), 0, footprint(queue->steps.front())};
  }
  return count;
}

template <class Ready>
bool ModelDevice::host_when(const char* what, Footprint footprint, Ready host_ready) {
  if (running_) return true;
  std::array<Action, kMaxActions> found;
  for (;;) {
    const bool can = host_ready();
    if (can && (stopped_ || dead_ || (choices_.reduced() && footprint.empty()))) return true;
    if (choices_.reduced() || stopped_) {
      const auto next = std::find_if(queues_.begin(), queues_.end(), [&](const auto& queue) {
        return !queue->steps.empty() && ready(queue->steps.front()) && (stopped_ || invisible(queue->steps.front()));
      });
      if (next != queues_.end()) {
        perform(**next);
        continue;
      }
    }
    if (can) found[0] = {0, 0, footprint};
    const std::size_t count = actions(found, can ? 1 : 0);
    if (count == 0) {
      violate(concat("deadlock: the host waits (", what, "), and no queue can go on"));
      return false;
    }
    const unsigned choice = choices_.schedule({found.data(), count});
    if (choice == Choices::kRedundant) {
      redundant_ = stopped_ = true;
      continue;
    }
    if (found[choice].agent == 0) return true;
    perform(*queues_[static_cast<std::size_t>(found[choice].agent - 1)]);
  }
}

void ModelDevice::host(const char* what, Footprint footprint) {
  host_when(what, footprint, [] { return true; });
}
void ModelDevice::enter(const char* what, Footprint footprint) { host(what, footprint); }

void ModelDevice::run_all() {
  host_when("the end of the program", {}, [&] { return pending_steps() == 0; });
}

void ModelDevice::may_fail(const char* what) {
  if (dead_) throw DeviceError(concat(kInjected, ": the device is dead"));
  if (faults_left_ == 0 || stopped_ || running_ || choices_.pick(2) == 0) return;
  --faults_left_;
  fault_happened_ = true;
  note(concat("host: ", what, ": fails"));
  if (options_.faults == Faults::Dead) die();
  throw DeviceError(concat(kInjected, ": ", what));
}

/// Nothing runs on a dead device: what was enqueued is dropped, and with it the memory that it would have freed.
void ModelDevice::die() {
  dead_ = true;
  for (Block& block : blocks_) block.readers = 0, block.writer = -1;
  for (const auto& queue : queues_) {
    const auto steps = std::move(queue->steps);
    queue->steps.clear();
    for (const Step& step : steps) {
      if (step.kind == Step::Kind::Release && !step.owner) end_block(step.block, step.generation, "the end");
      if (step.kind != Step::Kind::Alloc) continue;
      Block& block = blocks_[static_cast<std::size_t>(step.block)];
      block.live = true, block.generation = step.generation;
    }
  }
}

void ModelDevice::heal() {
  dead_ = false;
  faults_left_ = 0;
}

// -- steps --

bool ModelDevice::check_live(const Work& work) {
  for (const Work::Touch& touch : work.touches) {
    const Block& block = blocks_[static_cast<std::size_t>(touch.block)];
    if (block.live && block.generation == touch.generation) continue;
    violate(concat("operation ", work.operation, " runs on memory that has been freed",
                   block.generation == touch.generation ? "" : " and reused, or is not allocated yet"));
    return false;
  }
  return true;
}

void ModelDevice::check_contents(const Work& work, const char* when) {
  for (const Work::Touch& touch : work.touches) {
    if (touch.known && value(touch.memory) != touch.before)
      violate(concat("operation ", work.operation, " finds, at its ", when,
                     ", other contents than those of the program's order"));
  }
}

void ModelDevice::begin(Step& step) {
  step.begun = true;
  Work& work = *step.work;
  if (!check_live(work)) return;
  for (const Work::Touch& touch : work.touches) {
    const Block& block = blocks_[static_cast<std::size_t>(touch.block)];
    if (block.writer >= 0 || (touch.mode != AccessMode::Read && block.readers > 0))
      violate(concat("operation ", work.operation, " overlaps with ",
                     block.writer >= 0 ? concat("operation ", block.writer) : "a read", " of the same memory"));
  }
  for (const Work::Touch& touch : work.touches) {
    Block& block = blocks_[static_cast<std::size_t>(touch.block)];
    if (touch.mode == AccessMode::Read) ++block.readers;
    if (touch.mode != AccessMode::Read) block.writer = work.operation;
  }
  check_contents(work, "begin");
}

void ModelDevice::end(QueueState& queue) {
  const Step step = std::move(queue.steps.front());
  queue.steps.pop_front();
  const Work& work = *step.work;
  for (const Work::Touch& touch : work.touches) {
    Block& block = blocks_[static_cast<std::size_t>(touch.block)];
    if (touch.mode == AccessMode::Read && block.readers > 0) --block.readers;
    if (touch.mode != AccessMode::Read) block.writer = -1;
  }
  if (options_.flavour == Flavour::Gpu) return execute(work);
  const std::uint64_t arg = reinterpret_cast<std::uintptr_t>(&work);
  run_work(*step.launchable, {{}, {&arg, 1}, step.accesses, nullptr, this}, step.number, *queue.observer);
}

void ModelDevice::execute(const Work& work) {
  if (!check_live(work)) return;
  check_contents(work, "end");
  const Work::Touch& target = work.touches[0];
  if (target.mode == AccessMode::Read) return;
  std::uint64_t y = value(target.memory), sum = 0;
  for (std::size_t i = 1; i < work.touches.size(); ++i) sum += value(work.touches[i].memory);
  y = work.fails ? kGarbage : work.overwrites ? work.addend : mixed(y, sum, work.addend);
  std::memcpy(target.memory, &y, sizeof y);
}

void ModelDevice::perform(QueueState& queue) {
  running_ = true;
  Step& front = queue.steps.front();
  if (options_.log) {
    static constexpr const char* kNames[] = {"kernel", "the event is reached", "has waited", "memory ends",
                                             "memory begins"};
    if (front.kind == Step::Kind::Kernel)
      note(concat("queue ", queue.id, ": operation ", front.work->operation, front.begun ? " ends" : " begins"));
    else
      note(concat("queue ", queue.id, ": ", kNames[static_cast<int>(front.kind)]));
  }
  if (front.kind == Step::Kind::Kernel && !front.begun) {
    begin(front);
  } else if (front.kind == Step::Kind::Kernel) {
    end(queue);
  } else {
    const Step step = std::move(front);
    queue.steps.pop_front();
    if (step.kind == Step::Kind::Record) events_[static_cast<std::size_t>(step.event)] = 1;
    if (step.kind == Step::Kind::Release && !step.owner) end_block(step.block, step.generation, "the end of memory");
    if (step.kind == Step::Kind::Alloc) {
      Block& block = blocks_[static_cast<std::size_t>(step.block)];
      if (block.live) violate("memory is handed out again before it was freed");
      block.live = true, block.generation = step.generation;
    }
  }
  running_ = false;
}

// -- memory --

int ModelDevice::block_at(const void* address) const {
  return static_cast<int>(static_cast<std::size_t>(static_cast<const std::byte*>(address) - arena_.get()) /
                          kBlockBytes);
}
Footprint ModelDevice::block_footprint(const void* address) const { return {kPool, block_bit(block_at(address))}; }

std::uint64_t ModelDevice::value(const void* address) const {
  std::uint64_t value = 0;
  std::memcpy(&value, address, sizeof value);
  return value;
}

void ModelDevice::end_block(int index, unsigned generation, const char* what) {
  Block& block = blocks_[static_cast<std::size_t>(index)];
  if (!block.live || block.generation != generation) violate(concat(what, ": it has been freed before"));
  if (block.readers > 0 || block.writer >= 0) violate(concat(what, ": a kernel is using it"));
  block.live = false;
  if (block.handed_out == generation) block.free = true, block.free_pending_on = -1;
  for (std::size_t at = 0; at < kBlockBytes; at += 256) std::memcpy(address(index) + at, &kGarbage, sizeof kGarbage);
}

/// What a pool may hand out: what is to be freed on this queue, what was freed, or what was never used.
int ModelDevice::choose_block(int queue) {
  std::array<int, 3> candidates{};
  unsigned n = 0;
  const auto add = [&](auto fits) {
    const auto block = std::find_if(blocks_.begin(), blocks_.end(), fits);
    if (block != blocks_.end()) candidates[n++] = static_cast<int>(block - blocks_.begin());
  };
  if (queue >= 0) add([&](const Block& b) { return b.free_pending_on == queue; });
  add([](const Block& b) { return b.free && b.handed_out > 0; });
  add([](const Block& b) { return b.handed_out == 0; });
  if (n == 0) throw InternalError("the model device has no more memory");
  return candidates[stopped_ ? 0 : choices_.pick(n)];
}

void* ModelDevice::hand_out(int index) {
  Block& block = blocks_[static_cast<std::size_t>(index)];
  ++block.handed_out;
  block.free = false;
  block.free_pending_on = -1;
  return address(index);
}

void* ModelDevice::allocate(std::size_t bytes) {
  enter("allocate", {0, kPool});
  may_fail("allocate");
  if (bytes > kBlockBytes) throw InternalError("the model device has small blocks only");
  const int index = choose_block(-1);
  void* memory = hand_out(index);
  Block& block = blocks_[static_cast<std::size_t>(index)];
  block.live = true, block.generation = block.handed_out;
  return memory;
}

void ModelDevice::free(void* memory, std::size_t) noexcept {
  const int block = block_at(memory);
  end_block(block, blocks_[static_cast<std::size_t>(block)].handed_out, "freeing memory");
}

std::shared_ptr<void> ModelDevice::make_foreign(void** memory) {
  *memory = allocate(8);
  const int block = foreign_block_ = block_at(*memory);
  const unsigned generation = blocks_[static_cast<std::size_t>(block)].handed_out;
  return {*memory,
          [this, block, generation](void*) { end_block(block, generation, "the owner of foreign memory goes"); }};
}

std::unique_ptr<Queue> ModelDevice::make_queue(bool, std::shared_ptr<QueueObserver> observer) {
  enter("make a queue");
  may_fail("make a queue");
  auto state = std::make_shared<QueueState>();
  state->id = static_cast<int>(queues_.size());
  state->observer = std::move(observer);
  queues_.push_back(state);
  ++live_queues_;
  return std::make_unique<ModelQueue>(*this, std::move(state));
}

void ModelDevice::copy(void* to, const void* from, std::size_t bytes) {
  const auto inside = [&](const void* p) { return p >= arena_.get() && p < arena_.get() + kBlockBytes * kBlocks; };
  const bool writes = inside(to);
  const int index = block_at(writes ? to : from);
  enter("copy", writes ? Footprint{0, block_bit(index)} : Footprint{block_bit(index), 0});
  may_fail("copy");
  note(concat("host: copy ", writes ? "to" : "from", " block ", index));
  const Block& block = blocks_[static_cast<std::size_t>(index)];
  if (!block.live || block.generation != block.handed_out) violate("the host copies memory that is not allocated");
  if (block.writer >= 0 || (writes && block.readers > 0)) violate("the host copies memory that a kernel uses");
  std::memcpy(to, from, bytes);
}

void ModelDevice::fill(void* to, std::uint8_t value, std::size_t bytes) { std::memset(to, value, bytes); }

int ModelDevice::live_blocks() const {
  return static_cast<int>(std::count_if(blocks_.begin(), blocks_.end(), [](const Block& b) { return !b.free; }));
}

int ModelDevice::pending_steps() const {
  std::size_t steps = 0;
  for (const auto& queue : queues_) steps += queue->steps.size();
  return static_cast<int>(steps);
}

std::shared_ptr<const Launchable> model_work() {
  static const auto work = host_work([](const LaunchContext& context) {
    const auto& work = *reinterpret_cast<const Work*>(static_cast<std::uintptr_t>(context.args[0]));
    static_cast<ModelDevice*>(context.native_launch)->execute(work);
    if (work.fails) throw WorkFailed{work.operation};
  });
  return work;
}

}  // namespace tessera::runtime::model
