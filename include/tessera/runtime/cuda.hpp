// NVIDIA GPUs: what the driver says about them, and kernels made of cubins. For the jit, tools and tests; the driver
// (libcuda.so.1) is opened when it is first asked for, and never needed by a program that stays on the CPU.
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
  std::string name;                            ///< "NVIDIA H200"
  int compute_major = 0, compute_minor = 0;    ///< 9 and 0 for sm_90
  int multiprocessors = 0;                     ///< SMs
  std::size_t memory = 0;                      ///< bytes in all
  std::size_t l2_bytes = 0;                    ///< second-level cache
  std::size_t shared_bytes_per_block = 0;      ///< the most that one block may have (opt-in limit)
  std::size_t shared_bytes_per_processor = 0;  ///< of one multiprocessor
  int clock_khz = 0, memory_khz = 0;           ///< the highest clocks, of the multiprocessors and of memory; 0: unknown
  int memory_bus_bits = 0;                     ///< width of the memory's bus; 0: unknown
  int driver_version = 0;                      ///< the newest CUDA it speaks: 1000 * major + 10 * minor, 13000 for 13.0
  /// The compute capability as one number: 90 for sm_90.
  int sm() const noexcept { return compute_major * 10 + compute_minor; }
};

/// GPUs that the driver shows (CUDA_VISIBLE_DEVICES counts); 0 where there is no driver. Never throws.
int device_count() noexcept;
/// True if there is at least one GPU and a driver that Tessera can use; otherwise `why` (if given) says what is missing
/// and how to mend it.
bool available(std::string* why = nullptr);
/// Of a device whose kind() is Cuda (InternalError otherwise). The reference stays valid for ever.
const DeviceInfo& device_info(Device device);
/// The same by number, without making a context on the GPU. Throws DeviceError if there is no such GPU.
DeviceInfo describe_device(int ordinal);

/// Can kernels be compiled for this GPU? If not, `why` (if not null) is told the reason in one sentence.
using CompilerProbe = bool (*)(const DeviceInfo& gpu, std::string* why);
/// Whoever can compile kernels for GPUs (the jit) says so here, before main() or later. Without a probe, or where it
/// says no, the default device is not a GPU. default_device() asks it once.
void set_compiler_probe(CompilerProbe probe) noexcept;
CompilerProbe compiler_probe() noexcept;

/// A condition that a kernel tests while it runs (`check`).
struct Check {
  std::string message;
  SourceLocation where;
};

/// A kernel's error record: so many int32. A failing check writes its index in KernelImage::checks plus one into
/// element 0, which is 0 before the launch (whichever of several checks is written counts); elements 1 to 3 may be
/// given the block's index plus one along x, y and z, or stay 0.
inline constexpr int kErrorRecordInts = 4;

/// An argument that is the address of an element in the storage of an access, and whose writes the kernel keeps in that
/// storage's shadow.
struct WatchedArgument {
  int arg = 0;            ///< among those that a launch passes
  int access = 0;         ///< its storage is that of LaunchContext::accesses[access]
  int element_bytes = 1;  ///< of the elements that the kernel reads or writes there
};

/// What a kernel is loaded from. The spans and strings are needed during load_kernel() only.
struct KernelImage {
  std::span<const std::byte> cubin;  ///< an ELF image for the device's compute capability
  std::string entry;                 ///< the symbol of the entry
  std::string label;                 ///< how errors call it: "kernel saxpy"
  /// Arguments that a launch passes: LaunchContext::args must have as many. At most kMaxArguments.
  int num_args = 0;
  /// The kernel has one more argument behind all others: the address of its error record (see kErrorRecordInts), which
  /// it writes with relaxed stores or atomics. A record that is not zero after the work becomes its failure, a
  /// DeviceError.
  bool error_record = false;
  std::vector<Check> checks;  ///< what the indices in the error record mean
  /// The kernel waits by itself (griddepcontrol.wait) before it reads what an earlier kernel of the stream may have
  /// written, and before it writes at all (memory is used again in the stream's order), so it may start before that one
  /// has ended. Without effect if its code contains no such instruction.
  bool programmatic_launch = false;
  /// Checked mode: behind those that a launch passes the kernel has one more argument for each of these, the address in
  /// the shadow (Storage::shadow) of the byte of the element that the watched argument points to; 0 where there is no
  /// shadow.
  std::vector<WatchedArgument> watched{};
  /// Right behind those the kernel takes one more argument, the launch word: an i32. Its bit n is set if nothing that
  /// may still run writes the tensor at argument early_reads[n]. Its bit kTellBit is set if the next kernel of the
  /// stream is expected to gain by being scheduled beside this one; the code then executes
  /// griddepcontrol.launch_dependents. The other bits are 0. Does not depend on programmatic_launch.
  bool launch_word = false;
  /// Arguments that are addresses of tensors. The kernel may read such a tensor before griddepcontrol.wait
  /// (programmatic_launch), where the launch word has its bit. At most kMostEarlyReads; none without a launch word.
  std::vector<int> early_reads = {};
  /// The kernel may write memory that is not of the tensors it is launched with (raw pointers).
  bool raw_writes = false;
};
/// Of the launch word, as the compiler has them (tessera/passes/optimize.hpp), which this layer does not know.
inline constexpr int kTellBit = 30;
inline constexpr std::size_t kMostEarlyReads = kTellBit;

inline constexpr int kMaxArguments = 500;  ///< 4 KB of parameters are what every driver takes: 512 slots of 8 bytes

/// Loads a kernel. The image is examined before the driver sees it: what is no whole ELF file for NVIDIA GPUs is a
/// CompileError, and so is one for another GPU. Throws DeviceError if the driver refuses for another reason. Launching
/// allocates nothing; each launch has one block of threads per element of the grid, which the image itself sizes (what
/// Tile IR's assembler makes). The module is unloaded with the last reference, after the GPU has ended all work.
std::shared_ptr<const Launchable> load_kernel(Device device, const KernelImage& image);

/// What a loaded kernel uses per block, as the driver reports it.
struct KernelResources {
  int registers = 0;              ///< per thread
  int threads = 0;                ///< the most threads per block that it can be launched with
  std::size_t static_shared = 0;  ///< bytes of shared memory
  std::size_t local = 0;          ///< bytes of local memory per thread: spilled registers
};
/// Of what load_kernel() gave (InternalError otherwise).
KernelResources kernel_resources(const Launchable& kernel);

}  // namespace tessera::runtime::cuda
