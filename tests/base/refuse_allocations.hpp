// Running out of host memory in a program that replaces operator new (count_allocations.hpp).
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

/// Requests of so many bytes and more fail.
inline std::atomic<std::size_t> refused_bytes{SIZE_MAX};

struct RefuseAllocations {
  explicit RefuseAllocations(std::size_t from) { refused_bytes = from; }
  ~RefuseAllocations() { refused_bytes = SIZE_MAX; }
  RefuseAllocations(const RefuseAllocations&) = delete;
  RefuseAllocations& operator=(const RefuseAllocations&) = delete;
};
