// What all connections of a server share.
#pragma once
#include "net.hpp"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "access_log.hpp"
#include "api_keys.hpp"
#include "http.hpp"
#include "router.hpp"
#include "transport.hpp"

namespace mortar {

class Connection;

struct ServerCounters {
  std::atomic<std::uint64_t> accepted{0}, rejected{0}, displaced{0}, requests{0}, gone{0}, slow_readers{0}, timeouts{0},
      malformed{0}, bytes_in{0}, bytes_out{0};
};

struct ServerState {
  explicit ServerState(HttpOptions given);

  /// What write_error says; bytes of `message` that are no UTF-8 are replaced.
  std::string error_body(int status, std::string_view message, std::string_view code) const;

  HttpOptions options;
  Router router;
  HttpErrorWriter write_error;
  KeyRing keys;
  AccessLog log;
  std::shared_ptr<asio::ssl::context> tls;  ///< null without TLS
  bool on_loopback = false;                 ///< only programs of this machine can connect
  ServerCounters counters;
  std::atomic<bool> draining{false};
  std::atomic<std::size_t> body_bytes{0};  ///< of bodies whose requests are held (body_memory.hpp)
  /// Replies keep it alive: they post to it.
  std::shared_ptr<asio::io_context> loop;

  // Open connections, and requests that are being answered.
  std::mutex mutex;
  std::condition_variable answered;
  std::unordered_map<Connection*, std::weak_ptr<Connection>> connections;
  std::unordered_map<std::string, std::size_t> per_address;
  std::size_t active = 0;
};

}  // namespace mortar
