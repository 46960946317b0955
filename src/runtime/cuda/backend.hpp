// A GPU as a Backend: its context, memory, events and queues.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "runtime/cuda/conditions.hpp"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/event_pool.hpp"
#include "runtime/cuda/handed_back.hpp"
#include "runtime/cuda/memory.hpp"
#include "runtime/cuda/outcomes.hpp"
#include "runtime/cuda/peer.hpp"
#include "runtime/cuda/retired_owners.hpp"
#include "runtime/cuda/stream_pool.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/cuda.hpp"

namespace tessera::runtime::cuda {

class CudaBackend final : public Backend {
 public:
  /// Throws DeviceError.
  CudaBackend(const Driver& driver, int ordinal);
  ~CudaBackend() override;

  DeviceKind kind() const noexcept override { return DeviceKind::Cuda; }
  int ordinal() const noexcept override { return ordinal_; }
  const std::string& name() const noexcept override { return context_.name(); }
  void* allocate(std::size_t bytes) override;
  void free(void* memory, std::size_t bytes) noexcept override;
  std::unique_ptr<Queue> make_queue(bool is_default, std::shared_ptr<QueueObserver> observer) override;
  std::unique_ptr<Queue> make_priority_queue(int priority, std::shared_ptr<QueueObserver> observer) override;
  PriorityRange priorities() override;
  NativeStream examine_stream(void* native) override;
  std::unique_ptr<Queue> wrap_queue(const NativeStream& native, std::shared_ptr<QueueObserver> observer) override;
  std::unique_ptr<Queue> guest_queue(void* native, std::shared_ptr<QueueObserver> observer) override;
  bool waits_for(const Backend& other) const noexcept override { return other.kind() == DeviceKind::Cuda; }
  bool queues_hold_storages() const noexcept override { return false; }
  void copy(void* to, const void* from, std::size_t bytes) override;
  void fill(void* to, std::uint8_t value, std::size_t bytes) override;
  bool host_accessible() const noexcept override { return false; }
  std::shared_ptr<const Launchable> pattern_fill() const override { return pattern_fill_; }
  std::shared_ptr<const Launchable> range_copy() const override { return range_copy_; }
  std::shared_ptr<const Launchable> range_fill() const override { return range_fill_; }
  std::shared_ptr<const Launchable> transfer_copy(Backend& other) override;
  std::shared_ptr<void> make_host_memory(std::size_t bytes) override;
  MemoryFigures memory_figures() override;
  void trim_memory() override;
  std::shared_ptr<const TimeMark> make_time_mark() override;
  std::shared_ptr<const GraphWork> make_graph(std::shared_ptr<const GraphRecording> recording) override;
  void verify_foreign(const void* memory, std::size_t bytes) override;
  void end_when_idle(HandedBack* memory) noexcept override { handed_back_.add(memory); }
  bool end_handed_back() override { return handed_back_.finish(); }

  // -- for its parts --
  const Context& context() const noexcept { return context_; }
  const Driver& driver() const noexcept { return context_.driver(); }
  const DeviceInfo& info() const noexcept { return info_; }
  DeviceMemory& memory() noexcept { return *memory_; }
  EventPool& events() noexcept { return events_; }
  StreamPool& streams() noexcept { return streams_; }
  Outcomes& outcomes() noexcept { return outcomes_; }
  RetiredOwners& owners() noexcept { return owners_; }
  /// Whether kernels of at most one other queue were launched since this queue's last one. With more streams, kernels
  /// that wait for their predecessors hold back those of other streams (bench/notes/streams.md).
  bool launches_among_two(const Queue& queue) const noexcept {
    return last_.load(std::memory_order_relaxed) == &queue || before_.load(std::memory_order_relaxed) == &queue;
  }
  /// A kernel was launched by this queue.
  void launched(const Queue& queue) noexcept {
    const Queue* last = last_.load(std::memory_order_relaxed);
    if (last == &queue) return;
    before_.store(last, std::memory_order_relaxed);
    last_.store(&queue, std::memory_order_relaxed);
  }
  ConditionKernel& conditions() noexcept { return *conditions_; }
  /// Releases foreign memory that the device no longer uses. The caller holds no lock.
  void poll() noexcept {
    owners_.poll();
    handed_back_.poll();
  }
  /// The host has waited for the work of `track` up to `number`. The caller holds no lock.
  void ended(Track& track, std::uint64_t number);

 private:
  int ordinal_;
  Context context_;
  DeviceInfo info_;
  EventPool events_;
  StreamPool streams_;
  Outcomes outcomes_;
  RetiredOwners owners_;
  HandedBackMemory handed_back_;
  std::unique_ptr<ConditionKernel> conditions_;
  std::unique_ptr<DeviceMemory> memory_;
  std::shared_ptr<const Launchable> pattern_fill_, range_copy_, range_fill_;
  PeerCopies peers_;
  // Queues that have launched kernels: the last one, and the last other one. Only compared; threads may mix them up.
  std::atomic<const Queue*> last_{nullptr}, before_{nullptr};
};

/// The properties of GPU `ordinal`, without creating a context. Throws DeviceError.
DeviceInfo describe(const Driver& driver, int ordinal);

/// The backend of GPU `ordinal` of the installed driver; made on first use, never destroyed. Throws DeviceError.
CudaBackend& backend_of(int ordinal);
/// The backend behind a device of kind Cuda. Throws InternalError for another kind.
CudaBackend& backend_of(Device device);

}  // namespace tessera::runtime::cuda
