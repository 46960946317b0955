// A device whose memory the host cannot access, without kernels: the driver does fills and copies, everything else is
// staged, because no kernel can be compiled for it.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::runtime {

inline int far_fills = 0, far_copies = 0;

class FarEvent final : public Event {
 public:
  explicit FarEvent(const Backend& backend) : backend_(backend) {}
  bool done() const override { return true; }
  void wait() const override {}
  const Backend& backend() const noexcept override { return backend_; }

 private:
  const Backend& backend_;
};

class FarQueue final : public Queue {
 public:
  explicit FarQueue(Backend& backend) : backend_(backend) {}
  void launch(const Submission& s, std::uint64_t) override { s.work->launch({s.grid, s.args, s.accesses}); }
  EventRef record() override { return std::make_shared<FarEvent>(backend_); }
  void wait(const EventRef&) override {}
  void release(Retired& memory) override {
    if (memory.memory != nullptr) backend_.free(memory.memory, memory.bytes);
    memory.owner.reset();
  }
  void synchronize() override {}

 private:
  Backend& backend_;
};

/// Host memory that is treated as inaccessible to the host.
class FarDevice final : public Backend {
 public:
  ~FarDevice() override { close_default_stream(); }
  DeviceKind kind() const noexcept override { return DeviceKind::Fake; }
  int ordinal() const noexcept override { return 0; }
  const std::string& name() const noexcept override { return name_; }
  void* allocate(std::size_t bytes) override {
    void* memory = ::operator new(bytes, std::align_val_t(kStorageAlignment));
    std::memset(memory, 0xA5, bytes);
    return memory;
  }
  void free(void* memory, std::size_t) noexcept override {
    ::operator delete(memory, std::align_val_t(kStorageAlignment));
  }
  std::unique_ptr<Queue> make_queue(bool, std::shared_ptr<QueueObserver>) override {
    return std::make_unique<FarQueue>(*this);
  }
  bool queues_hold_storages() const noexcept override { return false; }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, std::uint8_t value, std::size_t bytes) override { std::memset(to, value, bytes); }
  bool host_accessible() const noexcept override { return false; }
  std::shared_ptr<const Launchable> pattern_fill() const override {
    return host_work([](const LaunchContext& c) {
      ++far_fills;
      const Storage& to = *c.accesses[0].storage;
      ASSERT_EQ(to.bytes() % c.args[1], 0u);
      for (std::size_t i = 0; i < to.bytes(); i += c.args[1]) std::memcpy(to.data() + i, &c.args[0], c.args[1]);
    });
  }
  std::shared_ptr<const Launchable> range_copy() const override {
    return host_work([](const LaunchContext& c) {
      ++far_copies;
      std::memcpy(c.accesses[0].storage->data() + c.args[0], c.accesses[1].storage->data() + c.args[1], c.args[2]);
    });
  }

 private:
  std::string name_ = "far";
};

}  // namespace tessera::runtime
