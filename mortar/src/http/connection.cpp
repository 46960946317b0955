// The life of a connection. Whatever happens (bytes, the end of a write, an answer, the end of a time) cancels one
// timer, and the coroutine looks at what there is to do; so there is one place for each decision, and no order of
// events is lost. connection_request.cpp reads requests, connection_answer.cpp writes answers.
#include "connection.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace mortar {

namespace {

constexpr std::size_t kInputLimit = 64 << 10;  ///< bytes of further requests that are read ahead

}  // namespace

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

}  // namespace mortar
