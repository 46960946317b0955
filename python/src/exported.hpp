// C functions that other languages call: how they are exported, and how they report an error.
#pragma once
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "tessera/base/error.hpp"

#define TESSERA_PYTHON extern "C" __attribute__((visibility("default")))

namespace tessera::python {

struct LastError {
  const char* kind = "";  ///< the name of the class in Python
  std::string text;
};
/// The last error of the calling thread.
LastError& last_error();
/// The name of the error's class in Python.
const char* kind_of(const Error& e);

/// Calls f; false if it threw. The thread keeps the kind and the text of the error.
template <class F>
bool guarded(F&& f) noexcept {
  try {
    std::forward<F>(f)();
    return true;
  } catch (const Error& e) { last_error() = {kind_of(e), e.message()}; } catch (const std::bad_alloc&) {
    last_error() = {"MemoryError", "the host has no memory for this"};
  } catch (const std::exception& e) { last_error() = {"InternalError", e.what()}; }
  return false;
}

}  // namespace tessera::python
