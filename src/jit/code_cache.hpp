// The process's compiled modules: equal ones are compiled once, concurrent requests for one wait for the first,
// requests for different ones do not wait for each other.
#pragma once
#include <memory>
#include <mutex>
#include <string>

#include "tessera/runtime/backend.hpp"

namespace tessera::jit {

/// One key's place. `work` may be read and set while `mutex` is held, which is held while compiling; it stays empty
/// if compiling fails, and the next request tries again.
struct CodeSlot {
  std::mutex mutex;
  std::shared_ptr<const runtime::Launchable> work;
};

/// The slot of a key (any bytes).
std::shared_ptr<CodeSlot> code_slot(const std::string& key);

}  // namespace tessera::jit
