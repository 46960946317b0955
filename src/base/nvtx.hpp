// The interface between a program and a profiler (NVTX 3), as far as Tessera needs it. A profiler names its library in
// NVTX_INJECTION64_PATH; the program loads it and calls InitializeInjectionNvtx2 with a function that hands out tables
// of slots, which the profiler fills with its own functions. The interface is frozen by NVIDIA (NVTX is ABI-stable;
// names, numbers and layouts: nvtx3/nvtxDetail/nvtxTypes.h and nvtx3/nvToolsExt.h of CUDA 10 to 13).
#pragma once
#include <cstddef>
#include <cstdint>

namespace tessera::nvtx {

using Function = void (*)();

// Export tables, by number.
inline constexpr std::uint32_t kCallbacksTable = 1, kVersionTable = 3;
struct CallbacksTable {
  std::size_t struct_size;
  /// Gives the slots of a module and their number; false for modules that do not exist.
  int (*get_module_functions)(int module, Function*** slots, unsigned* count);
};
struct VersionTable {
  std::size_t struct_size;
  std::uint32_t version;
  std::uint32_t reserved;
  void (*set_injection_version)(std::uint32_t version);
};
using GetExportTable = const void* (*)(std::uint32_t id);
using InitializeInjection = int (*)(GetExportTable);
inline constexpr const char* kInitializeName = "InitializeInjectionNvtx2";
inline constexpr const char* kPathVariable = "NVTX_INJECTION64_PATH";

/// Slots of each module; slot 0 is never used. Modules: none, core, CUDA, OpenCL, CUDA runtime, core 2, sync.
inline constexpr unsigned kSlots[] = {0, 16, 9, 15, 7, 16, 7};
inline constexpr int kModules = 7, kCore2 = 5;
inline constexpr unsigned kMaxSlots = 16;
/// Slots of core 2.
enum Slot : unsigned { kRangePush = 4, kRangePop = 5, kNameCategory = 8, kCreateDomain = 12 };

using Domain = void*;
/// Version 2 of the attributes of an event, which the attribute's size tells from others.
struct EventAttributes {
  std::uint16_t version = 3;
  std::uint16_t size = 48;
  std::uint32_t category = 0;
  std::int32_t color_type = 1;  ///< ARGB
  std::uint32_t color = 0;
  std::int32_t payload_type = 0;  ///< none
  std::int32_t reserved = 0;
  std::uint64_t payload = 0;
  std::int32_t message_type = 1;  ///< ASCII
  const char* message = nullptr;
};
static_assert(sizeof(EventAttributes) == 48 && offsetof(EventAttributes, message) == 40);

using RangePush = int (*)(Domain, const EventAttributes*);
using RangePop = int (*)(Domain);
using NameCategory = void (*)(Domain, std::uint32_t category, const char* name);
using CreateDomain = Domain (*)(const char* name);

}  // namespace tessera::nvtx
