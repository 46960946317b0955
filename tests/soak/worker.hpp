// A thread of the soak program: random actions on tensors of its own, on streams of its own and of all threads.
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "soak/execute.hpp"

namespace soak {

/// What was done, for the report. Every action has a count, so that none can be left out unnoticed.
enum class Action : std::uint8_t {
  Step,
  Readback,
  Drop,
  Conflict,
  Fail,
  Flow,
  Fork,
  Spawn,
  Finish,
  Cancel,
  Capture,
  Replay,
  Release,
  Set,
  Upload,
  Download,
  Exchange,
  Share,
  Copy,
  NewStream,
  Synchronize,
  count
};
inline constexpr std::size_t kActions = static_cast<std::size_t>(Action::count);
const char* name(Action) noexcept;
using Counts = std::array<std::uint64_t, kActions>;

/// What a worker is doing, for another thread.
struct Progress {
  std::atomic<std::uint64_t> actions{0};
  std::atomic<std::size_t> action{kActions};  ///< an Action; kActions: the end of its round, or nothing yet
};

class Worker {
 public:
  /// `shared`: streams that other workers use too.
  Worker(std::uint64_t seed, Device device, const Inputs& inputs, std::vector<Stream> shared, Progress& progress);
  /// Does `actions` random ones, then ends what is in flight and compares everything. Throws Wrong.
  void run(int actions);
  const Counts& counts() const noexcept { return counts_; }
  /// What the programs of this worker have run. On its thread.
  static Controls ran() noexcept { return controls; }

 private:
  struct Running {
    Task<State> task;
    Values values;
    Interruption::What interrupted;
  };
  struct Recorded {
    Recording graph;
    Program program;
    Values values;
    std::shared_ptr<Number> number;
    std::shared_ptr<InnerGraph> inner;  ///< null if there is none
  };

  void act(Action);
  void step();
  void readback();
  void drop();
  void conflict();
  void fail();
  void flow();
  void forked();
  void start_task();
  void finish_task();
  void cancel();
  void record();
  void replay();
  void release();
  void set_number();
  void upload();
  void download();
  void check_download();
  void exchange();
  void share_and_back();
  void copy();
  void synchronize();
  void end();

  State make_state(std::size_t lines, Values& values);
  void refill(std::size_t line);
  void check(const Line& line, const Value& expected, const char* where);
  /// An interruption at a random step of `program` (or none; a failure if `fails`), and what the state should be
  /// afterwards.
  Interruption interrupt(const Program& program, Values& values, bool fails);
  std::shared_ptr<InnerGraph> inner_graph();
  std::size_t any_line() { return static_cast<std::size_t>(below(random_, static_cast<int>(values_.size()))); }
  const Stream& own() { return own_[static_cast<std::size_t>(below(random_, static_cast<int>(own_.size())))]; }
  const Stream& any_stream();

  Progress& progress_;
  Random random_;
  Device device_;
  const Inputs& inputs_;
  std::int64_t size_;
  std::vector<Stream> own_, shared_;
  State state_;
  Values values_;
  std::vector<Running> tasks_;
  std::vector<Recorded> graphs_;
  HostBuffer<i32> buffer_;
  std::optional<Value> downloaded_;  ///< what buffer_ should contain
  Counts counts_{};
};

}  // namespace soak
