// Mesh: the devices or ranks that a program's tensors are spread over.
//
//   Mesh mesh = Mesh::of_this_process();   // its GPUs; one rank on the CPU where there are none
//   Mesh four = Mesh::cpu(4);              // four ranks on the CPU
//   Mesh group = Mesh::from_environment(); // one rank for each process of torchrun, srun or mpirun
//
// A rank is a device with a stream. One thread may drive several ranks, several threads one each (Mesh::threads), and
// several processes together are one mesh; the program is the same: every member makes the same operations in the same
// order.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/runtime/device.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera {

namespace mesh {
class Communicator;
}
namespace detail {
class MeshState;
}

/// The axes of a grid of ranks. Tensors are split along `tensor`; ranks that differ only along `replica` hold the same.
/// 0: all ranks that the other axis leaves.
struct MeshAxes {
  int tensor = 0;
  int replica = 1;
};

/// A copyable handle; copies are the same mesh. Equal handles are the same mesh, and only tensors of one mesh are used
/// together.
class Mesh {
 public:
  /// The GPUs of this process that kernels can be compiled for, one rank each; the CPU as the only rank where there are
  /// none, or TESSERA_DEVICE is cpu. GPUs communicate over NCCL, and through the host where it is not installed.
  static Mesh of_this_process(SourceLocation where = SourceLocation::current());
  /// Ranks of this process, each on one of the devices. Throws MeshError if there is none, or if NCCL fails.
  static Mesh of(const std::vector<Device>& devices, SourceLocation where = SourceLocation::current());
  /// `ranks` ranks on the CPU. Throws MeshError unless there are 1 to 4096.
  static Mesh cpu(int ranks, SourceLocation where = SourceLocation::current());
  /// The ranks of the processes that torchrun, srun or mpirun started, one for each process, on its GPU if it has one,
  /// else on the CPU; one rank where the environment names none. All processes call it. Throws MeshError for an
  /// environment that contradicts itself, for axes that do not multiply to the number of ranks, and for what is
  /// missing (MPI, NCCL).
  static Mesh from_environment(MeshAxes axes = {}, SourceLocation where = SourceLocation::current());
  /// A mesh of `ranks` ranks on `device` for as many threads of this process: each thread uses its own handle, and
  /// makes the same operations as the others. A thread that does not arrive at a collective within `timeout_ms` (0:
  /// waits for ever) ends the group with a MeshError in all of them.
  static std::vector<Mesh> threads(int ranks, Device device = Device::cpu(), int timeout_ms = 600'000,
                                   SourceLocation where = SourceLocation::current());
  /// For communicators of one's own: the local ranks are on `devices`, in order.
  static Mesh over(std::shared_ptr<mesh::Communicator> communicator, const std::vector<Device>& devices,
                   SourceLocation where = SourceLocation::current());

  /// The number of parts of a sharded tensor: the ranks along the axis `tensor`.
  int size() const noexcept;
  /// The first rank of this member, and how many it has; their numbers are consecutive.
  int first_rank() const noexcept;
  int local_ranks() const noexcept;
  bool is_local(int rank) const noexcept { return rank >= first_rank() && rank < first_rank() + local_ranks(); }
  /// The number of copies of this mesh, and which one this is: the axis `replica`.
  int replicas() const noexcept;
  int replica() const noexcept;
  /// The mesh of the ranks that hold the same as this member's along the axis `replica`.
  Mesh across_replicas(SourceLocation where = SourceLocation::current()) const;
  /// The device of a local rank. Throws MeshError for a rank of another member.
  Device device(int rank, SourceLocation where = SourceLocation::current()) const;
  /// The stream that work of a local rank runs on.
  Stream stream(int rank, SourceLocation where = SourceLocation::current()) const;
  /// "4 ranks (threads)"
  std::string to_string() const;
  /// Makes one collective of each size class and compares its results; every member calls it. For the start of a
  /// program, before anything is loaded. Throws MeshError with what is wrong between the ranks (another version of
  /// Tessera, data that does not arrive as it was sent); then the group has ended.
  void check_links(SourceLocation where = SourceLocation::current()) const;
  /// Ends the group: all operations in flight and later ones fail on every member, with the reason.
  void abort(const std::string& reason) const noexcept;
  /// Why the group has ended, "rank 1: ..."; none while it works. Where the devices move the data (NCCL), operations
  /// that were in flight then end without an error, with unspecified results: ask after waiting for them.
  std::optional<std::string> failure() const;
  bool operator==(const Mesh& other) const noexcept { return state_ == other.state_; }

  explicit Mesh(std::shared_ptr<detail::MeshState> state) noexcept : state_(std::move(state)) {}
  detail::MeshState& state() const noexcept { return *state_; }

 private:
  std::shared_ptr<detail::MeshState> state_;
};

namespace detail {

/// The number of a mesh's parts, as templates need it.
int ranks_of(const Mesh& mesh) noexcept;
/// The stream for work of local rank `index` (from 0) of an operation that was put on `given`: that one while it is
/// being captured, and for the first rank if it is a stream of the rank's device other than the default one; else the
/// rank's own. Throws DeviceError if `given` is captured and the rank is on another device.
Stream stream_of_rank(const Mesh& mesh, int index, const Stream& given, SourceLocation where);
/// Throws ShapeError unless both are the same mesh.
void check_same_mesh(const Mesh& a, const Mesh& b, const char* what, SourceLocation where);
/// Throws ShapeError unless `extent` is a multiple of the number of ranks.
void check_divides(std::int64_t extent, int axis, const Mesh& mesh, const char* what, SourceLocation where);
[[noreturn]] void throw_not_local(int rank, const Mesh& mesh, const char* what, SourceLocation where);

}  // namespace detail
}  // namespace tessera
