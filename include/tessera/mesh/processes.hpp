// Programs of several processes, of which one decides what all of them do.
#pragma once
#include <string>

#include "tessera/mesh/mesh.hpp"

namespace tessera::mesh {

/// This process among those that torchrun, srun or mpirun started together.
struct ProcessRank {
  std::string launcher;  ///< "torchrun", "Open MPI", "SLURM", "PMI"; empty: it was started alone
  int rank = 0, size = 1;
};
/// From the environment. Throws MeshError if that contradicts itself.
ProcessRank process_rank(SourceLocation where = SourceLocation::current());

/// Another mesh of the same ranks, for what their hosts say to each other beside the tensors: its streams and its order
/// of operations are its own. A rank may come to its collectives at any time, where the transport allows it (threads,
/// MPI and NCCL do): the others wait without a limit, until the group ends. Where processes are watched, a failure ends
/// both meshes; else abort both. All members call it. Throws MeshError if the group has failed.
Mesh companion(const Mesh& mesh, SourceLocation where = SourceLocation::current());

}  // namespace tessera::mesh
