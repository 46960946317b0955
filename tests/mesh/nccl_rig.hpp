// GPUs of the fake CUDA driver with the fake NCCL on top, and members of a group in threads of their own.
#pragma once
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mesh/fake_nccl.hpp"
#include "mesh/nccl_communicator.hpp"
#include "runtime/cuda_fake_gpu.hpp"
#include "tessera/base/error.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::mesh::fake {

/// The fake libraries are beside the test's program.
inline std::string library_path(const std::string& name) {
  char path[4096] = {};
  if (readlink("/proc/self/exe", path, sizeof path - 1) < 0) return name;
  const std::string self(path);
  return self.substr(0, self.rfind('/') + 1) + "lib" + name + ".so";
}

inline Nccl& nccl_fake(const nccl::Library& library) {
  void* const handle = dlopen(library.path.c_str(), RTLD_NOW | RTLD_LOCAL);
  return *reinterpret_cast<Nccl* (*)()>(dlsym(handle, "fake_nccl"))();
}

namespace cuda = runtime::cuda::fake;

class NcclRig final : public Driver {
 public:
  explicit NcclRig(int devices)
      : library(nccl::open_library(library_path("fake_nccl"))), fake(nccl_fake(library)), cuda_(devices) {
    for (int i = 0; i < devices; ++i) gpus_.push_back(std::make_unique<cuda::FakeGpu>(cuda_, i));
    fake.reset(this);
    // The GPUs run by themselves.
    stepper_ = std::thread([this] {
      for (std::uint64_t i = 0; !stop_.load(); ++i) {
        if (paused_.load() || !cuda_.step(i * 7)) std::this_thread::yield();
      }
    });
  }
  ~NcclRig() override { stop(); }
  /// While paused, the GPUs run nothing by themselves.
  void pause(bool on) { paused_.store(on); }
  void stop() {
    stop_.store(true);
    if (!stepper_.joinable()) return;
    stepper_.join();
    cuda_.run_all();
    for (const auto& gpu : gpus_) gpu->backend.poll();  // memory of others is given back when its work has ended
  }

  int current_device() override { return cuda_.current_device_number(); }
  void enqueue(int device, void* stream, std::function<bool()> ready, std::function<void()> run) override {
    const InContext context(cuda_, device);
    cuda_.foreign_call(static_cast<runtime::cuda::CUstream>(stream), std::move(ready), std::move(run));
  }
  void* allocate(std::size_t bytes) override { return cuda_.foreign_allocate(bytes); }
  void free(void* memory) override { cuda_.foreign_free(memory); }
  bool live(const void* memory, std::size_t bytes) override {
    return cuda_.live(reinterpret_cast<std::uintptr_t>(memory), bytes);
  }

  cuda::FakeDriver& driver() { return cuda_; }
  runtime::cuda::CudaBackend& backend(int device) { return gpus_[static_cast<std::size_t>(device)]->backend; }
  Device device(int n) { return gpus_[static_cast<std::size_t>(n)]->device(); }

  /// A stream that another library has made.
  void* foreign_stream(int device) {
    const InContext context(cuda_, device);
    return cuda_.foreign_stream();
  }

  template <class T>
  runtime::StorageRef make(int n, const std::vector<T>& values) {
    auto storage = runtime::Storage::allocate(device(n), values.size() * sizeof(T));
    storage->wait_unused();
    if (!values.empty()) backend(n).copy(storage->data(), values.data(), values.size() * sizeof(T));
    return storage;
  }
  template <class T>
  std::vector<T> read(int n, const runtime::StorageRef& storage) {
    std::vector<T> values(storage->bytes() / sizeof(T));
    wait(*storage);
    backend(n).copy(values.data(), storage->data(), storage->bytes());
    return values;
  }
  /// Waits without the driver, which would not wait for work of other threads that is not enqueued yet.
  static void wait(const runtime::Storage& storage) {
    const runtime::Ticket last = storage.last_write();
    while (last.stream != nullptr && !last.stream->has_ended(last.number)) std::this_thread::yield();
  }

  const nccl::Library& library;
  Nccl& fake;

 private:
  class InContext {
   public:
    InContext(cuda::FakeDriver& driver, int device) : table_(driver.table()) {
      table_.cuCtxGetCurrent(&before_);
      table_.cuCtxSetCurrent(reinterpret_cast<runtime::cuda::CUcontext>(static_cast<std::uintptr_t>(device) + 1));
    }
    ~InContext() { table_.cuCtxSetCurrent(before_); }
    InContext(const InContext&) = delete;
    InContext& operator=(const InContext&) = delete;

   private:
    const runtime::cuda::Driver& table_;
    runtime::cuda::CUcontext before_ = nullptr;
  };

  cuda::FakeDriver cuda_;
  std::vector<std::unique_ptr<cuda::FakeGpu>> gpus_;
  std::atomic<bool> stop_{false}, paused_{false};
  std::thread stepper_;
};

}  // namespace tessera::mesh::fake
