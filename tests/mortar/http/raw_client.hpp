// A client of raw sockets, for tests that send what no HTTP library would. Every wait has an end.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "mortar/eventually.hpp"

namespace mortar::test {

using Clock = std::chrono::steady_clock;

class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { close(); }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)),
        connected_(other.connected_),
        ended_(other.ended_),
        buffer_(std::move(other.buffer_)) {}
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  RawClient& operator=(RawClient&& other) noexcept {
    std::swap(socket_, other.socket_);
    std::swap(connected_, other.connected_);
    std::swap(ended_, other.ended_);
    std::swap(buffer_, other.buffer_);
    return *this;
  }

  bool connected() const { return connected_; }
  int descriptor() const { return socket_; }

  /// False if the peer takes no more.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto n = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }
  /// Reads once into the buffer. False: the end, an error or no byte in time.
  bool read_more(int milliseconds = kPatience) {
    pollfd entry{socket_, POLLIN, 0};
    if (poll(&entry, 1, milliseconds) <= 0) return false;
    char piece[65536];
    const auto n = ::recv(socket_, piece, sizeof piece, 0);
    if (n <= 0) {
      ended_ = true;
      return false;
    }
    buffer_.append(piece, static_cast<std::size_t>(n));
    return true;
  }
  /// All that comes until `mark`, which is included; what there is if the end comes first.
  std::string read_until(std::string_view mark) {
    std::size_t at;
    while ((at = buffer_.find(mark)) == std::string::npos)
      if (!read_more()) return std::exchange(buffer_, {});
    std::string out = buffer_.substr(0, at + mark.size());
    buffer_.erase(0, at + mark.size());
    return out;
  }
  std::string read_exactly(std::size_t bytes) {
    while (buffer_.size() < bytes && read_more()) {}
    std::string out = buffer_.substr(0, bytes);
    buffer_.erase(0, bytes);
    return out;
  }
  /// All that comes until the peer closes; false in `closed` if it does not.
  std::string read_all() {
    while (read_more()) {}
    return std::exchange(buffer_, {});
  }
  /// True if the peer has closed within the time.
  bool closed(int milliseconds = kPatience) {
    const auto end = Clock::now() + std::chrono::milliseconds(milliseconds);
    while (!ended_ && Clock::now() < end) read_more(50);
    return ended_;
  }
  void end_writing() { ::shutdown(socket_, SHUT_WR); }
  void close() {
    if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  }
  /// Closes with RST instead of FIN.
  void reset() {
    const linger now{1, 0};
    setsockopt(socket_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }

 private:
  int socket_;
  bool connected_ = false, ended_ = false;
  std::string buffer_;
};

struct RawResponse {
  int status = 0;  ///< 0: none came
  std::string head, body;
  /// The value of a header as it is written in the head; empty if it is not there.
  std::string header(std::string_view name) const {
    const std::size_t at = head.find("\r\n" + std::string(name) + ": ");
    if (at == std::string::npos) return {};
    const std::size_t begin = at + name.size() + 4;
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

/// One response; chunks are joined. `without_body`: to HEAD.
inline RawResponse read_response(RawClient& client, bool without_body = false) {
  RawResponse r;
  r.head = client.read_until("\r\n\r\n");
  if (!r.head.starts_with("HTTP/1.1 ")) return r;
  r.status = std::atoi(r.head.c_str() + 9);
  if (without_body || r.status == 204 || r.status == 100) return r;
  if (!r.header("Content-Length").empty()) {
    r.body = client.read_exactly(std::strtoul(r.header("Content-Length").c_str(), nullptr, 10));
  } else if (r.header("Transfer-Encoding") == "chunked") {
    for (;;) {
      const std::size_t size = std::strtoul(client.read_until("\r\n").c_str(), nullptr, 16);
      const std::string data = client.read_exactly(size + 2);
      if (size == 0 || data.size() < size + 2) break;
      r.body += data.substr(0, size);
    }
  } else {
    r.body = client.read_all();
  }
  return r;
}

inline std::string get(std::string_view path, std::string_view headers = "") {
  return "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n" + std::string(headers) + "\r\n";
}
inline std::string post(std::string_view path, std::string_view body, std::string_view headers = "") {
  return "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         std::string(headers) + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace mortar::test
