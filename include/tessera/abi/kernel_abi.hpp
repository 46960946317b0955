// What a launch must know about a compiled kernel besides its code: the arguments that it takes, the grid, and what it
// may do before its predecessor has ended. Passes decide it, the jit keeps it with the code, and the runtime launches
// by it; each of them holds a KernelAbi by value. docs/jit.md, "The ABI of a kernel".
//
// The namespace is not called abi: <cxxabi.h> has a global one of that name, which programs that use namespace tessera
// could then not name.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/bytes.hpp"
#include "tessera/base/source_location.hpp"

namespace tessera::calling {

/// The launch flags are an i32 argument with what is known only at the launch; they are never negative. Bit n is set if
/// the tensor at argument KernelAbi::early_reads[n] has no in-flight writer. Bit kTriggerBit is set if the next kernel
/// of the stream is expected to gain by running concurrently with this one; the code then triggers it early (PTX
/// griddepcontrol.launch_dependents). The other bits are 0.
inline constexpr int kTriggerBit = 30;
inline constexpr std::size_t kMaxEarlyReads = kTriggerBit;  ///< the bits below kTriggerBit

/// The shadow byte of an element that was never written, and the byte of poison; the shadow of a written one is 0.
inline constexpr std::uint8_t kNeverWritten = 0xFF;

/// The size of a kernel's error record, in int32. A failing check writes its index in KernelAbi::checks plus one into
/// element 0, which is 0 before the launch (if several checks fail, one of them is reported); elements 1 to 3 may be
/// set to the block's index plus one along x, y and z, or stay 0.
inline constexpr int kErrorRecordInts = 4;

inline constexpr int kMaxArguments = 500;  ///< every driver accepts 4 KB of parameters: 512 slots of 8 bytes

/// A condition that a kernel checks while it runs.
struct Check {
  std::string message;
  SourceLocation where;
  bool operator==(const Check&) const = default;
};

/// An argument that is the address of an element in the storage of an access. The kernel records writes through it in
/// that storage's shadow.
struct WatchedArgument {
  int arg = 0;            ///< number of the argument in the launch
  int access = 0;         ///< number of its storage among the accesses of the launch
  int element_bytes = 1;  ///< bytes per element that the kernel reads or writes there
  bool operator==(const WatchedArgument&) const = default;
};

/// An axis of a launch's grid: ceil(n / extent) blocks, where n is the number of an entry argument.
struct GridAxis {
  int argument = -1;  ///< -1: one block
  std::int64_t extent = 1;
  bool operator==(const GridAxis&) const = default;
};
/// A grid whose blocks lie along x, y and z; z has what x and y leave. Not `used`: all lie along x.
struct GridAxes {
  bool used = false;
  GridAxis x, y;
  bool operator==(const GridAxes&) const = default;
};

/// The entry takes the arguments of the launch (num_args slots of 8 bytes), and after them the implicit ones, of which
/// each is there or not: an address for each of `watched`, the launch flags, the address of the error record.
struct KernelAbi {
  std::string entry;  ///< symbol of the entry in the cubin
  int num_args = 0;   ///< arguments of a launch; at most kMaxArguments
  /// Checked mode: one more argument for each, the address in the shadow of its storage of the byte for the element
  /// that the watched argument points to; 0 without a shadow.
  std::vector<WatchedArgument> watched = {};
  bool launch_flags = false;  ///< one more argument: the launch flags (kTriggerBit)
  /// If there are any, one more argument: the address of the error record (kErrorRecordInts), which the kernel writes
  /// with relaxed stores or atomics. If the record is not zero after the work, the work has failed.
  std::vector<Check> checks = {};
  /// Programmatic dependent launch (PDL): the kernel executes griddepcontrol.wait before it reads what an earlier
  /// kernel of the stream may have written, and before any write (memory is reused in the stream's order), so it may
  /// start before its predecessor has ended.
  bool programmatic_launch = false;
  /// Arguments that are addresses of tensors. If the launch flags have the bits of all of them, the kernel reads these
  /// tensors before it waits; if it loads addresses from memory, it reads tensor n early when bits 0 to n are set. At
  /// most kMaxEarlyReads; none without launch flags.
  std::vector<int> early_reads = {};
  /// The kernel reads the first so many of early_reads before it waits if it finds their bits set, whatever the others'
  /// bits. 0: none, the rule above alone.
  int early_alone = 0;
  int pieces = 1;      ///< neighbouring pieces per block (coarsen_blocks): block n takes those from n * pieces on
  GridAxes grid = {};  ///< blocks are counted along x first, then y, then z
  int persistent_blocks = 1;  ///< blocks that fill the device once: the grid of a persistent kernel
  bool operator==(const KernelAbi&) const = default;
};

/// Arguments that the entry takes after those of the launch.
std::size_t implicit_arguments(const KernelAbi& abi) noexcept;

/// Why no launch can use this ABI: "expected at most 30 early reads, found 31". Empty if one can.
std::string fault_of(const KernelAbi& abi);

/// What a launch passes to the kernel and what it means, as bytes: equal where code may be launched in place of other
/// code. The name of the entry, the texts of checks and the number of persistent blocks, which depends on the number of
/// SMs, are not part of it. Names of code hash these bytes.
std::vector<std::byte> call_bytes(const KernelAbi& abi);

/// The ABI as bytes, for files. They begin with call_bytes().
void write(BytesOut& out, const KernelAbi& abi);
/// Reads what write() wrote. False if the bytes are no ABI, or one that no launch can use. The texts of locations live
/// as long as the process.
bool read(BytesIn& in, KernelAbi& abi);

}  // namespace tessera::calling
