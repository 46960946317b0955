// What a launcher (torchrun, srun, mpirun, mpiexec) tells a process about its group: environment variables.
#pragma once
#include <functional>
#include <optional>
#include <string>

namespace tessera::mesh {

/// One process of a group that a launcher started.
struct ProcessRanks {
  const char* launcher = "";      ///< whose variables were read: "torchrun", "Open MPI", "SLURM", "PMI"
  int rank = 0;                   ///< of the process, from 0
  int size = 1;                   ///< processes in the group
  std::optional<int> local_rank;  ///< its number among the processes of its machine; empty: the launcher does not say
  std::optional<int> local_size;  ///< the processes of its machine; empty: the launcher does not say
  std::string node;               ///< equal for processes of one machine, different for those of two
  std::string address;            ///< of the machine of rank 0: a name or an IP address; empty if nothing says it
  int master_port = 0;            ///< MASTER_PORT, which the launcher may hold itself; 0 if it is not set
};

/// The value of a variable; nullptr where it is not set.
using Lookup = std::function<const char*(const char* name)>;

/// What the variables say, or empty if no launcher has set any. `host_name` identifies the machine where no variable
/// does. Launchers may be nested (torchrun under srun): the innermost one counts, which is the first that is found of
/// torchrun, Open MPI, SLURM, PMI. Throws MeshError if a variable is malformed, is missing beside others of the same
/// launcher, or contradicts another; the message names it, what was found and what was expected.
std::optional<ProcessRanks> ranks_of_environment(const Lookup& lookup, const std::string& host_name);
/// The same for this process.
std::optional<ProcessRanks> ranks_of_environment();

/// Where the processes of a group meet, on the machine of rank 0. A launcher's agent usually holds MASTER_PORT, so
/// these are others.
struct MeetingPoint {
  std::string address;
  int watch_port = 0;  ///< TCP: the processes watch each other (watch.hpp)
  int nccl_port = 0;   ///< TCP: NCCL_COMM_ID
};
/// `first_port`: TESSERA_MESH_PORT, or 0 for the one after MASTER_PORT. Throws MeshError if no variable says where rank
/// 0 runs, or if there are no two such ports.
MeetingPoint meeting_point(const ProcessRanks& ranks, int first_port);
/// The same with TESSERA_MESH_PORT of the environment.
MeetingPoint meeting_point(const ProcessRanks& ranks);

/// TESSERA_MESH_TIMEOUT in milliseconds; 60 s if it is not set.
int timeout_of_environment();

}  // namespace tessera::mesh
