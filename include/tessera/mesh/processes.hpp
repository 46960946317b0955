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

/// A step that all processes of a mesh make, as long as this lives. While a process is in a step, the group has to make
/// progress: if a process neither begins nor ends one within the limit of time (TESSERA_MESH_TIMEOUT, 10 minutes), it
/// ends the group, and the failure names the process that is behind the others. All processes make the same steps, one
/// after the other; between two of them they may be idle for any time. Where there is one process, it does nothing.
class Step {
 public:
  explicit Step(const Mesh& mesh) noexcept;
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

 private:
  Mesh mesh_;
};

/// Says that nothing but Tessera uses NCCL in this process, now or later (PyTorch, for example), so that settings of
/// NCCL that hold for a whole process may be changed: collectives in graphs are faster with versions before 2.29. To be
/// called before the first mesh of GPUs. What the user has set in the environment stays.
void nccl_is_ours() noexcept;

}  // namespace tessera::mesh
