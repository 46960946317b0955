// One client's connection: a coroutine on a strand that reads requests, lets handlers answer and writes the answers.
#pragma once
#include "net.hpp"

#include <array>
#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include "access_log.hpp"
#include "admission.hpp"
#include "message_parser.hpp"
#include "reply_state.hpp"
#include "response_head.hpp"
#include "server_state.hpp"
#include "transport.hpp"

namespace mortar {

class BodyMemory;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;

  /// The executor of the socket is a strand of its own.
  Connection(std::shared_ptr<ServerState> server, asio::ip::tcp::socket socket, const std::string& address, int port);
  // From any thread.
  void start();
  /// Ends it, whatever it is doing.
  void abort();
  /// Ends it unless a request has been read or, with `only_idle`, has begun to come.
  void close_unless_busy(bool only_idle);
  /// Since when it waits for a whole head, in ticks of the clock; 0 while a request is being answered, and after
  /// close_unless_busy() until that has been done.
  std::int64_t waiting_since() const { return closing_ ? 0 : waiting_since_.load(); }
  const std::string& address() const { return address_; }

 private:
  struct Exchange;  ///< one request and its answer
  struct Waker;

  asio::awaitable<void> run();
  asio::awaitable<bool> serve_one();
  asio::awaitable<bool> read_head(std::optional<HttpFault>& fault);
  asio::awaitable<bool> read_body(BodyMemory& memory, std::optional<HttpFault>& fault);
  asio::awaitable<bool> call_handler(Exchange& x);
  asio::awaitable<bool> write_answer(Exchange& x);
  asio::awaitable<bool> write_fault(Exchange& x, const HttpFault& fault);
  asio::awaitable<bool> write(std::string data);
  asio::awaitable<void> linger();
  /// Until something has happened (true) or the time has come (false). Reads meanwhile.
  asio::awaitable<bool> wait(TimePoint deadline);

  void start_reading();
  void wake() { timer_.cancel(); }
  void close();
  void finish(std::exception_ptr error);
  bool feed(std::optional<HttpFault>& fault);
  std::string bytes_of(Exchange& x, ReplyState::Piece piece);
  ReplyState::Piece piece_of_fault(const HttpFault& fault, HttpHeaders headers) const;
  void log(Exchange& x);

  std::shared_ptr<ServerState> server_;
  std::unique_ptr<Transport> transport_;
  asio::steady_timer timer_;
  const std::string address_, peer_;
  std::unique_ptr<MessageParser> parser_;
  std::shared_ptr<ReplyState> reply_;  ///< of the request that is being answered

  std::string in_;  ///< what was read and not yet parsed
  std::array<char, 16 << 10> read_buffer_;
  bool reading_ = false, input_ended_ = false;  ///< ended: by the peer or an error
  bool writing_ = false, write_failed_ = false, slow_ = false;
  std::size_t written_ = 0;
  bool closed_ = false;
  std::uint64_t bytes_in_ = 0, bytes_out_ = 0;
  std::atomic<std::int64_t> waiting_since_{0};
  std::atomic<bool> closing_{false};
};

}  // namespace mortar
