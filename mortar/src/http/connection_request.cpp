// How a connection reads a request: its head, its body, the handler that answers it.
#include <boost/asio/post.hpp>
#include <utility>

#include "body_memory.hpp"
#include "exchange.hpp"

namespace mortar {

namespace {

constexpr double kSlowestBody = 64 << 10;  ///< bytes per second that extend the time of a body

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

asio::awaitable<bool> Connection::read_body(BodyMemory& memory, std::optional<HttpFault>& fault) {
  const TimePoint start = Clock::now();
  const std::uint64_t before = bytes_in_;
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
  auto memory = std::make_shared<BodyMemory>(server_);
  const bool whole = co_await read_body(*memory, fault);
  if (!whole) {
    x.entry.end = "gone";
    co_return false;
  }
  if (fault) {
    x.keep_alive = false;
    if (fault->status == 503) x.admission.headers = {{"Retry-After", "1"}};
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
                        peer_,
                        std::move(memory)};
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
