// What threads that submit, cancel and look share with the one that steps. Its lock is never held while something is
// computed or a function of a sequence runs.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/sequence.hpp"

namespace mortar {

class Mailbox {
 public:
  /// 0: any number.
  Mailbox(std::int64_t max_requests, std::int64_t max_tokens) : max_requests_(max_requests), max_tokens_(max_tokens) {}

  /// Gives it an id. Throws QueueFullError.
  SequenceId submit(const SubmissionPtr& submission);
  /// No call of its function begins any more. False if there is none of this id that goes on.
  bool cancel(SequenceId id, std::string reason);
  /// No call of its function for this choice begins any more. False if it does not go on.
  bool cancel_choice(SequenceId id, std::int64_t choice, std::string reason);
  EngineStats stats() const;
  /// Whether there is something to do; waits for it.
  bool wait(std::chrono::milliseconds longest);
  bool wait(const std::stop_token& stop);

  // For the thread that steps.

  struct Cancellation {
    SubmissionPtr submission;
    std::optional<std::int64_t> choice;  ///< none: all choices that go on
    std::string reason;
  };
  struct Letters {
    std::vector<SubmissionPtr> submitted;
    std::vector<Cancellation> cancelled;
    bool empty() const { return submitted.empty() && cancelled.empty(); }
  };
  /// What has come; what was submitted is counted as waiting until publish().
  Letters take();
  /// What has neither ended nor been cancelled.
  std::vector<SubmissionPtr> open() const;
  struct News {
    EngineStats stats;
    std::int64_t queued = 0, queued_tokens = 0;  ///< requests that have not begun
    bool busy = false;                           ///< there is something to do
    std::vector<SequenceId> ended;
  };
  /// How things are, with everything that was taken.
  void publish(News news);

 private:
  bool ready() const { return news_.busy || !letters_.empty(); }

  struct Count {
    std::int64_t requests = 0, sequences = 0, tokens = 0;
    void add(const Submission& s);
  };
  const std::int64_t max_requests_, max_tokens_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  Letters letters_;
  Count arriving_, taken_;  ///< in letters, or taken and not published
  std::unordered_map<SequenceId, SubmissionPtr> open_;
  News news_;
  SequenceId next_id_ = 1;
  std::int64_t submitted_ = 0, rejected_ = 0;
};

}  // namespace mortar
