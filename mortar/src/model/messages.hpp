// What the first of several processes says to the others: messages of bytes, by broadcasts over a mesh of their own,
// on which all compare their options first.
// docs/mortar/parallel.md has the format.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/mesh/mesh.hpp"

namespace mortar {

template <class T>
concept MessageNumber = (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) || std::is_enum_v<T>;

/// Numbers one after the other, as they lie in memory: the processes are those of one program, on machines of one byte
/// order.
class MessageWriter {
 public:
  template <MessageNumber T>
  MessageWriter& put(T value) {
    return add(std::as_bytes(std::span(&value, 1)));
  }
  MessageWriter& put(bool value) { return put(static_cast<std::uint8_t>(value)); }
  /// How many, and then these.
  template <MessageNumber T>
  MessageWriter& list(std::span<const T> values) {
    put(static_cast<std::uint64_t>(values.size()));
    return add(std::as_bytes(values));
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  MessageWriter& add(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  std::vector<std::byte> bytes_;
};

/// Reads what a MessageWriter wrote, in the same order. Throws RanksError for a message that is shorter or longer.
class MessageReader {
 public:
  explicit MessageReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  template <MessageNumber T>
  T number() {
    T value{};
    std::memcpy(&value, take(1, sizeof value).data(), sizeof value);
    return value;
  }
  bool flag();
  template <MessageNumber T>
  std::vector<T> list() {
    const std::span<const std::byte> from = take(number<std::uint64_t>(), sizeof(T));
    std::vector<T> values(from.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  /// How many of what follows, each of at least `least` bytes.
  std::size_t count(std::size_t least);
  /// Nothing is left.
  void end() const;

 private:
  std::span<const std::byte> take(std::uint64_t count, std::size_t size);

  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

/// The way between the processes. One thread at a time uses it.
class Messages {
 public:
  /// `mesh` has one local rank, and nothing else uses it.
  explicit Messages(tessera::Mesh mesh) : mesh_(std::move(mesh)) {}
  /// In the process of the first rank: sends the message of the end, an empty one, unless the group has failed.
  ~Messages();
  Messages(const Messages&) = delete;
  Messages& operator=(const Messages&) = delete;

  /// Of rank 0, which sends; the others receive.
  bool is_first() const { return mesh_.first_rank() == 0; }
  // They throw MeshError if the group has ended.
  /// Returns when all others have begun to receive it.
  void send(std::span<const std::byte> message);
  /// Waits for any time. Throws RanksError for what is no message.
  std::vector<std::byte> receive();
  /// What each process passes, as many numbers each, in the order of the ranks. All call it.
  std::vector<std::int64_t> gather(std::span<const std::int64_t> own);
  /// Returns when all processes are here.
  void meet();
  /// Ends the group: send(), receive() and meet() of all processes throw the reason.
  void abort(const std::string& reason) const noexcept { mesh_.abort(reason); }
  const tessera::Mesh& mesh() const { return mesh_; }

 private:
  void broadcast(std::span<std::byte> bytes);
  tessera::Mesh mesh_;
};

}  // namespace mortar
