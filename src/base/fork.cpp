// Counting forks.
#include "tessera/base/fork.hpp"

#include <pthread.h>

namespace tessera::detail {

std::atomic<std::uint32_t> fork_generation{0};

namespace {
/// Where this cannot be had (no memory while the program starts), a child is taken for its parent.
[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { fork_generation.fetch_add(1, std::memory_order_relaxed); });
}  // namespace

}  // namespace tessera::detail
