// Storages: allocating and freeing memory, and ordering the work that uses it.
#include "tessera/runtime/storage.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>
#include <new>
#include <utility>

#include "runtime/foreign_memory.hpp"
#include "runtime/retire.hpp"
#include "tessera/abi/kernel_abi.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/access.hpp"
#include "tessera/runtime/at_line.hpp"
#include "tessera/runtime/graph.hpp"
#include "tessera/runtime/stream.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime {

namespace {

constexpr auto kMaxBytes = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());

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
    throw DeviceError(
        concat("out of host memory while making a storage of ", bytes, " bytes.\n  Free what is not needed."), where);
  }
}

}  // namespace

StorageRef Storage::allocate(Device device, std::size_t bytes, const StorageOptions& options) {
  return make(device, nullptr, bytes, options);
}

StorageRef Storage::allocate(const std::shared_ptr<StreamCore>& stream, std::size_t bytes,
                             const StorageOptions& options) {
  if (stream->guest_memory() != nullptr) {
    if (bytes > kMaxBytes) throw_too_large(bytes, options.where);
    return located(options.where, bytes, [&] { return make_guest(*stream, bytes, options); });
  }
  return make(stream->device(), options.poison ? nullptr : stream, bytes, options);  // poison is written at once
}

StorageRef Storage::make(Device device, const std::shared_ptr<StreamCore>& stream, std::size_t bytes,
                         const StorageOptions& options) {
  if (bytes > kMaxBytes) throw_too_large(bytes, options.where);
  return located(options.where, bytes, [&] {
    auto storage = std::make_shared<Storage>(Private(), device, nullptr, bytes, nullptr, options.label);
    GraphRecording* const capture = CaptureScope::innermost();
    if (options.track_writes && device.backend().host_accessible())
      storage->written_.reset(new std::uint8_t[allocated_size(bytes)]());
    else if (options.track_writes)
      storage->set_shadow(options);
    storage->tracked_.store(options.track_writes, std::memory_order_relaxed);
    const bool shadow = storage->shadow_bytes_ != 0;
    // A shadow is written at once; a stream that is captured does nothing now.
    storage->get_memory(shadow || capture != nullptr ? nullptr : stream);
    if (options.poison) device.backend().fill(storage->memory_, calling::kNeverWritten, bytes);
    if (shadow) device.backend().fill(storage->shadow(), calling::kNeverWritten, storage->shadow_bytes_);
    if (capture != nullptr) capture->made(storage);
    return storage;
  });
}

/// The shadow follows the elements in the same allocation.
void Storage::set_shadow(const StorageOptions& options) {
  const std::size_t count = bytes_ / options.element_bytes;
  if (bytes_ > kMaxBytes - kStorageAlignment - count) throw_too_large(bytes_, options.where);
  shadow_at_ = (bytes_ + kStorageAlignment - 1) / kStorageAlignment * kStorageAlignment;
  shadow_bytes_ = count;
  shadow_grain_ = options.element_bytes;
}

std::size_t Storage::allocated_bytes() const noexcept {
  return allocated_size(shadow_bytes_ == 0 ? bytes_ : shadow_at_ + shadow_bytes_);
}

void Storage::publish_address(SourceLocation where) {
  if (foreign_) return;  // claimed by adopt(), or by the storage that it came from
  located(where, bytes_, [&] { claim_own(memory_, bytes_, label_, published_); });
}

void Storage::get_memory(const std::shared_ptr<StreamCore>& stream) {
  const auto checked_too = [&](const Error& e) {
    return concat(e.message(), "\n  ", shadow_bytes_,
                  " of these bytes are for checked mode (TESSERA_CHECK): one for each element, which remembers whether "
                  "it was written.");
  };
  try {
    try {
      take_memory(stream);
    } catch (const DeviceError&) {
      if (!device_.backend().end_handed_back()) throw;
      take_memory(stream);  // memory that other libraries have returned is free now
    }
  } catch (const OutOfMemoryError& e) {
    if (shadow_bytes_ == 0) throw;
    throw OutOfMemoryError(checked_too(e), e.sizes(), e.where());
  } catch (const DeviceError& e) {
    if (shadow_bytes_ == 0) throw;
    throw DeviceError(checked_too(e), e.where());
  }
}

/// Allocates, and keeps the device's account.
void Storage::take_memory(const std::shared_ptr<StreamCore>& stream) {
  Backend& backend = device_.backend();
  MemoryAccount& account = backend.account();
  const std::size_t bytes = allocated_bytes();
  const auto fail = [&] {
    const Backend::MemoryFigures figures = backend.memory_figures();
    throw_out_of_memory(device_.name(), {bytes, account.in_use(), account.limit(), figures.free, figures.total});
  };
  if (!account.take(bytes)) fail();
  try {
    allocate_memory(stream, bytes);
  } catch (const OutOfMemoryError& e) {
    account.cancel(bytes);
    MemorySizes sizes = e.sizes();
    sizes.in_use = account.in_use();
    sizes.limit = account.limit();
    throw_out_of_memory(device_.name(), sizes);
  } catch (...) {
    account.cancel(bytes);
    throw;
  }
  if (memory_ == nullptr) {  // the user's allocator has none
    account.cancel(bytes);
    fail();
  }
  account.taken();
}

void Storage::allocate_memory(const std::shared_ptr<StreamCore>& stream, std::size_t bytes) {
  Backend& backend = device_.backend();
  if (auto allocator = backend.account().allocator()) return allocate_from(std::move(allocator), stream, bytes);
  if (stream) {
    const StreamCore::Allocation memory = stream->allocate(bytes);
    memory_ = memory.memory;
    if (memory.memory != nullptr) last_write_ = {stream, memory.number}, of_queue_ = true;
  }
  if (memory_ == nullptr) memory_ = backend.allocate(bytes);
}

/// Memory of a user's allocator, for a stream: without one for the default stream, which the host then waits for. Null
/// if it has none.
void Storage::allocate_from(std::shared_ptr<Allocator> allocator, std::shared_ptr<StreamCore> stream,
                            std::size_t bytes) {
  const bool wait = stream == nullptr;
  if (wait) stream = device_.backend().default_stream();
  static thread_local bool inside = false;
  if (inside) {
    throw DeviceError(concat("the allocator of ", device_.name(),
                             " makes a tensor in allocate(), which would call it again without end.\n  Take its memory "
                             "from somewhere else, such as one large tensor that was made before set_allocator()."));
  }
  struct Inside {
    Inside() noexcept { inside = true; }
    ~Inside() { inside = false; }
  };
  void* const queue = stream->native_handle();
  void* memory = nullptr;
  {
    const Inside scope;
    memory = allocator->allocate(bytes, queue);
    if (memory == nullptr) {
      allocator->trim();
      memory = allocator->allocate(bytes, queue);
    }
  }
  if (memory == nullptr) return;
  try {
    if (reinterpret_cast<std::uintptr_t>(memory) % kStorageAlignment != 0) {
      throw DeviceError(concat("the allocator of ", device_.name(), " gave an address that is not a multiple of ",
                               kStorageAlignment, ".\n  Allocator::allocate() returns memory that is aligned to it."));
    }
    if (queue != nullptr) {
      const std::uint64_t number = stream->mark();
      if (wait)
        stream->host_wait(number);
      else
        last_write_ = {stream, number};
    }
  } catch (...) {
    allocator->deallocate(memory, bytes, queue);
    throw;
  }
  memory_ = memory;
  allocator_ = std::move(allocator);
}

namespace {

/// A use behind all of `uses`. Streams of other libraries among them may have ended: nothing is enqueued on those.
Use latest(Device device, std::span<const Use> uses) {
  Use last = uses.front();
  bool one_stream = true;
  for (const Use& use : uses) {
    one_stream = one_stream && use.stream == last.stream;
    if (use.stream == last.stream) last.number = std::max(last.number, use.number);
  }
  if (one_stream) return last;
  const std::shared_ptr<StreamCore> stream = device.backend().default_stream();
  for (const Use& use : uses) stream->wait_for(*use.stream, use.number);
  return {stream, stream->mark()};
}

}  // namespace

StorageRef Storage::adopt(Device device, void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                          const StorageOptions& options) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  if (bytes > std::numeric_limits<std::uintptr_t>::max() - begin)
    throw DeviceError(concat("foreign memory of ", bytes, " bytes leaves the address space"), options.where);
  if (memory == nullptr && bytes != 0)
    throw DeviceError(concat("foreign memory of ", bytes, " bytes at a null pointer"), options.where);
  return located(options.where, bytes, [&] {
    if (bytes != 0 && !options.guest) device.backend().verify_foreign(memory, bytes);
    std::vector<Use> before;
    if (options.exclusive && !options.guest)
      owner = claim_foreign(memory, bytes, std::move(owner), options.label, before);
    auto storage = std::make_shared<Storage>(Private(), device, memory, bytes, std::move(owner), options.label);
    storage->foreign_ = true;
    storage->guest_ = options.guest;
    if (!before.empty()) storage->last_write_ = latest(device, before);
    return storage;
  });
}

Storage::Storage(Private, Device device, void* memory, std::size_t bytes, std::shared_ptr<void> owner,
                 std::string_view label)
    : memory_(memory), device_(device), bytes_(bytes), owner_(std::move(owner)), foreign_(false), label_(label) {}

Storage::~Storage() {
  // No other thread can reach the storage now: no lease, no access and no lock is left.
  if (guest_) return;  // nothing was recorded, and the memory's end is the other library's
  if (published_) withdraw_own(memory_, published_);
  Retired memory;
  memory.owner = std::move(owner_);
  if (!foreign_ && memory_ != nullptr) {
    memory.memory = memory_;
    memory.bytes = allocated_bytes();
    memory.of_queue = of_queue_;
    memory.allocator = std::move(allocator_);
    device_.backend().account().give_back(memory.bytes);
  }
  if (last_write_.stream) {
    try {
      reads_.push_back(std::move(last_write_));
    } catch (...) { last_write_.stream->host_wait_noexcept(last_write_.number); }
  }
  if (foreign_) retire_claim(memory.owner, reads_.span());
  retire(device_.backend(), std::move(memory), reads_.span());
}

bool Storage::movable() const noexcept {
  return !foreign_ && !published_ && !allocator_ && !written_ && shadow_bytes_ == 0 && !last_write_.stream &&
         reads_.empty();
}

void Storage::leave_memory() noexcept {
  left_ = data();
  Retired memory;
  memory.memory = std::exchange(memory_, nullptr);
  memory.bytes = allocated_bytes();
  device_.backend().account().give_back(memory.bytes);
  retire(device_.backend(), std::move(memory), {});
}

void Storage::place(const StorageRef& arena, std::size_t offset) noexcept {
  memory_ = arena->data() + offset;
  owner_ = arena;
  foreign_ = true;
}

/// The path of most launches takes the mutex once and waits for nothing: only this stream has used the storage, or the
/// stream has read it since the last write and has therefore waited for that write already (weights).
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
      if (!known && reads_.size() + reserved_reads_ >= most_reads_) {
        lock.unlock();
        try {
          drop_ended_reads();
        } catch (...) {
          // The device has no event, or the host no memory: no reader is dropped, and the launch goes on.
        }
        lock.lock();
      }
      reads_.reserve(reads_.size() + reserved_reads_ + 1);
      ++reserved_reads_;
    }
  }
  if (!wait) return;
  try {
    wait_for_others(stream, mode);
  } catch (...) {
    forget(mode);
    throw;
  }
}

void Storage::wait_for_others(const std::shared_ptr<StreamCore>& stream, AccessMode mode) {
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

Ticket Storage::last_write() const noexcept {
  std::lock_guard lock(mutex_);
  return {last_write_.stream, last_write_.number};
}

bool Storage::may_be_written_after(const StreamCore& stream, std::uint64_t number) const noexcept {
  if (foreign_) return true;
  std::lock_guard lock(mutex_);
  return last_write_.stream.get() == &stream && last_write_.number > number;
}

void Storage::forget(AccessMode mode) noexcept {
  if (mode != AccessMode::Read) return;
  std::lock_guard lock(mutex_);
  --reserved_reads_;
}

void Storage::note(const std::shared_ptr<StreamCore>& stream, std::uint64_t number, AccessMode mode,
                   LeaseLink* lease) noexcept {
  std::unique_lock lock(mutex_);
  if (lease != nullptr) lease->unlink();
  if (mode == AccessMode::Read) {
    --reserved_reads_;
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
  const auto old_reads = std::move(reads_);  // the last reference to a stream may be released here: outside the lock
  const Use old_write = std::exchange(last_write_, {stream, number});
  lock.unlock();
}

void Storage::record(const std::shared_ptr<StreamCore>& stream, AccessMode mode) {
  order(stream, mode);
  std::uint64_t number = 0;
  try {
    number = stream->mark();
  } catch (...) {
    forget(mode);
    throw;
  }
  note(stream, number, mode);
}

/// Removes reads of dropped streams that have ended: a storage that many streams read and none writes (weights) would
/// keep them all. To ask takes an event of each, so the next time is when many more readers are there: as many as have
/// a handle, or half as many as still run without one.
void Storage::drop_ended_reads() {
  SmallVector<Use, kInlineReads> dropped, ended;
  {
    std::lock_guard lock(mutex_);
    for (const Use& use : reads_)
      if (use.stream->dropped()) dropped.push_back(use);
  }
  for (const Use& use : dropped) {
    if (use.stream->has_ended(use.number)) ended.push_back(use);
  }
  std::lock_guard lock(mutex_);
  for (const Use& use : ended) {
    Use* end = std::remove_if(reads_.begin(), reads_.end(), [&](const Use& other) {
      return other.stream == use.stream && other.number == use.number;
    });
    reads_.truncate(static_cast<std::size_t>(end - reads_.begin()));
  }
  const std::size_t running = dropped.size() - ended.size(), others = reads_.size() - std::min(running, reads_.size());
  most_reads_ = reads_.size() + std::max({kInlineReads, others, running / 2});
}

void Storage::wait_written() {
  check_host_may_wait();
  check_not_capturing("reading elements on the host", "Read them after the replay, or before the capture.");
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

void Storage::wait_outcome() {
  if (!pending_outcome()) return;
  Use write;
  {
    std::lock_guard lock(mutex_);
    write = last_write_;
  }
  if (write.stream) write.stream->host_wait(write.number);
}

void Storage::wait_unused() {
  check_host_may_wait();
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

void Storage::set_shared(const std::shared_ptr<void>& owners) noexcept {
  std::weak_ptr<void> held = owners;
  std::lock_guard lock(mutex_);
  shared_.swap(held);  // what was there ends after the lock
}

bool Storage::is_shared() const noexcept {
  std::lock_guard lock(mutex_);
  return !shared_.expired();
}

std::span<std::byte> bytes_of(const StorageRef& storage) noexcept { return {storage->data(), storage->bytes()}; }
std::uint64_t ownership_of(const StorageRef& storage) noexcept { return storage->ownership(); }
void change_owner(const StorageRef& storage) noexcept {
  if (storage) storage->change_owner();
}
void set_shared(const StorageRef& storage, const std::shared_ptr<char>& owners) noexcept {
  if (storage) storage->set_shared(owners);
}

}  // namespace tessera::runtime
