// A CUDA driver for tests, in process: the same function table, host memory as device memory, kernels that are host
// functions. Streams run when they are told to, in any order that their events allow, or when somebody waits. It counts
// every call, fails the calls that it is told to fail, and notes every misuse: memory used before it is ready or after
// its end, destroyed handles, the wrong context.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "runtime/cuda/driver.hpp"

namespace tessera::runtime::cuda::fake {

/// The functions of the driver, by name.
enum class Fn : std::uint8_t {
#define TESSERA_CU(name, version, ...) name,
#include "runtime/cuda/driver.def"
  count
};
const char* name(Fn fn);

class FakeDriver;
/// Points every function of the table at the fake one.
void fill_table(Driver& table);

/// What a kernel of a test is called with when its turn comes.
struct Call {
  FakeDriver& driver;
  std::array<unsigned, 3> grid;
  std::vector<std::uint64_t> args;
  std::vector<std::uint64_t> kept = {};  ///< what the kernel has read before its turn (Kernel::early)
  /// The memory at argument `i`, checked to be live for `bytes`; null (and a violation) if it is not.
  void* memory(std::size_t i, std::size_t bytes) const;
};
using KernelFunction = void (*)(const Call&);

/// A kernel that images may name: its parameters count the error record, if it has one.
struct Kernel {
  std::size_t parameters;
  KernelFunction run;
  /// What it does before it waits for its predecessors: called as early as the driver may start it.
  void (*early)(Call&) = nullptr;
};

class FakeDriver {
 public:
  /// One at a time; it becomes what table() points at.
  explicit FakeDriver(int devices = 1, int version = 13000);
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const Driver& table() const { return table_; }
  Driver& table() { return table_; }
  /// A cubin with this kernel; `waits`: its code waits for the work before it, so it may be launched early.
  static std::vector<std::byte> image(const std::string& kernel, bool waits = false);
  static constexpr std::size_t kCode = 224, kLastInstruction = kCode + 16, kName = kCode + 32;  ///< in the image
  void add_kernel(const std::string& name, Kernel kernel) { kernels_[name] = kernel; }

  // -- running --
  bool step(std::uint64_t pick = 0);
  void run_all() {
    while (step()) {}
  }
  void run_all(std::mt19937_64& random) {
    while (step(random())) {}
  }

  // -- faults --
  /// The `k`-th call from now (0: the next) that can fail returns `result`; if `for_good`, so does every call after it.
  void fail_at(int k, CUresult result = 1, bool for_good = false);
  /// The next call of this function returns `result`.
  void fail_next(Fn fn, CUresult result) { fail_fn_ = fn, fail_fn_result_ = result; }
  bool fault_happened() const { return happened_; }
  void heal();
  /// From now on every call returns `result`, as after a kernel's fault; nothing runs any more.
  void poison(CUresult result);
  /// Allocations fail while fewer than `bytes` would be free.
  void limit_memory(std::size_t bytes) { memory_limit_ = bytes; }
  /// Bytes that an allocation from the pool took before it failed, and that the pool still keeps.
  std::size_t hoarded() const { return hoarded_; }

  /// A kernel takes so long by the driver's clock, which nothing else moves.
  void spend(double milliseconds) { clock_ms_ += milliseconds; }

  // -- what happened --
  int count(Fn fn) const { return counts_[static_cast<std::size_t>(fn)]; }
  int calls() const { return calls_; }
  /// Empty if nothing was misused.
  std::string violation() const;
  /// "2 streams, 1 event": what was made and not destroyed; empty if nothing is left.
  std::string leaks() const;
  int live_blocks() const;
  int live_streams() const;
  int pending_steps() const;
  void violate(const std::string& text);
  bool live(std::uintptr_t address, std::size_t bytes) const;

 private:
  friend struct Functions;
  /// A record of an event: whoever waits for it does not care that the event is recorded anew.
  struct Moment {
    bool reached = false;
    double ms = 0;    // of the driver's clock
    int streams = 1;  // that have yet to get to it
  };
  using Record = std::shared_ptr<Moment>;
  struct Event {
    Record last;  // null: never recorded, which counts as done
    bool destroyed = false, timed = false;
  };
  struct Step {
    enum class Kind : std::uint8_t { Kernel, Record, Wait, Alloc, Free, Copy, Set } kind = Kind::Kernel;
    KernelFunction run = nullptr;
    void (*early)(Call&) = nullptr;
    bool programmatic = false;  ///< launched so that it may start before its predecessor has ended
    std::vector<std::uint64_t> kept;
    std::array<unsigned, 3> grid{};
    std::vector<std::uint64_t> args;
    Record record;
    CUdeviceptr to = 0, from = 0;
    std::size_t bytes = 0;
    unsigned pattern = 0, pattern_bytes = 0;
  };
  struct Stream {
    std::deque<Step> steps;
    bool destroyed = false;
    int device = 0;
    bool kernel_is_last = false;  // allocations, frees and records aside
  };
  struct Block {
    std::size_t bytes = 0;
    bool ready = false, freed = false;  // usable on every stream; its free is enqueued
    int device = 0;
    void* memory = nullptr;
  };
  struct Module {
    std::string kernel;
    bool unloaded = false, waits = false;
  };

  static inline FakeDriver* active = nullptr;
  static inline thread_local CUcontext current = nullptr;
  static int current_device() { return static_cast<int>(reinterpret_cast<std::uintptr_t>(current)) - 1; }

  CUresult enter(Fn fn);
  Stream* stream(CUstream handle);
  Event* event(CUevent handle);
  bool step_locked(std::uint64_t pick);
  void run(Step& step);
  void start_early(Stream& stream);
  void check_memory(std::uintptr_t address, std::size_t bytes, const char* what);
  CUresult drain(Stream* stream);
  CUresult wait_for(const Record& record);

  Driver table_;
  int devices_, version_;
  mutable std::recursive_mutex mutex_;
  std::map<std::string, Kernel> kernels_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::map<std::uintptr_t, Block> blocks_;  // device memory
  std::set<void*> pinned_;
  std::size_t memory_limit_ = std::size_t{1} << 30, used_ = 0, hoarded_ = 0;
  int pools_ = 0;
  double clock_ms_ = 0;
  std::map<int, int> retained_;  // primary contexts
  std::string violation_;
  std::array<std::atomic<int>, static_cast<std::size_t>(Fn::count)> counts_{};
  std::atomic<int> calls_{0}, countdown_{-1};
  CUresult result_ = 1;
  bool for_good_ = false, happened_ = false, context_fault_ = false;
  CUresult poisoned_ = 0;
  Fn fail_fn_ = Fn::count;
  CUresult fail_fn_result_ = 0;
};

}  // namespace tessera::runtime::cuda::fake
