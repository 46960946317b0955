// Messages between processes: a frame of a fixed size has the length and the first bytes, a second broadcast the rest.
#include "model/messages.hpp"

#include <algorithm>
#include <array>

#include "mortar/errors.hpp"
#include "tessera/base/format.hpp"
#include "tessera/mesh.hpp"

namespace mortar {

namespace {

constexpr std::uint64_t kMagic = 0x3130'6c6c'6163'726d;  ///< "mrcall01": another format has another number
constexpr std::size_t kFrame = 2048;                     ///< a step of a few sequences fits
constexpr std::uint64_t kLargest = std::uint64_t{1} << 30;

struct Head {
  std::uint64_t magic, size;
};
constexpr std::size_t kInFrame = kFrame - sizeof(Head);

}  // namespace

std::span<const std::byte> MessageReader::take(std::uint64_t count, std::size_t size) {
  const std::size_t left = bytes_.size() - at_;
  if (count > left / size)
    throw RanksError(tessera::concat("a message of rank 0: expected ", count, " numbers of ", size, " bytes after ",
                                     at_, " bytes, found ", left, " bytes"));
  const std::span<const std::byte> found = bytes_.subspan(at_, count * size);
  at_ += found.size();
  return found;
}

bool MessageReader::flag() {
  const auto value = number<std::uint8_t>();
  if (value > 1) throw RanksError(tessera::concat("a message of rank 0: expected a flag, 0 or 1, found ", int{value}));
  return value == 1;
}

std::size_t MessageReader::count(std::size_t least) {
  const auto count = number<std::uint64_t>();
  const std::size_t at = at_;
  (void)take(count, least);
  at_ = at;
  return count;
}

void MessageReader::end() const {
  if (at_ != bytes_.size())
    throw RanksError(
        tessera::concat("a message of rank 0: expected its end after ", at_, " bytes, found ", bytes_.size()));
}

Messages::~Messages() {
  if (!is_first() || mesh_.failure()) return;
  try {
    send({});
  } catch (...) {  // the group has ended: the others have the reason
  }
}

void Messages::send(std::span<const std::byte> message) {
  if (message.size() > kLargest)
    throw RanksError(tessera::concat("a message of at most ", kLargest, " bytes was expected, found ", message.size()));
  std::array<std::byte, kFrame> frame{};
  const Head head{kMagic, message.size()};
  std::memcpy(frame.data(), &head, sizeof head);
  const std::size_t first = std::min(message.size(), kInFrame);
  std::copy_n(message.begin(), first, frame.begin() + sizeof head);
  broadcast(frame);
  if (first == message.size()) return;
  std::vector<std::byte> rest(message.begin() + static_cast<std::ptrdiff_t>(first), message.end());
  broadcast(rest);
}

std::vector<std::byte> Messages::receive() {
  std::array<std::byte, kFrame> frame{};
  broadcast(frame);
  Head head{};
  std::memcpy(&head, frame.data(), sizeof head);
  if (head.magic != kMagic || head.size > kLargest)
    throw RanksError(tessera::concat("a message of rank 0: expected the number ", kMagic, " and at most ", kLargest,
                                     " bytes, found ", head.magic, " and ", head.size,
                                     ": do all ranks run the same version of Mortar?"));
  const std::size_t first = std::min<std::size_t>(head.size, kInFrame);
  std::vector<std::byte> message(frame.begin() + sizeof head, frame.begin() + sizeof head + first);
  if (first == head.size) return message;
  message.resize(head.size);
  broadcast(std::span(message).subspan(first));
  return message;
}

void Messages::broadcast(std::span<std::byte> bytes) {
  using tessera::i8;
  const int rank = mesh_.first_rank();
  const tessera::Stream stream = mesh_.stream(rank);
  const std::span<const i8> values(reinterpret_cast<const i8*>(bytes.data()), bytes.size());
  const auto own = tessera::from(values, {std::ssize(values)}).sync(stream);
  const auto all = tessera::broadcast(own, 0, mesh_).sync(stream);
  const std::vector<i8> found = tessera::host(all.part(rank)).sync(stream);
  // Where the devices move the data, a broadcast of a group that has ended says nothing.
  if (const auto failure = mesh_.failure()) throw tessera::MeshError(*failure);
  if (rank != 0) std::memcpy(bytes.data(), found.data(), bytes.size());
}

std::vector<std::int64_t> Messages::gather(std::span<const std::int64_t> own) {
  const int rank = mesh_.first_rank();
  const tessera::Stream stream = mesh_.stream(rank);
  std::vector<std::int64_t> all(own.size() *
                                static_cast<std::size_t>(mesh_.size()));  // of which this rank has its part
  std::copy(own.begin(), own.end(), all.begin() + rank * std::ssize(own));
  auto mine = tessera::shard(tessera::from(all, {std::ssize(all)}).sync(stream), tessera::axis<0>, mesh_).sync(stream);
  const auto gathered = tessera::all_gather(std::move(mine)).sync(stream);
  std::vector<std::int64_t> found = tessera::host(gathered.part(rank)).sync(stream);
  if (const auto failure = mesh_.failure()) throw tessera::MeshError(*failure);
  return found;
}

void Messages::meet() {
  tessera::Stream stream = mesh_.stream(mesh_.first_rank());
  tessera::barrier(mesh_).sync(stream);
  stream.synchronize();
  if (const auto failure = mesh_.failure()) throw tessera::MeshError(*failure);
}

}  // namespace mortar
