// Times launches one by one, with the device's clock where there is one. The caches are flushed before each.
#pragma once
#include <memory>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/timing.hpp"

namespace tessera::detail {

class TuneTimer {
 public:
  /// `warm`: caches are not flushed.
  TuneTimer(Device device, bool warm) : stream_(device) {
    if (warm || device.kind() != DeviceKind::Cuda || !device.backend().pattern_fill()) return;
    // Twice the size of the L2 cache: writing it evicts everything else.
    const std::size_t bytes = 2 * runtime::cuda::device_info(device).l2_bytes / 256 * 256;
    if (bytes > 0) scratch_ = runtime::Storage::allocate(device, bytes);
  }

  /// Milliseconds of `count` launches, each of an operation that make() returns. Rethrows its exceptions.
  template <class F>
  std::vector<double> time(int count, F&& make) {
    using Mark = std::shared_ptr<const runtime::TimeMark>;
    std::vector<std::pair<Mark, Mark>> marks;
    for (int i = 0; i < count; ++i) {
      if (scratch_) runtime::overwrite(stream_, scratch_, "flushing the caches");
      auto op = make();
      Mark before = runtime::place_time_mark(stream_);
      std::move(op).on(stream_);
      marks.emplace_back(std::move(before), runtime::place_time_mark(stream_));
    }
    stream_.synchronize();
    std::vector<double> ms;
    for (const auto& [before, after] : marks) ms.push_back(after->seconds_since(*before) * 1e3);
    return ms;
  }

 private:
  Stream stream_;
  runtime::StorageRef scratch_;
};

}  // namespace tessera::detail
