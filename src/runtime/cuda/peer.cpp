// Peer access between memory pools, and the copy itself.
#include "runtime/cuda/peer.hpp"

#include "runtime/cuda/backend.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::runtime::cuda {

namespace {

CUdeviceptr address(const Storage& storage) { return reinterpret_cast<std::uintptr_t>(storage.data()); }

class PeerCopy final : public Launchable {
 public:
  explicit PeerCopy(const Context& context) : context_(context) {}
  void launch(const LaunchContext& c) const override {
    const Storage &to = *c.accesses[0].storage, &from = *c.accesses[1].storage;
    context_.check(
        context_.driver().cuMemcpyPeerAsync(address(to) + c.args[0], context_of(to), address(from) + c.args[1],
                                            context_of(from), c.args[2], static_cast<CUstream>(c.native_queue)),
        "cuMemcpyPeerAsync", "copying between GPUs");
  }

 private:
  static CUcontext context_of(const Storage& storage) { return backend_of(storage.device()).context().handle(); }
  const Context& context_;
};

/// Lets `reader` access the memory of `owner` if the hardware can. Otherwise the driver stages the copies.
void open_pool(CudaBackend& owner, CudaBackend& reader) noexcept {
  const Driver& driver = owner.driver();
  int can = 0;
  if (driver.cuDeviceCanAccessPeer(&can, reader.context().device(), owner.context().device()) != CUDA_SUCCESS) return;
  if (can == 0) return;
  CUmemAccessDesc access;
  access.location.id = reader.context().device();
  (void)driver.cuMemPoolSetAccess(owner.memory().pool(), &access, 1);
}

}  // namespace

std::shared_ptr<const Launchable> PeerCopies::copy_with(CudaBackend& other) {
  std::lock_guard lock(mutex_);
  for (const auto& [backend, copy] : copies_) {
    if (backend == &other) return copy;
  }
  copies_.reserve(copies_.size() + 1);
  auto made = std::make_shared<const PeerCopy>(self_.context());
  const Current current(self_.context());
  open_pool(self_, other);
  open_pool(other, self_);
  copies_.emplace_back(&other, made);
  return made;
}

}  // namespace tessera::runtime::cuda
