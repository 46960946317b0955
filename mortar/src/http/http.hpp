// An HTTP/1.1 server for a few routes with long answers: plain answers and streams of server-sent events.
//
// Boost and OpenSSL are used in source files of this folder only. docs/mortar/http.md says how it works.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mortar {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

/// One request, whole: handlers are called when the body has been read.
struct HttpRequest {
  std::string method;      ///< in capital letters
  std::string target;      ///< the path, percent-encoded as it came, without the query
  std::string query;       ///< what follows "?", percent-encoded; may be empty
  HttpHeaders headers;     ///< names as they came; compare them with header()
  HttpHeaders parameters;  ///< values of the pattern's {names}, percent-decoded
  std::string body;
  std::string id;    ///< X-Request-Id of the client, or a new one; every answer repeats it
  std::string key;   ///< name of the API key, never the key; empty where none is needed
  std::string peer;  ///< the client's address and port
  /// Counts the body in HttpOptions::body_memory as long as a copy of the request holds it.
  std::shared_ptr<const void> memory{};
  /// The first header of that name, of which case is ignored; null: none.
  const std::string* header(std::string_view name) const;
  /// The value of {name} in the pattern of the route; empty if the pattern has none.
  std::string_view parameter(std::string_view name) const;
};

/// The answer to one request: either send(), or begin_stream(), events and end_stream(). All methods may be called from
/// any thread and never wait for the client. What comes after the answer has ended or the client has gone is ignored.
/// If the last pointer goes away before the answer has ended, the client gets a 500, or the end of its connection in
/// the middle of a stream.
class HttpReply {
 public:
  virtual ~HttpReply() = default;
  /// A whole answer. Content-Length, Date, X-Request-Id and the headers of CORS are added.
  virtual void send(int status, std::string content_type, std::string body, HttpHeaders headers = {}) = 0;
  /// Status 200 and text/event-stream. From now on comments (`: ping`) are sent while there are no events.
  virtual void begin_stream(HttpHeaders headers = {}) = 0;
  /// "data: <data>", once per line of data, and an empty line. False if the client has gone. A client that leaves more
  /// than HttpOptions::max_pending bytes unread, or reads nothing for write_timeout, is disconnected.
  virtual bool event(std::string_view data) = 0;
  /// The event with a line "event: <name>" before its data.
  virtual bool event(std::string_view name, std::string_view data) = 0;
  virtual void end_stream() = 0;
  /// `callback` is called once if the client disconnects, or is disconnected, before it has the whole answer; at once
  /// if that has happened already. It runs on a thread of the server, or on the calling one. A second one replaces the
  /// first.
  virtual void on_gone(std::function<void()> callback) = 0;
  virtual bool gone() const = 0;
};

/// Is called on a thread of the server and must not block for long. What it throws is logged and becomes a 500.
using HttpHandler = std::function<void(HttpRequest, std::shared_ptr<HttpReply>)>;
/// The body (JSON) of an answer that the server gives by itself: 404, 408, 413 and the like. `code` is a short
/// identifier such as "body_too_large". Both are valid UTF-8, also where they repeat what a client has sent.
using HttpErrorWriter = std::function<std::string(int status, std::string message, std::string_view code)>;

struct ApiKey {
  std::string name, key;
};
/// Lines of "NAME KEY", or of a key alone, which is named by its number among the keys; empty lines and those that
/// begin with # are skipped. Throws RequestError if the file cannot be read, has no key, or has a name or key twice.
std::vector<ApiKey> read_api_keys(const std::string& path);

struct HttpOptions {
  std::string host = "127.0.0.1";  ///< an address, or a name that is resolved at the start
  int port = 8080;                 ///< 0: any free port
  int threads = 2;
  std::size_t body_limit = std::size_t{32} << 20;  ///< bytes; more: 413
  std::size_t body_memory = std::size_t{1} << 30;  ///< bytes of all bodies, until their requests are let go; more: 503
  std::size_t header_limit = std::size_t{32} << 10;  ///< bytes of the request line and headers; more: 431, or 414
  std::size_t header_count = 100;                    ///< more: 431
  std::size_t max_connections = 2048;                ///< at this number a new one displaces an idle one, or gets a 503
  std::size_t max_connections_per_address = 0;       ///< 0: no limit
  std::chrono::milliseconds header_timeout{10'000};  ///< from the first byte of a request; also of a TLS handshake
  std::chrono::milliseconds read_timeout{30'000};    ///< of a body, and one second more per 64 KiB received
  std::chrono::milliseconds keep_alive{75'000};      ///< between requests; 0: one request per connection
  std::chrono::milliseconds write_timeout{30'000};   ///< for the client to read anything
  std::size_t slowest_reader = 16 << 10;             ///< bytes per second; a slower client is disconnected: what is
                                                     ///< written at a time has that long, and write_timeout
  std::chrono::milliseconds linger_timeout{2'000};   ///< unread input is discarded that long after a last answer
  std::chrono::milliseconds ping_interval{15'000};   ///< 0: no comments in silent streams
  std::size_t max_pending = std::size_t{256} << 10;  ///< bytes of events that wait for one client
  std::vector<ApiKey> api_keys{};                    ///< empty: none is needed
  std::vector<std::string> open_paths{};             ///< paths that need no key and are served while draining
  std::vector<std::string> cors{};                   ///< origins of web pages that may ask; "*": all
  std::string tls_cert{}, tls_key{};                 ///< PEM files; both or none
  std::string log_path{};  ///< access log, JSON lines, appended; "-": standard error, empty: none
  std::function<void(std::string_view line)> log{};  ///< takes the lines of the access log instead; any thread
};

/// Counters since the start; `connections` and `active` are of now.
struct HttpStats {
  std::uint64_t connections = 0;  ///< open
  std::uint64_t active = 0;       ///< requests that have been read and not been answered to the end
  std::uint64_t accepted = 0, rejected = 0, displaced = 0;  ///< connections
  std::uint64_t requests = 0;                               ///< with a complete head
  std::uint64_t gone = 0;          ///< clients that disconnected before they had the whole answer
  std::uint64_t slow_readers = 0;  ///< of these, disconnected by max_pending or write_timeout
  std::uint64_t timeouts = 0;      ///< heads and bodies that came too slowly
  std::uint64_t malformed = 0;     ///< requests that are no HTTP, or over a limit
  std::uint64_t bytes_in = 0, bytes_out = 0;
};

class HttpServer {
 public:
  /// Throws RequestError for options that cannot be used (TLS files, log file).
  explicit HttpServer(HttpOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// Before start(). In a pattern, {name} is one part of the path, {name*} at the end the rest, with slashes. A route
  /// of GET also answers HEAD. POST bodies that are not application/json are a 415.
  void route(std::string method, std::string pattern, HttpHandler handler);
  /// Before start(). The default has OpenAI's shape.
  void on_error(HttpErrorWriter writer);

  /// Listens and returns. Throws RequestError with the address if it cannot be listened on.
  void start();
  /// The port that is listened on; 0 before start().
  int port() const;
  /// No new connections; idle ones are closed, further requests of others get a 503, except those of open_paths.
  void stop_accepting();
  /// Waits until all answers have been given, at most `timeout`. False: some have not.
  bool drain(std::chrono::milliseconds timeout);
  /// Closes all connections and ends the threads; on_gone callbacks are called. start() cannot be called again.
  void stop();
  /// Opens the file of the access log anew, for programs that rotate logs.
  void reopen_log();
  HttpStats stats() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace mortar
