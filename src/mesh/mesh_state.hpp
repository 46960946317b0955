// What the handles of a mesh share.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "mesh/group_watch.hpp"
#include "tessera/mesh/communicator.hpp"
#include "tessera/mesh/mesh.hpp"

namespace tessera::detail {

class MeshState {
 public:
  struct Grid {
    int replicas = 1, replica = 0;
    std::shared_ptr<mesh::Communicator> across;  ///< the ranks along the axis `replica`; null if there is one replica
  };
  MeshState(std::shared_ptr<mesh::Communicator> communicator, std::vector<Stream> streams, Grid grid);

  mesh::Communicator& communicator() const noexcept { return *communicator_; }
  const std::vector<Stream>& streams() const noexcept { return streams_; }
  const Grid& grid() const noexcept { return grid_; }
  /// What watches the processes of the mesh, kept as long as it; null where there is one process.
  /// `reports`: an abort of this mesh is told to the other processes, rather than one of the mesh that it accompanies.
  void keep(std::shared_ptr<mesh::GroupWatch> watch, bool reports) noexcept {
    watch_ = std::move(watch);
    reports_ = reports;
  }
  const std::shared_ptr<mesh::GroupWatch>& watch() const noexcept { return watch_; }
  bool reports() const noexcept { return reports_ && watch_ != nullptr; }
  /// The mesh of across_replicas(), made once.
  Mesh across(SourceLocation where);

 private:
  std::shared_ptr<mesh::Communicator> communicator_;
  std::vector<Stream> streams_;  ///< of the local ranks
  Grid grid_;
  std::mutex mutex_;
  std::shared_ptr<MeshState> across_;
  bool reports_ = false;
  std::shared_ptr<mesh::GroupWatch> watch_;  // ends first
};

/// Ranks of this process whose data the host moves. Throws MeshError unless there are 1 to 4096.
Mesh local_mesh(const std::vector<Device>& devices, SourceLocation where);

}  // namespace tessera::detail
