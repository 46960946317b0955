// Launching, untyped: what kernel<K>'s call operator hands its arguments to. Everything that does not depend on the
// kernel's C++ type is here and out of line; a launch that has been made before allocates its operation and nothing
// else.
#pragma once
#include <atomic>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tessera/host/operand.hpp"
#include "tessera/lang/trace.hpp"

namespace tessera::detail {

/// What `.blocks(n)`, `.on_device(d)`, `.tuned(record)`, `.precise()` and `.approximate()` have set.
struct LaunchOptions {
  std::int64_t blocks = 0;
  bool blocks_given = false;
  runtime::Backend* device = nullptr;  ///< null: where the arguments are
  bool accuracy_given = false;
  lang::Accuracy accuracy = lang::Accuracy::Precise;
  std::uint32_t tuning = 0;  ///< jit::TuningId
};

inline constexpr int kMaxTensorArguments = 24;

/// What a recording is specialized by: the facts about each tensor argument, and flags of the launch. (variant.hpp says
/// which bits.)
struct VariantKey {
  std::uint32_t tensors[kMaxTensorArguments] = {};
  std::uint32_t flags = 0;
  bool operator==(const VariantKey&) const = default;
};

/// One recording of a kernel, with what it was compiled to.
struct Variant;

/// What is known about a kernel: its signature, and its recordings so far. One per kernel and process; never destroyed.
class KernelRecord {
 public:
  using Name = std::string (*)();
  using Infos = std::vector<lang::ParamInfo> (*)();
  using Record = lang::Trace (*)(const lang::Specialization&, SourceLocation);
  constexpr KernelRecord(Name name, Infos infos, Record record) noexcept
      : name_(name), infos_(infos), record_(record) {}
  KernelRecord(const KernelRecord&) = delete;
  KernelRecord& operator=(const KernelRecord&) = delete;

  struct Signature {
    std::string name;  ///< "saxpy"
    std::string what;  ///< "kernel saxpy"
    std::vector<lang::ParamInfo> params;
    int slots = 0;
    bool has_mut = false;  ///< a Mut or unsafe_::Mut: one block per piece
    bool has_mut_tiles = false;
  };
  const Signature& signature() {
    const Signature* s = signature_.load(std::memory_order_acquire);
    return s ? *s : make_signature();
  }
  /// Records the kernel at the first call for `key`; throws what recording throws (TraceError, CompileError).
  Variant& variant(const VariantKey& key, SourceLocation where);

 private:
  const Signature& make_signature();
  Name name_;
  Infos infos_;
  Record record_;
  std::atomic<const Signature*> signature_{nullptr};
  std::atomic<Variant*> variants_{nullptr};  ///< a list that only grows
  std::mutex mutex_;                         ///< one recording at a time
};

/// For errors: which kernel, and the user's call.
struct LaunchContextText {
  const KernelRecord::Signature& signature;
  SourceLocation where;
};

/// A launch between its call and its end. The operation that contains it owns the arrays: one operand per parameter
/// (unused for numbers), one slot per entry argument.
class Launch {
 public:
  using Arguments = std::span<const ArgRef>;
  Launch(KernelRecord& record, const LaunchOptions& options, SourceLocation where, TensorOperand* operands,
         std::uint64_t* slots) noexcept
      : record_(record), options_(options), where_(where), operands_(operands), slots_(slots) {}
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// Checks presence and aliasing, takes the leases, then checks shapes if all extents are known. Takes nothing from
  /// the caller if it throws.
  void bind(Arguments args);
  /// Runs the operations among the arguments, compiles, enqueues, releases the leases.
  void enqueue(const Stream& stream);
  /// Compiles only; false if an argument is an operation that has not run.
  bool compile(const CompileRequest& request, jit::CodeReport& report);
  /// Where it will run; null if nothing says so.
  runtime::Backend* device() const noexcept;

  std::span<std::int64_t> dims(int param) const;
  std::span<std::int64_t> strides(int param) const;

 private:
  std::span<const lang::ParamInfo> params() const { return record_.signature().params; }
  LaunchContextText context() const;
  void check_present(Arguments args) const;
  void check_aliases(Arguments args) const;
  runtime::Lease lease(int param, const runtime::StorageRef& storage) const;
  void take_leases(Arguments args);
  void fill_slots(Arguments args);
  void accept(Arguments args);

  void check_shapes();
  void check_extents(int param) const;
  void check_devices() const;
  std::uint64_t pieces(int param) const;
  void choose_grid();
  void choose_variant();
  void check_requirements() const;

  void resolve(const Stream& stream);
  void check_stream_device(const Stream& stream) const;
  void submit(const Stream& stream);

  KernelRecord& record_;
  LaunchOptions options_;
  SourceLocation where_;
  TensorOperand* operands_;
  std::uint64_t* slots_;
  Variant* variant_ = nullptr;
  std::uint64_t blocks_ = 0;
  bool persistent_ = false;  ///< blocks_ is only an upper limit: the compiled code says how many fit the device
  bool checked_shapes_ = false;
};

}  // namespace tessera::detail
