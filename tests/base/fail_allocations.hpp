// Running out of host memory in a program that replaces operator new (count_allocations.hpp).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

/// Allocations of at least this many bytes fail.
inline std::atomic<std::size_t> failing_bytes{SIZE_MAX};

struct FailAllocations {
  explicit FailAllocations(std::size_t from) { failing_bytes = from; }
  ~FailAllocations() { failing_bytes = SIZE_MAX; }
  FailAllocations(const FailAllocations&) = delete;
  FailAllocations& operator=(const FailAllocations&) = delete;
};
