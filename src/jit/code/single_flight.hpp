// Making something once although many threads ask for it: the first one makes it, the others wait for that attempt and
// share its result or its failure. Different keys do not wait for each other.
#pragma once
#include <condition_variable>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "jit/code/sha256.hpp"

namespace tessera::jit {

enum class Keep : bool { No, Yes };  ///< whether a result is kept for those who ask later

template <class T>
class SingleFlight {
 public:
  using Result = std::shared_ptr<const T>;
  explicit SingleFlight(Keep keep) noexcept : keep_(keep) {}

  /// The kept result for `key`, or that of the attempt in flight, or that of `make()`, called without a lock. A failure
  /// is thrown to all threads that waited for it; the next request tries again.
  template <class F>
  Result get(const Digest& key, F&& make) {
    std::unique_lock lock(mutex_);
    if (const auto found = attempts_.find(key); found != attempts_.end()) {
      const std::shared_ptr<Attempt> attempt = found->second;
      attempt->ended.wait(lock, [&] { return attempt->done; });
      if (attempt->failure) std::rethrow_exception(attempt->failure);
      return attempt->result;
    }
    const auto attempt = std::make_shared<Attempt>();
    attempts_.emplace(key, attempt);
    lock.unlock();
    try {
      Result result = make();
      lock.lock();
      attempt->result = std::move(result);
    } catch (...) {
      if (!lock.owns_lock()) lock.lock();
      attempt->failure = std::current_exception();
    }
    attempt->done = true;
    if (keep_ == Keep::No || attempt->failure) attempts_.erase(key);
    attempt->ended.notify_all();
    if (attempt->failure) std::rethrow_exception(attempt->failure);
    return attempt->result;
  }

 private:
  struct Attempt {
    bool done = false;
    Result result;
    std::exception_ptr failure;
    std::condition_variable ended;
  };
  struct Hash {
    std::size_t operator()(const Digest& d) const noexcept {
      std::size_t h = 0;
      std::memcpy(&h, d.data(), sizeof h);
      return h;
    }
  };
  Keep keep_;
  std::mutex mutex_;
  std::unordered_map<Digest, std::shared_ptr<Attempt>, Hash> attempts_;
};

}  // namespace tessera::jit
