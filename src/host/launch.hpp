// Launching, behind KernelRecord and LaunchHandle: everything that does not depend on the kernel's C++ type. A launch
// that has been made before allocates nothing.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tessera/host/kernel.hpp"
#include "tessera/lang/trace.hpp"
#include "tessera/runtime/small_vector.hpp"
#include "tessera/runtime/storage.hpp"

namespace tessera::jit {
struct Code;
}

namespace tessera::detail {

inline constexpr int kMaxTensorArguments = 24;

/// The specialization key of a recording: the facts about each tensor argument, flags of the launch (bits in
/// recorded_kernel.hpp), and the bits of each Constant.
struct RecordingKey {
  std::uint32_t tensors[kMaxTensorArguments] = {};
  std::uint32_t flags = 0;
  std::span<const std::uint64_t> constants;  ///< memory of the launch, or of the recording
  bool operator==(const RecordingKey& other) const noexcept;
};

/// One recording of a kernel, with its compiled code.
struct RecordedKernel;

/// A kernel's signature and its recordings so far. One per kernel and process; never destroyed.
class KernelState {
 public:
  explicit KernelState(const lang::KernelBody& body);
  KernelState(const KernelState&) = delete;
  KernelState& operator=(const KernelState&) = delete;
  /// That of a record, made at the first call.
  static KernelState& of(KernelRecord& record);

  /// The properties of a parameter that a launch reads, in a few bytes.
  struct Param {
    bool is_tensor = false, writes = false;
    bool has_pieces = false;  ///< Mut, MutTiles, unsafe_::Mut
    bool is_mut_tiles = false;
    std::uint8_t rank = 0, element_bytes = 0;
    std::uint16_t slot = 0;                 ///< first slot; of a tensor the address, then extents, then strides
    const std::int64_t* extents = nullptr;  ///< ParamInfo::extents
    const char* spelling = "";
  };
  struct Signature {
    std::string name;  ///< "saxpy"
    std::string what;  ///< "kernel saxpy"
    std::vector<lang::ParamInfo> params;
    std::vector<Param> brief;                  ///< the parameters, for launches
    std::vector<std::uint16_t> address_slots;  ///< of the tensors, in order
    std::uint32_t id = 0;                      ///< number of the kernel
    int slots = 0;                             ///< the entry's arguments, then one for each Constant
    int arguments = 0;
    bool has_mut = false;  ///< a Mut or unsafe_::Mut: one block per piece
    bool has_mut_tiles = false;
    bool counts_blocks = false;  ///< the last argument is the number of blocks
  };
  const Signature& signature() const noexcept { return signature_; }
  /// Records the kernel at the first call for `key`, in checked mode at every call. Throws the errors of recording
  /// (TraceError, CompileError), and in checked mode a TraceError if it is recorded differently than at first.
  RecordedKernel& recording(const RecordingKey& key, SourceLocation where);

 private:
  void check_recorded_alike(const RecordedKernel& first, SourceLocation where);
  const lang::KernelBody& body_;
  Signature signature_;
  std::atomic<RecordedKernel*> recordings_{nullptr};  ///< a list that only grows
  std::mutex mutex_;                                  ///< one recording at a time
};

/// For errors: the kernel, and the user's call.
struct LaunchContextText {
  const KernelState::Signature& signature;
  SourceLocation where;
};

/// A tensor argument of a launch: leased from the moment the launch is built.
struct LaunchOperand {
  runtime::LeaseLink lease;  ///< the launch's Access keeps the storage alive, the caller until the launch is accepted
  std::int64_t offset = 0;   ///< elements
  bool known = false;        ///< its extents and strides are known
  const OpAccess* access = nullptr;
  OwnedOp<OpBase> pending;  ///< an operation that makes the tensor and has not run
};

struct RememberedLaunch;  // launch_memo.hpp

/// A launch between its call and its end, in one block of memory with its arrays: one operand and one access per tensor
/// parameter, one slot per entry argument.
class Launch {
 public:
  using Arguments = std::span<const ArgRef* const>;
  static Launch* make(KernelRecord& record, const LaunchOptions& options, SourceLocation where);
  static void destroy(Launch* launch) noexcept;
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  /// Checks presence and aliasing, takes the leases, then checks shapes if all extents are known. Takes nothing from
  /// the caller if it throws.
  void bind(Arguments args);
  /// Runs the operations among the arguments, compiles, enqueues, releases the leases.
  void enqueue(const Stream& stream);
  /// Compiles only; false if an argument is an operation that has not run.
  bool compile(const CompileRequest& request, jit::CodeReport& report);
  /// The device that it will run on; null if no argument or option determines it.
  runtime::Backend* device() const noexcept;

  /// True if the extents and strides of a tensor argument are known, which are written then.
  bool promise(int param, std::span<std::int64_t> dims, std::span<std::int64_t> strides) const noexcept;
  /// Moves a tensor argument out, after enqueue().
  void hand_back(int param, Place& place) noexcept;

  std::span<std::int64_t> dims(int param) const { return dims(brief()[static_cast<std::size_t>(param)]); }

 private:
  using Param = KernelState::Param;
  struct Room {
    LaunchOperand* operands;
    runtime::Access* accesses;
    std::uint64_t* slots;
  };
  Launch(KernelState& record, const LaunchOptions& options, CheckMode mode, SourceLocation where, Room room) noexcept
      : record_(record), signature_(record.signature()), options_(options), mode_(mode), where_(where), room_(room) {
    if (options_.tuning == 0) options_.tuning = jit::scoped_tuning;
  }
  ~Launch() = default;
  std::size_t tensor_number(int param) const noexcept;
  std::span<const Param> brief() const noexcept { return signature_.brief; }
  std::int64_t* numbers(const Param& p) const noexcept {
    return reinterpret_cast<std::int64_t*>(room_.slots + p.slot + 1);
  }
  std::span<std::int64_t> dims(const Param& p) const noexcept { return {numbers(p), p.rank}; }
  std::span<std::int64_t> strides(const Param& p) const noexcept { return {numbers(p) + p.rank, p.rank}; }
  std::span<const std::uint64_t> slots() const noexcept {
    return {room_.slots, static_cast<std::size_t>(signature_.slots)};
  }
  /// The slots that are the entry's arguments.
  std::span<const std::uint64_t> arguments() const {
    return {room_.slots, static_cast<std::size_t>(signature_.arguments)};
  }
  LaunchContextText context() const { return {signature_, where_}; }

  void check_present(Arguments args) const;
  void check_aliases(Arguments args) const;
  void take_leases(Arguments args);
  void take_lease(std::size_t param, LaunchOperand& operand, runtime::Storage& storage);
  bool fill_slots(Arguments args);
  void accept(Arguments args) noexcept;

  void check_shapes();
  bool recall();
  void remember();
  void check_extents() const;
  void check_devices() const;
  std::uint64_t pieces(int param) const;
  void choose_grid();
  void choose_recording();
  void check_requirements() const;

  void resolve(const Stream& stream);
  void check_stream_device(const Stream& stream) const;
  void fill_addresses() noexcept;
  static void count_as_written(std::span<const runtime::Access> accesses) noexcept;
  void submit(const Stream& stream);
  const jit::Code& code_on(Device device);
  const jit::Code& compiled_on(Device device);

  KernelState& record_;
  const KernelState::Signature& signature_;
  LaunchOptions options_;
  CheckMode mode_;  ///< when the launch was built
  SourceLocation where_;
  Room room_;
  std::size_t tensors_ = 0;
  runtime::SmallVector<runtime::ScalarUse, 2> scalars_;  ///< the numbers that a graph may change
  RecordedKernel* recording_ = nullptr;
  std::uint64_t blocks_ = 0;
  RememberedLaunch* remembered_ = nullptr;  ///< in the memo of the thread that checked the shapes ...
  std::uint64_t thread_ = 0, stamp_ = 0;    ///< ... with this id, valid while its stamp is unchanged
  bool pending_ = false;                    ///< an argument is an operation
  bool persistent_ = false;  ///< blocks_ is only an upper bound: the compiled code has the number that fits the device
  bool checked_shapes_ = false;
};

}  // namespace tessera::detail
