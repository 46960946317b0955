// The client: one thread with a loop, and a coroutine for each call.
#include "client.hpp"

#include "net.hpp"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <future>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include "message_parser.hpp"
#include "mortar/errors.hpp"
#include "transport.hpp"

namespace mortar {
namespace {

using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

/// One connection: operations that end with their callback, or at a deadline with the end of the connection.
class Link : public std::enable_shared_from_this<Link> {
 public:
  Link(asio::io_context& loop, asio::ssl::context* tls, const std::string& host)
      : transport_(make_client_transport(tcp::socket(loop), tls, host)), timer_(loop) {}

  asio::awaitable<ErrorCode> connect(const std::vector<tcp::endpoint>& endpoints, Clock::time_point deadline) {
    ErrorCode error = asio::error::host_not_found;
    for (const tcp::endpoint& endpoint : endpoints) {
      ErrorCode ignored;
      transport_->socket().close(ignored);
      begin();
      transport_->socket().async_connect(endpoint, [self = shared_from_this()](ErrorCode e) { self->end(e, 0); });
      error = co_await finish(deadline);
      if (!error || timed_out) break;
    }
    if (!error) set_socket_options(transport_->socket(), std::chrono::seconds(30));
    co_return error;
  }
  asio::awaitable<ErrorCode> handshake(Clock::time_point deadline) {
    begin();
    transport_->handshake(callback());
    const ErrorCode error = co_await finish(deadline);
    co_return error;
  }
  /// All of it, which must stay where it is.
  asio::awaitable<ErrorCode> write(std::string_view data, Clock::time_point deadline) {
    ErrorCode error;
    while (!data.empty() && !error) {
      begin();
      transport_->write_some(asio::buffer(data.data(), data.size()), callback());
      error = co_await finish(deadline);
      data.remove_prefix(size_);
    }
    co_return error;
  }
  /// Appends what has come to `input`.
  asio::awaitable<ErrorCode> read(Clock::time_point deadline) {
    begin();
    transport_->read_some(asio::buffer(buffer_), callback());
    const ErrorCode error = co_await finish(deadline);
    input.append(buffer_.data(), size_);
    co_return error;
  }
  /// Ends what is in progress.
  void close() { transport_->close(); }

  std::string input;
  bool timed_out = false;

 private:
  Transport::Callback callback() {
    return [self = shared_from_this()](ErrorCode error, std::size_t n) { self->end(error, n); };
  }
  void begin() {
    busy_ = true;
    size_ = 0;
  }
  void end(ErrorCode error, std::size_t n) {
    busy_ = false;
    error_ = error;
    size_ = n;
    timer_.cancel();
  }
  asio::awaitable<ErrorCode> finish(Clock::time_point deadline) {
    while (busy_) {
      timer_.expires_at(timed_out ? Clock::time_point::max() : deadline);
      ErrorCode error;
      co_await timer_.async_wait(asio::redirect_error(asio::use_awaitable, error));
      if (!busy_ || Clock::now() < deadline || timed_out) continue;
      timed_out = true;
      close();
    }
    co_return error_;
  }

  std::unique_ptr<Transport> transport_;
  asio::steady_timer timer_;
  std::array<char, 32 << 10> buffer_;
  bool busy_ = false;
  ErrorCode error_;
  std::size_t size_ = 0;
};

}  // namespace

class HttpClient::State {
 public:
  State(Url given, HttpClientOptions client_options) : url(std::move(given)), options(std::move(client_options)) {
    if (url.tls) tls = make_client_tls(options.verify, options.authorities);
    ErrorCode error;
    tcp::resolver resolver(loop);
    for (const auto& entry : resolver.resolve(url.host, std::to_string(url.port), error))
      endpoints.push_back(entry.endpoint());
    if (error) throw RequestError(url.host + ": the host is not known: " + error.message());
    thread = std::thread([this] { loop.run(); });
  }

  asio::awaitable<void> run(HttpCall call);
  /// The error of one try. `begun`: something of the answer has come.
  asio::awaitable<std::string> try_once(HttpCall& call, std::shared_ptr<Link> link, bool& begun);
  asio::awaitable<std::string> open(std::shared_ptr<Link> link);
  std::string request_of(const HttpCall& call) const;
  std::string error_of(const char* kind, const ErrorCode& error, const Link& link) const;

  const Url url;
  const HttpClientOptions options;
  asio::io_context loop{1};
  std::shared_ptr<asio::ssl::context> tls;
  std::vector<tcp::endpoint> endpoints;
  // On the thread of the loop.
  std::vector<std::shared_ptr<Link>> idle;
  std::list<std::shared_ptr<Link>> busy;
  bool stopped = false;
  asio::executor_work_guard<asio::io_context::executor_type> work{loop.get_executor()};
  std::thread thread;
};

std::string HttpClient::State::error_of(const char* kind, const ErrorCode& error, const Link& link) const {
  if (stopped) return "cancelled: the client was destroyed";
  if (link.timed_out) return "timeout: while waiting for the server (" + std::string(kind) + ")";
  return std::string(kind) + ": " + error.message();
}

std::string HttpClient::State::request_of(const HttpCall& call) const {
  std::string out = call.method + " " + url.path + call.path + " HTTP/1.1\r\nHost: " + url.authority() + "\r\n";
  for (const auto& [name, value] : call.headers) out += name + ": " + value + "\r\n";
  if (!call.body.empty() || call.method == "POST")
    out += "Content-Length: " + std::to_string(call.body.size()) + "\r\n";
  return out + "\r\n" + call.body;
}

asio::awaitable<std::string> HttpClient::State::open(std::shared_ptr<Link> link) {
  const auto deadline = Clock::now() + options.connect_timeout;
  const ErrorCode connected = co_await link->connect(endpoints, deadline);
  if (connected) co_return error_of("connect", connected, *link);
  const ErrorCode shaken = co_await link->handshake(deadline);
  if (shaken) co_return error_of("tls", shaken, *link);
  co_return std::string();
}

asio::awaitable<std::string> HttpClient::State::try_once(HttpCall& call, std::shared_ptr<Link> link, bool& begun) {
  constexpr MessageLimits kLimits{64 << 10, 1000, ~std::uint64_t{0}};
  const auto deadline = Clock::now() + options.timeout;
  const std::string request = request_of(call);
  // A server may answer before it has read all, and close: the answer is read then, too.
  const ErrorCode written = co_await link->write(request, deadline);
  const auto parser = make_response_parser(kLimits, call.method == "HEAD");
  bool told_head = false;
  while (!parser->done()) {
    std::optional<HttpFault> fault;
    const std::size_t used = parser->put(link->input, fault);
    link->input.erase(0, used);
    if (fault) co_return "malformed: " + fault->message;
    if (parser->head_done() && !std::exchange(told_head, true) && call.on_head)
      call.on_head(parser->head.status, parser->head.headers);
    const std::string piece = std::exchange(parser->body, {});
    if (!piece.empty() && call.on_data) call.on_data(piece);
    if (used > 0 || parser->done()) continue;
    const ErrorCode error = co_await link->read(deadline);
    begun = begun || !link->input.empty();
    if (!error) continue;
    if (error == asio::error::eof && parser->head_done()) parser->put_end(fault);
    if (!parser->done()) co_return error_of("disconnected", written ? written : error, *link);
  }
  if (!parser->head.keep_alive || written || !link->input.empty())
    link->close();
  else if (!stopped)
    idle.push_back(link);
  co_return std::string();
}

asio::awaitable<void> HttpClient::State::run(HttpCall call) {
  std::string error;
  for (bool again = true; again;) {
    const bool reused = !idle.empty();
    std::shared_ptr<Link> link;
    if (reused) {
      link = std::move(idle.back());
      idle.pop_back();
    } else {
      link = std::make_shared<Link>(loop, tls.get(), url.host);
    }
    const auto place = busy.insert(busy.end(), link);
    error.clear();
    if (!reused) error = co_await open(link);
    bool begun = false;
    if (error.empty()) error = co_await try_once(call, link, begun);
    busy.erase(place);
    if (!error.empty()) link->close();
    // The server may have closed an idle connection at the moment at which it was used again.
    again = reused && !begun && error.starts_with("disconnected") && !stopped;
  }
  if (call.on_end) call.on_end(std::move(error));
}

HttpClient::HttpClient(Url url, HttpClientOptions options)
    : state_(std::make_unique<State>(std::move(url), std::move(options))) {}

HttpClient::~HttpClient() {
  State& s = *state_;
  asio::post(s.loop, [&s] {
    s.stopped = true;
    s.idle.clear();
    for (const auto& link : s.busy) link->close();
  });
  s.work.reset();
  s.thread.join();
}

void HttpClient::send(HttpCall call) {
  asio::post(state_->loop, [s = state_.get(), call = std::move(call)]() mutable {
    if (s->stopped) {
      if (call.on_end) call.on_end("cancelled: the client was destroyed");
      return;
    }
    asio::co_spawn(s->loop, s->run(std::move(call)), asio::detached);
  });
}

HttpAnswer HttpClient::ask(std::string method, std::string path, std::string body, HttpHeaders headers) {
  HttpAnswer answer;
  std::promise<void> done;
  HttpCall call{std::move(method), std::move(path), std::move(headers), std::move(body), {}, {}, {}};
  call.on_head = [&](int status, const HttpHeaders& values) {
    answer.status = status;
    answer.headers = values;
  };
  call.on_data = [&](std::string_view data) { answer.body += data; };
  call.on_end = [&](std::string error) {
    answer.error = std::move(error);
    done.set_value();
  };
  send(std::move(call));
  done.get_future().wait();
  return answer;
}

std::string Url::authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == (tls ? 443 : 80) ? name : name + ":" + std::to_string(port);
}

Url parse_url(std::string_view text) {
  const auto fail = [&]() -> Url {
    throw RequestError("expected an address such as http://127.0.0.1:8080, found " + std::string(text));
  };
  Url url;
  std::string_view rest = text;
  if (rest.starts_with("https://"))
    url.tls = true;
  else if (!rest.starts_with("http://"))
    return fail();
  rest.remove_prefix(url.tls ? 8 : 7);
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view authority = rest.substr(0, slash);
  url.path = rest.substr(slash);
  while (url.path.ends_with('/')) url.path.pop_back();
  for (const char c : rest)
    if (c <= ' ' || c >= 0x7f || c == '?' || c == '#' || c == '@') return fail();
  url.port = url.tls ? 443 : 80;
  const std::size_t colon = authority.rfind(':');
  if (colon != std::string_view::npos && !authority.ends_with(']')) {
    const std::string_view digits = authority.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), url.port);
    if (error != std::errc() || end != digits.data() + digits.size() || url.port < 1 || url.port > 65535) return fail();
    authority = authority.substr(0, colon);
  }
  if (authority.starts_with('[') && authority.ends_with(']')) authority = authority.substr(1, authority.size() - 2);
  if (authority.empty()) return fail();
  url.host = authority;
  return url;
}

}  // namespace mortar
