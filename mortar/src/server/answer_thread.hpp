// The thread between the engine and the clients: it parses tokens and writes answers, so that the engine does neither.
// What comes while it is busy is one piece for each choice.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "server/run.hpp"

namespace mortar::server {

class AnswerThread {
 public:
  /// Runs that take longer than `timeout` seconds fail; 0: no limit.
  explicit AnswerThread(double timeout);
  ~AnswerThread();
  AnswerThread(const AnswerThread&) = delete;
  AnswerThread& operator=(const AnswerThread&) = delete;

  /// From any thread.
  void deliver(Run::Arrived arrived);
  /// The run's timeout begins, and fail_all() reaches it, also one that was called before.
  void watch(const std::shared_ptr<Run>& run);
  /// Calls `work` on the thread.
  void post(std::function<void()> work);
  /// All runs that have not ended fail, and all that come later; returns when the former is done.
  void fail_all(const ApiError& error);
  std::size_t live();

 private:
  void loop();
  void fail_late();

  double timeout_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Run::Arrived> arrived_;
  std::vector<std::function<void()>> work_;
  std::vector<std::weak_ptr<Run>> runs_;
  bool ends_ = false;
  std::optional<ApiError> last_;  ///< of fail_all()
  std::thread thread_;
};

}  // namespace mortar::server
