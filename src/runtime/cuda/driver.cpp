// Opening libcuda.so.1. Functions are looked up by name and version (cuGetProcAddress), so a newer driver returns
// exactly the versions that driver.def declares.
#include "runtime/cuda/driver.hpp"

#include <dlfcn.h>

#include "tessera/base/fork.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

namespace {

constexpr const char* kLibrary = "libcuda.so.1";

/// Where it is looked for: by name in the folders that the system searches; then where NVIDIA's systems for Jetson keep
/// it (JetPack 6 and newer, and older ones), which a container's list of folders may lack.
constexpr const char* kPlaces[] = {
    kLibrary,
#if defined(__aarch64__)
    "/usr/lib/aarch64-linux-gnu/nvidia/libcuda.so.1",
    "/usr/lib/aarch64-linux-gnu/tegra/libcuda.so.1",
#endif
};

/// The library's two lookup functions: of CUDA 12.0 and of 11.3.
using GetProcAddress12 = CUresult (*)(const char*, void**, int, std::uint64_t, int*);
using GetProcAddress11 = CUresult (*)(const char*, void**, int, std::uint64_t);

class Library {
 public:
  /// Never closed: the driver's own threads live in it.
  Library() {
    for (const char* place : kPlaces) {
      handle_ = dlopen(place, RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) break;
      if (const char* reason = dlerror(); why_.empty()) why_ = reason != nullptr ? reason : "no reason given";
    }
    if (handle_ == nullptr) return;
    new_ = reinterpret_cast<GetProcAddress12>(dlsym(handle_, "cuGetProcAddress_v2"));
    old_ = reinterpret_cast<GetProcAddress11>(dlsym(handle_, "cuGetProcAddress"));
  }
  bool open() const { return handle_ != nullptr; }
  /// What the system says of the first place, if it could not be opened.
  const std::string& why() const { return why_; }
  bool can_look_up() const { return new_ != nullptr || old_ != nullptr; }
  void* find(const char* name, int version) const {
    void* function = nullptr;
    const CUresult result =
        new_ != nullptr ? new_(name, &function, version, 0, nullptr) : old_(name, &function, version, 0);
    return result == CUDA_SUCCESS ? function : nullptr;
  }

 private:
  void* handle_ = nullptr;
  std::string why_;
  GetProcAddress12 new_ = nullptr;
  GetProcAddress11 old_ = nullptr;
};

std::string version_text(int version) { return concat("CUDA ", version / 1000, ".", version % 1000 / 10); }

std::string too_old(const std::string& found) {
  return concat("the NVIDIA driver is too old: ", found, ", and Tessera needs ", version_text(kOldestDriver),
                " or newer (driver 525; kernels made by tileiras 13.x need driver 580).\n  Update the driver.");
}

/// Fills the table. Returns an empty text, or what is missing.
std::string load(Driver& driver) {
  const Library library;
  if (!library.open()) {
    return concat("there is no NVIDIA driver: ", kLibrary, " cannot be opened (", library.why(),
                  ").\n  Install NVIDIA's driver (Ubuntu: sudo ubuntu-drivers install; Debian: sudo apt-get install "
                  "nvidia-driver; "
                  "in a container: start it with access to GPUs, --gpus all).");
  }
  if (!library.can_look_up()) return too_old("it has no cuGetProcAddress, which came with CUDA 11.3");
  const char* missing = nullptr;
#define TESSERA_CU(name, version, ...)                                                 \
  driver.name = reinterpret_cast<decltype(driver.name)>(library.find(#name, version)); \
  if (driver.name == nullptr && missing == nullptr) missing = #name;
#define TESSERA_CU_NEWER(name, version, ...) \
  driver.name = reinterpret_cast<decltype(driver.name)>(library.find(#name, version));
#include "runtime/cuda/driver.def"
  if (missing != nullptr) return too_old(concat("it has no function ", missing));
  return start(driver);
}

struct Installed {
  Driver driver;
  std::string why;
  std::uint32_t generation = tessera::fork_generation();
  Installed() : why(load(driver)) {}
};

}  // namespace

std::string start(Driver& driver) {
  if (driver.cuDriverGetVersion(&driver.version) != CUDA_SUCCESS) driver.version = 0;
  if (driver.version < kOldestDriver) return too_old(concat("it supports ", version_text(driver.version)));
  const CUresult result = driver.cuInit(0);
  if (result == CUDA_SUCCESS) return {};
  return concat("the NVIDIA driver does not start: ", result_text(driver, result), " in cuInit.\n  ",
                result_info(result).fix);
}

const Driver* installed_driver(std::string* why) {
  static const Installed& installed = *new Installed;  // never destroyed: work may outlive main()
  const bool unusable_after_fork = installed.why.empty() && installed.generation != tessera::fork_generation();
  if (why != nullptr) *why = unusable_after_fork ? after_fork_text("every GPU") : installed.why;
  return installed.why.empty() && !unusable_after_fork ? &installed.driver : nullptr;
}

std::string after_fork_text(const std::string& device) {
  return concat(
      device,
      " belongs to the process that this one was forked from: NVIDIA's driver does not work in a child of the "
      "process that has started it.\n  Fork before the GPU is used, or start a new program (exec); the CPU "
      "works here (Device::cpu()).");
}

std::string count_gpus(const Driver& driver, int& count) {
  const CUresult result = driver.cuDeviceGetCount(&count);
  if (result == CUDA_SUCCESS && count > 0) return {};
  count = 0;
  const CUresult reason = result == CUDA_SUCCESS ? CUDA_ERROR_NO_DEVICE : result;
  return concat("no GPU can be used: ", result_text(driver, reason), " in cuDeviceGetCount.\n  ",
                result_info(reason).fix);
}

ResultInfo result_info(CUresult result) noexcept {
  [[maybe_unused]] constexpr bool Plain = false, Poison = true;
  switch (result) {
#define TESSERA_CURESULT(code, kind, fix) \
  case code: return {kind, fix};
#include "runtime/cuda/results.def"
    default: return {};
  }
}

std::string result_text(const Driver& driver, CUresult result) {
  const char *name = nullptr, *text = nullptr;
  if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || name == nullptr) return concat("CUresult ", result);
  if (driver.cuGetErrorString(result, &text) != CUDA_SUCCESS || text == nullptr) return name;
  return concat(name, " (", text, ")");
}

}  // namespace tessera::runtime::cuda
