// Threads with a small stack.
#pragma once
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <exception>

#include "tessera/base/sanitizers.hpp"

namespace tessera {

/// Calls f() on a thread whose stack has so many KiB, and waits for it; more where a sanitizer needs some itself.
/// Rethrows what `f` throws.
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
  const std::size_t least = TESSERA_ASAN || TESSERA_TSAN ? 192 : 0;
  pthread_attr_t attributes;
  pthread_t thread;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, std::max(kib, least) << 10), 0);
  ASSERT_EQ(pthread_create(&thread, &attributes, Call::run, &call), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
  if (call.error) std::rethrow_exception(call.error);
}

}  // namespace tessera
