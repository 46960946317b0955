// A CUDA driver for tests, in process: the same function table, host memory as device memory, kernels that are host
// functions. Streams run when the test steps them, in any order that their events allow, or when a call waits. It
// counts every call, fails selected calls, and records every misuse: memory used before it is ready or after it was
// freed, destroyed handles, the wrong context.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <span>
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

/// The arguments of a test's kernel when it runs.
struct Call {
  FakeDriver& driver;
  std::array<unsigned, 3> grid;
  std::vector<std::uint64_t> args;
  std::vector<std::uint64_t> kept = {};  ///< values that the kernel has read early (Kernel::early)
  /// The memory at argument `i`, checked to be live for `bytes`; null (and a violation) if it is not.
  void* memory(std::size_t i, std::size_t bytes) const;
};
using KernelFunction = void (*)(const Call&);

/// A kernel that images may refer to: its number of parameters includes the error record, if it has one.
struct Kernel {
  std::size_t parameters;
  KernelFunction run;
  /// The part before it waits for its predecessors: called as early as the driver may start it.
  void (*early)(Call&) = nullptr;
};

class FakeDriver {
 public:
  /// One at a time; table() points to it.
  explicit FakeDriver(int devices = 1, int version = 13000);
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const Driver& table() const { return table_; }
  Driver& table() { return table_; }
  /// A cubin with this kernel; `waits`: its code waits for its predecessor, so it may use programmatic dependent
  /// launch.
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

  /// Takes the decisions that the driver leaves open, for the model check. Without one, kernels start as early as they
  /// may.
  struct Scheduler {
    virtual ~Scheduler() = default;
    virtual void before_call(Fn fn) = 0;
    /// Runs one of actions(); false if there is none.
    virtual bool run_one() = 0;
  };
  void set_scheduler(Scheduler* scheduler) { scheduler_ = scheduler; }
  /// What may happen next: the first step of a stream, or the start of a dependent kernel behind it.
  struct Action {
    std::size_t stream = 0;
    bool early = false, orders = false;     ///< orders: a record of an event, or a wait for one that is reached
    std::span<const std::uint64_t> args;    ///< of a kernel
    std::array<std::uint64_t, 2> memory{};  ///< of other steps; 0: none
  };
  std::vector<Action> actions();
  void perform(const Action& action);

  // -- faults --
  /// The `k`-th call from now (0: the next) that can fail returns `result`; if `for_good`, so does every call after it.
  void fail_at(int k, CUresult result = 1, bool for_good = false);
  /// The next call of this function returns `result`.
  void fail_next(Fn fn, CUresult result) { fail_fn_ = fn, fail_fn_result_ = result; }
  bool fault_happened() const { return happened_; }
  void heal();
  /// From now on every call returns `result`, as after a kernel's fault; no work runs.
  void poison(CUresult result);
  /// Allocations fail while fewer than `bytes` would be free.
  void limit_memory(std::size_t bytes) { memory_limit_ = bytes; }
  /// Bytes that an allocation from the pool took before it failed, and that the pool still keeps.
  std::size_t hoarded() const { return hoarded_; }

  /// A stream of another library, in the current context.
  CUstream foreign_stream();
  /// Destroys a stream, and makes another one with the same handle.
  void reuse_handle(CUstream handle) { reinterpret_cast<Stream*>(handle)->id = 1000 + ++reused_; }
  /// Whether another library captures the stream.
  void capture(CUstream handle, bool on) { reinterpret_cast<Stream*>(handle)->capturing = on; }
  /// Enqueues a write of one u64 on any stream, as another library does.
  void foreign_store(CUstream handle, std::uint64_t* to, std::uint64_t value);
  /// Enqueues a call on any stream, as another library does with its kernels; it runs once `ready` returns true.
  void foreign_call(CUstream handle, std::function<bool()> ready, std::function<void()> run);
  /// Memory of the current context's device that another library has allocated, and its end.
  void* foreign_allocate(std::size_t bytes);
  void foreign_free(void* memory);
  int current_device_number() const { return current_device(); }
  /// Whether GPUs are connected directly.
  void connect_peers(bool on) { peers_ = on; }
  int open_pools() const { return open_pools_; }
  int priority(CUstream handle) const { return reinterpret_cast<const Stream*>(handle)->priority; }

  /// The time of a kernel by the driver's clock, which nothing else advances.
  void spend(double milliseconds) { clock_ms_ += milliseconds; }

  // -- what happened --
  int count(Fn fn) const { return counts_[static_cast<std::size_t>(fn)]; }
  int calls() const { return calls_; }
  /// Empty if nothing was misused.
  std::string violation() const;
  /// "2 streams, 1 event": objects that were created and not destroyed; empty if there are none.
  std::string leaks() const;
  /// The nodes of the graph that was instantiated last: k(ernel), c(opy), s(et), g(raph), ?(conditional) with its body.
  /// Each with the numbers of those that it follows: "k k0 k1*", where * is a programmatic edge.
  std::string last_graph() const;
  int live_blocks() const;
  int live_streams() const;
  int pending_steps() const;
  void violate(const std::string& text);
  bool live(std::uintptr_t address, std::size_t bytes) const;

 private:
  friend struct Functions;
  friend struct GraphFunctions;
  struct Graph;
  /// A record of an event: waits for it are not affected when the event is recorded again.
  struct Moment {
    bool reached = false;
    double ms = 0;          // of the driver's clock
    bool captured = false;  // recorded on a stream that was captured
    int streams = 1;        // streams that have not reached it
  };
  using Record = std::shared_ptr<Moment>;
  struct Event {
    Record last;  // null: never recorded, which counts as done
    bool destroyed = false, timed = false;
  };
  struct Step {
    enum class Kind : std::uint8_t { Kernel, Record, Wait, Alloc, Free, Copy, Set, Store, Foreign, Graph, Conditional };
    Kind kind = Kind::Kernel;
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
    std::shared_ptr<Graph> graph{};   // Graph: as it was launched or added; Conditional: the body
    const Graph* launched = nullptr;  // Graph: what was launched
    CUgraphConditionalHandle handle = 0;
    bool loop = false;
    bool waits = false;             // a kernel whose code waits for its predecessors
    std::function<bool()> ready{};  // Foreign: it may run
    std::function<void()> foreign{};
  };
  struct Node {
    Step step;
    std::uintptr_t handle = 0;  // the same in copies of its graph
    struct Edge {
      std::size_t from = 0;  // of the graph's nodes
      bool programmatic = false;
    };
    std::vector<Edge> follows;
  };
  struct Graph {
    std::vector<Node> nodes;  // each behind those that it follows
    bool destroyed = false, executable = false, is_body = false;
    int captures = 0;            // streams that capture into it
    bool foreign_ended = false;  // a capture into it has ended that had work of another library
  };
  struct Condition {
    const Graph* graph = nullptr;  // that contains its node
    bool set = false, value = false, used = false;
  };
  struct Stream {
    std::deque<Step> steps;
    std::vector<CUgraphNode> position;  // what the next node of a capture follows
    bool destroyed = false;
    int device = 0;
    bool kernel_is_last = false;  // allocations, frees and records aside
    Graph* capture = nullptr;     // its steps are captured, not run
    bool invalid = false;         // the capture: it ends without a graph
    bool foreign = false;         // the capture has work of another library
    bool capturing = false;
    int priority = 0;
    std::uint64_t id = 0;
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
  Stream* make_stream();
  Event* event(CUevent handle);
  bool step_locked(std::uint64_t pick);
  void run(Step& step);
  void start_dependents(std::deque<Step>& steps);
  void read_early(Step& step);
  /// Runs the nodes of a graph in any order that its edges allow.
  void run_graph(const Graph& graph);
  void run_conditional(const Step& step);
  /// Work of the whole context cannot be waited for while a stream of it is captured: the capture fails.
  bool invalidates_capture();
  static constexpr CUresult kCaptureUnsupported = 900;  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
  static void set_condition(const Call& call);
  void check_memory(std::uintptr_t address, std::size_t bytes, const char* what);
  CUresult drain(Stream* stream);
  CUresult wait_for(const Record& record);

  static Step* next_early(Stream& stream);

  Scheduler* scheduler_ = nullptr;
  Driver table_;
  int devices_, version_;
  mutable std::recursive_mutex mutex_;
  std::map<std::string, Kernel> kernels_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
  std::vector<std::unique_ptr<Module>> modules_;
  std::vector<std::shared_ptr<Graph>> graphs_;  // of the host: no bodies
  std::map<CUgraphConditionalHandle, Condition> conditions_;
  std::deque<CUgraph> body_handles_;
  std::uintptr_t nodes_ = 0;
  std::map<std::uintptr_t, Block> blocks_;  // device memory
  std::set<void*> pinned_;
  std::size_t memory_limit_ = std::size_t{1} << 30, used_ = 0, hoarded_ = 0;
  int pools_ = 0;
  double clock_ms_ = 0;
  std::map<int, int> retained_;    // primary contexts
  std::map<int, Stream*> legacy_;  // the legacy default streams, by device
  bool peers_ = true;
  int open_pools_ = 0;
  std::uint64_t reused_ = 0;
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
