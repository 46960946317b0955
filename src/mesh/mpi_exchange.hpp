// The processes that an MPI launcher has started, as the members of an exchange: mpirun, srun --mpi.
#pragma once
#include <cstddef>
#include <memory>

#include "mesh/exchange.hpp"
#include "tessera/base/source_location.hpp"

namespace tessera::mesh {

/// Whether this build of the library has MPI (CMake option TESSERA_MPI).
bool has_mpi() noexcept;

struct MpiOptions {
  int timeout_ms = 60'000;  ///< a member that does not arrive within it ends the group; 0: waits for ever
  /// What one message holds at most: MPI's counts are of type int.
  std::size_t message_bytes = std::size_t{1} << 30;
};

/// The exchange of this process: one member for each process of MPI_COMM_WORLD, over a duplicate of it. Initialises MPI
/// if the program has not, with MPI_THREAD_MULTIPLE, and finalises it at exit then. All processes call it. Throws
/// MeshError without MPI, if MPI was initialised for fewer threads than MPI_THREAD_SERIALIZED, or if MPI fails.
std::shared_ptr<Exchange> mpi_exchange(const MpiOptions& options, SourceLocation where = {});

}  // namespace tessera::mesh
