// A mesh whose ranks are devices of this process, each driven by a thread of its own.
#pragma once
#include <vector>

#include "tessera/mesh/mesh.hpp"

namespace tessera::mesh {

/// A handle for each of as many threads: rank i is on `devices[i]`. Different GPUs communicate over NCCL; where it is
/// not installed, and for other devices, the host moves the data. Throws MeshError if there is no device, or if NCCL
/// fails. `timeout_ms` as for Mesh::threads(); over NCCL it is the time that a collective may take after the one before
/// it has ended, other work between them included.
std::vector<Mesh> thread_meshes(const std::vector<Device>& devices, int timeout_ms = 600'000,
                                SourceLocation where = SourceLocation::current());

}  // namespace tessera::mesh
