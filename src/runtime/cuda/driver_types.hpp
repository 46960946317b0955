// The types and numbers of the CUDA driver API that Tessera uses, so that neither building nor running needs a CUDA
// toolkit. Source of every layout and number: "CUDA Driver API" reference, 13.0 (the binary interface never changes
// once a function has been published under a version; driver.def says which version of each function is meant).
#pragma once
#include <cstddef>
#include <cstdint>

namespace tessera::runtime::cuda {

// The reference's own names, so that it can be searched for them. NOLINTBEGIN(readability-identifier-naming)
using CUresult = int;  // an enum there; results.def has the values that matter
using CUdevice = int;
using CUdeviceptr = std::uint64_t;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUmemoryPool = struct CUmemPoolHandle_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUgraphConditionalHandle = std::uint64_t;

inline constexpr CUresult CUDA_SUCCESS = 0;
inline constexpr CUresult CUDA_ERROR_INVALID_VALUE = 1;
inline constexpr CUresult CUDA_ERROR_OUT_OF_MEMORY = 2;
inline constexpr CUresult CUDA_ERROR_DEINITIALIZED = 4;  // the process is ending
inline constexpr CUresult CUDA_ERROR_NO_DEVICE = 100;
inline constexpr CUresult CUDA_ERROR_NOT_READY = 600;

enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING = 41,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED = 115,
};

enum CUfunction_attribute : int {
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES = 1,
  CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES = 3,
  CU_FUNC_ATTRIBUTE_NUM_REGS = 4,
};

enum CUpointer_attribute : int {
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,        // unsigned
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,     // int
  CU_POINTER_ATTRIBUTE_RANGE_START_ADDR = 11,  // CUdeviceptr
  CU_POINTER_ATTRIBUTE_RANGE_SIZE = 12,        // size_t
};
inline constexpr unsigned CU_MEMORYTYPE_DEVICE = 2;

enum CUstreamCaptureStatus : int {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
};
// Handles with a meaning of their own: the numbers 1 and 2.
inline CUstream legacy_stream() noexcept { return reinterpret_cast<CUstream>(std::uintptr_t{1}); }
inline CUstream per_thread_stream() noexcept { return reinterpret_cast<CUstream>(std::uintptr_t{2}); }

inline constexpr unsigned CU_STREAM_NON_BLOCKING = 1;          // not ordered with the legacy default stream
inline constexpr int CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1;  // other threads may use the driver meanwhile
inline constexpr unsigned CU_EVENT_DEFAULT = 0;
inline constexpr unsigned CU_EVENT_DISABLE_TIMING = 2;
inline constexpr unsigned CU_MEMHOSTALLOC_PORTABLE = 1, CU_MEMHOSTALLOC_DEVICEMAP = 2;

enum CUjit_option : int {
  CU_JIT_ERROR_LOG_BUFFER = 5,             // char*
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,  // unsigned, in the pointer's place
};

enum CUmemPool_attribute : int {
  CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES = 1,    // int
  CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC = 2,          // int
  CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES = 3,  // int
  CU_MEMPOOL_ATTR_RELEASE_THRESHOLD = 4,                  // uint64_t
  CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT = 5,               // uint64_t
};

struct CUmemAccessDesc {
  struct {
    int type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
    int id = 0;    // its ordinal
  } location;
  int flags = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};
static_assert(sizeof(CUmemAccessDesc) == 12);

struct CUmemPoolProps {
  int allocType = 1;    // CU_MEM_ALLOCATION_TYPE_PINNED: the only one for memory of a device
  int handleTypes = 0;  // CU_MEM_HANDLE_TYPE_NONE: not shared with other processes
  struct {
    int type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
    int id = 0;    // its ordinal
  } location;
  void* win32SecurityAttributes = nullptr;
  std::size_t maxSize = 0;  // as large as the device allows (reserved, and 0, before 12.2)
  unsigned char reserved[56] = {};
};
static_assert(sizeof(CUmemPoolProps) == 88);

struct CUlaunchAttribute {
  int id = 0;
  int pad = 0;
  union {
    char bytes[64] = {};
    int programmaticStreamSerializationAllowed;
  } value;
};
static_assert(sizeof(CUlaunchAttribute) == 72);
inline constexpr int CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6;

struct CUlaunchConfig {
  unsigned gridDimX = 1, gridDimY = 1, gridDimZ = 1, blockDimX = 1, blockDimY = 1, blockDimZ = 1;
  unsigned sharedMemBytes = 0;
  CUstream hStream = nullptr;
  CUlaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};
static_assert(sizeof(CUlaunchConfig) == 56);

struct CUDA_KERNEL_NODE_PARAMS {  // CUDA_KERNEL_NODE_PARAMS_v2 and _v3
  CUfunction func = nullptr;
  unsigned gridDimX = 1, gridDimY = 1, gridDimZ = 1, blockDimX = 1, blockDimY = 1, blockDimZ = 1;
  unsigned sharedMemBytes = 0;
  void** kernelParams = nullptr;
  void** extra = nullptr;
  void* kern = nullptr;  // instead of func
  CUcontext ctx = nullptr;
};
static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == 72);

inline constexpr int CU_GRAPH_NODE_TYPE_KERNEL = 0, CU_GRAPH_NODE_TYPE_CONDITIONAL = 13;
inline constexpr int CU_GRAPH_COND_TYPE_IF = 0, CU_GRAPH_COND_TYPE_WHILE = 1;

struct CUgraphNodeParams {
  CUgraphNodeParams() noexcept : reserved1() {}
  int type = CU_GRAPH_NODE_TYPE_KERNEL;
  int reserved0[3] = {};
  union {  // of the types that are used here
    long long reserved1[29];
    CUDA_KERNEL_NODE_PARAMS kernel;
    struct {  // CUDA_CONDITIONAL_NODE_PARAMS
      CUgraphConditionalHandle handle;
      int type;
      unsigned size;         // number of bodies
      CUgraph* phGraph_out;  // the driver's array of the bodies
      CUcontext ctx;
    } conditional;
  };
  long long reserved2 = 0;
};
static_assert(sizeof(CUgraphNodeParams) == 256);

// A programmatic edge leaves a kernel where all its blocks have triggered or ended.
inline constexpr unsigned char CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC = 1;
inline constexpr unsigned char CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC = 1;

struct CUgraphEdgeData {
  unsigned char from_port = 0, to_port = 0, type = 0;
  unsigned char reserved[5] = {};
};
static_assert(sizeof(CUgraphEdgeData) == 8);

struct CUgraphExecUpdateResultInfo {
  int result = 0;
  CUgraphNode errorNode = nullptr, errorFromNode = nullptr;
};
static_assert(sizeof(CUgraphExecUpdateResultInfo) == 24);
// NOLINTEND(readability-identifier-naming)

}  // namespace tessera::runtime::cuda
