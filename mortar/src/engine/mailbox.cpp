// Letters between threads.
#include "engine/mailbox.hpp"

#include <utility>

#include "mortar/errors.hpp"

namespace mortar {

void Mailbox::Count::add(const Submission& s) {
  ++requests;
  sequences += std::ssize(s.choices);
  tokens += std::ssize(s.request.ids);
}

SequenceId Mailbox::submit(const SubmissionPtr& submission) {
  const std::int64_t prompt = std::ssize(submission->request.ids);
  {
    const std::lock_guard lock(mutex_);
    const std::int64_t queued = news_.queued + taken_.requests + arriving_.requests;
    const std::int64_t tokens = news_.queued_tokens + taken_.tokens + arriving_.tokens;
    const bool requests_full = max_requests_ > 0 && queued >= max_requests_;
    // A prompt that is larger than the queue can have waits alone.
    const bool tokens_full = max_tokens_ > 0 && queued > 0 && tokens + prompt > max_tokens_;
    if (requests_full || tokens_full) {
      ++rejected_;
      throw QueueFullError(requests_full ? "the queue is full: expected fewer than " + std::to_string(max_requests_) +
                                               " requests that wait (max_queue), found " + std::to_string(queued)
                                         : "the queue is full: expected at most " + std::to_string(max_tokens_) +
                                               " tokens of prompts that wait (max_queue_tokens), found " +
                                               std::to_string(tokens) + " and a prompt of " + std::to_string(prompt));
    }
    submission->id = next_id_++;
    open_.emplace(submission->id, submission);
    arriving_.add(*submission);
    letters_.submitted.push_back(submission);
    ++submitted_;
  }
  changed_.notify_all();
  return submission->id;
}

bool Mailbox::cancel(SequenceId id, std::string reason) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = open_.find(id);
    if (at == open_.end()) return false;
    for (Sequence& s : at->second->choices) s.over = s.cancelled = true;
    letters_.cancelled.push_back({std::move(at->second), std::nullopt, std::move(reason)});
    open_.erase(at);
  }
  changed_.notify_all();
  return true;
}

bool Mailbox::cancel_choice(SequenceId id, std::int64_t choice, std::string reason) {
  {
    const std::lock_guard lock(mutex_);
    const auto at = open_.find(id);
    if (at == open_.end() || choice < 0 || choice >= std::ssize(at->second->choices)) return false;
    Sequence& s = at->second->choices[static_cast<std::size_t>(choice)];
    if (s.over.exchange(true)) return false;
    s.cancelled = true;
    letters_.cancelled.push_back({at->second, choice, std::move(reason)});  // it is open until its last choice ends
  }
  changed_.notify_all();
  return true;
}

EngineStats Mailbox::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = news_.stats;
  stats.submitted = submitted_;
  stats.rejected = rejected_;
  stats.waiting += taken_.sequences + arriving_.sequences;
  stats.waiting_tokens += taken_.tokens + arriving_.tokens;
  return stats;
}

bool Mailbox::wait(std::chrono::milliseconds longest) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, longest, [&] { return ready(); });
}

bool Mailbox::wait(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  return changed_.wait(lock, stop, [&] { return ready(); });
}

Mailbox::Letters Mailbox::take() {
  const std::lock_guard lock(mutex_);
  for (const SubmissionPtr& s : letters_.submitted) taken_.add(*s);
  arriving_ = {};
  return std::exchange(letters_, {});
}

std::vector<SubmissionPtr> Mailbox::open() const {
  const std::lock_guard lock(mutex_);
  std::vector<SubmissionPtr> all;
  for (const auto& [id, submission] : open_) all.push_back(submission);
  return all;
}

void Mailbox::publish(News news) {
  std::vector<SubmissionPtr> ended;  // freed without the lock
  {
    const std::lock_guard lock(mutex_);
    taken_ = {};
    for (const SequenceId id : news.ended) {
      const auto at = open_.find(id);
      if (at == open_.end()) continue;
      ended.push_back(std::move(at->second));
      open_.erase(at);
    }
    news.ended.clear();
    news_ = std::move(news);
  }
  changed_.notify_all();
}

}  // namespace mortar
