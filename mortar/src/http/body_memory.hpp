// The memory of one body, from its first byte until the last holder lets the request go.
#pragma once
#include <cstddef>
#include <memory>
#include <utility>

#include "server_state.hpp"

namespace mortar {

/// Counts a body in ServerState::body_bytes. It may outlive the server's connections: requests wait to be read.
class BodyMemory {
 public:
  explicit BodyMemory(std::shared_ptr<ServerState> server) : server_(std::move(server)) {}
  ~BodyMemory() { server_->body_bytes -= counted_; }
  BodyMemory(const BodyMemory&) = delete;
  BodyMemory& operator=(const BodyMemory&) = delete;
  /// The body has so many bytes now. False if all bodies together are too much.
  bool grow(std::size_t bytes) {
    const std::size_t more = bytes - counted_;
    counted_ = bytes;
    return (server_->body_bytes += more) <= server_->options.body_memory;
  }

 private:
  std::shared_ptr<ServerState> server_;
  std::size_t counted_ = 0;
};

}  // namespace mortar
