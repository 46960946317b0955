// Random identifiers and seeds, from a generator of each thread.
#include "server/ids.hpp"

#include <chrono>
#include <random>

namespace mortar::server {
namespace {

std::mt19937_64& generator() {
  thread_local std::mt19937_64 random = [] {
    std::random_device device;
    std::seed_seq seed{device(), device(), device(), device(), device(), device(), device(), device()};
    return std::mt19937_64(seed);
  }();
  return random;
}

}  // namespace

std::string new_id(std::string_view prefix) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out(prefix);
  for (int half = 0; half < 2; ++half) {
    std::uint64_t bits = generator()();
    for (int i = 0; i < 16; ++i, bits >>= 4) out.push_back(digits[bits & 15]);
  }
  return out;
}

std::uint64_t drawn_seed() { return generator()() >> 11; }

std::int64_t wall_clock() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace mortar::server
