// The fake driver (its only source file, since tests are globbed by name), and tests that it detects misuse.
#include "runtime/cuda_fake_driver.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/cuda/image.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda::fake {

const char* name(Fn fn) {
  static constexpr const char* kNames[] = {
#define TESSERA_CU(name, version, ...) #name,
#include "runtime/cuda/driver.def"
  };
  return kNames[static_cast<std::size_t>(fn)];
}

namespace {

/// Calls that never fail by injection: texts, and calls that destroy objects (which succeed in any case).
bool can_fail(Fn fn) {
  switch (fn) {
    case Fn::cuGetErrorName:
    case Fn::cuGetErrorString:
    case Fn::cuDriverGetVersion:
    case Fn::cuDevicePrimaryCtxRelease:
    case Fn::cuStreamDestroy:
    case Fn::cuEventDestroy:
    case Fn::cuMemPoolDestroy:
    case Fn::cuMemFreeHost:
    case Fn::cuGraphDestroy:
    case Fn::cuGraphExecDestroy:
    case Fn::cuModuleUnload: return false;
    default: return true;
  }
}

bool needs_context(Fn fn) {
  const std::string text = name(fn);
  for (const char* free : {"cuInit", "cuDriver", "cuGetError", "cuDevice", "cuCtxGet", "cuCtxSet", "cuMemPool"}) {
    if (text.starts_with(free)) return false;
  }
  return true;
}

}  // namespace

FakeDriver::FakeDriver(int devices, int version) : devices_(devices), version_(version) {
  fill_table(table_);
  table_.version = version;
  active = this;
  current = nullptr;
  add_kernel("tessera_set_condition", {4, set_condition});
}

FakeDriver::~FakeDriver() {
  run_all();
  for (const auto& [address, block] : blocks_) std::free(block.memory);
  for (void* memory : pinned_) std::free(memory);
  active = nullptr;
}

std::vector<std::byte> FakeDriver::image(const std::string& kernel, bool waits) {
  std::vector<std::byte> bytes(kName + kernel.size() + 1);
  const auto put = [&](std::size_t at, std::uint64_t value, std::size_t size) {
    std::memcpy(&bytes[at], &value, size);
  };
  std::memcpy(bytes.data(), "\177ELF\2\1\1", 7);
  put(18, 190, 2);                     // machine
  put(40, 64, 8);                      // section headers
  put(58, 64, 2);                      // size of one
  put(60, 2, 2);                       // their number
  put(64 + 24, kName, 8);              // the first: its offset
  put(64 + 32, kernel.size() + 1, 8);  // its size
  std::memcpy(&bytes[kName], kernel.c_str(), kernel.size() + 1);
  put(128 + 8, 0x6, 8);                               // the second: code
  put(128 + 24, kCode, 8);                            // its offset
  put(128 + 32, 32, 8);                               // its size: two instructions
  put(kCode, 0x7918, 2);                              // nothing
  put(kLastInstruction, waits ? 0x782E : 0x794D, 2);  // griddepcontrol.wait, or the end
  return bytes;
}

CUresult FakeDriver::enter(Fn fn) {
  if (scheduler_ != nullptr) scheduler_->before_call(fn);
  ++counts_[static_cast<std::size_t>(fn)];
  ++calls_;
  const bool poisoned = poisoned_ != 0;
  if (poisoned && can_fail(fn) && needs_context(fn)) return poisoned_;
  if (fn == fail_fn_) {
    fail_fn_ = Fn::count;
    happened_ = true;
    return fail_fn_result_;
  }
  if (can_fail(fn) && countdown_ >= 0 && countdown_-- == 0) {
    happened_ = true;
    if (fn == Fn::cuCtxGetCurrent || fn == Fn::cuCtxSetCurrent) context_fault_ = true;
    if (for_good_) poison(result_);
    return result_;
  }
  if (needs_context(fn) && !context_fault_ && !poisoned && (current == nullptr || retained_[current_device()] <= 0))
    violate(concat(name(fn), " without a context"));
  return 0;
}

void FakeDriver::fail_at(int k, CUresult result, bool for_good) {
  happened_ = context_fault_ = false;
  result_ = result;
  for_good_ = for_good;
  countdown_ = k;
}

void FakeDriver::heal() {
  countdown_ = -1;
  fail_fn_ = Fn::count;
  poisoned_ = 0;
  context_fault_ = false;
}

void FakeDriver::poison(CUresult result) {
  const std::lock_guard lock(mutex_);
  poisoned_ = result;
  for (const auto& stream : streams_) stream->steps.clear();
}

FakeDriver::Stream* FakeDriver::stream(CUstream handle) {
  if (handle == nullptr || handle == legacy_stream()) {
    Stream*& legacy = legacy_[current_device()];
    if (legacy == nullptr) legacy = make_stream();
    return legacy;
  }
  auto* stream = reinterpret_cast<Stream*>(handle);
  if (stream == nullptr || stream->destroyed) {
    violate("a stream was used that is none, or was destroyed");
    return nullptr;
  }
  if (!context_fault_ && stream->device != current_device()) violate("a stream was used in the wrong context");
  return stream;
}

FakeDriver::Stream* FakeDriver::make_stream() {
  streams_.push_back(std::make_unique<Stream>());
  Stream* made = streams_.back().get();
  made->device = current_device();
  made->id = streams_.size();
  return made;
}

CUstream FakeDriver::foreign_stream() {
  const std::lock_guard lock(mutex_);
  return reinterpret_cast<CUstream>(make_stream());
}

void FakeDriver::foreign_store(CUstream handle, std::uint64_t* to, std::uint64_t value) {
  const std::lock_guard lock(mutex_);
  Step step;
  step.kind = Step::Kind::Store;
  step.to = reinterpret_cast<std::uintptr_t>(to);
  step.bytes = value;
  stream(handle)->kernel_is_last = false;
  stream(handle)->steps.push_back(std::move(step));
}

void FakeDriver::foreign_call(CUstream handle, std::function<bool()> ready, std::function<void()> run) {
  const std::lock_guard lock(mutex_);
  Step step;
  step.kind = Step::Kind::Foreign;
  step.ready = std::move(ready);
  step.foreign = std::move(run);
  stream(handle)->kernel_is_last = false;
  // As NCCL does, the library tells captures apart by their number, which all captures into one graph share.
  if (const Graph* const graph = stream(handle)->capture; graph != nullptr && graph->foreign_ended)
    violate("another library is captured into a graph again after its capture has ended");
  stream(handle)->steps.push_back(std::move(step));
}

void* FakeDriver::foreign_allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  void* const memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  blocks_[reinterpret_cast<std::uintptr_t>(memory)] = {bytes, true, false, current_device(), memory};
  used_ += bytes;
  return memory;
}

void FakeDriver::foreign_free(void* memory) {
  const std::lock_guard lock(mutex_);
  const auto block = blocks_.find(reinterpret_cast<std::uintptr_t>(memory));
  if (block == blocks_.end()) return violate("memory of another library is freed that it has not allocated");
  used_ -= block->second.bytes;
  std::free(memory);
  blocks_.erase(block);
}

FakeDriver::Event* FakeDriver::event(CUevent handle) {
  auto* event = reinterpret_cast<Event*>(handle);
  if (event != nullptr && !event->destroyed) return event;
  violate("an event was used that is none, or was destroyed");
  return nullptr;
}

void FakeDriver::violate(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (violation_.empty()) violation_ = text;
}

bool FakeDriver::live(std::uintptr_t address, std::size_t bytes) const {
  const std::lock_guard lock(mutex_);
  const auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return false;
  const auto& [begin, block] = *std::prev(next);
  return block.ready && address + bytes <= begin + block.bytes;
}

void* Call::memory(std::size_t i, std::size_t bytes) const {
  if (driver.live(args[i], bytes)) return reinterpret_cast<void*>(static_cast<std::uintptr_t>(args[i]));
  driver.violate("a kernel touched memory that is not ready, or had ended");
  return nullptr;
}

/// Memory outside all device blocks is host memory of tests and counts as valid.
void FakeDriver::check_memory(std::uintptr_t address, std::size_t bytes, const char* what) {
  for (const auto& [begin, block] : blocks_) {
    if (address < begin || address >= begin + block.bytes) continue;
    if (!block.ready || address + bytes > begin + block.bytes)
      violate(concat(what, " of memory that is not ready, or too small"));
    return;
  }
}

void FakeDriver::run(Step& step) {
  switch (step.kind) {
    case Step::Kind::Kernel: step.run({*this, step.grid, step.args, step.kept}); break;
    case Step::Kind::Record:
      if (--step.record->streams > 0) break;
      step.record->reached = true;
      step.record->ms = clock_ms_;
      break;
    case Step::Kind::Wait: break;
    case Step::Kind::Graph: run_graph(*step.graph); break;
    case Step::Kind::Conditional: run_conditional(step); break;
    case Step::Kind::Alloc: blocks_[step.to].ready = true; break;
    case Step::Kind::Free: {
      const auto block = blocks_.find(step.to);
      used_ -= block->second.bytes;
      std::free(block->second.memory);
      blocks_.erase(block);
      break;
    }
    case Step::Kind::Copy:
      check_memory(step.to, step.bytes, "a copy to the end");
      check_memory(step.from, step.bytes, "a copy from the end");
      std::memmove(reinterpret_cast<void*>(step.to), reinterpret_cast<const void*>(step.from), step.bytes);
      break;
    case Step::Kind::Store:
      check_memory(step.to, sizeof(std::uint64_t), "a foreign store");
      std::memcpy(reinterpret_cast<void*>(step.to), &step.bytes, sizeof(std::uint64_t));
      break;
    case Step::Kind::Foreign:
      if (!step.ready()) violate("work of another library runs before it may: in a graph, nothing else would run");
      step.foreign();
      break;
    case Step::Kind::Set:
      check_memory(step.to, step.bytes, "a memset");
      for (std::size_t i = 0; i < step.bytes; i += step.pattern_bytes)
        std::memcpy(reinterpret_cast<char*>(step.to) + i, &step.pattern, step.pattern_bytes);
  }
}

void FakeDriver::read_early(Step& step) {
  if (step.early == nullptr) return;
  Call call{*this, step.grid, step.args};
  std::exchange(step.early, nullptr)(call);
  step.kept = std::move(call.kept);
}

/// Kernels with programmatic dependent launch start as soon as the one before them has started: those at the head of
/// a stream.
void FakeDriver::start_dependents(std::deque<Step>& steps) {
  for (Step& step : steps) {
    if (step.kind == Step::Kind::Alloc || step.kind == Step::Kind::Free || step.kind == Step::Kind::Record) continue;
    if (step.kind != Step::Kind::Kernel || !step.programmatic) return;
    read_early(step);
  }
}

bool FakeDriver::step_locked(std::uint64_t pick) {
  if (scheduler_ != nullptr) return scheduler_->run_one();
  if (poisoned_ != 0) return false;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    Stream& stream = *streams_[(pick + i) % streams_.size()];
    if (stream.steps.empty() || stream.capture != nullptr) continue;
    Step& front = stream.steps.front();
    if (front.kind == Step::Kind::Wait && front.record != nullptr && !front.record->reached) continue;
    if (front.kind == Step::Kind::Foreign && !front.ready()) continue;
    Step step = std::move(front);
    stream.steps.pop_front();
    if (step.kind == Step::Kind::Kernel) start_dependents(stream.steps);
    run(step);
    return true;
  }
  return false;
}

bool FakeDriver::step(std::uint64_t pick) {
  const std::lock_guard lock(mutex_);
  return step_locked(pick);
}

CUresult FakeDriver::drain(Stream* stream) {
  while (!stream->steps.empty()) {
    if (!step_locked(calls_.load() * 7u)) return poisoned_ != 0 ? poisoned_ : 999;
  }
  return poisoned_;
}

CUresult FakeDriver::wait_for(const Record& record) {
  while (record != nullptr && !record->reached) {
    if (!step_locked(calls_.load() * 7u)) return poisoned_ != 0 ? poisoned_ : 999;
  }
  return poisoned_;
}

std::string FakeDriver::violation() const {
  const std::lock_guard lock(mutex_);
  return violation_;
}

int FakeDriver::live_blocks() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(blocks_.size());
}

int FakeDriver::live_streams() const {
  const std::lock_guard lock(mutex_);
  int live = 0;
  for (const auto& stream : streams_) live += stream->destroyed ? 0 : 1;
  return live - static_cast<int>(legacy_.size());
}

int FakeDriver::pending_steps() const {
  const std::lock_guard lock(mutex_);
  std::size_t steps = 0;
  for (const auto& stream : streams_) steps += stream->steps.size();
  return static_cast<int>(steps);
}

std::string FakeDriver::leaks() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  const auto add = [&](int n, const char* what) {
    if (n != 0) text += concat(text.empty() ? "" : ", ", n, " ", what);
  };
  int events = 0, modules = 0, contexts = 0;
  for (const auto& event : events_) events += event->destroyed ? 0 : 1;
  for (const auto& module : modules_) modules += module->unloaded ? 0 : 1;
  for (const auto& [device, n] : retained_) contexts += n;
  add(live_streams(), "streams");
  add(events, "events");
  add(modules, "modules");
  int graphs = 0;
  for (const auto& graph : graphs_) graphs += graph->destroyed ? 0 : 1;
  add(graphs, "graphs");
  add(contexts, "contexts");
  add(pools_, "pools");
  add(static_cast<int>(pinned_.size()), "pinned blocks");
  add(poisoned_ != 0 ? 0 : live_blocks(), "blocks of memory");  // a dead context has freed its memory
  return text;
}

namespace {

TEST(FakeDriver, SeesMemoryUsedBeforeItIsReadyAndAfterItsEnd) {
  FakeDriver driver;
  const Driver& cu = driver.table();
  CUcontext context = nullptr;
  ASSERT_EQ(cu.cuDevicePrimaryCtxRetain(&context, 0), 0);
  ASSERT_EQ(cu.cuCtxSetCurrent(context), 0);
  CUstream a = nullptr, b = nullptr;
  cu.cuStreamCreate(&a, CU_STREAM_NON_BLOCKING);
  cu.cuStreamCreate(&b, CU_STREAM_NON_BLOCKING);
  CUmemoryPool pool = nullptr;
  const CUmemPoolProps properties;
  cu.cuMemPoolCreate(&pool, &properties);
  CUdeviceptr memory = 0;
  ASSERT_EQ(cu.cuMemAllocFromPoolAsync(&memory, 64, pool, a), 0);
  EXPECT_FALSE(driver.live(memory, 64));
  cu.cuStreamSynchronize(a);
  EXPECT_TRUE(driver.live(memory, 64));
  cu.cuMemFreeAsync(memory, b);
  EXPECT_TRUE(driver.live(memory, 64)) << "not yet";
  driver.run_all();
  EXPECT_FALSE(driver.live(memory, 64));
  EXPECT_EQ(driver.violation(), "");
  cu.cuMemFreeAsync(memory, b);
  EXPECT_NE(driver.violation(), "");
  EXPECT_EQ(driver.leaks(), "2 streams, 1 contexts, 1 pools");
}

TEST(FakeDriver, SeesDestroyedHandlesAndMissingContexts) {
  FakeDriver driver;
  const Driver& cu = driver.table();
  CUevent event = nullptr;
  cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
  EXPECT_EQ(driver.violation(), "cuEventCreate without a context");
  cu.cuEventDestroy(event);
  EXPECT_EQ(cu.cuEventQuery(event), 400);
}

TEST(FakeDriver, ItsImagesPassTheExamination) { EXPECT_EQ(image_fault(FakeDriver::image("k")), ""); }

}  // namespace
}  // namespace tessera::runtime::cuda::fake
