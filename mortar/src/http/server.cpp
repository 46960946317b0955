// The server: listening, threads, the set of connections.
#include "net.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <future>
#include <thread>
#include <utility>

#include "connection.hpp"
#include "mortar/errors.hpp"
#include "server_state.hpp"
#include "text/json_writer.hpp"
#include "text/utf8.hpp"

namespace mortar {
namespace {

using asio::ip::tcp;
using Clock = Connection::Clock;

/// OpenAI's shape of an error.
std::string openai_error(int status, const std::string& message, std::string_view code) {
  std::string out = "{\"error\":{\"message\":";
  text::append_json_string(out, message);
  out += R"(,"type":)";
  text::append_json_string(out, status == 401   ? "authentication_error"
                                : status == 403 ? "permission_error"
                                : status == 503 ? "unavailable_error"
                                : status >= 500 ? "server_error"
                                                : "invalid_request_error");
  out += R"(,"param":null,"code":)";
  text::append_json_string(out, code);
  return out + "}}";
}

/// Raises the limit of open files to what the user may have, and returns how many connections it leaves room for.
std::size_t connections_for_files() {
  constexpr rlim_t kOthers = 64;  // of the model, the log, the loop
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, 1 << 20);
  if (limit.rlim_cur > before && setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  limit.rlim_cur = std::max(limit.rlim_cur, before);
  return std::max<std::size_t>(limit.rlim_cur > kOthers ? limit.rlim_cur - kOthers : 0, 8);
}

}  // namespace

ServerState::ServerState(HttpOptions given)
    : options(std::move(given)),
      write_error(openai_error),
      keys(options.api_keys),
      log(options.log_path, options.log),
      loop(std::make_shared<asio::io_context>(std::max(options.threads, 1))) {
  if (options.tls_cert.empty() != options.tls_key.empty())
    throw RequestError("expected a certificate and a key for TLS, found one of them only");
  if (!options.tls_cert.empty()) tls = make_server_tls(options.tls_cert, options.tls_key);
}

std::string ServerState::error_body(int status, std::string_view message, std::string_view code) const {
  return write_error(status, text::replace_invalid_utf8(message), code);
}

class HttpServer::State {
 public:
  explicit State(HttpOptions options) : shared(std::make_shared<ServerState>(std::move(options))) {}

  void listen();
  void accept();
  void take(tcp::socket socket);
  /// Without a coroutine or a buffer of its own: a 503 into the kernel's buffer, and the end.
  void reject(tcp::socket socket);
  /// Makes room by closing the connection that has waited longest without a whole request. False: all are busy.
  bool displace();

  std::shared_ptr<ServerState> shared;
  asio::strand<asio::io_context::executor_type> strand = asio::make_strand(*shared->loop);
  tcp::acceptor acceptor{strand};
  asio::steady_timer pause{strand};
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::vector<std::thread> threads;
  int port = 0;
};

void HttpServer::State::listen() {
  HttpOptions& options = shared->options;
  const std::string where = options.host + ":" + std::to_string(options.port);
  const auto check = [&](const ErrorCode& error, const char* what) {
    if (error) throw RequestError(where + ": " + what + ": " + error.message());
  };
  ErrorCode error;
  tcp::resolver resolver(*shared->loop);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), tcp::resolver::passive, error);
  check(error, "the address is not known");
  // localhost is both; clients try 127.0.0.1 more often than ::1 alone.
  auto chosen = std::find_if(found.begin(), found.end(), [](const auto& e) { return e.endpoint().address().is_v4(); });
  if (chosen == found.end()) chosen = found.begin();
  const tcp::endpoint endpoint = *chosen;
  acceptor.open(endpoint.protocol(), error);
  check(error, "cannot listen");
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  acceptor.bind(endpoint, error);
  check(error, "cannot listen");
  acceptor.listen(asio::socket_base::max_listen_connections, error);
  check(error, "cannot listen");
  port = acceptor.local_endpoint(error).port();
  shared->on_loopback = endpoint.address().is_loopback();
  options.max_connections = std::min(options.max_connections, connections_for_files());
}

void HttpServer::State::accept() {
  acceptor.async_accept(asio::make_strand(*shared->loop), [this](ErrorCode error, tcp::socket socket) {
    if (!acceptor.is_open()) return;
    if (!error) {
      take(std::move(socket));
      return accept();
    }
    // No file descriptor or memory is left: the client waits in the queue of the kernel.
    displace();
    pause.expires_after(std::chrono::milliseconds(50));
    pause.async_wait([this](ErrorCode stopped) {
      if (!stopped && acceptor.is_open()) accept();
    });
  });
}

void HttpServer::State::take(tcp::socket socket) {
  ErrorCode error;
  const tcp::endpoint peer = socket.remote_endpoint(error);
  if (error) return;
  const std::string address = peer.address().to_string();
  const HttpOptions& options = shared->options;
  std::unique_lock lock(shared->mutex);
  const bool full = shared->connections.size() >= options.max_connections;
  const bool too_many =
      options.max_connections_per_address > 0 && shared->per_address[address] >= options.max_connections_per_address;
  lock.unlock();
  if (too_many || (full && !displace())) {
    ++shared->counters.rejected;
    return reject(std::move(socket));
  }
  set_socket_options(socket, options.write_timeout);
  ++shared->counters.accepted;
  const auto connection = std::make_shared<Connection>(shared, std::move(socket), address, peer.port());
  lock.lock();
  shared->connections.emplace(connection.get(), connection);
  ++shared->per_address[address];
  lock.unlock();
  connection->start();
}

void HttpServer::State::reject(tcp::socket socket) {
  if (shared->tls) return;
  const std::string body = shared->error_body(503, "too many connections", "too_many_connections");
  const HttpHeaders retry = {{"Retry-After", "1"}};
  std::string bytes;
  append_response_head(bytes, {503, "application/json", Framing::Length, body.size(), false, 11}, {&retry});
  bytes += body;
  ErrorCode ignored;
  socket.non_blocking(true, ignored);
  socket.write_some(asio::buffer(bytes), ignored);
  socket.shutdown(tcp::socket::shutdown_send, ignored);
}

bool HttpServer::State::displace() {
  std::shared_ptr<Connection> oldest;
  std::int64_t since = 0;
  {
    const std::lock_guard lock(shared->mutex);
    for (const auto& [pointer, weak] : shared->connections) {
      const std::int64_t waiting = pointer->waiting_since();
      if (waiting == 0 || (oldest && waiting >= since)) continue;
      auto connection = weak.lock();
      if (!connection) continue;
      since = waiting;
      oldest = std::move(connection);
    }
  }
  if (!oldest) return false;
  ++shared->counters.displaced;
  oldest->close_unless_busy(false);
  return true;
}

HttpServer::HttpServer(HttpOptions options) : state_(std::make_unique<State>(std::move(options))) {}
HttpServer::~HttpServer() { stop(); }

void HttpServer::route(std::string method, std::string pattern, HttpHandler handler) {
  state_->shared->router.add(std::move(method), std::move(pattern), std::move(handler));
}
void HttpServer::on_error(HttpErrorWriter writer) { state_->shared->write_error = std::move(writer); }
int HttpServer::port() const { return state_->port; }
void HttpServer::reopen_log() { state_->shared->log.reopen(); }

void HttpServer::start() {
  if (state_->work || state_->port != 0) throw RequestError("the server has been started before");
  state_->listen();
  state_->work.emplace(state_->shared->loop->get_executor());
  state_->accept();
  for (int i = 0; i < std::max(state_->shared->options.threads, 1); ++i)
    state_->threads.emplace_back([loop = state_->shared->loop] { loop->run(); });
}

namespace {

std::vector<std::shared_ptr<Connection>> connections_of(ServerState& state) {
  std::vector<std::shared_ptr<Connection>> all;
  const std::lock_guard lock(state.mutex);
  for (const auto& entry : state.connections)
    if (auto connection = entry.second.lock()) all.push_back(std::move(connection));
  return all;
}

}  // namespace

void HttpServer::stop_accepting() {
  State& s = *state_;
  if (s.shared->draining.exchange(true) || !s.work) return;
  std::promise<void> closed;
  asio::post(s.strand, [&] {
    ErrorCode ignored;
    s.acceptor.close(ignored);
    s.pause.cancel();
    closed.set_value();
  });
  closed.get_future().wait();
  for (const auto& connection : connections_of(*s.shared)) connection->close_unless_busy(true);
}

bool HttpServer::drain(std::chrono::milliseconds timeout) {
  ServerState& s = *state_->shared;
  std::unique_lock lock(s.mutex);
  return s.answered.wait_for(lock, timeout, [&] { return s.active == 0; });
}

void HttpServer::stop() {
  State& s = *state_;
  if (!s.work) return;
  stop_accepting();
  for (const auto& connection : connections_of(*s.shared)) connection->abort();
  s.work.reset();
  for (std::thread& thread : s.threads) thread.join();
  s.threads.clear();
}

HttpStats HttpServer::stats() const {
  ServerState& s = *state_->shared;
  const ServerCounters& c = s.counters;
  HttpStats out;
  {
    const std::lock_guard lock(s.mutex);
    out.connections = s.connections.size();
    out.active = s.active;
  }
  out.accepted = c.accepted;
  out.rejected = c.rejected;
  out.displaced = c.displaced;
  out.requests = c.requests;
  out.gone = c.gone;
  out.slow_readers = c.slow_readers;
  out.timeouts = c.timeouts;
  out.malformed = c.malformed;
  out.bytes_in = c.bytes_in;
  out.bytes_out = c.bytes_out;
  return out;
}

}  // namespace mortar
