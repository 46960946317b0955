// NVIDIA's collective communication library as a table of function pointers, filled when it is first needed. The types
// are those of nccl.h (github.com/NVIDIA/nccl, src/nccl.h.in), as far as they are used.
#pragma once
#include <array>
#include <climits>
#include <cstddef>
#include <string>
#include <vector>

#include "tessera/base/source_location.hpp"

namespace tessera::mesh::nccl {

struct CommData;
using Comm = CommData*;  ///< ncclComm_t
struct WindowData;
using Window = WindowData*;  ///< ncclWindow_t
/// ncclUniqueId: passed by value.
struct UniqueId {
  std::array<char, 128> internal{};
};

enum class Result : int {  ///< ncclResult_t
  Success = 0,
  UnhandledCudaError = 1,
  SystemError = 2,
  InternalError = 3,
  InvalidArgument = 4,
  InvalidUsage = 5,
  RemoteError = 6,
  InProgress = 7,
};
enum class DataType : int {  ///< ncclDataType_t
  Int8 = 0,
  Uint8 = 1,
  Int32 = 2,
  Uint32 = 3,
  Int64 = 4,
  Uint64 = 5,
  Float16 = 6,
  Float32 = 7,
  Float64 = 8,
  Bfloat16 = 9,
};
enum class Operation : int { Sum = 0, Min = 3 };  ///< ncclRedOp_t

inline constexpr int kUndefined = INT_MIN;      ///< NCCL_CONFIG_UNDEF_INT
inline constexpr int kSymmetricWindow = 0x01;   ///< NCCL_WIN_COLL_SYMMETRIC
inline constexpr int kOldestVersion = 22700;    ///< 2.27.0, as ncclGetVersion has it
inline constexpr int kWindowsVersion = 22703;   ///< symmetric windows
inline constexpr int kGraphsVersion = 22900;    ///< a configuration says how graphs are used
inline constexpr unsigned kMagic = 0xcafebeef;  ///< NCCL_API_MAGIC

/// ncclConfig_t as of 2.29, or what 2.27 has of it. A library reads `size` bytes, and takes its defaults for what
/// `version` did not have.
struct Config {
  /// For a library of that version.
  explicit Config(int library) noexcept;
  std::size_t size;
  unsigned magic = kMagic;
  unsigned version;
  int blocking = 0;  ///< 1: calls return when they are done, and NCCL starts no thread for them
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
  int traffic_class = kUndefined;
  const char* comm_name = nullptr;
  int collnet_enable = kUndefined;
  int cta_policy = kUndefined;
  int shrink_share = kUndefined;
  int nvls_ctas = kUndefined;
  int channels_per_net_peer = kUndefined;  ///< from here on 2.29
  int nvlink_centric = kUndefined;
  /// One graph at a time (1): the token of the group orders the collectives of graphs, and launched ones wait for
  /// graphs (Group::wait_for_graphs), so the events by which NCCL orders both (2, the default) only take time.
  int graph_usage_mode = 1;
  int rma_contexts = kUndefined;
};

struct Library {
#define TESSERA_NCCL(name, ...) Result (*name)(__VA_ARGS__) = nullptr;
#include "mesh/nccl_functions.def"
  const char* (*ncclGetErrorString)(Result) = nullptr;
  const char* (*ncclGetLastError)(Comm) = nullptr;
  int version = 0;   ///< 10000 * major + 100 * minor + patch
  std::string path;  ///< of the library

  /// True if NCCL orders graphs with collectives and launched ones itself: unless its configuration or
  /// NCCL_GRAPH_MIXING_SUPPORT switches that off.
  bool mixes_graphs() const noexcept;
  /// True if it has symmetric windows.
  bool has_windows() const noexcept {
    return version >= kWindowsVersion && ncclMemAlloc != nullptr && ncclMemFree != nullptr &&
           ncclCommWindowRegister != nullptr && ncclCommWindowDeregister != nullptr;
  }
};

/// "2.27.3"
std::string version_text(int version);
/// NCCL's text for a result, and what it has noted about the last error ("" if nothing).
std::string result_text(const Library& library, Result result, Comm comm);

/// Opens the library at `path` (a name without a slash: the loader searches) and keeps it for the rest of the process.
/// NVLink multicast is switched off before, unless NCCL_NVLS_ENABLE is set. Throws MeshError: it cannot be opened,
/// lacks a function, or is older than kOldestVersion.
const Library& open_library(const std::string& path, SourceLocation where = {});
/// Where it is looked for: TESSERA_NCCL alone if it is set; otherwise the loader's path, then Python's packages.
std::vector<std::string> candidates();
/// The first candidate that can be used, found once. Throws MeshError with what is wrong with each.
const Library& installed_library(SourceLocation where = {});
/// True if there is one; otherwise `why` (if given) is set to the message of installed_library().
bool available(std::string* why = nullptr) noexcept;

}  // namespace tessera::mesh::nccl
