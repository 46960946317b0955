// An HTTP/1.1 client for many requests at a time whose answers come piece by piece.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "http.hpp"

namespace mortar {

struct Url {
  bool tls = false;
  std::string host;  ///< an IPv6 address without its brackets
  int port = 80;
  std::string path;  ///< without a slash at its end; may be empty
  std::string authority() const;
};
/// http://HOST[:PORT][/PATH], or https. Throws RequestError for all else.
Url parse_url(std::string_view text);

struct HttpClientOptions {
  std::chrono::milliseconds connect_timeout{5'000};  ///< also of the TLS handshake
  std::chrono::milliseconds timeout{600'000};        ///< of one call, from its start to its end
  bool verify = true;                                ///< certificates are checked with the authorities of the system
  std::string authorities{};                         ///< PEM file of others
};

/// Callbacks are called on the thread of the client, in this order, and must not block. on_end is called once.
struct HttpCall {
  std::string method = "GET", path;  ///< behind that of the URL
  HttpHeaders headers;
  std::string body;
  std::function<void(int status, const HttpHeaders&)> on_head;
  std::function<void(std::string_view)> on_data;
  /// Empty: the whole answer has come. Else a kind and what there is to say: "connect: ...", "tls: ...", "timeout:
  /// ...", "disconnected: ...", "malformed: ...", "cancelled: ...".
  std::function<void(std::string error)> on_end;
};

struct HttpAnswer {
  int status = 0;
  HttpHeaders headers;
  std::string body, error;  ///< error: as of on_end
};

class HttpClient {
 public:
  /// Throws RequestError if the host is not known or the file of authorities cannot be used.
  explicit HttpClient(Url url, HttpClientOptions options = {});
  /// Ends all calls ("cancelled").
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// From any thread, also from callbacks. Connections are used again one call after the other, and there are as many
  /// as calls at a time.
  void send(HttpCall call);
  /// Waits for the answer; not from callbacks.
  HttpAnswer ask(std::string method, std::string path, std::string body = {}, HttpHeaders headers = {});

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace mortar
