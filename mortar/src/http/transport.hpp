// A connection's bytes, with TLS or without: one type for both, so that what is above is compiled once.
#pragma once
#include "net.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace boost::asio::ssl {
class context;
}

namespace mortar {

namespace asio = boost::asio;
using ErrorCode = boost::system::error_code;

/// All methods are called on the executor of the socket (a strand), callbacks run there. At most one read and one write
/// are in progress. Callbacks are called for every operation, also after close(), and must keep the transport alive.
class Transport {
 public:
  using Callback = std::function<void(ErrorCode, std::size_t)>;
  virtual ~Transport() = default;
  /// TLS: as a server, or as a client for the host; calls back at once without TLS.
  virtual void handshake(Callback done) = 0;
  virtual void read_some(asio::mutable_buffer into, Callback done) = 0;
  virtual void write_some(asio::const_buffer from, Callback done) = 0;
  /// Nothing more is written; the peer sees the end. With TLS its answer is awaited.
  virtual void end_writing(Callback done) = 0;
  /// Ends all operations.
  virtual void close() = 0;
  virtual asio::ip::tcp::socket& socket() = 0;
};

/// `tls` is null for plain connections, and outlives the transport.
std::unique_ptr<Transport> make_server_transport(asio::ip::tcp::socket socket, asio::ssl::context* tls);
/// `host` is what a certificate is checked for.
std::unique_ptr<Transport> make_client_transport(asio::ip::tcp::socket socket, asio::ssl::context* tls,
                                                 const std::string& host);

/// For servers: TLS 1.2 and later. Throws RequestError for files that cannot be used.
std::shared_ptr<asio::ssl::context> make_server_tls(const std::string& cert, const std::string& key);
/// For clients; `verify`: certificates are checked with the authorities of the system, or of the PEM file
/// `authorities`.
std::shared_ptr<asio::ssl::context> make_client_tls(bool verify, const std::string& authorities);

/// Peers that vanish without a word are noticed within `silence` while something is unacknowledged, and by probes
/// otherwise; small writes are sent at once; the kernel holds at most some 256 KiB that the peer has not taken.
void set_socket_options(asio::ip::tcp::socket& socket, std::chrono::milliseconds silence);

}  // namespace mortar
