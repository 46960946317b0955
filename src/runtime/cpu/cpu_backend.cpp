// Memory and queues of the CPU. The default stream runs its work at once, on the calling thread; each other stream has
// its own thread.
#include "runtime/cpu/cpu_backend.hpp"

#include <unistd.h>

#include <cstring>

#include "runtime/cpu/block_cache.hpp"
#include "runtime/cpu/immediate_queue.hpp"
#include "runtime/cpu/thread_queue.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/fork.hpp"
#include "tessera/base/format.hpp"
#include "tessera/base/sanitizers.hpp"

namespace tessera::runtime {

namespace {

/// The machine's memory in bytes. Larger allocations are rejected: the operating system might grant them and kill the
/// process later (overcommit).
std::size_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : ~std::size_t{0};
}

std::size_t free_memory() {
  const long pages = sysconf(_SC_AVPHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : 0;
}

/// The address sanitizer has to see every use of freed memory, so nothing is reused under it.
constexpr bool kSanitized = TESSERA_ASAN != 0;

/// One per process: another thread may have been using the cache when the process was forked.
struct Blocks : BlockCache {
  Blocks() : BlockCache(kSanitized ? 0 : physical_memory() / 8) {}
};

class CpuBackend final : public Backend {
 public:
  DeviceKind kind() const noexcept override { return DeviceKind::Cpu; }
  int ordinal() const noexcept override { return 0; }
  const std::string& name() const noexcept override { return name_; }

  void* allocate(std::size_t bytes) override {
    void* memory = bytes <= memory_ ? blocks_.get().take(bytes) : nullptr;
    if (memory != nullptr) return memory;
    throw_out_of_memory(name_, {bytes, account().in_use(), account().limit(), free_memory(), memory_});
  }
  MemoryFigures memory_figures() override {
    return {account().in_use() + blocks_.get().kept(), free_memory(), memory_};
  }
  void trim_memory() override { blocks_.get().trim(); }
  void free(void* memory, std::size_t bytes) noexcept override { blocks_.get().give(memory, bytes); }
  std::unique_ptr<Queue> make_queue(bool is_default, std::shared_ptr<QueueObserver> observer) override {
    if (is_default) return make_immediate_queue(*this, std::move(observer));
    return make_thread_queue(*this, std::move(observer));
  }
  bool queues_hold_storages() const noexcept override { return true; }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memmove(to, from, bytes); }
  void fill(void* to, std::uint8_t value, std::size_t bytes) override { std::memset(to, value, bytes); }
  bool host_accessible() const noexcept override { return true; }

 private:
  std::string name_ = "cpu";
  std::size_t memory_ = physical_memory();
  PerProcess<Blocks> blocks_;
};

}  // namespace

Backend& cpu_backend() {
  static CpuBackend& backend = *new CpuBackend;
  return backend;
}

}  // namespace tessera::runtime
