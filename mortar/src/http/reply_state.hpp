// The answer to one request, between the threads that give it and the connection that writes it.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "http.hpp"

namespace mortar {

struct ReplyHead {
  int status = 200;
  std::string content_type;
  HttpHeaders headers;
  bool stream = false;
  std::size_t length = 0;  ///< of the body, unless it is a stream
};

class ReplyState {
 public:
  /// `wake` is called, on any thread, when take() has something new; not again before take() was called.
  ReplyState(std::size_t max_pending, std::function<void()> wake);

  // For those who answer (HttpReply).
  void send(ReplyHead head, std::string body);
  void begin_stream(HttpHeaders headers);
  bool event(std::string_view name, std::string_view data);
  void end_stream();
  void on_gone(std::function<void()> callback);
  bool gone() const;
  /// The last pointer has gone away: an answer that has not ended never will.
  void abandon();

  // For the connection, on its strand.
  struct Piece {
    std::optional<ReplyHead> head;  ///< in the first piece
    std::string data;               ///< of the body, not yet framed
    bool ended = false;             ///< nothing follows
    bool abandoned = false;         ///< the rest will never come
    bool overflown = false;         ///< the client left more than max_pending bytes unread
  };
  /// What is to be written; its bytes count as pending until the next call.
  Piece take();
  bool overflown() const;
  /// The client has gone: later calls are ignored, and the callback is called.
  void set_gone();
  /// The client has the whole answer.
  void set_complete();

 private:
  void notify(std::unique_lock<std::mutex>& lock);

  const std::size_t max_pending_;
  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::optional<ReplyHead> head_;
  std::string pending_;
  std::size_t being_written_ = 0;
  bool begun_ = false, stream_ = false, ended_ = false, abandoned_ = false, overflown_ = false;
  bool gone_ = false, complete_ = false, notified_ = false;
  std::function<void()> on_gone_;
};

/// What a handler gets. Its destructor abandons the answer.
std::shared_ptr<HttpReply> make_reply(std::shared_ptr<ReplyState> state);

/// One event in the text/event-stream format: a line for each line of data, and an empty line.
void append_event(std::string& out, std::string_view name, std::string_view data);

}  // namespace mortar
