// Kernels that follow each other in a graph and may overlap: each of them is launched with programmatic dependent
// launch and waits for the one before it.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cuda/kernel.hpp"
#include "runtime/cuda/launch_state.hpp"
#include "tessera/runtime/graph.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::runtime::cuda {

/// What the kernels of a chain write. The first of a chain starts after everything before it has ended, so when a later
/// one starts, only kernels of its chain may still run that it has to come after.
class GraphChain {
 public:
  struct Range {
    std::uint64_t begin, end;
    bool overlaps(const Range& other) const noexcept { return begin < other.end && other.begin < end; }
  };
  static Range range_of(const Storage& storage) noexcept {
    const auto begin = reinterpret_cast<std::uintptr_t>(storage.data());
    return {begin, begin + storage.bytes()};
  }

  /// The next kernel starts after everything before it.
  void restart() noexcept {
    written_.clear();
    raw_writes_ = false;
  }
  /// A kernel has been added. `raw_writes`: it may write outside its tensors.
  void add(std::span<const Access> accesses, bool raw_writes) {
    raw_writes_ = raw_writes_ || raw_writes;
    for (const Access& access : accesses) {
      if (access.mode != AccessMode::Read) add(range_of(*access.storage));
    }
  }
  bool may_write(const Range& range) const noexcept {
    const auto next = written_.lower_bound(range.end);  // the first that begins at its end or later
    return raw_writes_ || (next != written_.begin() && std::prev(next)->second > range.begin);
  }

 private:
  void add(Range range) {
    if (range.begin == range.end) return;
    auto next = written_.upper_bound(range.begin);
    if (next != written_.begin() && std::prev(next)->second >= range.begin) --next;
    if (next != written_.end() && next->first <= range.begin && next->second >= range.end) return;  // known
    while (next != written_.end() && next->first <= range.end) {  // what it touches becomes part of it
      range.begin = std::min(range.begin, next->first);
      range.end = std::max(range.end, next->second);
      next = written_.erase(next);
    }
    written_.emplace_hint(next, range.begin, range.end);
  }

  std::map<std::uint64_t, std::uint64_t> written_;  // disjoint ranges: begin to end
  bool raw_writes_ = false;
};

/// A kernel that is captured: the work, and what it touches.
struct ChainedKernel {
  const KernelWork* kernel = nullptr;
  const RecordedWork* entry = nullptr;

  bool may_write(const GraphChain::Range& range) const noexcept {
    return kernel->raw_writes() || std::any_of(entry->accesses.begin(), entry->accesses.end(), [&](const Access& a) {
             return a.mode != AccessMode::Read && GraphChain::range_of(*a.storage).overlaps(range);
           });
  }
};

/// The launch of one kernel while it is captured.
class CaptureLaunch final : public LaunchState {
 public:
  /// `follows_kernel`: the only thing that it comes after is the kernel before it, and it may start before that one has
  /// ended. `predecessor`: that kernel, if `chain` has the kernels before it only; else null.
  CaptureLaunch(const GraphChain& chain, const ChainedKernel* predecessor, const RecordedWork& entry,
                bool follows_kernel)
      : chain_(chain), predecessor_(predecessor), entry_(entry), follows_kernel_(follows_kernel) {}

  bool follows_kernel() const noexcept override { return follows_kernel_; }
  bool no_writer_in_flight(std::uint64_t address) const noexcept override {
    bool known = false;
    for (const Access& access : entry_.accesses) {
      const GraphChain::Range range = GraphChain::range_of(*access.storage);
      if (address < range.begin || address >= range.end) continue;
      if (chain_.may_write(range) || (predecessor_ != nullptr && predecessor_->may_write(range))) return false;
      known = true;  // go on: borrowed memory of another access may be the same
    }
    return known;
  }
  bool successor_gains(std::uint64_t) const noexcept override { return successor_gains_; }
  void set_successor_gains(bool gains) noexcept { successor_gains_ = gains; }
  /// All replays would share one record.
  std::optional<CUdeviceptr> error_record(const std::shared_ptr<const std::vector<calling::Check>>&) override {
    return {};
  }
  SourceLocation where() const noexcept override { return entry_.where; }
  void enqueued_kernel(const KernelLaunch&) noexcept override {}

 private:
  const GraphChain& chain_;
  const ChainedKernel* predecessor_;
  const RecordedWork& entry_;
  bool follows_kernel_, successor_gains_ = false;
};

/// The launch of a kernel whose numbers change in a graph: it starts after everything before it.
class UpdateLaunch final : public LaunchState {
 public:
  UpdateLaunch(bool successor_gains, SourceLocation where) : successor_gains_(successor_gains), where_(where) {}
  bool follows_kernel() const noexcept override { return false; }
  bool no_writer_in_flight(std::uint64_t) const noexcept override { return false; }
  bool successor_gains(std::uint64_t) const noexcept override { return successor_gains_; }
  std::optional<CUdeviceptr> error_record(const std::shared_ptr<const std::vector<calling::Check>>&) override {
    return {};
  }
  SourceLocation where() const noexcept override { return where_; }
  void enqueued_kernel(const KernelLaunch&) noexcept override {}

 private:
  bool successor_gains_;
  SourceLocation where_;
};

}  // namespace tessera::runtime::cuda
