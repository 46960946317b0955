// How the members of a group move bytes between each other, in host memory. The collectives are made of it once
// (host_communicator.hpp), so an implementation only moves bytes.
#pragma once
#include <cstddef>
#include <memory>
#include <span>

#include "tessera/base/error.hpp"
#include "tessera/mesh/communicator.hpp"

namespace tessera::mesh {

/// One member's side. Its calls come one at a time, and in the same order on all members. A call that cannot be
/// completed throws MeshError with the rank and the reason, on every member; from then on every call throws it.
class Exchange {
 public:
  virtual ~Exchange();
  /// The members, and the number of this one.
  virtual int members() const noexcept = 0;
  virtual int me() const noexcept = 0;
  virtual const char* name() const noexcept = 0;
  /// Gives member i the bytes to[i] and fills from[i] with what member i gives. Both sides know the number of bytes;
  /// what a member gives itself is copied too. Returns when `to` may be changed.
  virtual void all_to_all(std::span<const std::span<const std::byte>> to,
                          std::span<const std::span<std::byte>> from) = 0;
  virtual void send(int member, std::span<const std::byte> bytes) = 0;
  virtual void receive(int member, std::span<std::byte> bytes) = 0;
  /// The members with the same colour, numbered by their number here. All members call it.
  virtual std::shared_ptr<Exchange> split(int colour) = 0;
  /// Another exchange of all members, who wait for each other without a limit in it. All members call it.
  virtual std::shared_ptr<Exchange> companion() = 0;
  /// Ends calls in flight and later ones with this failure, on all members as far as that is possible. From any thread.
  virtual void abort(const GroupFailure& failure) noexcept = 0;
};

/// A communicator that moves data through the host. `ranks_each`: ranks of each member.
std::shared_ptr<Communicator> host_communicator(std::shared_ptr<Exchange> exchange, int ranks_each);

/// The group of the threads of this process; one exchange for each.
std::vector<std::shared_ptr<Exchange>> thread_exchanges(int members, int timeout_ms);

/// The MeshError of a failed group, which keeps the failure as it was first told.
class GroupError final : public MeshError {
 public:
  GroupError(const GroupFailure& failure, const char* label, SourceLocation where);
  const GroupFailure& failure() const noexcept { return failure_; }

 private:
  GroupFailure failure_;
};
[[noreturn]] void throw_group_failure(const GroupFailure& failure, const char* label, SourceLocation where);

}  // namespace tessera::mesh
