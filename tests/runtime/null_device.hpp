// A device on host memory that accepts all work and runs none: for tests of the host side.
#pragma once
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::runtime {

class NullDevice final : public Backend {
 public:
  ~NullDevice() override { close_default_stream(); }
  DeviceKind kind() const noexcept override { return DeviceKind::Fake; }
  int ordinal() const noexcept override { return 0; }
  const std::string& name() const noexcept override { return name_; }
  void* allocate(std::size_t bytes) override { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }
  void free(void* memory, std::size_t) noexcept override { std::free(memory); }
  std::unique_ptr<Queue> make_queue(bool, std::shared_ptr<QueueObserver>) override {
    return std::make_unique<NullQueue>(*this);
  }
  bool queues_hold_storages() const noexcept override { return false; }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, std::uint8_t value, std::size_t bytes) override { std::memset(to, value, bytes); }
  bool host_accessible() const noexcept override { return true; }

  /// How often a queue had to wait for another.
  int waits() const noexcept { return waits_; }

 private:
  struct Done final : Event {
    explicit Done(const Backend& device) : backend_(device) {}
    bool done() const override { return true; }
    void wait() const override {}
    const Backend& backend() const noexcept override { return backend_; }
    const Backend& backend_;
  };
  struct NullQueue final : Queue {
    explicit NullQueue(NullDevice& device) : device_(device), done_(std::make_shared<Done>(device)) {}
    void launch(const Submission&, std::uint64_t) override {}
    EventRef record() override { return done_; }
    void wait(const EventRef&) override { ++device_.waits_; }
    void release(Retired& memory) override { std::free(memory.memory); }
    void synchronize() override {}
    NullDevice& device_;
    EventRef done_;
  };
  std::string name_ = "null";
  std::atomic<int> waits_{0};
};

}  // namespace tessera::runtime
