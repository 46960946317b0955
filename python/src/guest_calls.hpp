// What libtessera_torch.so calls of libtessera_python.so: the functions of the tables inside operators of PyTorch, on
// its stream and in its memory (tessera/runtime/guest.hpp). Both are of one build, so the structures need no versions;
// the functions are plain C ones, because the classes of the C++ library are not visible outside either.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "function.hpp"

namespace tessera::python {

/// A tensor of the other library; strides are in elements and not 0 where the extent is larger than 1.
struct GuestTensor {
  const void* data;
  std::size_t bytes;  ///< from the first element to the end of the last
  const std::int64_t *dims, *strides;
  std::int32_t rank;
  ElementType element;
};

/// A row-major result in a block of the other library.
struct GuestResult {
  void* block;
  std::int64_t offset;  ///< of the first element, in bytes
  std::int32_t rank;
  ElementType element;
  std::array<std::int64_t, 8> dims, strides;
};

/// The device of a call: its CUDA ordinal, or kGuestCpu.
inline constexpr std::int32_t kGuestCpu = -1;

/// The other library's memory. The functions live as long as the process.
struct GuestHost {
  /// Memory for work that comes next on the current stream; null with a text in `why` (kept until the next call on this
  /// thread) if there is none.
  void* (*allocate)(std::int32_t device, std::size_t bytes, void** block, const char** why);
  void (*release)(void* block);
};

/// One call of a function.
struct GuestCall {
  const Function* function;
  const GuestTensor* tensors;
  int tensor_count;
  const double* numbers;
  int number_count;
  std::int32_t device;
  void* stream;  ///< the other library's current stream there
  const GuestHost* host;
  /// Takes each result in order; the block is released after it returns, unless the taker holds it.
  void (*take)(void* context, const GuestResult* result);
  void* context;
};

/// The tables of libtessera_python.so, which looks them up under the name kGuestTable: extern "C" const GuestTable* ().
struct GuestTable {
  const Function* functions;
  int count;
  int (*call)(const GuestCall* call);  ///< 0, or 1 after an error
  const char* (*error_text)();         ///< of the last error of this thread
};
inline constexpr const char* kGuestTable = "tessera_py_guest_table";

}  // namespace tessera::python
