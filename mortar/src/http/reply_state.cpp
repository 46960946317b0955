// States of an answer: nothing, begun, ended; beside it whether the client is still there.
#include "reply_state.hpp"

#include <utility>

namespace mortar {
namespace {

class Reply final : public HttpReply {
 public:
  explicit Reply(std::shared_ptr<ReplyState> state) : state_(std::move(state)) {}
  ~Reply() override { state_->abandon(); }
  void send(int status, std::string content_type, std::string body, HttpHeaders headers) override {
    ReplyHead head{status, std::move(content_type), std::move(headers), false, body.size()};
    state_->send(std::move(head), std::move(body));
  }
  void begin_stream(HttpHeaders headers) override { state_->begin_stream(std::move(headers)); }
  bool event(std::string_view data) override { return state_->event({}, data); }
  bool event(std::string_view name, std::string_view data) override { return state_->event(name, data); }
  void end_stream() override { state_->end_stream(); }
  void on_gone(std::function<void()> callback) override { state_->on_gone(std::move(callback)); }
  bool gone() const override { return state_->gone(); }

 private:
  std::shared_ptr<ReplyState> state_;
};

}  // namespace

std::shared_ptr<HttpReply> make_reply(std::shared_ptr<ReplyState> state) {
  return std::make_shared<Reply>(std::move(state));
}

void append_event(std::string& out, std::string_view name, std::string_view data) {
  if (!name.empty()) {
    out += "event: ";
    for (const char c : name) out += c == '\r' || c == '\n' ? ' ' : c;
    out += '\n';
  }
  for (;;) {
    const std::size_t end = data.find_first_of("\r\n");
    out += "data: ";
    out += data.substr(0, end);
    out += '\n';
    if (end == std::string_view::npos) break;
    data.remove_prefix(end + (data.substr(end, 2) == "\r\n" ? 2 : 1));
  }
  out += '\n';
}

ReplyState::ReplyState(std::size_t max_pending, std::function<void()> wake)
    : max_pending_(max_pending), wake_(std::move(wake)) {}

void ReplyState::notify(std::unique_lock<std::mutex>& lock) {
  const bool first = !std::exchange(notified_, true);
  lock.unlock();
  if (first) wake_();
}

void ReplyState::send(ReplyHead head, std::string body) {
  std::unique_lock lock(mutex_);
  if (begun_ || gone_) return;
  begun_ = ended_ = true;
  head_ = std::move(head);
  pending_ = std::move(body);
  notify(lock);
}

void ReplyState::begin_stream(HttpHeaders headers) {
  std::unique_lock lock(mutex_);
  if (begun_ || gone_) return;
  begun_ = stream_ = true;
  head_ = ReplyHead{200, "text/event-stream; charset=utf-8", std::move(headers), true, 0};
  notify(lock);
}

bool ReplyState::event(std::string_view name, std::string_view data) {
  std::unique_lock lock(mutex_);
  if (gone_ || overflown_ || !stream_ || ended_) return false;
  append_event(pending_, name, data);
  overflown_ = pending_.size() + being_written_ > max_pending_;
  if (overflown_) {
    pending_.clear();
    notified_ = false;  // the connection is in the middle of a write, and does not take before its end
  }
  const bool taken = !overflown_;
  notify(lock);
  return taken;
}

void ReplyState::end_stream() {
  std::unique_lock lock(mutex_);
  if (gone_ || !stream_ || ended_) return;
  ended_ = true;
  notify(lock);
}

void ReplyState::abandon() {
  std::unique_lock lock(mutex_);
  if (gone_ || ended_) return;
  ended_ = abandoned_ = true;
  notify(lock);
}

void ReplyState::on_gone(std::function<void()> callback) {
  std::unique_lock lock(mutex_);
  if (complete_) return;
  if (!gone_) {
    on_gone_.swap(callback);  // the one before is destroyed without the lock
    lock.unlock();
    return;
  }
  lock.unlock();
  if (callback) callback();
}

bool ReplyState::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

bool ReplyState::overflown() const {
  const std::lock_guard lock(mutex_);
  return overflown_;
}

ReplyState::Piece ReplyState::take() {
  const std::lock_guard lock(mutex_);
  notified_ = false;
  Piece piece{std::exchange(head_, std::nullopt), std::exchange(pending_, {}), ended_, abandoned_, overflown_};
  being_written_ = piece.data.size();
  return piece;
}

void ReplyState::set_gone() {
  std::unique_lock lock(mutex_);
  if (complete_ || std::exchange(gone_, true)) return;
  const auto callback = std::exchange(on_gone_, {});
  pending_ = {};
  lock.unlock();
  if (callback) callback();
}

void ReplyState::set_complete() {
  std::unique_lock lock(mutex_);
  complete_ = true;
  const auto callback = std::exchange(on_gone_, {});  // may own what the answer needed
  lock.unlock();
}

}  // namespace mortar
