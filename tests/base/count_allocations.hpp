// Counts what a test program allocates: replaces the global operator new, so it is included in one file of a program.
// All forms are replaced that end in one of the operators delete below: with one of the library's or of a sanitizer's
// among them, memory would come from one and go to another. Arrays and over-aligned objects have their own.
#pragma once
#include <atomic>
#include <cstdlib>
#include <new>

#include "base/fail_allocations.hpp"

namespace {
std::atomic<long> allocations{0};  // since the program began
}

[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocations;
  if (bytes >= failing_bytes) return nullptr;
  return std::malloc(bytes != 0 ? bytes : 1);
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
