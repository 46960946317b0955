// The launch memo: each thread's last launches. A launch whose extents, strides and scalars are in the memo needs no
// checks, no look-up and no evaluation of obligations. Nothing is shared between threads, so nothing is locked.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "host/recorded_kernel.hpp"

namespace tessera::detail {

/// The results of one launch, and what they depend on.
struct RememberedLaunch {
  static constexpr std::size_t kMaxSlots = 48;  ///< launches with more are not remembered
  // What they depend on; of `slots` only the bits of RecordedKernel::shape_masks and address_masks.
  const KernelState* record = nullptr;         ///< null: empty
  LaunchOptions options;                       ///< without the device
  std::array<std::uint64_t, kMaxSlots> slots;  // NOLINT: as many as the kernel has
  // The results: for the extents, and, once it has run, for the addresses and the device.
  RecordedKernel* recording = nullptr;
  std::uint64_t blocks = 0;
  bool persistent = false;
  const runtime::Backend* device = nullptr;  ///< null: has not run
  const jit::Code* code = nullptr;
  std::uint64_t stamp = 0;  ///< unique: distinguishes this launch from a later one in the same entry
};

/// The launch that agrees with this one in everything that its checks, its recording and its grid depend on; null if
/// this thread remembers none.
RememberedLaunch* recall_launch(const KernelState& record, std::uint32_t id, const LaunchOptions& options,
                                std::span<const std::uint64_t> slots) noexcept;
/// An entry for a launch of `record`, which replaces the thread's oldest; `stamp` is new. Null if there is no memory.
RememberedLaunch* remember_launch(const KernelState& record, std::uint32_t id) noexcept;

inline thread_local constinit std::uint64_t thread_number = 0;  ///< 0: it has none yet
std::uint64_t number_this_thread() noexcept;
/// A number of the calling thread that no other thread ever has: an entry may be used by its own thread only.
inline std::uint64_t this_thread() noexcept { return thread_number != 0 ? thread_number : number_this_thread(); }

}  // namespace tessera::detail
