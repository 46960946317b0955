// A storage: device memory with its leases (who may use it on the host's side), its stream order (who uses it on the
// device's side) and the failure it may carry. Tensors and views share it; nothing else owns memory.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/source_location.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/lease.hpp"
#include "tessera/runtime/small_vector.hpp"
#include "tessera/runtime/spin_mutex.hpp"

namespace tessera::runtime {

struct StorageOptions {
  std::string_view label{};  ///< how errors call it; empty: "a tensor"
  /// Checked mode: remember which elements were ever written. Where the host can address the memory, one byte for each
  /// byte (written_map); elsewhere a shadow.
  bool track_writes = false;
  std::size_t element_bytes = 1;  ///< of a shadow's elements; divides the storage's size
  bool poison = false;     ///< fill with 0xFF bytes (NaN in every floating type, -1 in the integers); not "written"
  SourceLocation where{};  ///< the user's line, for errors
  bool exclusive = true;   ///< adopt: refuse memory that another adopted storage covers
};

/// So many streams may read one storage at a time before its list of readers allocates.
inline constexpr std::size_t kInlineReads = 4;

/// A use of memory by work that may still be going on: the piece `number` of a stream, or an earlier one.
struct Use {
  std::shared_ptr<StreamCore> stream;
  std::uint64_t number = 0;
};

/// A failure that work left in what it wrote; shared by everything that it reached.
struct Failure {
  std::exception_ptr error;
  std::atomic<bool> delivered{false};  ///< thrown to the user at least once: Stream::synchronize need not repeat it
};
using FailureRef = std::shared_ptr<Failure>;

class Storage : public std::enable_shared_from_this<Storage> {
  struct Private {};

 public:
  static constexpr std::uint8_t kNeverWritten = 0xFF;  ///< in a shadow: what poison is made of
  /// Bytes from data().
  struct Range {
    std::size_t offset = 0, bytes = 0;
  };

  /// New memory of `bytes` bytes (0 is allowed) on `device`, aligned to kStorageAlignment, not initialised.
  /// Throws DeviceError if the device has not so much; nothing is leaked then.
  static StorageRef allocate(Device device, std::size_t bytes, const StorageOptions& = {});
  /// The same, for memory whose first use will be on `stream`: the device may take what that stream has freed, before
  /// it has got there. Other streams and the host wait for `stream` up to here first, as after a write.
  static StorageRef allocate(const std::shared_ptr<StreamCore>& stream, std::size_t bytes, const StorageOptions& = {});
  /// Foreign memory; `owner` is kept until the last use has ended and then released. Counts as written. Throws
  /// BorrowError if a storage over some of the same bytes exists or is still used by work in flight, DeviceError for an
  /// impossible range.
  static StorageRef adopt(Device device, void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                          const StorageOptions& = {});

  Storage(Private, Device device, void* memory, std::size_t bytes, std::shared_ptr<void> owner, std::string_view label);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  Device device() const noexcept { return device_; }
  std::byte* data() const noexcept { return static_cast<std::byte*>(memory_); }
  std::size_t bytes() const noexcept { return bytes_; }
  const std::string& label() const noexcept { return label_; }

  // -- who owns it, and who knows where it is --
  /// Changes whenever the owner does: a tensor was moved, shared, or made of it. What was lent before stands for an
  /// owner that is no more.
  std::uint64_t ownership() const noexcept { return ownership_.load(std::memory_order_relaxed); }
  /// Called by the only owner there is.
  void change_owner() noexcept { ownership_.store(ownership() + 1, std::memory_order_relaxed); }
  /// The address leaves the library: from now on adopt() refuses this memory to whoever brings it back as his own.
  /// Throws BorrowError if it is part of an adopted storage already.
  void publish_address(SourceLocation where);

  // -- host waits (lease first, then wait, then touch) --
  /// Blocks until the contents are there. Throws the failure that they carry, every time (docs/runtime.md).
  void wait_written();
  /// Blocks until no work uses the storage at all, so that the host may write. Does not throw the work's failures.
  void wait_unused();

  // -- checked mode ---------------------------------------------------------------------------------------------
  /// One byte per byte of memory, nonzero once written; null where everything counts as written.
  std::uint8_t* written_map() const noexcept { return tracked() ? written_.get() : nullptr; }
  /// The host wrote [offset, offset + bytes); a carried failure ends if that is everything.
  void host_wrote(std::size_t offset, std::size_t bytes) noexcept;
  /// One byte in the device's memory for each element: 0 once written, kNeverWritten before. Kernels that are compiled
  /// for checked mode keep it. Null where everything counts as written. It is part of the storage's allocation, so it
  /// lives and is ordered as its elements are.
  std::byte* shadow() const noexcept { return tracked() && shadow_bytes_ != 0 ? data() + shadow_at_ : nullptr; }
  std::size_t shadow_element_bytes() const noexcept { return shadow_grain_; }
  /// The bytes of the shadow that belong to the elements in [offset, offset + bytes) of a storage that has one.
  Range shadow_range(std::size_t offset, std::size_t bytes) const noexcept;
  /// From now on everything counts as written: somebody writes all of it, or writes without telling.
  void count_as_written() noexcept {
    if (tracked()) tracked_.store(false, std::memory_order_relaxed);
  }
  /// Marks [offset, offset + bytes) in the shadow, if there is one, and returns when done: for writes of the host.
  /// Throws DeviceError.
  void mark_written(std::size_t offset, std::size_t bytes);

  // -- for submit() and queues --
  /// Makes work that `stream` enqueues from now on wait for whatever conflicts with an access of this kind: the last
  /// writer, and for writes also the readers since, as far as they are on other streams. Reserves what note() needs.
  void order(const std::shared_ptr<StreamCore>& stream, AccessMode mode);
  /// The work `number` of `stream`, just enqueued, uses the storage. Cannot fail after order().
  /// Releases `lease` (of this storage), if there is one.
  void note(const std::shared_ptr<StreamCore>& stream, std::uint64_t number, AccessMode mode,
            LeaseLink* lease = nullptr) noexcept;
  /// The work for which order() was called is not enqueued after all.
  void forget(AccessMode mode) noexcept;
  /// True if what last wrote it may be work of `stream` behind the piece `number`: always for foreign memory, which
  /// others write without a word. Every other writer is one that `stream` has been ordered behind (order()).
  bool may_be_written_after(const StreamCore& stream, std::uint64_t number) const noexcept;
  /// The failure that the contents carry; empty if none. Meaningful in device order (in a queue's work) or after
  /// wait_*.
  FailureRef failure() const noexcept;
  void set_failure(FailureRef failure) noexcept;
  bool has_failure() const noexcept { return has_failure_.load(std::memory_order_acquire); }

  // -- for devices that learn late whether work has failed --
  /// The last work that wrote the contents, as long as nobody knows whether it failed; empty otherwise. The backend's
  /// own; it settles it at the latest when the host has waited for that work.
  std::shared_ptr<void> open_outcome() const noexcept;
  void set_open_outcome(std::shared_ptr<void> outcome) noexcept;
  /// The work behind `outcome` has ended: if the contents are still its own, they carry `failure` (or none) from now
  /// on.
  void settle_outcome(const void* outcome, FailureRef failure) noexcept;

 private:
  friend class LeaseLink;
  bool tracked() const noexcept { return tracked_.load(std::memory_order_relaxed); }
  void order_behind_others(const std::shared_ptr<StreamCore>& stream, AccessMode mode);
  static StorageRef make(Device, const std::shared_ptr<StreamCore>& stream, std::size_t bytes, const StorageOptions&);
  void set_shadow(const StorageOptions&);
  void get_memory(const std::shared_ptr<StreamCore>& stream);
  std::size_t allocated_bytes() const noexcept;
  void drop_ended_reads();

  // What every launch touches stands together.
  void* memory_;
  Device device_;
  std::atomic<bool> has_failure_{false};
  std::atomic<bool> tracked_{false};  // there is a map or a shadow, and it counts
  mutable SpinMutex mutex_;           // everything down to open_outcome_
  std::atomic<std::uint64_t> ownership_{0};
  LeaseLink* leases_ = nullptr;  // who holds it: any number of readers or one writer
  Use last_write_;
  std::size_t reads_to_come_ = 0;         // order() without note() so far: the room that is kept for them
  SmallVector<Use, kInlineReads> reads_;  // since the last write, one per stream
  FailureRef failure_;
  std::shared_ptr<void> open_outcome_;

  std::size_t bytes_;
  std::shared_ptr<void> owner_;
  bool foreign_;
  bool published_ = false;  // guarded by the mutex of foreign_memory.cpp
  std::string label_;
  std::unique_ptr<std::uint8_t[]> written_;
  std::size_t shadow_at_ = 0, shadow_bytes_ = 0, shadow_grain_ = 0;  // where it begins, from data(); 0 bytes: none
};

}  // namespace tessera::runtime
