// Copies between two GPUs: directly where their hardware is connected, else by the driver through host memory.
#pragma once
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tessera/runtime/backend.hpp"

namespace tessera::runtime::cuda {

class CudaBackend;

/// The copies of one GPU with others, each made at its first use.
class PeerCopies {
 public:
  explicit PeerCopies(CudaBackend& self) : self_(self) {}
  PeerCopies(const PeerCopies&) = delete;
  PeerCopies& operator=(const PeerCopies&) = delete;

  /// Throws DeviceError.
  std::shared_ptr<const Launchable> copy_with(CudaBackend& other);

 private:
  CudaBackend& self_;
  std::mutex mutex_;
  std::vector<std::pair<CudaBackend*, std::shared_ptr<const Launchable>>> copies_;
};

}  // namespace tessera::runtime::cuda
