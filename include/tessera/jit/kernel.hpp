// A recorded kernel with its compiled code: per device, and per set of obligations that hold
// (docs/compiler/README.md). Looking code up takes no lock and allocates nothing.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include "tessera/analysis/facts.hpp"
#include "tessera/analysis/launch_contract.hpp"
#include "tessera/ir/operation.hpp"
#include "tessera/jit/code.hpp"
#include "tessera/jit/code_report.hpp"
#include "tessera/jit/compile.hpp"
#include "tessera/passes/optimize.hpp"
#include "tessera/passes/target.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/device.hpp"

namespace tessera::jit {

// What the host says about the arguments of a recording.
using analysis::ArgContract;
using analysis::ArgRole;
using analysis::kMaxGridAxis;
using analysis::LaunchContract;
using analysis::TensorContract;

struct Prepared;

/// One recording. Safe to use from any thread.
class Kernel {
 public:
  /// Takes a module with one entry, whose arguments obey `contract`. In checked mode (`options.checked`) the code is
  /// compiled without making use of the obligations. Throws CompileError if the module is malformed.
  Kernel(std::unique_ptr<const ir::Module> module, const LaunchContract& contract, CompileOptions options);
  ~Kernel();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  /// The code for a launch on `device` with these argument slots (complete: addresses included). Compiles if this
  /// combination of device and obligations is new, in a fallback form where the assembler rejects the chosen one;
  /// throws CompileError. The code lives as long as the kernel.
  const Code& code(Device device, std::span<const std::uint64_t> slots) {
    const std::uint64_t predicates = evaluate(slots);
    const Specialization* last = last_.load(std::memory_order_acquire);
    if (last && last->device == &device.backend() && last->predicates == predicates) [[likely]] { return last->code; }
    return find_or_compile(device, predicates);
  }

  /// Compiles as code() does and reports about the result.
  CodeReport report(Device device, std::span<const std::uint64_t> slots);
  /// The same for a GPU that is not here, without loading anything. Throws CompileError.
  CodeReport report(const passes::Target& gpu, std::span<const std::uint64_t> slots) const;

  /// Which obligations hold for these slots, one bit each.
  std::uint64_t evaluate(std::span<const std::uint64_t> slots) const noexcept {
    return predicates_ != nullptr ? predicates_->evaluate(slots) : 0;
  }
  /// The bits of a slot that code() depends on (analysis::Facts::slot_mask): a cached result of code() is valid for
  /// launches in which they are equal.
  std::uint64_t slot_mask(std::size_t slot) const noexcept {
    return predicates_ != nullptr ? predicates_->slot_mask(slot) : 0;
  }
  const ir::Module& module() const noexcept { return *module_; }

 private:
  struct Specialization {
    runtime::Backend* device;
    std::uint64_t predicates;
    Code code;
    const Specialization* next;
  };
  struct Analysis;
  const Code& find_or_compile(Device device, std::uint64_t predicates);
  std::uint64_t common_part(std::uint64_t predicates) const noexcept;
  const Specialization* find(const runtime::Backend& device, std::uint64_t predicates) const noexcept;
  const Specialization* find_general(const runtime::Backend& device, std::uint64_t predicates) const noexcept;
  const Specialization* compile(Device device, std::uint64_t predicates);
  Code make_code(Device device, std::uint64_t& predicates) const;
  Code learns(const Code& code, const Prepared& own, Device device, std::uint64_t predicates) const;
  Code code_for_cpu(Device device, const passes::Target& target, std::uint64_t predicates) const;
  const passes::Tuning* tuning(std::uint64_t predicates, const Device* device, const passes::Target& target) const;
  Prepared prepared(std::uint64_t predicates, const passes::Target& target, const passes::Tuning* tuning,
                    Form form) const;
  CodeReport describe(const Prepared& prepared, std::uint64_t predicates, const Device* device) const;

  std::unique_ptr<const ir::Module> module_;
  std::unique_ptr<Analysis> analysis_;                      ///< null in checked mode
  const analysis::LaunchPredicates* predicates_ = nullptr;  ///< of analysis_
  CompileOptions options_;
  std::atomic<const Specialization*> specializations_{nullptr};  ///< a list that only grows
  std::atomic<const Specialization*> last_{nullptr};             ///< what the last launch used
};

}  // namespace tessera::jit
