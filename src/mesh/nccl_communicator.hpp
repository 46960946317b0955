// A communicator over NCCL: its collectives are work of the ranks' streams, which graphs capture as any other.
#pragma once
#include <memory>
#include <span>

#include "mesh/environment.hpp"
#include "mesh/nccl_library.hpp"
#include "tessera/mesh/communicator.hpp"

namespace tessera::mesh {

namespace nccl {
class Siblings;
}

/// The size of windows where the user wants them.
inline constexpr std::size_t kWindowBytes = std::size_t{1} << 20;

struct NcclOptions {
  int timeout_ms = 60'000;  ///< of one call of the host: creating a communicator, or the start of a collective; 0: none
  /// After so long, a collective that has been enqueued and has not ended waits for a rank that does not make it: the
  /// group ends. 0: it may wait for ever, as processes do that wait for what another one tells them.
  int collective_ms = 0;
  /// Collectives of at most so many bytes go through memory that all ranks have registered (symmetric windows), where
  /// the library has them and each member has one rank. 0: none do.
  /// NCCL's kernels over windows look at no flag: one that waits for a rank that has failed cannot be ended.
  std::size_t window_bytes = 0;
  bool window_of_one_rank = false;             ///< a group of one rank, which gains nothing by it, has one too
  std::shared_ptr<nccl::Siblings> siblings{};  ///< groups of this process that end together; null: none
};

/// The options that the environment asks for: TESSERA_MESH_TIMEOUT, TESSERA_NCCL_WINDOWS.
NcclOptions nccl_options();

/// The id of a new group: one rank makes it, and all get it. Where NCCL_COMM_ID is set, all ranks make the same one.
/// Throws MeshError.
nccl::UniqueId nccl_id(const nccl::Library& library, SourceLocation where = {});
/// Groups of several processes meet there: sets NCCL_COMM_ID, unless the user has.
void set_nccl_meeting_point(const MeetingPoint& point);

/// A member of a group of `size` ranks, with the ranks first, first + 1, ...: one for each of `streams`, which are
/// streams of their devices. All members call it at the same time. Throws MeshError: NCCL failed, not all members came
/// within the limit; DeviceError if a stream is not one of a GPU.
std::shared_ptr<Communicator> nccl_communicator(const nccl::Library& library, const nccl::UniqueId& id, int size,
                                                int first, std::span<const Stream> streams, const NcclOptions& options,
                                                SourceLocation where = {});

}  // namespace tessera::mesh
