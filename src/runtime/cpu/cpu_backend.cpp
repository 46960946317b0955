// Memory and queues of the CPU. The default stream runs its work at once, on the calling thread; a stream that the user
// makes is a thread of its own.
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

/// The machine's memory in bytes. More than this is refused, because the kernel would promise it and kill the process
/// later.
std::size_t physical_memory() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : ~std::size_t{0};
}

/// The address sanitizer has to see every use of freed memory, so nothing is reused under it.
constexpr bool kSanitized = TESSERA_ASAN != 0;

/// Another thread may have been in the middle of the cache when this process was forked.
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
    throw DeviceError(concat("out of memory on cpu: ", bytes, " bytes asked for, the machine has ", memory_,
                             " bytes in all.\n  Free tensors that are not needed, or use smaller ones."));
  }
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
