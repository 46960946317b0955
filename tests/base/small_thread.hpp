// Threads with a small stack.
#pragma once
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <exception>

#include "tessera/base/sanitizers.hpp"

namespace tessera {

/// The KiB of the smallest stack: what the system allows (16 on x86-64, 128 on 64-bit ARM), and a sanitizer needs.
inline std::size_t least_stack_kib() {
  const std::size_t allowed = static_cast<std::size_t>(sysconf(_SC_THREAD_STACK_MIN)) >> 10;
  return TESSERA_ASAN || TESSERA_TSAN ? std::max<std::size_t>(allowed, 192) : allowed;
}

/// Calls f() on a thread whose stack has so many KiB, or the least that it can have, and waits for it. Rethrows what
/// `f` throws.
template <class F>
void on_small_thread(std::size_t kib, F&& f) {
  struct Call {
    F& f;
    std::exception_ptr error;
    static void* run(void* call) {
      auto& self = *static_cast<Call*>(call);
      try {
        self.f();
      } catch (...) { self.error = std::current_exception(); }
      return nullptr;
    }
  } call{f, {}};
  pthread_attr_t attributes;
  pthread_t thread;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, std::max(kib, least_stack_kib()) << 10), 0);
  ASSERT_EQ(pthread_create(&thread, &attributes, Call::run, &call), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  if (call.error) std::rethrow_exception(call.error);
}

}  // namespace tessera
