// What the ranks of a mesh say to each other: one small interface, implemented over threads of one process, MPI and
// NCCL. Operations of the mesh (collective.hpp) call it; programs do not.
//
// A communicator belongs to one member of a group: a process, or a thread that drives ranks of its own. A member has
// one or several ranks of the group, with consecutive numbers, and calls each collective once for all of them. Every
// member makes the same calls in the same order.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/element.hpp"
#include "tessera/base/source_location.hpp"
#include "tessera/runtime/access.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::mesh {

// The kinds of collectives: collectives.def.
enum class Collective : std::uint8_t {
#define TESSERA_COLLECTIVE(Name, text) Name,
#include "tessera/mesh/collectives.def"
};
/// "all_reduce"
const char* text_of(Collective) noexcept;

/// The operands of one rank. Elements are dense, from a byte offset on. The caller holds what keeps them: leases, and
/// the order of uses is the stream's as for any work.
struct RankOperands {
  Stream stream;           ///< of the rank's device: the work is enqueued there
  runtime::StorageRef in;  ///< null where the collective reads nothing of this rank
  std::size_t in_offset = 0;
  runtime::StorageRef out;  ///< null where it writes nothing; `in` itself for one in place, at the same offset
  std::size_t out_offset = 0;
};

/// One collective, as a member calls it. With n ranks and `count` elements:
///   AllReduce      in: count, out: count, the sums over all ranks; in place or not
///   AllGather      in: count, out: n * count, the ranks' parts in order
///   ReduceScatter  in: n * count, out: count, the sums of this rank's part
///   Broadcast      in: count, of the rank `peer`; out: count on every rank; in place or not
///   Send, Receive  in or out: count, to or from the rank `peer`; one local rank calls
///   Barrier        nothing: work enqueued after it starts after all ranks have arrived
/// Where the host adds, sums of floating-point types of at most 32 bits are made in f32 and rounded once; NCCL may
/// round sums of 16 bits after each addition.
struct CollectiveCall {
  Collective kind{};
  ElementType element{};
  std::int64_t count = 0;
  int peer = 0;
  std::span<const RankOperands> ranks;  ///< of the member's ranks, in order
  const char* label = "";               ///< of the operation: static
  SourceLocation where;                 ///< the user's call
};

/// Why a group can no longer be used: the rank that failed, and what it said.
struct GroupFailure {
  int rank = -1;  ///< of the group; -1: unknown
  std::string reason;
};

class Communicator {
 public:
  virtual ~Communicator();
  /// The ranks of the group, the first one of this member, and how many it has.
  virtual int size() const noexcept = 0;
  virtual int first() const noexcept = 0;
  virtual int locals() const noexcept = 0;
  /// "threads", "MPI", "NCCL"
  virtual const char* name() const noexcept = 0;
  /// Enqueues the collective for all local ranks. Throws MeshError if the group has failed. Where the host moves the
  /// data, failures of other ranks are failures of the enqueued work, thrown where its result is waited for.
  virtual void enqueue(const CollectiveCall& call) = 0;
  /// A group of the ranks with the same colour, numbered by their rank in this one; called by all members with the
  /// colours of their local ranks, which have to be equal.
  virtual std::shared_ptr<Communicator> split(int colour, SourceLocation where) = 0;
  /// Another group of all ranks, whose calls do not mix with those of this one, and in which members wait for each
  /// other without a limit of time; called by all members. Without an implementation: split(0), with its limits.
  virtual std::shared_ptr<Communicator> companion(SourceLocation where) { return split(0, where); }
  /// Ends the group: calls in flight and all later ones fail on every member, with this reason. Callable from any
  /// thread, never blocks for long; the first reason counts.
  virtual void abort(const GroupFailure& failure) noexcept = 0;
  /// Why the group has ended, empty while it works. Where the devices move the data, work that was in flight ends
  /// without an error of its own, with unspecified results: ask after waiting for them.
  virtual std::optional<GroupFailure> failure() const { return std::nullopt; }
};

/// True for the element types that AllReduce and ReduceScatter add: f64, f32, f16, bf16, and integers.
bool can_add(ElementType element) noexcept;

/// One communicator for each of `members` threads of this process, each with `ranks_each` consecutive ranks. Data is
/// moved by the host, on CPUs and GPUs. A member that does not arrive within `timeout_ms` (0: waits for ever) ends the
/// group.
std::vector<std::shared_ptr<Communicator>> thread_communicators(int members, int ranks_each, int timeout_ms);

}  // namespace tessera::mesh
