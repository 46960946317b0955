// What was used longest ago goes first.
#include "server/grammar_cache.hpp"

#include <chrono>
#include <numeric>
#include <utility>

#include "server/host_memory.hpp"

namespace mortar::server {
namespace {

/// Compiling takes memory in proportion to its steps, and so to its time: tens of megabytes where it takes longer than
/// this, which the C library would keep for each thread that compiles, also where the grammar is rejected in the end.
constexpr std::chrono::milliseconds kMuchWork{50};

class MuchWork {
 public:
  MuchWork() = default;
  ~MuchWork() {
    if (std::chrono::steady_clock::now() - begin_ > kMuchWork) release_freed_memory();
  }
  MuchWork(const MuchWork&) = delete;
  MuchWork& operator=(const MuchWork&) = delete;

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

std::shared_ptr<const Grammar> GrammarCache::find(const std::string& key) {
  for (auto at = entries_.begin(); at != entries_.end(); ++at) {
    if (at->key != key) continue;
    entries_.splice(entries_.begin(), entries_, at);
    return at->grammar;
  }
  return nullptr;
}

std::size_t GrammarCache::counted() const {
  return std::accumulate(entries_.begin(), entries_.end(), std::size_t{0},
                         [](std::size_t sum, const Entry& entry) { return sum + entry.bytes(); });
}

void GrammarCache::trim() {
  while (entries_.size() > kGrammars) entries_.pop_back();
  for (std::size_t sum = counted(); sum > limit_; entries_.pop_back()) sum -= entries_.back().bytes();
}

std::shared_ptr<const Grammar> GrammarCache::get(const std::string& key, const std::function<Grammar()>& compile) {
  {
    const std::lock_guard lock(mutex_);
    if (auto known = find(key); known != nullptr) {
      trim();
      return known;
    }
  }
  const auto grammar = [&] {
    const MuchWork work;
    return std::make_shared<const Grammar>(compile());
  }();
  const std::lock_guard lock(mutex_);
  if (auto known = find(key); known != nullptr) return known;  // another thread was faster
  entries_.push_front({key, grammar});
  trim();
  return grammar;
}

std::size_t GrammarCache::bytes() const {
  const std::lock_guard lock(mutex_);
  return counted();
}

std::size_t GrammarCache::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace mortar::server
