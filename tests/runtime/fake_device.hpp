// A device for tests. Like a GPU it keeps nothing alive: work is steps that hold raw addresses, and memory is freed in
// queue order. It runs when the test steps it (step, run_all, in any order that the events allow) or by a thread of its
// own, counts every call, checks every address that a step uses, and fails selected calls.
#pragma once
#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime::fake {

/// The calls that a test can make fail.
enum class Call : std::uint8_t {
  Allocate,
  MakeQueue,
  Launch,
  Record,
  Wait,
  Release,
  Copy,
  Fill,
  HostWait,
  Synchronize
};
inline constexpr int kCalls = 10;
const char* name(Call call);

class FakeDevice;

/// The computation of test kernels: dst = dst * 31 + sum of the sources + a, on the first 8 bytes of each memory.
struct Step {
  enum class Kind : std::uint8_t { Work, Record, Wait, Release } kind = Kind::Work;
  std::uint64_t* target = nullptr;
  std::vector<const std::uint64_t*> sources;
  std::uint64_t addend = 0;
  std::shared_ptr<std::atomic<bool>> event;
  Retired retired;
};

struct QueueState {
  int id = 0;
  std::deque<Step> steps;
  FakeDevice* device = nullptr;
  void push(Step step);
};

class FakeDevice final : public Backend {
 public:
  explicit FakeDevice(int ordinal = 0);
  ~FakeDevice() override;

  // -- running --
  /// Runs the next step of a queue that is not blocked, chosen by `pick`; false if all are.
  bool step(std::uint64_t pick = 0);
  void run_all() {
    while (step()) {}
  }
  /// Runs everything, the queues interleaved at random.
  void run_all(std::mt19937_64& random) {
    while (step(random())) {}
  }
  /// From now on a thread runs the steps.
  void start_thread();

  // -- faults --
  /// The `k`-th call from now (0: the next) that can fail fails; with `dead`, all after it as well and no step runs any
  /// more.
  void fail_at(int k, bool dead = false);
  bool fault_happened() const { return happened_; }
  void heal();

  // -- what happened --
  int count(Call call) const { return counts_[static_cast<int>(call)]; }
  int live_blocks() const;
  int live_queues() const { return queues_live_; }
  int pending_steps() const;
  /// Empty if every step used live memory only.
  std::string violation() const;

  // -- Backend --
  DeviceKind kind() const noexcept override { return DeviceKind::Fake; }
  int ordinal() const noexcept override { return ordinal_; }
  const std::string& name() const noexcept override { return name_; }
  void* allocate(std::size_t bytes) override;
  void free(void* memory, std::size_t bytes) noexcept override;
  std::unique_ptr<Queue> make_queue(bool is_default, std::shared_ptr<QueueObserver> observer) override;
  bool queues_hold_storages() const noexcept override { return false; }
  void copy(void* to, const void* from, std::size_t bytes) override;
  void fill(void* to, std::uint8_t value, std::size_t bytes) override;
  bool host_accessible() const noexcept override { return true; }

  // -- for its queues and events --
  void enter(Call call);  ///< counts, and throws if the call is to fail
  void push(QueueState& queue, Step step);
  void host_wait(const std::atomic<bool>& done);
  void drain(QueueState& queue);
  void queue_ended() { --queues_live_; }

 private:
  bool step_locked(std::uint64_t pick, std::vector<Retired>& ended);
  void touch(const std::uint64_t* address);
  void die();
  void end(Step& step, std::vector<Retired>& ended);
  static void free_memory(const std::vector<Retired>& ended);

  int ordinal_;
  std::string name_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::shared_ptr<QueueState>> queues_;
  std::map<std::uintptr_t, std::size_t> blocks_;  // live memory by address
  std::string violation_;
  std::atomic<int> queues_live_{0};
  std::array<std::atomic<int>, kCalls> counts_{};
  std::atomic<int> countdown_{-1};
  std::atomic<bool> dead_after_{false}, dead_{false}, happened_{false}, stop_{false};
  std::thread thread_;
};

/// target = target * 31 + sum(sources) + addend, as work of a fake device: accesses[0] is the target, the rest are the
/// sources.
std::shared_ptr<const Launchable> mix_work();
/// The same on the host, for the expected value.
inline std::uint64_t mix(std::uint64_t target, std::uint64_t sum, std::uint64_t addend) {
  return target * 31 + sum + addend;
}

}  // namespace tessera::runtime::fake
