// The driver as a table of function pointers: filled from libcuda.so.1 when a GPU is first asked for, or by the tests'
// fake driver. Nothing else of the runtime knows where the functions come from.
#pragma once
#include <string>

#include "runtime/cuda/driver_types.hpp"

namespace tessera::runtime::cuda {

struct Driver {
#define TESSERA_CU(name, version, ...) CUresult (*name)(__VA_ARGS__) = nullptr;
#include "runtime/cuda/driver.def"
  int version = 0;  ///< the newest CUDA that it speaks: 1000 * major + 10 * minor
};

/// The oldest driver that Tessera uses: CUDA 12.0, release 525.
inline constexpr int kOldestDriver = 12000;

/// The installed driver, opened and initialised on the first call; null if it cannot be used, and then `why` (if given)
/// says what is missing and what to do. The answer is the same for the life of the process; in a child of the process
/// that has started the driver there is none.
const Driver* installed_driver(std::string* why = nullptr);

/// For installed_driver() and its tests: completes a table whose functions are there. Checks the version, initialises,
/// and returns an empty text or what is wrong.
std::string start(Driver& driver);

/// Why what `device` names cannot be used in a child of the process that has started the driver.
std::string left_behind_text(const std::string& device);

/// The number of GPUs that the driver shows; if it is 0, the text says why and what to do.
std::string count_gpus(const Driver& driver, int& count);

/// What results.def says of a result.
struct ResultInfo {
  bool poison = false;
  const char* mend = "";
};
ResultInfo result_info(CUresult result) noexcept;
/// "CUDA_ERROR_INVALID_VALUE (invalid argument)", as the driver puts it.
std::string result_text(const Driver& driver, CUresult result);

}  // namespace tessera::runtime::cuda
