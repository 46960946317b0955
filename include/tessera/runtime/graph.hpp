// What a captured flow submits, recorded for replay. docs/graphs.md.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {

/// A submission of a captured flow.
struct RecordedWork {
  std::shared_ptr<const Launchable> work;
  LaunchGrid grid;
  std::vector<std::uint64_t> args;
  std::vector<Access> accesses;    ///< without leases
  const char* label = "work";      ///< static or interned
  SourceLocation where{};          ///< the user's call
  std::vector<std::size_t> after;  ///< earlier entries that it conflicts with and that no other of them follows
};

/// Records submissions. One thread at a time.
class GraphRecording final : public CaptureSink {
 public:
  explicit GraphRecording(Device device) : device_(device) {}
  void add(const Submission& submission) override;

  Device device() const noexcept { return device_; }
  std::span<const RecordedWork> work() const noexcept { return work_; }
  /// Each storage once, with what all entries together do with it.
  std::span<const Access> accesses() const noexcept { return accesses_; }

 private:
  /// Of one storage: who wrote it last, and who has read it since.
  struct Uses {
    std::size_t writer = kNone;
    std::vector<std::size_t> readers;
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  Uses& uses_of(const Access& access);
  void order(RecordedWork& entry) const;

  Device device_;
  std::vector<RecordedWork> work_;
  std::vector<Access> accesses_;
  std::vector<Uses> uses_;                                   // as accesses_
  std::unordered_map<const Storage*, std::size_t> numbers_;  // of the storages in accesses_
};

/// While it lives, this thread captures into `recording`: submissions to other streams are rejected, and so are waits
/// of the host. Throws DeviceError if the thread captures already.
class CaptureScope {
 public:
  CaptureScope(GraphRecording& recording, SourceLocation where);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
  /// The stream whose submissions are recorded.
  const std::shared_ptr<StreamCore>& stream() const noexcept { return stream_; }

 private:
  std::shared_ptr<StreamCore> stream_;
};

/// Throws DeviceError if this thread captures: `what` cannot be captured. `instead` is what to do.
void check_not_capturing(const char* what, const char* instead, SourceLocation where = {});

}  // namespace tessera::runtime
