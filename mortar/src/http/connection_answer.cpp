// How a connection writes an answer: as it comes, in pieces that a client takes at its own pace, within limits.
#include <algorithm>
#include <utility>

#include "exchange.hpp"

namespace mortar {

asio::awaitable<bool> Connection::write_answer(Exchange& x) {
  const auto ping = server_->options.ping_interval;
  TimePoint last = Clock::now();
  for (;;) {
    ReplyState::Piece piece = reply_->take();
    if (piece.abandoned && !x.has_head && !piece.head)
      piece = piece_of_fault({500, "internal_error", "the server failed to answer"}, {});
    const bool ended = piece.ended, broken = piece.abandoned;
    if (piece.overflown) slow_ = true;
    if (slow_) {
      x.entry.end = "slow_reader";
      close();
      co_return false;
    }
    if (broken) piece.ended = false;  // no last chunk: the answer must not look complete
    std::string bytes = bytes_of(x, std::move(piece));
    if (!bytes.empty()) {
      const bool written = co_await write(std::move(bytes));
      last = Clock::now();
      if (x.entry.first_byte.count() == 0) x.entry.first_byte = last - x.start;
      if (!written) {
        x.entry.end = slow_ ? "slow_reader" : "gone";
        co_return false;
      }
      if (!ended) continue;
    }
    if (ended && broken) {
      x.entry.end = "abandoned";
      close();
      co_return false;
    }
    if (ended) co_return true;
    if (input_ended_ || closed_) {
      x.entry.end = closed_ ? "stopped" : "gone";
      co_return false;
    }
    const bool pings = x.stream && ping.count() > 0;
    const bool woken = co_await wait(pings ? last + ping : TimePoint::max());
    if (woken || !pings) continue;
    std::string comment;
    if (x.chunked)
      append_chunk(comment, ": ping\n\n");
    else
      comment = ": ping\n\n";
    last = Clock::now();
    const bool written = x.head_only || co_await write(std::move(comment));
    if (!written) {
      x.entry.end = slow_ ? "slow_reader" : "gone";
      co_return false;
    }
  }
}

/// The piece as it is sent: behind the head if it is the first, in chunks if the answer is.
std::string Connection::bytes_of(Exchange& x, ReplyState::Piece piece) {
  std::string bytes;
  if (piece.head) {
    x.has_head = true;
    x.stream = piece.head->stream;
    x.chunked = x.stream && x.version >= 11;
    x.keep_alive = x.keep_alive && !server_->draining && (!x.stream || x.chunked);
    x.entry.status = piece.head->status;
    const Framing framing = piece.head->status == 204 ? Framing::None
                            : x.chunked               ? Framing::Chunked
                            : x.stream                ? Framing::ToEnd
                                                      : Framing::Length;
    const HttpHeaders own = {{"X-Request-Id", x.admission.id}};
    static const HttpHeaders kOfStreams = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}, kNone;
    append_response_head(
        bytes, {piece.head->status, piece.head->content_type, framing, piece.head->length, x.keep_alive, x.version},
        {&own, x.stream ? &kOfStreams : &kNone, &x.admission.cors, &piece.head->headers});
  }
  if (x.head_only) return bytes;
  if (x.chunked) {
    append_chunk(bytes, piece.data);
    if (piece.ended) bytes += "0\r\n\r\n";
  } else {
    bytes += piece.data;
  }
  return bytes;
}

/// An answer of the server's own; one with the status 0 is that to OPTIONS.
asio::awaitable<bool> Connection::write_fault(Exchange& x, const HttpFault& fault) {
  ReplyState::Piece piece;
  if (fault.status == 0) {
    piece.head = ReplyHead{x.admission.at_once.value_or(204), "", x.admission.headers, false, 0};
    piece.ended = true;
  } else {
    piece = piece_of_fault(fault, x.admission.headers);
  }
  std::string bytes = bytes_of(x, std::move(piece));
  const bool written = co_await write(std::move(bytes));
  if (!written) x.entry.end = slow_ ? "slow_reader" : "gone";
  co_return written;
}

ReplyState::Piece Connection::piece_of_fault(const HttpFault& fault, HttpHeaders headers) const {
  ReplyState::Piece piece;
  piece.data = server_->error_body(fault.status, fault.message, fault.code);
  piece.head = ReplyHead{fault.status, "application/json", std::move(headers), false, piece.data.size()};
  piece.ended = true;
  return piece;
}

/// All of `data`; false if the client has gone, or takes nothing for write_timeout, or takes it more slowly than
/// slowest_reader, or leaves too much of a stream unread.
asio::awaitable<bool> Connection::write(std::string data) {
  std::size_t done = 0;
  const std::chrono::duration<double> for_all(static_cast<double>(data.size()) /
                                              static_cast<double>(server_->options.slowest_reader));
  const TimePoint latest =
      Clock::now() + server_->options.write_timeout + std::chrono::duration_cast<std::chrono::nanoseconds>(for_all);
  while (done < data.size() && !closed_) {
    writing_ = true;
    transport_->write_some(asio::buffer(data.data() + done, data.size() - done),
                           [this, self = shared_from_this()](ErrorCode error, std::size_t n) {
                             writing_ = false;
                             write_failed_ = static_cast<bool>(error);
                             written_ = n;
                             wake();
                           });
    TimePoint deadline = std::min(Clock::now() + server_->options.write_timeout, latest);
    while (writing_) {
      const bool woken = co_await wait(deadline);
      const bool too_much = reply_ && reply_->overflown();
      if ((woken && !too_much) || !writing_ || closed_) continue;
      slow_ = true;
      close();  // ends the write
      deadline = TimePoint::max();
    }
    if (write_failed_) co_return false;
    done += written_;
    bytes_out_ += written_;
    server_->counters.bytes_out += written_;
  }
  co_return done == data.size();
}

}  // namespace mortar
