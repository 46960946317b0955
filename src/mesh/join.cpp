// Making meshes: of the devices of this process, and of the processes that a launcher has started.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <set>
#include <string>
#include <thread>

#include "mesh/environment.hpp"
#include "mesh/exchange.hpp"
#include "mesh/group_watch.hpp"
#include "mesh/mesh_state.hpp"
#include "mesh/mpi_exchange.hpp"
#include "mesh/nccl_communicator.hpp"
#include "mesh/nccl_group.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/mesh/processes.hpp"
#include "tessera/mesh/thread_meshes.hpp"
#include "tessera/runtime/cuda.hpp"

namespace tessera {

namespace {

/// The GPUs of this process that kernels can be compiled for.
std::vector<Device> usable_gpus() {
  std::vector<Device> all;
  const runtime::cuda::CompilerProbe can_compile = runtime::cuda::compiler_probe();
  if (can_compile == nullptr || default_device().kind() == DeviceKind::Cpu) return all;
  for (int i = 0, n = runtime::cuda::device_count(); i < n; ++i) {
    try {
      if (can_compile(runtime::cuda::describe_device(i), nullptr)) all.push_back(Device::cuda(i, {}));
    } catch (const DeviceError&) {  // in exclusive use by another process, or out of memory: not one of this process's
    }
  }
  return all;
}

std::vector<Stream> streams_on(const std::vector<Device>& devices) {
  std::vector<Stream> all;
  for (const Device& device : devices) all.emplace_back(device);
  return all;
}

/// Ranks of this process alone, over NCCL.
Mesh over_nccl(const mesh::nccl::Library& library, const std::vector<Device>& devices, SourceLocation where) {
  const std::vector<Stream> streams = streams_on(devices);
  auto communicator = mesh::nccl_communicator(library, mesh::nccl_id(library, where), static_cast<int>(devices.size()),
                                              0, streams, mesh::nccl_options(), where);
  return Mesh(std::make_shared<detail::MeshState>(std::move(communicator), streams, detail::MeshState::Grid{}));
}

/// The communicator of this process with the others of its group, and the stream of its one rank.
struct Joined {
  std::shared_ptr<mesh::Communicator> communicator;
  std::vector<Stream> streams;
  mesh::MeetingPoint meeting;  ///< where the processes watch each other
};

Joined join_gpus(const mesh::ProcessRanks& ranks, SourceLocation where) {
  const int ordinal = ranks.local_rank.value_or(0);
  if (ordinal >= runtime::cuda::device_count())
    throw MeshError(concat("rank ", ranks.rank, " is process ", ordinal, " of its machine, which has ",
                           runtime::cuda::device_count(),
                           " GPUs: each process takes one.\n  Start as many processes as "
                           "there are GPUs, or set TESSERA_DEVICE=cpu."),
                    where);
  const mesh::MeetingPoint meeting = mesh::meeting_point(ranks);
  mesh::set_nccl_meeting_point(meeting);
  const mesh::nccl::Library& library = mesh::nccl::installed_library(where);
  std::vector<Stream> streams{Stream(Device::cuda(ordinal, where))};
  auto communicator = mesh::nccl_communicator(library, mesh::nccl_id(library, where), ranks.size, ranks.rank, streams,
                                              mesh::nccl_options(), where);
  return {std::move(communicator), std::move(streams), meeting};
}

/// A TCP port of this machine that no process uses now.
int free_port() {
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  int port = 0;
  if (s >= 0 && ::bind(s, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      ::getsockname(s, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    port = ntohs(address.sin_port);
  if (s >= 0) ::close(s);
  return port;
}

/// Where rank 0 runs, as it says itself: MPI's launchers name no machine.
mesh::MeetingPoint meeting_of(mesh::Exchange& exchange) {
  struct Place {
    std::array<char, 256> host;
    std::int32_t port;
  } mine{}, first{};
  ::gethostname(mine.host.data(), mine.host.size() - 1);
  mine.port = free_port();
  const auto members = static_cast<std::size_t>(exchange.members());
  const std::vector<std::span<const std::byte>> to(
      members, exchange.me() == 0 ? std::as_bytes(std::span(&mine, 1)) : std::span<const std::byte>());
  std::vector<std::span<std::byte>> from(members);
  from[0] = std::as_writable_bytes(std::span(&first, 1));
  exchange.all_to_all(to, from);
  return {first.host.data(), first.port, 0};
}

Joined join_cpus(const mesh::ProcessRanks& ranks, SourceLocation where) {
  if (std::string(ranks.launcher) == "torchrun")
    throw MeshError(
        "torchrun started these processes, and they have no GPU: ranks on the CPU communicate over MPI, which "
        "torchrun does not start.\n  Start them with mpirun or srun --mpi=pmix.",
        where);
  mesh::MpiOptions options;
  options.timeout_ms = mesh::nccl_options().timeout_ms;
  auto exchange = mesh::mpi_exchange(options, where);
  if (exchange->members() != ranks.size || exchange->me() != ranks.rank)
    throw MeshError(
        concat("the environment of ", ranks.launcher, " says rank ", ranks.rank, " of ", ranks.size,
               ", and MPI says rank ", exchange->me(), " of ", exchange->members(),
               ": the program's MPI library does not belong to the launcher.\n  Start it with the mpirun of "
               "the MPI that Tessera was built with."),
        where);
  const mesh::MeetingPoint meeting = meeting_of(*exchange);
  return {mesh::host_communicator(std::move(exchange), 1), {Stream(Device::cpu(), where)}, meeting};
}

/// Ends the communicators when a process of the group ends or stops.
std::shared_ptr<mesh::GroupWatch> watch_over(const mesh::ProcessRanks& ranks, const mesh::MeetingPoint& meeting,
                                             int timeout_ms,
                                             const std::vector<std::shared_ptr<mesh::Communicator>>& communicators,
                                             SourceLocation where) {
  mesh::WatchOptions options;
  options.address = meeting.address;
  options.port = meeting.watch_port;
  options.rank = ranks.rank;
  options.size = ranks.size;
  options.start_ms = timeout_ms;
  options.progress_ms = timeout_ms;
  auto watch = std::make_shared<mesh::GroupWatch>();
  for (const auto& communicator : communicators) watch->add(communicator);
  watch->start(options, where);
  return watch;
}

/// The axes, with what they leave open filled in.
MeshAxes complete(MeshAxes axes, int ranks, SourceLocation where) {
  if (axes.replica == 0 && axes.tensor > 0) axes.replica = ranks / axes.tensor;
  if (axes.tensor == 0 && axes.replica > 0) axes.tensor = ranks / axes.replica;
  if (axes.tensor > 0 && axes.replica > 0 && axes.tensor * axes.replica == ranks) return axes;
  throw MeshError(concat("a mesh of ", axes.tensor, " ranks along the axis tensor and ", axes.replica,
                         " along replica has ", axes.tensor * axes.replica, " ranks; there are ", ranks,
                         ".\n  Name axes whose product is the number of ranks, and 0 for what the other one leaves."),
                  where);
}

}  // namespace

Mesh Mesh::of(const std::vector<Device>& devices, SourceLocation where) {
  bool gpus = !devices.empty();
  for (const Device& device : devices) gpus = gpus && device.kind() == DeviceKind::Cuda;
  if (gpus && mesh::nccl::available()) return over_nccl(mesh::nccl::installed_library(where), devices, where);
  return detail::local_mesh(devices, where);
}

namespace {

/// All are GPUs, and no two are the same.
bool are_different_gpus(const std::vector<Device>& devices) {
  std::set<int> ordinals;
  for (const Device& device : devices)
    if (device.kind() != DeviceKind::Cuda || !ordinals.insert(device.ordinal()).second) return false;
  return !devices.empty();
}

/// Members of a group over NCCL, one for each device: all of them have to be made at the same time.
std::vector<Mesh> members_over_nccl(const mesh::nccl::Library& library, const std::vector<Device>& devices,
                                    int timeout_ms, SourceLocation where) {
  mesh::NcclOptions options = mesh::nccl_options();
  options.collective_ms = timeout_ms;
  options.siblings = std::make_shared<mesh::nccl::Siblings>();
  const mesh::nccl::UniqueId id = mesh::nccl_id(library, where);
  const std::vector<Stream> streams = streams_on(devices);
  std::vector<std::shared_ptr<mesh::Communicator>> communicators(devices.size());
  std::vector<std::exception_ptr> errors(devices.size());
  const auto make = [&](std::size_t i) noexcept {
    try {
      communicators[i] = mesh::nccl_communicator(library, id, static_cast<int>(devices.size()), static_cast<int>(i),
                                                 std::span(streams).subspan(i, 1), options, where);
    } catch (const Error& error) {
      errors[i] = std::current_exception();
      options.siblings->end({static_cast<int>(i), error.message()}, nullptr);
    } catch (...) {
      errors[i] = std::current_exception();
      options.siblings->end({static_cast<int>(i), "an error that is not Tessera's"}, nullptr);
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < devices.size(); ++i) threads.emplace_back([&make, i] { make(i); });
  }
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  std::vector<Mesh> all;
  for (std::size_t i = 0; i < devices.size(); ++i)
    all.push_back(Mesh(std::make_shared<detail::MeshState>(std::move(communicators[i]), std::vector<Stream>{streams[i]},
                                                           detail::MeshState::Grid{})));
  return all;
}

}  // namespace

std::vector<Mesh> mesh::thread_meshes(const std::vector<Device>& devices, int timeout_ms, SourceLocation where) {
  if (devices.empty()) throw MeshError("a mesh has at least one rank.\n  Name a device for each rank.", where);
  if (are_different_gpus(devices) && nccl::available())
    return members_over_nccl(nccl::installed_library(where), devices, timeout_ms, where);
  std::vector<Mesh> all;
  auto communicators = thread_communicators(static_cast<int>(devices.size()), 1, timeout_ms);
  for (std::size_t i = 0; i < devices.size(); ++i)
    all.push_back(Mesh::over(std::move(communicators[i]), {devices[i]}, where));
  return all;
}

mesh::ProcessRank mesh::process_rank(SourceLocation) {
  const auto ranks = ranks_of_environment();
  return ranks ? ProcessRank{ranks->launcher, ranks->rank, ranks->size} : ProcessRank{};
}

mesh::Step::Step(const Mesh& mesh) noexcept : mesh_(mesh) {
  if (GroupWatch* const watch = mesh_.state().watch().get()) watch->begin_step();
}
mesh::Step::~Step() {
  if (GroupWatch* const watch = mesh_.state().watch().get()) watch->end_step();
}

Mesh mesh::companion(const Mesh& mesh, SourceLocation where) {
  auto communicator = mesh.state().communicator().companion(where);
  std::vector<Stream> streams;
  for (const Stream& stream : mesh.state().streams()) streams.emplace_back(stream.device(), where);
  const std::shared_ptr<GroupWatch>& watch = mesh.state().watch();
  if (watch) watch->add(communicator);
  auto state = std::make_shared<tessera::detail::MeshState>(std::move(communicator), std::move(streams),
                                                            tessera::detail::MeshState::Grid{});
  state->keep(watch, false);
  return Mesh(std::move(state));
}

Mesh Mesh::of_this_process(SourceLocation where) {
  const std::vector<Device> gpus = usable_gpus();
  return gpus.empty() ? cpu(1, where) : of(gpus, where);
}

Mesh Mesh::from_environment(MeshAxes axes, SourceLocation where) {
  const auto ranks = mesh::ranks_of_environment();
  if (!ranks) {
    complete(axes, 1, where);
    return of({default_device(where)}, where);
  }
  axes = complete(axes, ranks->size, where);
  Joined world = default_device(where).kind() == DeviceKind::Cpu ? join_cpus(*ranks, where) : join_gpus(*ranks, where);
  std::vector<std::shared_ptr<mesh::Communicator>> watched{world.communicator};
  const std::shared_ptr<mesh::Communicator> all = world.communicator;  // until its parts have been made
  detail::MeshState::Grid grid;
  if (axes.replica > 1) {  // neighbours split tensors, because they are most often on one machine
    grid.replicas = axes.replica;
    grid.replica = ranks->rank / axes.tensor;
    grid.across = all->split(ranks->rank % axes.tensor, where);
    world.communicator = all->split(grid.replica, where);
    watched = {world.communicator, grid.across};
  }
  auto state =
      std::make_shared<detail::MeshState>(std::move(world.communicator), std::move(world.streams), std::move(grid));
  if (ranks->size > 1)
    state->keep(watch_over(*ranks, world.meeting, mesh::nccl_options().timeout_ms, watched, where), true);
  return Mesh(std::move(state));
}

}  // namespace tessera
