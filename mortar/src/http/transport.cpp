// Plain TCP and TLS behind one interface.
#include "transport.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/host_name_verification.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <utility>

#include "mortar/errors.hpp"

namespace mortar {
namespace {

using asio::ip::tcp;

void close_socket(tcp::socket& socket) {
  ErrorCode ignored;
  socket.close(ignored);
}

class Plain final : public Transport {
 public:
  explicit Plain(tcp::socket socket) : socket_(std::move(socket)) {}
  void handshake(Callback done) override {
    asio::post(socket_.get_executor(), [done = std::move(done)] { done({}, 0); });
  }
  void read_some(asio::mutable_buffer into, Callback done) override { socket_.async_read_some(into, std::move(done)); }
  void write_some(asio::const_buffer from, Callback done) override { socket_.async_write_some(from, std::move(done)); }
  void end_writing(Callback done) override {
    ErrorCode error;
    socket_.shutdown(tcp::socket::shutdown_send, error);
    asio::post(socket_.get_executor(), [done = std::move(done), error] { done(error, 0); });
  }
  void close() override { close_socket(socket_); }
  tcp::socket& socket() override { return socket_; }

 private:
  tcp::socket socket_;
};

class Tls final : public Transport {
 public:
  Tls(tcp::socket socket, asio::ssl::context& context, bool server, const std::string& host)
      : stream_(std::move(socket), context), server_(server) {
    if (server) return;
    ErrorCode not_an_address;  // addresses have no place in that extension (RFC 6066, 3)
    (void)asio::ip::make_address(host, not_an_address);
    if (not_an_address) SSL_set_tlsext_host_name(stream_.native_handle(), host.c_str());
    stream_.set_verify_callback(asio::ssl::host_name_verification(host));
  }
  void handshake(Callback done) override {
    stream_.async_handshake(server_ ? asio::ssl::stream_base::server : asio::ssl::stream_base::client,
                            [done = std::move(done)](ErrorCode error) { done(error, 0); });
  }
  void read_some(asio::mutable_buffer into, Callback done) override { stream_.async_read_some(into, std::move(done)); }
  void write_some(asio::const_buffer from, Callback done) override { stream_.async_write_some(from, std::move(done)); }
  void end_writing(Callback done) override {
    stream_.async_shutdown([done = std::move(done)](ErrorCode error) { done(error, 0); });
  }
  void close() override { close_socket(stream_.next_layer()); }
  tcp::socket& socket() override { return stream_.next_layer(); }

 private:
  asio::ssl::stream<tcp::socket> stream_;
  bool server_;
};

[[noreturn]] void cannot_use(const std::string& file, const ErrorCode& error) {
  throw RequestError(file + ": expected a PEM file for TLS, found: " + error.message());
}

}  // namespace

std::unique_ptr<Transport> make_server_transport(tcp::socket socket, asio::ssl::context* tls) {
  if (tls == nullptr) return std::make_unique<Plain>(std::move(socket));
  return std::make_unique<Tls>(std::move(socket), *tls, true, "");
}

std::unique_ptr<Transport> make_client_transport(tcp::socket socket, asio::ssl::context* tls, const std::string& host) {
  if (tls == nullptr) return std::make_unique<Plain>(std::move(socket));
  return std::make_unique<Tls>(std::move(socket), *tls, false, host);
}

std::shared_ptr<asio::ssl::context> make_server_tls(const std::string& cert, const std::string& key) {
  auto tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  // Many streams are idle most of the time: their buffers are given back in between. A renegotiation is work for
  // nothing.
  SSL_CTX_set_mode(tls->native_handle(), SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_options(tls->native_handle(), SSL_OP_NO_RENEGOTIATION);
  ErrorCode error;
  tls->use_certificate_chain_file(cert, error);
  if (error) cannot_use(cert, error);
  tls->use_private_key_file(key, asio::ssl::context::pem, error);
  if (error) cannot_use(key, error);
  if (SSL_CTX_check_private_key(tls->native_handle()) != 1) {
    ERR_clear_error();
    throw RequestError(key + ": expected the private key of the certificate in " + cert + ", found another one");
  }
  return tls;
}

std::shared_ptr<asio::ssl::context> make_client_tls(bool verify, const std::string& authorities) {
  auto tls = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  ErrorCode error;
  if (authorities.empty())
    tls->set_default_verify_paths(error);
  else
    tls->load_verify_file(authorities, error);
  if (error) cannot_use(authorities, error);
  tls->set_verify_mode(verify ? asio::ssl::verify_peer : asio::ssl::verify_none);
  return tls;
}

void set_socket_options(tcp::socket& socket, std::chrono::milliseconds silence) {
  const auto set = [&](int level, int name, int value) {
    (void)::setsockopt(socket.native_handle(), level, name, &value, sizeof value);  // none of them is needed to serve
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 15);  // seconds, as the next
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, static_cast<int>(silence.count()));
  set(SOL_SOCKET, SO_SNDBUF, 128 << 10);  // the kernel doubles it (man 7 socket)
}

}  // namespace mortar
