// A storage: device memory with its leases (which operations on the host may use it), its stream order (which work on
// the device uses it) and the failure it may carry. Tensors and views share it; nothing else owns memory.
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
#include "tessera/runtime/access.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/small_vector.hpp"
#include "tessera/runtime/spin_mutex.hpp"

namespace tessera::runtime {

struct StorageOptions {
  std::string_view label{};  ///< its name in errors; empty: "a tensor"
  /// Checked mode: remember which elements were ever written. Where the host can address the memory, one byte for each
  /// byte (written_map); elsewhere a shadow.
  bool track_writes = false;
  std::size_t element_bytes = 1;  ///< element size of a shadow; divides the storage's size
  bool poison = false;     ///< fill with 0xFF bytes (NaN in every floating type, -1 in the integers); not "written"
  SourceLocation where{};  ///< the user's line, for errors
  bool exclusive = true;   ///< adopt: reject memory that another adopted storage covers
  bool guest = false;      ///< adopt: of a guest stream (guest.hpp), and therefore neither verified nor claimed
};

/// The number of streams that may read one storage at a time before its list of readers allocates.
inline constexpr std::size_t kInlineReads = 4;

/// A use of memory by work that may still run: work `number` of a stream, or an earlier one.
struct Use {
  std::shared_ptr<StreamCore> stream;
  std::uint64_t number = 0;
};

/// A failure of work, carried by what it wrote; shared by all results that depend on it.
struct Failure {
  std::exception_ptr error;
  std::atomic<bool> delivered{false};  ///< thrown to the user at least once: Stream::synchronize need not repeat it
};
using FailureRef = std::shared_ptr<Failure>;

class Storage : public std::enable_shared_from_this<Storage> {
  struct Private {};

 public:
  /// Size in bytes, from data().
  struct Range {
    std::size_t offset = 0, bytes = 0;
  };

  /// New memory of `bytes` bytes (0 is allowed) on `device`, aligned to kStorageAlignment, not initialised. Throws
  /// DeviceError if the device has not enough memory; nothing is leaked then.
  static StorageRef allocate(Device device, std::size_t bytes, const StorageOptions& = {});
  /// The same, for memory whose first use will be on `stream`: the device may reuse memory that the stream frees,
  /// before the stream has reached that point. Other streams and the host first wait for `stream` up to this point, as
  /// after a write.
  static StorageRef allocate(const std::shared_ptr<StreamCore>& stream, std::size_t bytes, const StorageOptions& = {});
  /// Foreign memory; `owner` is kept until the last use has ended and then released. Counts as written. Throws
  /// BorrowError if a storage over some of the same bytes exists, DeviceError for an impossible range. Comes behind the
  /// work in flight of one that has ended.
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
  /// True if only guest streams may use it (guest.hpp).
  bool guest() const noexcept { return guest_; }
  /// What keeps foreign memory; of memory that a guest stream allocated: GuestMemory::Block::owner.
  const std::shared_ptr<void>& owner() const noexcept { return owner_; }

  // -- ownership and published addresses --
  /// Changes whenever the owner does: a tensor was moved, shared, assigned another, or created from it. Lends made
  /// before are invalid then.
  std::uint64_t ownership() const noexcept { return ownership_.load(std::memory_order_relaxed); }
  /// Called by the only owner.
  void change_owner() noexcept { ownership_.store(ownership() + 1, std::memory_order_relaxed); }
  /// The storage belongs to several read-only handles, which all hold `owners`.
  void set_shared(const std::shared_ptr<void>& owners) noexcept;
  /// True while such handles exist: nothing may write the contents.
  bool is_shared() const noexcept;
  /// The address is passed outside the library: from now on adopt() rejects this memory. Throws BorrowError if it is
  /// part of an adopted storage already.
  void publish_address(SourceLocation where);

  // -- host waits (lease first, then wait, then touch) --
  /// Blocks until the contents are complete. Throws the failure that they carry, every time (docs/runtime.md).
  void wait_written();
  /// The work that wrote the contents last; an empty ticket if none did.
  Ticket last_write() const noexcept;
  /// Blocks until it is known whether the work that wrote the contents last has failed. Does not throw its failure.
  void wait_outcome();
  /// Blocks until no work uses the storage at all, so that the host may write. Does not throw the work's failures.
  void wait_unused();

  // -- checked mode ---------------------------------------------------------------------------------------------
  /// One byte per byte of memory, nonzero once written; null if everything counts as written.
  std::uint8_t* written_map() const noexcept { return tracked() ? written_.get() : nullptr; }
  /// The host wrote [offset, offset + bytes); clears a carried failure if that is the whole storage.
  void host_wrote(std::size_t offset, std::size_t bytes) noexcept;
  /// One byte in the device's memory for each element: 0 once written, calling::kNeverWritten before. Kernels that are
  /// compiled for checked mode update it. Null if everything counts as written. It is part of the storage's allocation,
  /// so its lifetime and order are those of the elements.
  std::byte* shadow() const noexcept { return tracked() && shadow_bytes_ != 0 ? data() + shadow_at_ : nullptr; }
  std::size_t shadow_element_bytes() const noexcept { return shadow_grain_; }
  /// The bytes of the shadow that belong to the elements in [offset, offset + bytes) of a storage that has one.
  Range shadow_range(std::size_t offset, std::size_t bytes) const noexcept;
  /// From now on everything counts as written: all of it is written, or writes are not tracked.
  void count_as_written() noexcept {
    if (tracked()) tracked_.store(false, std::memory_order_relaxed);
  }
  /// Marks [offset, offset + bytes) as written in the shadow, if there is one; returns when done. For writes of the
  /// host. Throws DeviceError.
  void mark_written(std::size_t offset, std::size_t bytes);

  // -- for submit() and queues --
  /// Makes work that `stream` enqueues from now on wait for all conflicting accesses: the last writer, and for writes
  /// also the readers since, if they are on other streams. Reserves what note() needs.
  void order(const std::shared_ptr<StreamCore>& stream, AccessMode mode);
  /// Records that work `number` of `stream`, just enqueued, uses the storage. Cannot fail after order(). Releases
  /// `lease` (of this storage), if there is one.
  void note(const std::shared_ptr<StreamCore>& stream, std::uint64_t number, AccessMode mode,
            LeaseLink* lease = nullptr) noexcept;
  /// All that has been enqueued on the stream so far, by anyone, is taken for a use. Throws DeviceError.
  void record(const std::shared_ptr<StreamCore>& stream, AccessMode mode);
  /// Undoes order(): its work was not enqueued.
  void forget(AccessMode mode) noexcept;
  /// True if the last writer may be work of `stream` after work `number`: always for foreign memory, whose other
  /// writers are unknown. `stream` has been ordered after every other writer (order()).
  bool may_be_written_after(const StreamCore& stream, std::uint64_t number) const noexcept;
  /// The failure that the contents carry; empty if none. Meaningful in device order (in a queue's work) or after
  /// wait_*.
  FailureRef failure() const noexcept;
  void set_failure(FailureRef failure) noexcept;
  bool has_failure() const noexcept { return has_failure_.load(std::memory_order_acquire); }

  // -- for the plan of a graph's temporaries, while nothing but its recording refers to the storage --
  /// True if the contents may be elsewhere: the address is known here only, and no work uses it.
  bool movable() const noexcept;
  /// Gives the memory back. data() is not valid until place().
  void leave_memory() noexcept;
  /// The address before leave_memory().
  const std::byte* planned_from() const noexcept { return left_; }
  /// From now on the storage is a part of `arena`, which it keeps alive.
  void place(const StorageRef& arena, std::size_t offset) noexcept;

  // -- for devices that report failures late --
  /// The last work that wrote the contents, while it is unknown whether it failed; empty otherwise. The backend
  /// resolves it, at the latest when the host has waited for that work.
  std::shared_ptr<void> pending_outcome() const noexcept;
  void set_pending_outcome(std::shared_ptr<void> outcome) noexcept;
  /// The same of work that overwrites the contents completely: a failure that they carry ends.
  void set_overwritten(std::shared_ptr<void> outcome) noexcept;
  /// The work of `outcome` has ended: if it is still the last writer, the contents carry `failure` (or none) from now
  /// on.
  void resolve_outcome(const void* outcome, FailureRef failure) noexcept;

 private:
  friend class LeaseLink;
  bool tracked() const noexcept { return tracked_.load(std::memory_order_relaxed); }
  void wait_for_others(const std::shared_ptr<StreamCore>& stream, AccessMode mode);
  static StorageRef make(Device, const std::shared_ptr<StreamCore>& stream, std::size_t bytes, const StorageOptions&);
  static StorageRef make_guest(StreamCore& stream, std::size_t bytes, const StorageOptions&);
  void check_host_may_wait() const;
  void set_shadow(const StorageOptions&);
  void get_memory(const std::shared_ptr<StreamCore>& stream);
  void take_memory(const std::shared_ptr<StreamCore>& stream);
  void allocate_memory(const std::shared_ptr<StreamCore>& stream, std::size_t bytes);
  void allocate_from(std::shared_ptr<Allocator> allocator, std::shared_ptr<StreamCore> stream, std::size_t bytes);
  std::size_t allocated_bytes() const noexcept;
  void drop_ended_reads();

  // Members that every launch uses are adjacent.
  void* memory_;
  Device device_;
  std::atomic<bool> has_failure_{false};
  std::atomic<bool> tracked_{false};  // there is a map or a shadow, and it is used
  mutable SpinMutex mutex_;           // everything down to shared_
  std::atomic<std::uint64_t> ownership_{0};
  LeaseLink* leases_ = nullptr;  // the holders: any number of readers or one writer
  Use last_write_;
  std::uint32_t reserved_reads_ = 0;       // reads between order() and note(): capacity is reserved for them
  std::size_t most_reads_ = kInlineReads;  // with so many readers, those that have ended are looked for
  SmallVector<Use, kInlineReads> reads_;   // since the last write, one per stream
  FailureRef failure_;
  std::shared_ptr<void> pending_outcome_;
  std::weak_ptr<void> shared_;

  std::size_t bytes_;
  std::shared_ptr<void> owner_;
  std::shared_ptr<Allocator> allocator_;  // gave the memory; null: the backend did
  bool foreign_;
  bool of_queue_ = false;  // a queue gave the memory
  bool guest_ = false;
  bool published_ = false;  // guarded by the mutex of foreign_memory.cpp
  std::string label_;
  std::unique_ptr<std::uint8_t[]> written_;
  const std::byte* left_ = nullptr;                                  // leave_memory()
  std::size_t shadow_at_ = 0, shadow_bytes_ = 0, shadow_grain_ = 0;  // where it begins, from data(); 0 bytes: none
};

}  // namespace tessera::runtime
