// Recordings of a kernel: which facts about a launch they are specialized by, and what they were compiled to.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>

#include "tessera/host/launch.hpp"
#include "tessera/runtime/backend.hpp"

namespace tessera::detail {

/// A variant's code for one device.
struct CompiledVariant {
  runtime::Backend* device;
  std::shared_ptr<const runtime::Launchable> work;
  CompiledVariant* next;
};

struct Variant {
  VariantKey key;
  lang::Trace trace;
  Variant* next = nullptr;
  std::atomic<CompiledVariant*> compiled{nullptr};
  std::mutex mutex;  // compiling

  /// Compiles at the first call for a device; throws CompileError.
  std::shared_ptr<const runtime::Launchable> work_for(Device device, const KernelRecord::Signature&);
};

/// The facts about a tensor that recordings are specialized by, in 20 bits: the unit axis plus one, and which extents
/// are 1.
std::uint32_t tensor_bits(std::span<const std::int64_t> dims, std::span<const std::int64_t> strides) noexcept;
std::uint32_t flag_bits(bool wide_grid, bool checked, bool accuracy_given, lang::Accuracy accuracy) noexcept;
lang::Specialization specialization(const VariantKey& key, std::span<const lang::ParamInfo> params);

}  // namespace tessera::detail
