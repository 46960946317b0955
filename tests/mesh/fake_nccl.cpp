// The functions of the fake library. FAKE_NCCL_VERSION is the version that it reports; with FAKE_NCCL_INCOMPLETE it
// lacks one.
#include <atomic>
#include <cstdio>
#include <cstring>

#include "mesh/fake_nccl_state.hpp"

#ifndef FAKE_NCCL_VERSION
#define FAKE_NCCL_VERSION 23007
#endif

namespace tessera::mesh::fake {
namespace {

Library library;

struct Id {
  char internal[128];
};
/// ncclConfig_t of 2.29.
struct Config {
  std::size_t size;
  unsigned magic, version;
  int blocking, cga, least, most;
  const char* net;
  int share, traffic;
  const char* name;
  int collnet, policy, shrink, nvls, channels, centric, graphs, contexts;
};
bool is_right(const Config& config, bool may_block) {
  constexpr int kUndefined = INT_MIN;
  return config.magic == 0xcafebeef && config.size == sizeof(Config) && config.version == 22900 &&
         (config.blocking == 0 || (may_block && config.blocking == 1)) && config.net == nullptr && config.graphs == 1 &&
         config.contexts == kUndefined && config.share == kUndefined;
}

}  // namespace
}  // namespace tessera::mesh::fake

using namespace tessera::mesh::fake;  // NOLINT: this file is the library

extern "C" {

Nccl* fake_nccl() { return &library; }

int ncclGetVersion(int* version) {
  *version = FAKE_NCCL_VERSION;
  return kSuccess;
}
const char* ncclGetErrorString(int result) { return result == kSuccess ? "no error" : "fake error"; }
const char* ncclGetLastError(Comm*) { return "as injected"; }
int ncclGetUniqueId(Id* id) {
  const std::lock_guard lock(library.mutex);
  if (const int entered = library.enter("ncclGetUniqueId", nullptr); entered != kSuccess) return entered;
  std::memset(id, 0, sizeof *id);
  std::snprintf(id->internal, sizeof id->internal, "group %d", library.ids++);
  return kSuccess;
}
int ncclCommInitRankConfig(Comm** made, int ranks, Id id, int rank, Config* config) {
  const std::lock_guard lock(library.mutex);
  *made = nullptr;
  const int entered = library.enter("ncclCommInitRankConfig", nullptr);
  if (entered != kSuccess && entered != kInProgress) return entered;
  if (!is_right(*config, false)) library.violate("a configuration that is not that of a communicator without blocking");
  const std::string key(id.internal);
  auto& group = library.groups[key];
  if (group == nullptr) group = std::make_shared<Group>();
  group->size = ranks;
  *made = library.new_comm(group, rank, library.driver->current_device());
  (*made)->hangs = entered == kInProgress;
  if (static_cast<int>(group->members.size()) == ranks) {
    group->complete = true;
    library.groups.erase(key);  // an id serves once
  }
  return kInProgress;
}
int ncclCommSplit(Comm* comm, int colour, int key, Comm** made, Config* config) {
  const std::lock_guard lock(library.mutex);
  if (const int entered = library.enter("ncclCommSplit", comm); entered != kSuccess) return entered;
  if (config == nullptr || !is_right(*config, true)) library.violate("a split without a configuration");
  comm->splitting = true;
  if (comm->blocking) library.violate("a split of a communicator that blocks");
  comm->split = {colour, key, made, config->blocking != 0};
  if (++comm->group->splits == comm->group->size) library.finish_split(*comm->group);
  return kInProgress;
}
int ncclCommCount(Comm* comm, int* ranks) {
  const std::lock_guard lock(library.mutex);
  *ranks = comm->group->size;
  return kSuccess;
}
int ncclCommUserRank(Comm* comm, int* rank) {
  const std::lock_guard lock(library.mutex);
  *rank = comm->rank;
  return kSuccess;
}
int ncclCommFinalize(Comm* comm) {
  const std::lock_guard lock(library.mutex);
  if (const int entered = library.enter("ncclCommFinalize", comm); entered != kSuccess) return entered;
  if (comm->in_flight != 0) library.violate("a communicator is finalized while its work is in flight");
  if (!comm->windows.empty()) library.violate("a communicator ends before its windows");
  comm->finalized = true;
  return library.done(comm);
}
int ncclCommDestroy(Comm* comm) {
  const std::lock_guard lock(library.mutex);
  if (library.comms.count(comm) == 0) {
    library.violate("a communicator is destroyed twice");
    return kInvalidArgument;
  }
  if (!comm->finalized || comm->polls > 0) library.violate("a communicator is destroyed that is not finalized");
  library.end(comm, false);
  return kSuccess;
}
int ncclCommAbort(Comm* comm) {
  const std::lock_guard lock(library.mutex);
  ++library.aborts_;
  if (library.comms.count(comm) == 0) {
    library.violate("a communicator is aborted that has ended");
    return kInvalidArgument;
  }
  library.end(comm, true);
  return kSuccess;
}
int ncclCommGetAsyncError(Comm* comm, int* error) {
  const std::lock_guard lock(library.mutex);
  if (library.comms.count(comm) == 0) {
    library.violate("a communicator is asked that has ended");
    return kInvalidArgument;
  }
  // As NCCL does, the new communicator of a split appears only after its parent has stopped being in progress.
  if (!comm->splitting && comm->split.polls > 0 && --comm->split.polls == 0)
    std::atomic_ref<Comm*>(*comm->split.made).store(comm->split.comm, std::memory_order_release);
  const auto broken = library.broken.find(comm->rank);
  if (broken != library.broken.end())
    *error = broken->second;
  else if (comm->hangs || comm->splitting || comm->registering ||
           (comm->polls > 0 && (!comm->group->complete || comm->polls-- > 1)))
    *error = kInProgress;
  else
    *error = kSuccess;
  return kSuccess;
}
int ncclGroupStart() {
  ++depth;
  return kSuccess;
}
int ncclGroupEnd() {
  if (depth == 0) {
    library.violate("the end of a group that has not begun");
    return kInvalidUsage;
  }
  if (--depth > 0) return kSuccess;
  int result = kSuccess;
  {
    const std::lock_guard lock(library.mutex);
    const std::vector<Pending> calls = std::exchange(pending, {});
    for (const Pending& one : calls) {
      one.run();
      result = library.done(one.comm);
      if (one.comm->blocking != calls.front().comm->blocking)
        library.violate("a group of communicators that block and others");
    }
    const bool blocking = !calls.empty() && calls.front().comm->blocking;
    for (const Pending& one : calls) {
      if (blocking && library.comms.count(one.comm) != 0 && one.comm->hangs)
        result = library.block(one.comm, [] { return false; });
    }
  }
  return flush(result);
}
int ncclAllReduce(const void* in, void* out, std::size_t count, int type, int operation, Comm* comm, void* stream) {
  const std::size_t bytes = count * size_of_type(type);
  return library.collective("ncclAllReduce", comm, stream, in, bytes, out, bytes,
                            " " + std::to_string(count) + " " + std::to_string(type) + " " + std::to_string(operation),
                            [=](const Op& op) { return library.sum(op, type, operation); });
}
int ncclAllGather(const void* in, void* out, std::size_t count, int type, Comm* comm, void* stream) {
  const std::size_t bytes = count * size_of_type(type);
  return library.collective("ncclAllGather", comm, stream, in, bytes, out,
                            bytes * static_cast<std::size_t>(comm->group->size), " " + std::to_string(bytes),
                            [](const Op& op) {
                              std::vector<std::byte> all;
                              for (const auto& [rank, part] : op.in) all.insert(all.end(), part.begin(), part.end());
                              return all;
                            });
}
int ncclReduceScatter(const void* in, void* out, std::size_t count, int type, int operation, Comm* comm, void* stream) {
  const std::size_t bytes = count * size_of_type(type);
  const auto rank = static_cast<std::size_t>(comm->rank);
  return library.collective("ncclReduceScatter", comm, stream, in, bytes * static_cast<std::size_t>(comm->group->size),
                            out, bytes, " " + std::to_string(count) + " " + std::to_string(type), [=](const Op& op) {
                              const std::vector<std::byte> all = library.sum(op, type, operation);
                              return std::vector<std::byte>(
                                  all.begin() + static_cast<std::ptrdiff_t>(rank * bytes),
                                  all.begin() + static_cast<std::ptrdiff_t>((rank + 1) * bytes));
                            });
}
int ncclBroadcast(const void* in, void* out, std::size_t count, int type, int root, Comm* comm, void* stream) {
  const std::size_t bytes = count * size_of_type(type);
  return library.collective("ncclBroadcast", comm, stream, in, comm->rank == root ? bytes : 0, out, bytes,
                            " " + std::to_string(bytes) + " of " + std::to_string(root),
                            [=](const Op& op) { return op.in.at(root); });
}
int ncclRecv(void* out, std::size_t count, int type, int peer, Comm* comm, void* stream) {
  return library.message("ncclRecv", comm, stream, false, nullptr, out, count * size_of_type(type), peer);
}
#ifndef FAKE_NCCL_INCOMPLETE
int ncclSend(const void* in, std::size_t count, int type, int peer, Comm* comm, void* stream) {
  return library.message("ncclSend", comm, stream, true, in, nullptr, count * size_of_type(type), peer);
}
#endif
int ncclMemAlloc(void** memory, std::size_t bytes) {
  {
    const std::lock_guard lock(library.mutex);
    if (const int entered = library.enter("ncclMemAlloc", nullptr); entered != kSuccess) return entered;
  }
  *memory = library.driver->allocate(bytes);
  const std::lock_guard lock(library.mutex);
  library.memory.insert(reinterpret_cast<std::uintptr_t>(*memory));
  return kSuccess;
}
int ncclMemFree(void* memory) {
  {
    const std::lock_guard lock(library.mutex);
    if (!library.owns(memory)) {
      library.violate("ncclMemFree of memory that is not ncclMemAlloc's");
      return kInvalidArgument;
    }
    for (const auto& [comm, owned] : library.comms) {
      if (library.in_window(*comm, memory, 1)) library.violate("memory is freed while it is registered");
    }
    library.memory.erase(reinterpret_cast<std::uintptr_t>(memory));
  }
  library.driver->free(memory);
  return kSuccess;
}
int ncclCommWindowRegister(Comm* comm, void* memory, std::size_t bytes, void** made, int flags) {
  const std::lock_guard lock(library.mutex);
  *made = nullptr;
  if (const int entered = library.enter("ncclCommWindowRegister", comm); entered != kSuccess) return entered;
  if (!library.owns(memory) || flags != 1) library.violate("a window that is not symmetric, or not ncclMemAlloc's");
  if (!library.windows_supported) return kSuccess;
  comm->windows.emplace_back(reinterpret_cast<std::uintptr_t>(memory), bytes);
  *made = comm;
  comm->registering = true;
  if (++comm->group->registering == comm->group->size) {
    for (Comm* member : comm->group->members) member->registering = false;
    comm->group->registering = 0;
  }
  if (comm->blocking) return library.block(comm, [comm] { return !comm->registering; });
  comm->polls = kPolls;  // the result does not say so
  return kSuccess;
}
int ncclCommWindowDeregister(Comm* comm, void* window) {
  const std::lock_guard lock(library.mutex);
  if (const int entered = library.enter("ncclCommWindowDeregister", comm); entered != kSuccess) return entered;
  if (window != comm || comm->windows.empty()) library.violate("a window is ended that is none");
  comm->windows.clear();
  return kSuccess;
}
}
