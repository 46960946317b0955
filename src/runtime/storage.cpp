// Storages: making and retiring memory, and the order of what happens to it.
#include "tessera/runtime/storage.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "runtime/foreign_memory.hpp"
#include "runtime/retire.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/lease.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {

namespace {

constexpr auto kMostBytes = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());

std::size_t allocated_size(std::size_t bytes) { return std::max<std::size_t>(bytes, 1); }

[[noreturn]] void throw_too_large(std::size_t bytes, SourceLocation where) {
  throw DeviceError(concat("a storage of ", bytes, " bytes is larger than any memory; check the extents of the tensor"),
                    where);
}

/// make(), with the user's line in its errors, memory that ran out among them.
template <class F>
auto located(SourceLocation where, std::size_t bytes, F make) {
  try {
    return at_line(where, make);
  } catch (const std::bad_alloc&) {
    throw DeviceError(concat("out of host memory while making a storage of ", bytes, " bytes"), where);
  }
}

}  // namespace

StorageRef Storage::allocate(Device device, std::size_t bytes, const StorageOptions& options) {
  return make(device, nullptr, bytes, options);
}

StorageRef Storage::allocate(const std::shared_ptr<StreamCore>& stream, std::size_t bytes,
                             const StorageOptions& options) {
  return make(stream->device(), options.poison ? nullptr : stream, bytes, options);  // poison is written at once
}

StorageRef Storage::make(Device device, const std::shared_ptr<StreamCore>& stream, std::size_t bytes,
                         const StorageOptions& options) {
  if (bytes > kMostBytes) throw_too_large(bytes, options.where);
  return located(options.where, bytes, [&] {
    auto storage = std::make_shared<Storage>(Private(), device, nullptr, bytes, nullptr, options.label);
    if (options.track_writes && device.backend().host_accessible())
      storage->written_.reset(new std::uint8_t[allocated_size(bytes)]());
    else if (options.track_writes)
      storage->set_shadow(options);
    storage->tracked_.store(options.track_writes, std::memory_order_relaxed);
    const bool shadow = storage->shadow_bytes_ != 0;
    storage->get_memory(shadow ? nullptr : stream);  // a shadow is written at once
    if (options.poison) device.backend().fill(storage->memory_, kNeverWritten, bytes);
    if (shadow) device.backend().fill(storage->shadow(), kNeverWritten, storage->shadow_bytes_);
    return storage;
  });
}

/// The shadow stands behind the elements.
void Storage::set_shadow(const StorageOptions& options) {
  const std::size_t count = bytes_ / options.element_bytes;
  if (bytes_ > kMostBytes - kStorageAlignment - count) throw_too_large(bytes_, options.where);
  shadow_at_ = (bytes_ + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment;
  shadow_bytes_ = count;
  shadow_grain_ = options.element_bytes;
}

std::size_t Storage::allocated_bytes() const noexcept {
  return allocated_size(shadow_bytes_ == 0 ? bytes_ : shadow_at_ + shadow_bytes_);
}

void Storage::publish_address(SourceLocation where) {
  if (foreign_) return;  // claimed as such, or by the storage that it came from
  located(where, bytes_, [&] { claim_own(memory_, bytes_, label_, published_); });
}

void Storage::get_memory(const std::shared_ptr<StreamCore>& stream) {
  const auto get = [&] {
    if (stream) {
      const StreamCore::Allocation memory = stream->allocate(allocated_bytes());
      memory_ = memory.memory;
      if (memory.memory != nullptr) last_write_ = {stream, memory.number};
    }
    if (memory_ == nullptr) memory_ = device_.backend().allocate(allocated_bytes());
  };
  try {
    try {
      get();
    } catch (const DeviceError&) {
      if (!device_.backend().end_handed_back()) throw;
      get();  // what other libraries have given back is free now
    }
  } catch (const DeviceError& e) {
    if (shadow_bytes_ == 0) throw;
    throw DeviceError(concat(e.message(), "\n  ", shadow_bytes_,
                             " of these bytes are for checked mode (TESSERA_CHECK): one for each element, which "
                             "remembers whether it was written."),
                      e.where());
  }
}

StorageRef Storage::adopt(Device device, void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                          const StorageOptions& options) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  if (bytes > std::numeric_limits<std::uintptr_t>::max() - begin)
    throw DeviceError(concat("foreign memory of ", bytes, " bytes leaves the address space"), options.where);
  if (memory == nullptr && bytes != 0)
    throw DeviceError(concat("foreign memory of ", bytes, " bytes at a null pointer"), options.where);
  return located(options.where, bytes, [&] {
    if (bytes != 0) device.backend().verify_foreign(memory, bytes);
    if (options.exclusive) owner = claim_foreign(memory, bytes, std::move(owner), options.label);
    auto storage = std::make_shared<Storage>(Private(), device, memory, bytes, std::move(owner), options.label);
    storage->foreign_ = true;
    return storage;
  });
}

Storage::Storage(Private, Device device, void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                 std::string_view label)
    : memory_(memory), device_(device), bytes_(bytes), owner_(std::move(owner)), foreign_(false), label_(label) {}

Storage::~Storage() {
  // Nobody else can reach the storage now: no lease, no access and no lock is left.
  if (published_) withdraw_own(memory_, published_);
  Retired memory;
  memory.owner = std::move(owner_);
  if (!foreign_) {
    memory.memory = memory_;
    memory.bytes = allocated_bytes();
  }
  if (last_write_.stream) {
    try {
      reads_.push_back(std::move(last_write_));
    } catch (...) { last_write_.stream->host_wait_noexcept(last_write_.number); }
  }
  retire(device_.backend(), std::move(memory), reads_.span());
}

/// Where there is nothing to wait for, one look tells: only this stream has used the storage, or it has read it since
/// the last write, and so waits for that write already (weights). The path of most launches.
void Storage::order(const std::shared_ptr<StreamCore>& stream, AccessMode mode) {
  const auto other = [&](const Use& use) { return use.stream != stream; };
  bool wait = false;
  {
    std::unique_lock lock(mutex_);
    wait = last_write_.stream && other(last_write_);
    if (mode != AccessMode::Read) {
      wait = wait || std::any_of(reads_.begin(), reads_.end(), other);
    } else {
      const bool known = !std::all_of(reads_.begin(), reads_.end(), other);
      wait = wait && !known;
      if (!known && reads_.size() + reads_to_come_ >= kInlineReads) {
        lock.unlock();
        drop_ended_reads();
        lock.lock();
      }
      reads_.reserve(reads_.size() + reads_to_come_ + 1);
      ++reads_to_come_;
    }
  }
  if (!wait) return;
  try {
    order_behind_others(stream, mode);
  } catch (...) {
    forget(mode);
    throw;
  }
}

void Storage::order_behind_others(const std::shared_ptr<StreamCore>& stream, AccessMode mode) {
  SmallVector<Use, kInlineReads + 1> conflicts;
  {
    std::lock_guard lock(mutex_);
    if (last_write_.stream && last_write_.stream != stream) conflicts.push_back(last_write_);
    for (const Use& use : reads_) {
      if (mode != AccessMode::Read && use.stream != stream) conflicts.push_back(use);
    }
  }
  for (const Use& use : conflicts) stream->wait_for(*use.stream, use.number);
}

bool Storage::may_be_written_after(const StreamCore& stream, std::uint64_t number) const noexcept {
  if (foreign_) return true;
  std::lock_guard lock(mutex_);
  return last_write_.stream.get() == &stream && last_write_.number > number;
}

void Storage::forget(AccessMode mode) noexcept {
  if (mode != AccessMode::Read) return;
  std::lock_guard lock(mutex_);
  --reads_to_come_;
}

void Storage::note(const std::shared_ptr<StreamCore>& stream, std::uint64_t number, AccessMode mode,
                   LeaseLink* lease) noexcept {
  std::unique_lock lock(mutex_);
  if (lease != nullptr) lease->unlink();
  if (mode == AccessMode::Read) {
    --reads_to_come_;
    for (Use& use : reads_) {
      if (use.stream != stream) continue;
      use.number = std::max(use.number, number);
      return;
    }
    reads_.push_back({stream, number});  // order() made room
    return;
  }
  if (reads_.empty() && last_write_.stream == stream) {
    last_write_.number = number;
    return;
  }
  const auto old_reads = std::move(reads_);  // streams that end here do so outside the lock
  const Use old_write = std::exchange(last_write_, {stream, number});
  lock.unlock();
}

/// A storage that many streams read and none writes (weights) would keep them all: forget those whose reads have ended.
void Storage::drop_ended_reads() {
  SmallVector<Use, kInlineReads> reads, ended;
  {
    std::lock_guard lock(mutex_);
    reads.assign(reads_.span());
  }
  for (const Use& use : reads) {
    if (use.stream->has_ended(use.number)) ended.push_back(use);
  }
  std::lock_guard lock(mutex_);
  for (const Use& use : ended) {
    Use* end = std::remove_if(reads_.begin(), reads_.end(), [&](const Use& other) {
      return other.stream == use.stream && other.number == use.number;
    });
    reads_.truncate(static_cast<std::size_t>(end - reads_.begin()));
  }
}

void Storage::wait_written() {
  Use write;
  {
    std::lock_guard lock(mutex_);
    write = last_write_;
  }
  if (write.stream) write.stream->host_wait(write.number);
  if (!has_failure()) return;
  if (const FailureRef carried = failure()) {
    carried->delivered.store(true);
    std::rethrow_exception(carried->error);
  }
}

void Storage::wait_unused() {
  SmallVector<Use, kInlineReads + 1> uses;
  {
    std::lock_guard lock(mutex_);
    uses.assign(reads_.span());
    if (last_write_.stream) uses.push_back(last_write_);
  }
  for (const Use& use : uses) use.stream->host_wait(use.number);
}

void Storage::host_wrote(std::size_t offset, std::size_t bytes) noexcept {
  if (offset > bytes_ || bytes > bytes_ - offset) return;
  if (bytes != bytes_) {
    if (written_) std::memset(written_.get() + offset, 1, bytes);
    return;
  }
  count_as_written();
  set_failure(nullptr);
}

Storage::Range Storage::shadow_range(std::size_t offset, std::size_t bytes) const noexcept {
  const std::size_t first = offset / shadow_grain_, last = (offset + bytes + shadow_grain_ - 1) / shadow_grain_;
  return {shadow_at_ + first, last - first};
}

void Storage::mark_written(std::size_t offset, std::size_t bytes) {
  if (bytes == bytes_) return count_as_written();
  if (bytes == 0 || shadow() == nullptr) return;
  const Range marks = shadow_range(offset, bytes);
  device_.backend().fill(data() + marks.offset, 0, marks.bytes);
}

FailureRef Storage::failure() const noexcept {
  std::lock_guard lock(mutex_);
  return failure_;
}

std::shared_ptr<void> Storage::open_outcome() const noexcept {
  std::lock_guard lock(mutex_);
  return open_outcome_;
}

void Storage::set_open_outcome(std::shared_ptr<void> outcome) noexcept {
  std::lock_guard lock(mutex_);
  open_outcome_.swap(outcome);
}

void Storage::settle_outcome(const void* outcome, FailureRef failure) noexcept {
  std::shared_ptr<void> settled;  // ends after the lock
  std::lock_guard lock(mutex_);
  if (open_outcome_.get() != outcome) return;
  settled = std::move(open_outcome_);
  if (!failure) return;
  failure_.swap(failure);
  has_failure_.store(true, std::memory_order_release);
}

void Storage::set_failure(FailureRef failure) noexcept {
  std::lock_guard lock(mutex_);
  failure_.swap(failure);
  has_failure_.store(failure_ != nullptr, std::memory_order_release);
}

}  // namespace tessera::runtime
