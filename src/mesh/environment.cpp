// Reading the variables of launchers. Their names are from: the documentation of torchrun ("Environment Variables"),
// the manual page of srun ("OUTPUT ENVIRONMENT VARIABLES"), the manual page of Open MPI's mpirun ("Environment
// Variables"), and MPICH's user guide (PMI).
#include "mesh/environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::mesh {

namespace {

constexpr int kLargestGroup = 1 << 20;
constexpr int kLargestPort = 65535;
constexpr int kTorchrunPort = 29500;  // torchrun's own default

[[noreturn]] void reject(const char* name, std::string_view found, const std::string& expected) {
  throw MeshError(
      concat("the environment variable ", name, " is \"", found, "\"; expected ", expected,
             ".\n  Start every process of the group with the same launcher (torchrun, srun, mpirun), or set "
             "RANK, WORLD_SIZE and LOCAL_RANK for each."));
}

/// The names of one launcher's variables; null where it has none.
struct Names {
  const char* launcher;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
  bool needs_local_rank;
};
constexpr Names kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", true};
constexpr Names kOpenMpi{"Open MPI",
                         "OMPI_COMM_WORLD_RANK",
                         "OMPI_COMM_WORLD_SIZE",
                         "OMPI_COMM_WORLD_LOCAL_RANK",
                         "OMPI_COMM_WORLD_LOCAL_SIZE",
                         true};
constexpr Names kSlurm{"SLURM", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr, true};
constexpr Names kSlurmJob{"SLURM", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", nullptr, true};
constexpr Names kPmi{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", false};

class Reader {
 public:
  Reader(const Lookup& lookup, const std::string& host_name) : lookup_(lookup), host_name_(host_name) {}

  std::optional<ProcessRanks> read() const {
    std::optional<ProcessRanks> ranks;
    if (has(kTorchrun.rank) || has(kTorchrun.size)) {
      ranks = read(kTorchrun);
      if (has("GROUP_RANK")) ranks->node = concat("node ", number("GROUP_RANK", 0, kLargestGroup));
    } else if (has(kOpenMpi.rank) || has(kOpenMpi.size)) {
      ranks = read(kOpenMpi);
      check_pmix(kOpenMpi.rank, ranks->rank);
    } else if (is_slurm_step()) {
      ranks = read_slurm();
    } else if (has(kPmi.rank) || has(kPmi.size)) {
      ranks = read(kPmi);
    } else if (has("PMIX_RANK")) {
      reject("PMIX_RANK", text("PMIX_RANK"), "to find the number of processes beside it, which no variable says");
    } else {
      return std::nullopt;
    }
    find_master(*ranks);
    return ranks;
  }

 private:
  bool has(const char* name) const {
    const char* const value = lookup_(name);
    return value != nullptr && *value != '\0';
  }
  std::string_view text(const char* name) const {
    const char* const value = lookup_(name);
    return value != nullptr ? value : "";
  }
  int number(const char* name, int least, int largest) const {
    const std::string_view found = text(name);
    int value = 0;
    const auto [end, error] = std::from_chars(found.data(), found.data() + found.size(), value);
    if (error != std::errc() || end != found.data() + found.size() || value < least || value > largest)
      reject(name, found, concat("a whole number from ", least, " to ", largest));
    return value;
  }
  int required(const char* name, const char* beside, int least, int largest) const {
    if (has(name)) return number(name, least, largest);
    throw MeshError(concat("the environment variable ", name, " is not set, but ", beside,
                           " is; expected both.\n  Start every process of the group with the same launcher (torchrun, "
                           "srun, mpirun), or set RANK, WORLD_SIZE and LOCAL_RANK for each."));
  }

  ProcessRanks read(const Names& names) const {
    ProcessRanks ranks;
    ranks.launcher = names.launcher;
    ranks.node = host_name_;
    const bool has_rank = has(names.rank);
    ranks.size = required(names.size, names.rank, 1, kLargestGroup);
    ranks.rank = required(names.rank, has_rank ? names.rank : names.size, 0, kLargestGroup);
    if (ranks.rank >= ranks.size)
      reject(names.rank, text(names.rank), concat("less than ", names.size, ", which is ", ranks.size));
    if (names.needs_local_rank)
      ranks.local_rank = required(names.local_rank, names.rank, 0, kLargestGroup);
    else if (has(names.local_rank))
      ranks.local_rank = number(names.local_rank, 0, kLargestGroup);
    if (ranks.local_rank && *ranks.local_rank > ranks.rank)
      reject(names.local_rank, text(names.local_rank), concat("at most ", names.rank, ", which is ", ranks.rank));
    if (names.local_size != nullptr && has(names.local_size))
      set_local_size(ranks, names, names.local_size, number(names.local_size, 1, kLargestGroup));
    return ranks;
  }
  void set_local_size(ProcessRanks& ranks, const Names& names, const char* variable, int size) const {
    if (size > ranks.size) reject(variable, text(variable), concat("at most ", names.size, ", which is ", ranks.size));
    if (ranks.local_rank && *ranks.local_rank >= size)
      reject(names.local_rank, text(names.local_rank), concat("less than ", variable, ", which is ", size));
    ranks.local_size = size;
  }

  /// A batch script itself has SLURM_PROCID and SLURM_NTASKS, too; only what srun starts is a task of a step.
  bool is_slurm_step() const { return has("SLURM_PROCID") && (has("SLURM_STEP_ID") || has("SLURM_STEP_NUM_TASKS")); }
  ProcessRanks read_slurm() const {
    const Names& names = has(kSlurm.size) ? kSlurm : kSlurmJob;
    ProcessRanks ranks = read(names);
    check_pmix(names.rank, ranks.rank);
    if (has("SLURM_NODEID")) ranks.node = concat("node ", number("SLURM_NODEID", 0, kLargestGroup));
    if (has("SLURM_STEP_TASKS_PER_NODE") && has("SLURM_NODEID")) {
      constexpr const char* kTasks = "SLURM_STEP_TASKS_PER_NODE";
      set_local_size(ranks, names, kTasks, tasks_of_node(kTasks, number("SLURM_NODEID", 0, kLargestGroup)));
    } else if (has("SLURM_NTASKS_PER_NODE") && number("SLURM_NTASKS_PER_NODE", 1, kLargestGroup) <= ranks.size) {
      // What was requested for each node: a step may be smaller.
      set_local_size(ranks, names, "SLURM_NTASKS_PER_NODE", number("SLURM_NTASKS_PER_NODE", 1, kLargestGroup));
    }
    ranks.address = first_node();
    return ranks;
  }
  /// "4(x2),3": 4 tasks on each of two nodes, 3 on the next one.
  int tasks_of_node(const char* name, int node) const {
    const std::string_view all = text(name);
    std::string_view rest = all;
    const auto take = [&] {
      int value = 0;
      const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
      if (error != std::errc() || value < 1) reject(name, all, "counts as in 4(x2),3");
      rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
      return value;
    };
    while (true) {
      const int tasks = take();
      int nodes = 1;
      if (rest.starts_with("(x")) {
        rest.remove_prefix(2);
        nodes = take();
        if (!rest.starts_with(")")) reject(name, all, "counts as in 4(x2),3");
        rest.remove_prefix(1);
      }
      if (node < nodes) return tasks;
      node -= nodes;
      if (!rest.starts_with(",")) reject(name, all, concat("the count of node ", text("SLURM_NODEID")));
      rest.remove_prefix(1);
    }
  }
  /// "gpu[03-06,9],cpu1": gpu03.
  std::string first_node() const {
    constexpr const char* kNodes = "SLURM_STEP_NODELIST";
    const std::string_view all = text(kNodes);
    std::string_view rest = all;
    std::string name;
    while (!rest.empty() && rest.front() != ',') {
      if (rest.front() != '[') {
        name += rest.front();
        rest.remove_prefix(1);
        continue;
      }
      const std::size_t close = rest.find(']');
      if (close == std::string_view::npos) reject(kNodes, all, "a list as in gpu[03-06,9]");
      name += rest.substr(1, rest.find_first_of("-,]") - 1);
      rest.remove_prefix(close + 1);
    }
    return name;
  }
  /// A launcher with PMIx numbers its processes in two ways, which agree.
  void check_pmix(const char* name, int rank) const {
    if (!has("PMIX_RANK")) return;
    const int found = number("PMIX_RANK", 0, kLargestGroup);
    if (found != rank) reject("PMIX_RANK", text("PMIX_RANK"), concat("the same as ", name, ", which is ", rank));
  }
  void find_master(ProcessRanks& ranks) const {
    if (has("MASTER_ADDR"))
      ranks.address = text("MASTER_ADDR");
    else if (ranks.address.empty() && (ranks.size == 1 || ranks.local_size == ranks.size))
      ranks.address = "127.0.0.1";
    if (has("MASTER_PORT")) ranks.master_port = number("MASTER_PORT", 1, kLargestPort);
  }

  const Lookup& lookup_;
  const std::string& host_name_;
};

}  // namespace

std::optional<ProcessRanks> ranks_of_environment(const Lookup& lookup, const std::string& host_name) {
  return Reader(lookup, host_name).read();
}

std::optional<ProcessRanks> ranks_of_environment() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) name[0] = '\0';
  return ranks_of_environment([](const char* variable) -> const char* { return std::getenv(variable); }, name.data());
}

MeetingPoint meeting_point(const ProcessRanks& ranks, int first_port) {
  if (ranks.address.empty())
    throw MeshError(
        concat("the environment variable MASTER_ADDR is not set; expected the address of the machine of "
               "rank 0, because ",
               ranks.launcher, " started ", ranks.size,
               " processes that may be on several machines.\n  Set it for all of them (mpirun -x "
               "MASTER_ADDR=name ...)."));
  const int master = ranks.master_port != 0 ? ranks.master_port : kTorchrunPort;
  const int first = first_port != 0 ? first_port : master + 1;
  if (first + 1 > kLargestPort)
    throw MeshError(concat("the ports ", first, " and ", first + 1, " are needed on ", ranks.address,
                           ", but the largest one is ", kLargestPort,
                           ".\n  Set TESSERA_MESH_PORT or MASTER_PORT to a "
                           "smaller number."));
  return {ranks.address, first, first + 1};
}

MeetingPoint meeting_point(const ProcessRanks& ranks) {
  return meeting_point(ranks, static_cast<int>(env_int(Env::MESH_PORT, 0, 1)));
}

int timeout_of_environment() {
  constexpr std::int64_t kDefaultSeconds = 60, kMaxSeconds = std::int64_t{1} << 20;
  return static_cast<int>(std::min(env_int(Env::MESH_TIMEOUT, kDefaultSeconds, 1), kMaxSeconds) * 1000);
}

}  // namespace tessera::mesh
