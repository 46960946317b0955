// Children of fork(): a child has a copy of its parent's memory, but of its threads only the one that forked, and no
// GPU driver can follow it. What lives of other threads remembers the generation that made it.
#pragma once
#include <atomic>
#include <cstdint>

namespace tessera {

namespace detail {
extern std::atomic<std::uint32_t> fork_generation;
}

/// How many forks lie between the process that loaded the library and this one: one load. A value that was remembered
/// and differs was remembered by an ancestor.
inline std::uint32_t fork_generation() noexcept { return detail::fork_generation.load(std::memory_order_relaxed); }

/// A T for each process: made on first use, anew in a child. What a parent has made is left as it is, because threads
/// that the child does not have may have been in the middle of it. Never destroyed: threads may use it while the
/// program's statics go. For statics, and members of what is never destroyed.
template <class T>
class PerProcess {
 public:
  constexpr PerProcess() noexcept = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  T& get() {
    Made* made = made_.load(std::memory_order_acquire);
    while (made == nullptr || made->generation != fork_generation()) {
      auto* const fresh = new Made;
      if (made_.compare_exchange_strong(made, fresh)) return fresh->value;
      delete fresh;
    }
    return made->value;
  }

 private:
  struct Made {
    std::uint32_t generation = fork_generation();
    T value;
  };
  std::atomic<Made*> made_{nullptr};
};

}  // namespace tessera
