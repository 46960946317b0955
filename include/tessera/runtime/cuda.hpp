// NVIDIA GPUs: their properties from the driver, and kernels loaded from cubins. For the jit, tools and tests. The
// driver (libcuda.so.1) is loaded at the first use; a program that only uses the CPU does not need it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tessera/abi/kernel_abi.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera::runtime::cuda {

/// One GPU, as the driver describes it.
struct DeviceInfo {
  std::string name;                          ///< "NVIDIA H200"
  int compute_major = 0, compute_minor = 0;  ///< 9 and 0 for sm_90
  int num_sms = 0;                           ///< SMs
  std::size_t memory = 0;                    ///< bytes in all
  std::size_t l2_bytes = 0;                  ///< second-level cache
  std::size_t shared_bytes_per_block = 0;    ///< the most that one block may have (opt-in limit)
  std::size_t shared_bytes_per_sm = 0;       ///< per SM
  int clock_khz = 0, memory_khz = 0;         ///< the highest clocks, of the SMs and of memory; 0: unknown
  int memory_bus_bits = 0;                   ///< width of the memory's bus; 0: unknown
  int driver_version = 0;  ///< the newest CUDA version that it supports: 1000 * major + 10 * minor, 13000 for 13.0
  /// The compute capability as one number: 90 for sm_90.
  int sm() const noexcept { return compute_major * 10 + compute_minor; }
};

/// The number of GPUs that the driver shows (limited by CUDA_VISIBLE_DEVICES); 0 without a driver. Never throws.
int device_count() noexcept;
/// True if there is at least one GPU and a driver that Tessera can use; otherwise `why` (if given) is set to what is
/// missing and how to fix it.
bool available(std::string* why = nullptr);
/// The description of a device whose kind() is Cuda (InternalError otherwise). The reference is always valid.
const DeviceInfo& device_info(Device device);
/// The same by number, without creating a context on the GPU. Throws DeviceError if there is no such GPU.
DeviceInfo describe_device(int ordinal);

/// True if kernels can be compiled for this GPU. If not, `why` (if not null) is set to the reason in one sentence.
using CompilerProbe = bool (*)(const DeviceInfo& gpu, std::string* why);
/// The function that tests whether kernels can be compiled for a GPU. The jit sets it, before main() or later. Without
/// it, or if it returns false, the default device is not a GPU. default_device() calls it once.
void set_compiler_probe(CompilerProbe probe) noexcept;
CompilerProbe compiler_probe() noexcept;

/// The input of load_kernel(). The spans and strings are only needed during the call.
struct KernelImage {
  std::span<const std::byte> cubin;  ///< an ELF image for the device's compute capability
  std::string label;                 ///< its name in errors: "kernel saxpy"
  /// If checks of it fail, the work has failed with a DeviceError. Programmatic launch has no effect if the code does
  /// not contain the instruction that waits.
  calling::KernelAbi abi = {};
  /// The kernel may write memory outside the tensors it is launched with (raw pointers).
  bool raw_writes = false;
};
/// Loads a kernel. The image is checked before it is passed to the driver: throws CompileError if it is not a complete
/// ELF file for NVIDIA GPUs, or is for another GPU, or its ABI cannot be launched. Throws DeviceError if the driver
/// rejects it for another reason. Launching allocates nothing; each launch has one block of threads per element of the
/// grid; the image sets the block's size (as Tile IR's assembler does). The module is unloaded with the last reference,
/// after the GPU has finished all work.
std::shared_ptr<const Launchable> load_kernel(Device device, const KernelImage& image);

/// The resources that a loaded kernel uses, from the driver.
struct KernelResources {
  int registers = 0;              ///< per thread
  int threads = 0;                ///< the most threads per block that it can be launched with
  std::size_t static_shared = 0;  ///< bytes of shared memory
  std::size_t local = 0;          ///< bytes of local memory per thread: spilled registers
};
/// The resources of a result of load_kernel() (InternalError for others).
KernelResources kernel_resources(const Launchable& kernel);

}  // namespace tessera::runtime::cuda
