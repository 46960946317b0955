// Waiting for what other threads do. Every wait of a test has an end.
#pragma once
#include <chrono>
#include <functional>
#include <thread>

namespace mortar::test {

/// Milliseconds after which a test gives up waiting: far more than what it waits for takes on a busy machine.
constexpr int kPatience = 60'000;

/// Waits until the condition holds, at most kPatience.
inline bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatience);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace mortar::test
