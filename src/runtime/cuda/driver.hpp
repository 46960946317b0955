// The driver as a table of function pointers: filled from libcuda.so.1 when a GPU is first requested, or by the tests'
// fake driver. The rest of the runtime does not know where the functions come from.
#pragma once
#include <string>

#include "runtime/cuda/driver_types.hpp"

namespace tessera::runtime::cuda {

struct Driver {
#define TESSERA_CU(name, version, ...) CUresult (*name)(__VA_ARGS__) = nullptr;
#include "runtime/cuda/driver.def"
  int version = 0;  ///< the newest CUDA version that it supports: 1000 * major + 10 * minor
};

/// The oldest driver that Tessera uses: CUDA 12.0, release 525.
inline constexpr int kOldestDriver = 12000;

/// The installed driver, opened and initialised on the first call; null if it cannot be used: `why` (if given) is then
/// set to what is missing and how to fix it. The result does not change during the process; in a fork()ed child of a
/// process that has initialised the driver it is null.
const Driver* installed_driver(std::string* why = nullptr);

/// For installed_driver() and its tests: checks the version of a driver whose functions have been loaded, and calls
/// cuInit. Returns an empty text, or what is wrong.
std::string start(Driver& driver);

/// The message for a `device` used in a fork()ed child of a process that has initialised the driver.
std::string after_fork_text(const std::string& device);

/// Sets the number of GPUs that the driver shows. If it is 0, returns why and how to fix it, otherwise an empty text.
std::string count_gpus(const Driver& driver, int& count);

/// The row of a result in results.def.
struct ResultInfo {
  bool poison = false;
  const char* fix = "";
};
ResultInfo result_info(CUresult result) noexcept;
/// The driver's name and text of a result: "CUDA_ERROR_INVALID_VALUE (invalid argument)".
std::string result_text(const Driver& driver, CUresult result);

}  // namespace tessera::runtime::cuda
