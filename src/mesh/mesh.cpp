// The handle of a mesh: its ranks, their devices and streams, and what is checked before an operation is built.
#include "tessera/mesh/mesh.hpp"

#include "mesh/mesh_state.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera {

namespace detail {

MeshState::MeshState(std::shared_ptr<mesh::Communicator> communicator, std::vector<Stream> streams, Grid grid)
    : communicator_(std::move(communicator)), streams_(std::move(streams)), grid_(std::move(grid)) {}

Mesh MeshState::across(SourceLocation where) {
  if (!grid_.across)
    throw MeshError(
        "across_replicas() of a mesh with one replica: there is no other rank that holds the same.\n  Make "
        "the mesh with replicas: Mesh::from_environment({.tensor = 4, .replica = 2}).",
        where);
  const std::lock_guard lock(mutex_);
  if (!across_) across_ = std::make_shared<MeshState>(grid_.across, streams_, Grid{});
  return Mesh(across_);
}

int ranks_of(const Mesh& mesh) noexcept { return mesh.size(); }

Stream stream_of_rank(const Mesh& mesh, int index, const Stream& given, SourceLocation where) {
  const Stream& own = mesh.state().streams()[static_cast<std::size_t>(index)];
  const bool same_device = own.device() == given.device();
  if (given.core()->capturing()) {
    if (same_device) return given;
    throw DeviceError(
        concat("an operation of a mesh on several devices on a stream of ", given.device().name(),
               " that is being captured into a graph: rank ", mesh.first_rank() + index, " is on ", own.device().name(),
               ", and a graph belongs to one device.\n  Capture in one thread or process for each rank "
               "(Mesh::threads, Mesh::from_environment)."),
        where);
  }
  // All threads share the default stream, so a collective on it would wait for a thread that waits for the stream.
  return index == 0 && same_device && !(given == Stream::default_of(given.device())) ? given : own;
}

void check_same_mesh(const Mesh& a, const Mesh& b, const char* what, SourceLocation where) {
  if (a == b) return;
  throw ShapeError(
      concat(what, " takes tensors of one mesh; found one of ", a.to_string(), " and one of ", b.to_string(),
             ", which is another.\n  Make all of them with the same Mesh, or move one: all_gather it, and "
             "shard or replicate it on the other mesh."),
      where);
}

void check_divides(std::int64_t extent, int axis, const Mesh& mesh, const char* what, SourceLocation where) {
  const std::int64_t n = mesh.size();
  if (extent % n == 0) return;
  throw ShapeError(concat(what, " along axis ", axis, ": the extent is ", extent, ", and each of the ", n,
                          " ranks owns equally much, so it has to be a multiple of ", n, ".\n  Pad it to ",
                          (extent / n + 1) * n, ", or use a number of ranks that divides it."),
                   where);
}

void throw_not_local(int rank, const Mesh& mesh, const char* what, SourceLocation where) {
  const int first = mesh.first_rank(), last = first + mesh.local_ranks() - 1;
  throw MeshError(concat(what, " of rank ", rank, ": this member of the mesh of ", mesh.to_string(), " has ",
                         first == last ? concat("rank ", first) : concat("the ranks ", first, " to ", last),
                         ".\n  Ask for a rank that is here (Mesh::is_local), or bring the elements here with a "
                         "collective."),
                  where);
}

}  // namespace detail

Mesh detail::local_mesh(const std::vector<Device>& devices, SourceLocation where) {
  if (devices.empty() || devices.size() > 4096)
    throw MeshError(concat("a mesh has 1 to 4096 ranks; found ", devices.size(), ".\n  Name a device for each rank."),
                    where);
  return Mesh::over(mesh::thread_communicators(1, static_cast<int>(devices.size()), 0).front(), devices, where);
}

Mesh Mesh::over(std::shared_ptr<mesh::Communicator> communicator, const std::vector<Device>& devices,
                SourceLocation where) {
  if (static_cast<int>(devices.size()) != communicator->locals())
    throw MeshError(concat("a communicator with ", communicator->locals(), " local ranks was given ", devices.size(),
                           " devices.\n  Name one for each."),
                    where);
  std::vector<Stream> streams;
  for (const Device& device : devices) streams.emplace_back(device, where);
  return Mesh(
      std::make_shared<detail::MeshState>(std::move(communicator), std::move(streams), detail::MeshState::Grid{}));
}

Mesh Mesh::cpu(int ranks, SourceLocation where) {
  if (ranks < 1 || ranks > 4096)
    throw MeshError(concat("Mesh::cpu(", ranks, "): a mesh has 1 to 4096 ranks.\n  Pass a number in that range."),
                    where);
  return detail::local_mesh(std::vector<Device>(static_cast<std::size_t>(ranks), Device::cpu()), where);
}

std::vector<Mesh> Mesh::threads(int ranks, Device device, int timeout_ms, SourceLocation where) {
  if (ranks < 1 || ranks > 4096 || timeout_ms < 0)
    throw MeshError(
        concat("Mesh::threads(", ranks, ") with a limit of ", timeout_ms,
               " ms: a mesh has 1 to 4096 ranks, and a limit is not negative.\n  Pass numbers in these ranges."),
        where);
  std::vector<Mesh> all;
  for (auto& communicator : mesh::thread_communicators(ranks, 1, timeout_ms))
    all.push_back(over(std::move(communicator), {device}, where));
  return all;
}

int Mesh::size() const noexcept { return state_->communicator().size(); }
int Mesh::first_rank() const noexcept { return state_->communicator().first(); }
int Mesh::local_ranks() const noexcept { return state_->communicator().locals(); }
int Mesh::replicas() const noexcept { return state_->grid().replicas; }
int Mesh::replica() const noexcept { return state_->grid().replica; }
Mesh Mesh::across_replicas(SourceLocation where) const { return state_->across(where); }

Stream Mesh::stream(int rank, SourceLocation where) const {
  if (!is_local(rank)) detail::throw_not_local(rank, *this, "the stream", where);
  return state_->streams()[static_cast<std::size_t>(rank - first_rank())];
}
Device Mesh::device(int rank, SourceLocation where) const {
  if (!is_local(rank)) detail::throw_not_local(rank, *this, "the device", where);
  return stream(rank, where).device();
}

std::string Mesh::to_string() const {
  return concat(size(), size() == 1 ? " rank (" : " ranks (", state_->communicator().name(), ")");
}

void Mesh::abort(const std::string& reason) const noexcept {
  try {
    state_->communicator().abort({first_rank(), reason});
    if (!state_->reports()) return;
    // A communicator that has ended tells no other process why, nor any at all over NCCL. What another rank has done is
    // that rank's to report.
    const auto failure = state_->communicator().failure();
    if (failure && (failure->rank < 0 || is_local(failure->rank))) state_->watch()->report(reason);
  } catch (...) {  // no memory for the text: the group ends without it
    state_->communicator().abort({});
  }
}

std::optional<std::string> Mesh::failure() const {
  const auto failed = state_->communicator().failure();
  if (!failed) return std::nullopt;
  return failed->rank < 0 ? failed->reason : concat("rank ", failed->rank, ": ", failed->reason);
}

}  // namespace tessera
