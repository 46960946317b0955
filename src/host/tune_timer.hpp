// Times launches one by one, by the device's clock where it has one, with its caches emptied before each.
#pragma once
#include <memory>
#include <vector>

#include "tessera/base/error.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::detail {

class TuneTimer {
 public:
  /// `warm`: caches are left as they are.
  TuneTimer(Device device, bool warm) : stream_(device) {
    flush_ = device.backend().pattern_fill();
    if (warm || !flush_ || device.kind() != DeviceKind::Cuda) return;
    // Twice the second-level cache: written, it holds nothing else.
    const std::size_t bytes = 2 * runtime::cuda::device_info(device).l2_bytes / 256 * 256;
    if (bytes > 0) scratch_ = runtime::Storage::allocate(device, bytes);
  }

  /// Milliseconds of `count` launches, each of the operation that make() gives. Throws what it throws.
  template <class F>
  std::vector<double> time(int count, F&& make) {
    using Mark = std::shared_ptr<const runtime::TimeMark>;
    std::vector<std::pair<Mark, Mark>> marks;
    for (int i = 0; i < count; ++i) {
      if (scratch_) overwrite();
      auto op = make();
      Mark before = place();
      std::move(op).on(stream_);
      marks.emplace_back(std::move(before), place());
    }
    stream_.synchronize();
    std::vector<double> ms;
    for (const auto& [before, after] : marks) ms.push_back(after->seconds_since(*before) * 1e3);
    return ms;
  }

 private:
  std::shared_ptr<const runtime::TimeMark> place() {
    auto mark = stream_.device().backend().make_time_mark();
    runtime::Submission s;
    s.work = mark;
    s.label = "a time mark";
    stream_.core()->submit(s);
    return mark;
  }
  void overwrite() {
    const std::uint64_t args[] = {0, 4};  // the pattern's bits and bytes
    const runtime::Access access{scratch_, runtime::AccessMode::Write};
    runtime::Submission s;
    s.work = flush_;
    s.args = args;
    s.accesses = {&access, 1};
    s.label = "emptying the caches";
    stream_.core()->submit(s);
  }

  Stream stream_;
  std::shared_ptr<const runtime::Launchable> flush_;
  runtime::StorageRef scratch_;
};

}  // namespace tessera::detail
