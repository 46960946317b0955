// NVIDIA GPUs: their properties from the driver, and kernels loaded from cubins. For the jit, tools and tests. The
// driver (libcuda.so.1) is loaded at the first use; a program that only uses the CPU does not need it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/source_location.hpp"
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

/// A condition that a kernel checks while it runs (`check`).
struct Check {
  std::string message;
  SourceLocation where;
};

/// The size of a kernel's error record, in int32. A failing check writes its index in KernelImage::checks plus one into
/// element 0, which is 0 before the launch (if several checks fail, one of them is reported); elements 1 to 3 may be
/// set to the block's index plus one along x, y and z, or stay 0.
inline constexpr int kErrorRecordInts = 4;

/// An argument that is the address of an element in the storage of an access. The kernel records writes through it in
/// that storage's shadow.
struct WatchedArgument {
  int arg = 0;            ///< number of the argument in the launch
  int access = 0;         ///< its storage is LaunchContext::accesses[access]
  int element_bytes = 1;  ///< bytes per element that the kernel reads or writes there
};

/// The input of load_kernel(). The spans and strings are only needed during the call.
struct KernelImage {
  std::span<const std::byte> cubin;  ///< an ELF image for the device's compute capability
  std::string entry;                 ///< the symbol of the entry
  std::string label;                 ///< its name in errors: "kernel saxpy"
  /// The number of arguments of a launch, the size of LaunchContext::args. At most kMaxArguments.
  int num_args = 0;
  /// The kernel has one more argument after all others: the address of its error record (see kErrorRecordInts), which
  /// it writes with relaxed stores or atomics. If the record is not zero after the work, the work has failed with a
  /// DeviceError.
  bool error_record = false;
  std::vector<Check> checks;  ///< what the indices in the error record mean
  /// Programmatic dependent launch: the kernel executes griddepcontrol.wait before it reads what an earlier kernel of
  /// the stream may have written, and before any write (memory is reused in the stream's order), so it may start before
  /// its predecessor has ended. No effect if its code does not contain the instruction.
  bool programmatic_launch = false;
  /// Checked mode: after the arguments of the launch the kernel has one more argument for each of these: the address in
  /// the shadow (Storage::shadow) of the byte for the element that the watched argument points to; 0 without a shadow.
  std::vector<WatchedArgument> watched{};
  /// After those the kernel takes one more argument, the launch flags: an i32. Bit n is set if the tensor at argument
  /// early_reads[n] has no in-flight writer. Bit kTriggerBit is set if the next kernel of the stream is expected to
  /// gain by running concurrently with this one; the code then triggers it early with griddepcontrol.launch_dependents.
  /// The other bits are 0. Does not depend on programmatic_launch.
  bool launch_flags = false;
  /// Arguments that are addresses of tensors. The kernel may read such a tensor before griddepcontrol.wait
  /// (programmatic_launch) if its bit of the launch flags is set. At most kMostEarlyReads; none without launch flags.
  std::vector<int> early_reads = {};
  /// The kernel reads the first so many of early_reads before griddepcontrol.wait if their bits are set, whatever the
  /// others' bits. 0: it reads before it only if all bits are set.
  int early_alone = 0;
  /// The kernel may write memory outside the tensors it is launched with (raw pointers).
  bool raw_writes = false;
};
/// Bits of the launch flags. The compiler defines the same (tessera/passes/optimize.hpp), which this layer does not
/// include.
inline constexpr int kTriggerBit = 30;
inline constexpr std::size_t kMostEarlyReads = kTriggerBit;

inline constexpr int kMaxArguments = 500;  ///< every driver accepts 4 KB of parameters: 512 slots of 8 bytes

/// Loads a kernel. The image is checked before it is passed to the driver: throws CompileError if it is not a complete
/// ELF file for NVIDIA GPUs, or is for another GPU. Throws DeviceError if the driver rejects it for another reason.
/// Launching allocates nothing; each launch has one block of threads per element of the grid; the image sets the
/// block's size (as Tile IR's assembler does). The module is unloaded with the last reference, after the GPU has
/// finished all work.
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
