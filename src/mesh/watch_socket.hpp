// TCP connections that carry the small messages of the watch (watch.hpp). Nothing here blocks for longer than it says.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::mesh {

/// A descriptor that is closed once, and not inherited by programs that this process starts.
class Descriptor {
 public:
  Descriptor() noexcept = default;
  explicit Descriptor(int fd) noexcept : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor() { close(); }
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  void close() noexcept;

 private:
  int release() noexcept;
  int fd_ = -1;
};

/// Listens on a port: on the address if it is one of this machine's, otherwise on all interfaces. Throws MeshError.
Descriptor listen_at(const std::string& address, int port);
/// One attempt of at most `timeout_ms`. Empty if it failed: `why` is then what the system says.
Descriptor connect_to(const std::string& address, int port, int timeout_ms, std::string& why);
/// A connection that waits at a listening descriptor; empty if there is none.
Descriptor accept_one(const Descriptor& listener);

struct WatchMessage {
  enum class Type : std::uint8_t {
    Hello = 1,  ///< the first one of a process: its rank, and in `text` the size of its group
    Ready,      ///< all processes have connected
    Beat,       ///< the process lives; how far it is
    Failure,    ///< the group has ended: the rank and the reason
    Goodbye,    ///< the process ends as it should
  };
  Type type = Type::Beat;
  std::int32_t rank = -1;
  std::uint64_t progress = 0;  ///< of Beat: the number of its steps' beginnings and ends
  bool in_step = false;
  std::string text;
};

/// A connection with what has not been sent yet, and what has not been a whole message yet.
class WatchConnection {
 public:
  explicit WatchConnection(Descriptor fd) noexcept : fd_(std::move(fd)) {}
  int fd() const noexcept { return fd_.get(); }
  bool open() const noexcept { return static_cast<bool>(fd_); }
  /// Queues a message and sends what can be sent.
  void send(const WatchMessage& message);
  void flush();
  bool has_unsent() const noexcept { return !out_.empty(); }
  /// The messages that have arrived. After the end of the connection it is not open: `end()` says how it ended.
  std::vector<WatchMessage> receive();
  const std::string& end() const noexcept { return end_; }
  void close() noexcept { fd_.close(); }
  /// Nothing more will be sent; what the other side sends can still be read.
  void finish_sending();

 private:
  std::optional<WatchMessage> take();
  void fail(std::string text);

  Descriptor fd_;
  std::string in_, out_, end_;
};

}  // namespace tessera::mesh
