// What work does with storages, and handles to work that was submitted: what the host's operations keep. The classes
// behind them are in storage.hpp, stream_core.hpp and backend.hpp.
//
// A lease is the right of an operation on the host to use a storage. Many readers or one writer; taken when an
// operation is built, held until it has been enqueued. The error of a conflict names both operations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tessera/base/source_location.hpp"

namespace tessera::runtime {

class Backend;
class Storage;
using StorageRef = std::shared_ptr<Storage>;
class StreamCore;
struct Failure;
using FailureRef = std::shared_ptr<Failure>;
class LeaseLink;

/// Submitted work, for wait(). Copyable; keeps the stream alive, not the storages.
struct Ticket {
  std::shared_ptr<StreamCore> stream;
  std::uint64_t number = 0;
};

/// How work uses a storage.
enum class AccessMode : std::uint8_t {
  Read,       ///< its contents are an input
  ReadWrite,  ///< input and output (a `Mut` piece may be loaded, or left as it was)
  Write,      ///< overwritten completely: an earlier failure does not matter
};

struct Access {
  StorageRef storage;
  AccessMode mode = AccessMode::Read;
  /// The caller's lease of `storage`. submit() releases it in the same step that records the use; nothing else reads
  /// it.
  LeaseLink* lease = nullptr;
};

// What the host's templates ask of a storage without its class. All but the first two accept an empty reference.

std::span<std::byte> bytes_of(const StorageRef& storage) noexcept;
std::uint64_t ownership_of(const StorageRef& storage) noexcept;
/// Makes a new handle the owner: lends made before become invalid.
void change_owner(const StorageRef& storage) noexcept;
/// `owners` counts the handles of a tensor that is shared; a replay that would write it asks (src/host/graph.cpp).
void set_shared(const StorageRef& storage, const std::shared_ptr<char>& owners) noexcept;

/// The holder of a lease, for error messages. The strings are static or interned: they outlive the lease.
struct Holder {
  const char* what = "an operation";  ///< "kernel saxpy", "host", "save_npy"
  int argument = 0;                   ///< 1-based number of its argument; 0: the whole operation
  const char* type = "";              ///< type of the argument: "In<f32, dyn>"
  SourceLocation where{};             ///< the user's call
  const void* operation = nullptr;    ///< equal for holders of one operation: "argument 3 and argument 1 of ..."
};

/// A lease as an entry in its storage's list; Lease contains one. It cannot be moved and does not keep the storage
/// alive: its owner must. Taking and releasing it costs one exchange of the storage's mutex each.
class LeaseLink {
 public:
  LeaseLink() noexcept = default;
  LeaseLink(const LeaseLink&) = delete;
  LeaseLink& operator=(const LeaseLink&) = delete;
  ~LeaseLink() { release(); }

  /// Throws BorrowError if another lease conflicts. The link is not held.
  void take(Storage& storage, bool exclusive, const Holder& holder);
  void release() noexcept {
    if (storage_ != nullptr) release_held();
  }
  Storage* storage() const noexcept { return storage_; }  ///< null if not held
  bool exclusive() const noexcept { return exclusive_; }
  const Holder& holder() const noexcept { return holder_; }

 private:
  friend class Storage;
  friend class Lease;
  bool try_take(Storage& storage, bool exclusive, const Holder& holder) noexcept;
  void release_held() noexcept;
  void take_over(LeaseLink& other) noexcept;  // takes its position in the list
  void link(Storage& storage) noexcept;       // under the storage's mutex
  void unlink() noexcept;                     // same
  Storage* storage_ = nullptr;
  LeaseLink *previous_ = nullptr, *next_ = nullptr;
  Holder holder_;
  bool exclusive_ = false;
};

/// A lease of one storage (kept alive by it). Movable, not copyable; empty after a move.
class Lease {
 public:
  Lease() noexcept = default;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease() { release(); }

  explicit operator bool() const noexcept { return storage_ != nullptr; }
  const StorageRef& storage() const noexcept { return storage_; }
  bool exclusive() const noexcept { return link_.exclusive(); }
  const Holder& holder() const noexcept { return link_.holder(); }
  void release() noexcept;

 protected:
  /// Throws BorrowError if another lease conflicts, or if `storage` is empty.
  Lease(StorageRef storage, bool exclusive, const Holder& holder);

 private:
  StorageRef storage_;
  LeaseLink link_;
};

/// The right to read: any number of readers at a time, but no writer.
class ReadLease : public Lease {
 public:
  ReadLease() noexcept = default;
  ReadLease(StorageRef storage, const Holder& holder) : Lease(static_cast<StorageRef&&>(storage), false, holder) {}
};

/// The right to write: one writer at a time, and no readers.
class WriteLease : public Lease {
 public:
  WriteLease() noexcept = default;
  WriteLease(StorageRef storage, const Holder& holder) : Lease(static_cast<StorageRef&&>(storage), true, holder) {}
};

}  // namespace tessera::runtime
