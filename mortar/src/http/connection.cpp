// The life of a connection. Whatever happens (bytes, the end of a write, an answer, the end of a time) cancels one
// timer, and the coroutine looks at what there is to do; so there is one place for each decision, and no order of
// events is lost.
#include "connection.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace mortar {

using TimePoint = Connection::Clock::time_point;

namespace {

constexpr std::size_t kInputLimit = 64 << 10;  ///< bytes of further requests that are read ahead
constexpr double kSlowestBody = 64 << 10;      ///< bytes per second that extend the time of a body

/// A request that counts as active.
class Active {
 public:
  explicit Active(ServerState& server) : server_(server) {
    const std::lock_guard lock(server_.mutex);
    ++server_.active;
  }
  ~Active() {
    const std::lock_guard lock(server_.mutex);
    if (--server_.active == 0) server_.answered.notify_all();
  }
  Active(const Active&) = delete;
  Active& operator=(const Active&) = delete;

 private:
  ServerState& server_;
};

/// The memory of one body while it is being received.
class BodyMemory {
 public:
  explicit BodyMemory(ServerState& server) : server_(server) {}
  ~BodyMemory() { server_.body_bytes -= counted_; }
  BodyMemory(const BodyMemory&) = delete;
  BodyMemory& operator=(const BodyMemory&) = delete;
  /// False if all bodies together are too much.
  bool grow(std::size_t bytes) {
    const std::size_t more = bytes - counted_;
    counted_ = bytes;
    return (server_.body_bytes += more) <= server_.options.body_memory;
  }

 private:
  ServerState& server_;
  std::size_t counted_ = 0;
};

}  // namespace

/// Wakes a connection from another thread. The loop is destroyed last.
struct Connection::Waker {
  std::shared_ptr<asio::io_context> loop;
  asio::any_io_executor strand;
  std::weak_ptr<Connection> connection;
  void operator()() const {
    asio::post(strand, [connection = connection] {
      if (const auto self = connection.lock()) self->wake();
    });
  }
};

struct Connection::Exchange {
  Admission admission;
  AccessEntry entry;
  TimePoint start = Clock::now();
  std::uint64_t in_before = 0, out_before = 0;
  int version = 11;
  bool head_only = false;   ///< the answer to HEAD
  bool keep_alive = false;  ///< what the client wants, and the request allows
  bool has_head = false, stream = false, chunked = false;
};

Connection::Connection(std::shared_ptr<ServerState> server, asio::ip::tcp::socket socket, const std::string& address,
                       int port)
    : server_(std::move(server)),
      transport_(make_server_transport(std::move(socket), server_->tls.get())),
      timer_(transport_->socket().get_executor()),
      address_(address),
      peer_(address.find(':') == std::string::npos ? address + ":" + std::to_string(port)
                                                   : "[" + address + "]:" + std::to_string(port)) {}

void Connection::start() {
  waiting_since_ = Clock::now().time_since_epoch().count();
  asio::co_spawn(
      timer_.get_executor(), [this] { return run(); },
      [self = shared_from_this()](std::exception_ptr error) { self->finish(error); });
}

void Connection::abort() {
  asio::post(timer_.get_executor(), [self = shared_from_this()] {
    self->close();
    self->wake();
  });
}

void Connection::close_unless_busy(bool only_idle) {
  closing_ = true;
  asio::post(timer_.get_executor(), [self = shared_from_this(), only_idle] {
    const bool begun = !self->in_.empty() || (self->parser_ && !self->parser_->head.method.empty());
    if (self->waiting_since_ == 0 || (only_idle && begun)) {
      self->closing_ = false;
      return;
    }
    self->close();
    self->wake();
  });
}

void Connection::close() {
  closed_ = true;
  transport_->close();
}

/// The last act, whether the coroutine ended or threw (which only a lack of memory does).
void Connection::finish(std::exception_ptr) {
  close();
  if (reply_) std::exchange(reply_, nullptr)->set_gone();
  const std::lock_guard lock(server_->mutex);
  server_->connections.erase(this);
  const auto count = server_->per_address.find(address_);
  if (count != server_->per_address.end() && --count->second == 0) server_->per_address.erase(count);
  server_->answered.notify_all();
}

asio::awaitable<void> Connection::run() {
  bool shaken = false, failed = false;
  transport_->handshake([this, self = shared_from_this(), &shaken, &failed](ErrorCode error, std::size_t) {
    shaken = true;
    failed = static_cast<bool>(error);
    wake();
  });
  reading_ = true;  // nothing else reads meanwhile
  TimePoint deadline = Clock::now() + server_->options.header_timeout;
  while (!shaken) {
    const bool woken = co_await wait(deadline);
    if (woken) continue;
    ++server_->counters.timeouts;
    close();  // ends the handshake
    deadline = TimePoint::max();
  }
  reading_ = false;
  if (failed || closed_) co_return;
  for (;;) {
    const bool again = co_await serve_one();
    if (!again) break;
  }
  co_await linger();
}

asio::awaitable<bool> Connection::wait(TimePoint deadline) {
  start_reading();
  timer_.expires_at(deadline);
  ErrorCode error;
  co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, error));
  co_return error == asio::error::operation_aborted;
}

void Connection::start_reading() {
  if (reading_ || input_ended_ || closed_ || in_.size() >= kInputLimit) return;
  reading_ = true;
  transport_->read_some(asio::buffer(read_buffer_), [this, self = shared_from_this()](ErrorCode error, std::size_t n) {
    reading_ = false;
    input_ended_ = static_cast<bool>(error);
    in_.append(read_buffer_.data(), n);
    bytes_in_ += n;
    server_->counters.bytes_in += n;
    wake();
  });
}

/// Gives the parser what has been read. False if it needs more.
bool Connection::feed(std::optional<HttpFault>& fault) {
  if (!parser_->head_done() && parser_->head.method.empty()) {  // an empty line before a request (RFC 9112, 2.2)
    const std::size_t begin = in_.find_first_not_of("\r\n");
    in_.erase(0, begin);
  }
  if (in_.empty()) return false;
  const std::size_t used = parser_->put(in_, fault);
  in_.erase(0, used);
  return used > 0 || fault;
}

/// False if the connection ends instead. Slow and malformed heads are faults.
asio::awaitable<bool> Connection::read_head(std::optional<HttpFault>& fault) {
  const HttpOptions& options = server_->options;
  parser_ = make_request_parser({options.header_limit, options.header_count, options.body_limit});
  const TimePoint start = Clock::now();
  const bool first = bytes_out_ == 0;
  bool begun = false;
  TimePoint deadline = start + (first ? options.header_timeout : options.keep_alive);
  waiting_since_ = start.time_since_epoch().count();
  while (!parser_->head_done()) {
    const bool more = feed(fault);
    if (!begun && (!in_.empty() || more)) {
      begun = true;
      deadline = Clock::now() + options.header_timeout;
    }
    if (fault) {
      ++server_->counters.malformed;
      co_return true;
    }
    if (more) continue;
    if (input_ended_ || closed_ || (server_->draining && !begun && !first)) co_return false;
    const bool woken = co_await wait(deadline);
    if (woken) continue;
    if (!begun) co_return false;
    ++server_->counters.timeouts;
    fault = HttpFault{408, "request_timeout", "the head of the request came too slowly"};
    co_return true;
  }
  waiting_since_ = 0;
  co_return true;
}

asio::awaitable<bool> Connection::read_body(std::optional<HttpFault>& fault) {
  const TimePoint start = Clock::now();
  const std::uint64_t before = bytes_in_;
  BodyMemory memory(*server_);
  while (!parser_->done()) {
    const bool more = feed(fault);
    if (fault) {
      ++server_->counters.malformed;
      co_return true;
    }
    if (!memory.grow(parser_->body.size())) {
      fault = HttpFault{503, "bodies_too_large", "too many large requests at a time"};
      co_return true;
    }
    if (more || parser_->done()) continue;
    if (input_ended_ || closed_) co_return false;
    const std::chrono::duration<double> bonus(static_cast<double>(bytes_in_ - before) / kSlowestBody);
    const TimePoint deadline =
        start + server_->options.read_timeout + std::chrono::duration_cast<std::chrono::nanoseconds>(bonus);
    const bool woken = co_await wait(deadline);
    if (woken) continue;
    ++server_->counters.timeouts;
    fault = HttpFault{408, "request_timeout", "the body of the request came too slowly"};
  }
  co_return true;
}

/// One request and its answer. False if the connection cannot be used again.
asio::awaitable<bool> Connection::serve_one() {
  Exchange x;
  x.in_before = bytes_in_ - in_.size();
  x.out_before = bytes_out_;
  std::optional<HttpFault> fault;
  const bool has_request = co_await read_head(fault);
  if (!has_request) co_return false;
  const Active active(*server_);
  ++server_->counters.requests;
  x.start = Clock::now();
  const MessageHead& head = parser_->head;
  x.version = head.version;
  x.head_only = head.method == "HEAD";
  bool written = false;
  if (fault) {
    x.admission.id = request_id(head.headers);
    x.admission.target = head.target.substr(0, head.target.find('?'));
    written = co_await write_fault(x, *fault);
  } else {
    x.admission = admit(*server_, head);
    x.keep_alive = head.keep_alive && server_->options.keep_alive.count() > 0;
    if (x.admission.route == nullptr) {
      x.keep_alive = x.keep_alive && !head.has_body;
      const HttpFault rejection = x.admission.rejection.value_or(HttpFault{});
      written = co_await write_fault(x, rejection);
    } else {
      written = co_await call_handler(x);
    }
  }
  log(x);
  co_return written&& x.keep_alive;
}

/// Reads the body, calls the handler and writes its answer.
asio::awaitable<bool> Connection::call_handler(Exchange& x) {
  std::optional<HttpFault> fault;
  if (x.admission.expects_continue && in_.empty()) {
    const bool written = co_await write("HTTP/1.1 100 Continue\r\n\r\n");
    if (!written) co_return false;
  }
  const bool whole = co_await read_body(fault);
  if (!whole) {
    x.entry.end = "gone";
    co_return false;
  }
  if (fault) {
    x.keep_alive = false;
    const bool written = co_await write_fault(x, *fault);
    co_return written;
  }
  x.start = Clock::now();
  reply_ = std::make_shared<ReplyState>(server_->options.max_pending,
                                        Waker{server_->loop, timer_.get_executor(), weak_from_this()});
  {
    const auto reply = make_reply(reply_);
    HttpRequest request{parser_->head.method,
                        x.admission.target,
                        x.admission.query,
                        std::move(parser_->head.headers),
                        std::move(x.admission.parameters),
                        std::move(parser_->body),
                        x.admission.id,
                        x.admission.key,
                        peer_};
    try {
      x.admission.route->handler(std::move(request), reply);
    } catch (const std::exception& error) { x.entry.error = error.what(); } catch (...) {
      x.entry.error = "an exception of an unknown type";
    }
  }
  const bool written = co_await write_answer(x);
  const auto reply = std::exchange(reply_, nullptr);
  if (written)
    reply->set_complete();
  else
    reply->set_gone();
  co_return written;
}

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
  piece.data = server_->write_error(fault.status, fault.message, fault.code);
  piece.head = ReplyHead{fault.status, "application/json", std::move(headers), false, piece.data.size()};
  piece.ended = true;
  return piece;
}

/// All of `data`; false if the client has gone, or takes nothing for write_timeout, or leaves too much of a stream
/// unread.
asio::awaitable<bool> Connection::write(std::string data) {
  std::size_t done = 0;
  while (done < data.size() && !closed_) {
    writing_ = true;
    transport_->write_some(asio::buffer(data.data() + done, data.size() - done),
                           [this, self = shared_from_this()](ErrorCode error, std::size_t n) {
                             writing_ = false;
                             write_failed_ = static_cast<bool>(error);
                             written_ = n;
                             wake();
                           });
    TimePoint deadline = Clock::now() + server_->options.write_timeout;
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

/// Closing while there is unread input would make the kernel drop the answer (RFC 9112, 9.6): says that nothing more
/// comes, and discards input for a while.
asio::awaitable<void> Connection::linger() {
  if (closed_ || write_failed_) co_return;
  bool ended = false;
  // The callback may come after this function has returned.
  const auto flag = std::make_shared<bool>(false);
  transport_->end_writing([this, self = shared_from_this(), flag](ErrorCode, std::size_t) {
    *flag = true;
    wake();
  });
  const TimePoint deadline = Clock::now() + server_->options.linger_timeout;
  while (!ended && !closed_ && !(input_ended_ && *flag)) {
    in_.clear();
    const bool woken = co_await wait(deadline);
    ended = !woken;
  }
}

void Connection::log(Exchange& x) {
  AccessEntry& e = x.entry;
  if (e.end == "gone" || e.end == "slow_reader") ++server_->counters.gone;
  if (e.end == "slow_reader") ++server_->counters.slow_readers;
  if (!server_->log.enabled()) return;
  e.id = x.admission.id;
  e.peer = peer_;
  e.key = x.admission.key;
  e.method = parser_->head.method;
  e.path = x.admission.target;
  e.bytes_in = bytes_in_ - in_.size() - x.in_before;
  e.bytes_out = bytes_out_ - x.out_before;
  e.time = Clock::now() - x.start;
  server_->log.write(e);
}

}  // namespace mortar
