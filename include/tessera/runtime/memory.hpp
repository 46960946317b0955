// A device's memory: figures, a limit, an allocator of the user's, and the error when memory runs out; the memory of a
// graph.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tessera/base/error.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera {

inline constexpr std::size_t kNoMemoryLimit = ~std::size_t{0};

/// The sizes of an allocation that failed, in bytes.
struct MemorySizes {
  std::size_t asked = 0;
  std::size_t in_use = 0;              ///< by tensors of this process on the device
  std::size_t limit = kNoMemoryLimit;  ///< of set_memory_limit()
  std::size_t free = 0, total = 0;     ///< of the device
};

/// Out of memory: the device has none left, or the limit is reached. What was there before is unchanged and usable.
class OutOfMemoryError : public DeviceError {
 public:
  OutOfMemoryError(const std::string& message, const MemorySizes& sizes, SourceLocation where = {})
      : DeviceError(message, where), sizes_(sizes) {}
  ~OutOfMemoryError() override;
  const MemorySizes& sizes() const noexcept { return sizes_; }

 private:
  MemorySizes sizes_;
};

/// What this process holds of a device's memory, in bytes. Borrowed memory does not count.
struct MemoryStats {
  std::size_t in_use = 0;              ///< by tensors, views and operations; with what checked mode adds
  std::size_t peak = 0;                ///< the most since the start or reset_memory_peak()
  std::size_t reserved = 0;            ///< in use, or kept by the library to be used again
  std::size_t limit = kNoMemoryLimit;  ///< of set_memory_limit()
  std::uint64_t allocations = 0, frees = 0;
  std::size_t free = 0, total = 0;  ///< of the device, for all processes
};
/// Throws DeviceError if the device does not answer.
MemoryStats memory_stats(Device device, SourceLocation where = SourceLocation::current());
/// The peak is what is in use now.
void reset_memory_peak(Device device) noexcept;
/// From now on an allocation that would bring the bytes in use above `bytes` is an OutOfMemoryError. What is in use
/// already stays. A block whose last tensor has gone does not count, although work that is enqueued may still use it.
void set_memory_limit(Device device, std::size_t bytes) noexcept;
/// Gives memory that is kept for reuse back to the system. Does not wait: what work still uses stays. Throws
/// DeviceError.
void trim_memory(Device device, SourceLocation where = SourceLocation::current());

/// Memory of a user's for the tensors of a device. Both functions may be called from any thread, also at once.
class Allocator {
 public:
  virtual ~Allocator();
  /// At least `bytes` (> 0) bytes of the device's memory, aligned to 256, for work that is enqueued on `stream` (a
  /// CUstream; null on the CPU: for any work) from now on. The library orders other streams behind that. Null if there
  /// is none: an OutOfMemoryError. May throw an Error, which the caller of the operation gets.
  virtual void* allocate(std::size_t bytes, void* stream) = 0;
  /// Takes back what allocate(bytes, ...) gave. Work that is enqueued on `stream` now may still use it, other work does
  /// not: it may be given out again for that stream at once, for others behind it. On the CPU nothing uses it.
  virtual void deallocate(void* memory, std::size_t bytes, void* stream) noexcept = 0;
  /// Gives unused memory back to the system: trim_memory(), and before an allocation is tried again.
  virtual void trim() noexcept;
};
/// New tensors of the device get their memory from `allocator`; those that exist keep theirs, and their allocator.
/// Null: from the library again.
void set_allocator(Device device, std::shared_ptr<Allocator> allocator) noexcept;

namespace runtime {

/// What a recording needs for temporaries: tensors that were made and ended while it was captured.
struct GraphMemory {
  std::size_t temporaries = 0;      ///< their number
  std::size_t temporary_bytes = 0;  ///< their sizes, added up
  std::size_t planned_bytes = 0;    ///< the memory that they share
};

/// The error of an allocation on `device` that failed. `why` is a sentence's end: "; the driver has no more".
[[noreturn]] void throw_out_of_memory(const std::string& device, const MemorySizes& sizes, SourceLocation where = {});

}  // namespace runtime
}  // namespace tessera
