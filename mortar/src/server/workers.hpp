// Threads for what takes longer than an HTTP thread may: parsing, templates, tokenizing, compiling grammars.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mortar::server {

class Workers {
 public:
  explicit Workers(int threads);
  ~Workers() { stop(); }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  /// Waits for what has begun and drops the rest, and all that comes.
  void stop();
  /// `work` must not throw. False if too much waits already, or after stop(): it is dropped.
  bool post(std::function<void()> work);

 private:
  void loop();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool ends_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace mortar::server
