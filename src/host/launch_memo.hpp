// What a thread remembers of its last launches: a launch whose extents, strides and scalars it has seen needs no
// checks, no look-up and no evaluation of obligations. Nothing is shared between threads, so nothing is locked.
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "host/variant.hpp"

namespace tessera::detail {

/// The answers to one launch, and what they depend on.
struct RememberedLaunch {
  static constexpr std::size_t kMostSlots = 48;  ///< launches with more are not remembered
  // What it depends on; of `slots` what Variant::shape_masks and address_masks say.
  const KernelRecord* record = nullptr;         ///< null: empty
  LaunchOptions options;                        ///< but the device
  std::array<std::uint64_t, kMostSlots> slots;  // NOLINT: as many as the kernel has
  // The answers: of the extents, and, once it has run, of the addresses and the device.
  Variant* variant = nullptr;
  std::uint64_t blocks = 0;
  bool persistent = false;
  const runtime::Backend* device = nullptr;  ///< null: has not run
  const jit::Code* code = nullptr;
  std::uint64_t stamp = 0;  ///< never used again: tells this launch from a later one in its place
};

/// The launch that agrees with this one in everything that its checks, its recording and its grid depend on; null if
/// this thread remembers none. In checked mode nothing is remembered: each launch is recorded anew.
RememberedLaunch* recall_launch(const KernelRecord& record, std::uint32_t id, const LaunchOptions& options,
                                std::span<const std::uint64_t> slots) noexcept;
/// Room for a launch of `record`, in place of the thread's oldest; `stamp` is new. Null if there is no memory for it.
RememberedLaunch* remember_launch(const KernelRecord& record, std::uint32_t id) noexcept;
/// A number of the calling thread that no other thread ever has: a remembered launch may be looked at by its own thread
/// only.
std::uint64_t this_thread() noexcept;

}  // namespace tessera::detail
