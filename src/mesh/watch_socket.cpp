// Sockets and messages of the watch.
#include "mesh/watch_socket.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>
#include <utility>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::mesh {

namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string system_text(int error) { return std::error_code(error, std::generic_category()).message(); }

/// Null if the name means nothing; `why` says so then.
Addresses resolve(const std::string& address, int port, std::string& why) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int result = getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (result != 0) why = gai_strerror(result);
  return {result == 0 ? found : nullptr, &freeaddrinfo};
}

void set_options(int fd) {
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// TCP allows it, where nothing listens and the system happens to choose the same port for this side.
bool is_connected_to_itself(int fd) {
  sockaddr_storage here{}, there{};
  socklen_t here_length = sizeof here, there_length = sizeof there;
  return getsockname(fd, reinterpret_cast<sockaddr*>(&here), &here_length) == 0 &&
         getpeername(fd, reinterpret_cast<sockaddr*>(&there), &there_length) == 0 && here_length == there_length &&
         std::memcmp(&here, &there, here_length) == 0;
}

Descriptor make_socket(int family) { return Descriptor(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

/// 0, or the system's error.
int listen_on(Descriptor& made, int family, const sockaddr* address, socklen_t length) {
  made = make_socket(family);
  if (!made) return errno;
  const int on = 1;
  setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(made.get(), address, length) != 0) return errno;
  return listen(made.get(), SOMAXCONN) == 0 ? 0 : errno;
}

// -- messages: the length of the rest, then type, rank, progress, in_step, text; in this machine's byte order --

constexpr std::size_t kFixed = 1 + 4 + 8 + 1, kLongest = 4096;

template <class T>
void put(std::string& to, T value) {
  std::array<char, sizeof(T)> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  to.append(bytes.data(), bytes.size());
}
template <class T>
T get(const std::string& from, std::size_t& at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  at += sizeof value;
  return value;
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = other.release();
  return *this;
}
void Descriptor::close() noexcept {
  if (fd_ >= 0) ::close(release());
}
int Descriptor::release() noexcept { return std::exchange(fd_, -1); }

Descriptor listen_at(const std::string& address, int port) {
  std::string why;
  const Addresses found = resolve(address, port, why);
  Descriptor made;
  int error = EADDRNOTAVAIL;
  for (const addrinfo* one = found.get(); one != nullptr && error != 0; one = one->ai_next)
    error = listen_on(made, one->ai_family, one->ai_addr, one->ai_addrlen);
  if (error == EADDRNOTAVAIL) {  // behind a translation of addresses, the machine does not know the one it is called by
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_port = htons(static_cast<std::uint16_t>(port));
    error = listen_on(made, AF_INET, reinterpret_cast<const sockaddr*>(&any), sizeof any);
  }
  if (error == 0) return made;
  throw MeshError(
      concat("rank 0 cannot listen at ", address, ":", port, ": ", system_text(error),
             ".\n  Another group may use the port: set TESSERA_MESH_PORT to another one for all processes."));
}

Descriptor connect_to(const std::string& address, int port, int timeout_ms, std::string& why) {
  const Addresses found = resolve(address, port, why);
  for (const addrinfo* one = found.get(); one != nullptr; one = one->ai_next) {
    Descriptor made = make_socket(one->ai_family);
    int error = !made || connect(made.get(), one->ai_addr, one->ai_addrlen) != 0 ? errno : 0;
    if (error == EINPROGRESS) {
      pollfd waits{made.get(), POLLOUT, 0};
      socklen_t length = sizeof error;
      if (poll(&waits, 1, timeout_ms) != 1)
        error = ETIMEDOUT;
      else
        getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    }
    if (error == 0 && !is_connected_to_itself(made.get())) {
      set_options(made.get());
      return made;
    }
    why = system_text(error != 0 ? error : ECONNREFUSED);
  }
  return {};
}

Descriptor accept_one(const Descriptor& listener) {
  Descriptor made(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (made) set_options(made.get());
  return made;
}

void WatchConnection::fail(std::string text) {
  if (end_.empty()) end_ = std::move(text);
  fd_.close();
}

void WatchConnection::send(const WatchMessage& message) {
  if (!open()) return;
  const std::string text = message.text.substr(0, kLongest - kFixed);
  put(out_, static_cast<std::uint32_t>(kFixed + text.size()));
  put(out_, message.type);
  put(out_, message.rank);
  put(out_, message.progress);
  put(out_, static_cast<std::uint8_t>(message.in_step));
  out_ += text;
  flush();
}

void WatchConnection::flush() {
  while (open() && !out_.empty()) {
    const ssize_t sent = ::send(fd_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      out_.erase(0, static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      // What the other side has sent before its end is still to be read.
      if (errno != EAGAIN && errno != EWOULDBLOCK) out_.clear();
      return;
    }
  }
}

std::vector<WatchMessage> WatchConnection::receive() {
  std::vector<WatchMessage> messages;
  std::array<char, 4096> block;
  while (open()) {
    const ssize_t count = recv(fd_.get(), block.data(), block.size(), 0);
    if (count > 0) {
      in_.append(block.data(), static_cast<std::size_t>(count));
      while (auto message = take()) messages.push_back(std::move(*message));
    } else if (count == 0) {
      fail("its connection was closed");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    } else if (errno != EINTR) {
      fail(concat("its connection broke: ", system_text(errno)));
    }
  }
  return messages;
}

std::optional<WatchMessage> WatchConnection::take() {
  std::size_t at = 0;
  if (in_.size() < sizeof(std::uint32_t)) return std::nullopt;
  const auto length = get<std::uint32_t>(in_, at);
  if (length < kFixed || length > kLongest) {
    in_.clear();
    fail("it sent what is no message of Tessera");
    return std::nullopt;
  }
  if (in_.size() < at + length) return std::nullopt;
  WatchMessage message;
  message.type = get<WatchMessage::Type>(in_, at);
  message.rank = get<std::int32_t>(in_, at);
  message.progress = get<std::uint64_t>(in_, at);
  message.in_step = get<std::uint8_t>(in_, at) != 0;
  message.text = in_.substr(at, length - kFixed);
  in_.erase(0, sizeof(std::uint32_t) + length);
  return message;
}

void WatchConnection::finish_sending() {
  if (open()) shutdown(fd_.get(), SHUT_WR);
}

}  // namespace tessera::mesh
