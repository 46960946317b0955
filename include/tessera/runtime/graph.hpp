// What a captured flow submits, recorded for replay. docs/graphs.md.
#pragma once
#include <cstddef>
#include <deque>
#include <memory>
#include <memory_resource>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime {

/// The value that graph_while and graph_if read: one element of a storage, true if it is not 0.
struct GraphCondition {
  StorageRef storage;
  std::size_t offset = 0, bytes = 1;  ///< 1 or 4 bytes
};

inline constexpr std::size_t kNoEntry = static_cast<std::size_t>(-1);

/// An entry of a recording: a submission, or the loop or the branch of a captured flow.
struct RecordedWork {
  enum class Kind : std::uint8_t { Call, While, If };
  RecordedWork() = default;
  /// Its lists are in `memory`, those of copies are not.
  explicit RecordedWork(std::pmr::memory_resource& memory)
      : call{nullptr, {}, std::pmr::vector<std::uint64_t>(&memory)},
        accesses(&memory),
        after(&memory),
        addresses(&memory) {}

  Kind kind = Kind::Call;
  RecordedCall call;
  /// Without leases. Of a loop or a branch: its condition, and what its bodies use.
  std::pmr::vector<Access> accesses;
  const char* label = "work";  ///< static or interned
  SourceLocation where{};      ///< the user's call
  /// Earlier entries that it conflicts with and that no other of them follows, in their order.
  std::pmr::vector<std::size_t> after;

  GraphCondition condition;                             ///< of a loop or a branch
  std::vector<std::shared_ptr<GraphRecording>> bodies;  ///< 1 of While; of If: then, and else if there is one
  std::size_t group = kNoEntry;                         ///< the graph whose replay it is part of: groups()

  bool movable = false;                       ///< as of Submission
  std::pmr::vector<std::uint16_t> addresses;  ///< as of Submission
  std::vector<ScalarUse> scalars;             ///< as of Submission
  std::shared_ptr<const CallUpdate> update;
  std::size_t call_number = kNoEntry;  ///< of an entry with scalars: its call in GraphCalls
};

/// A graph that was replayed while this one was captured: its entries are entries of this recording.
struct RecordedGroup {
  SourceLocation where{};         ///< of the replay
  std::size_t parent = kNoEntry;  ///< the group that it is part of
};

/// The present calls of all entries with scalars, by RecordedWork::call_number.
using GraphCalls = std::vector<RecordedCall>;

/// Records submissions. One thread at a time. finish() ends the recording, which does not change afterwards.
class GraphRecording final : public CaptureSink {
 public:
  using Work = std::pmr::deque<RecordedWork>;
  explicit GraphRecording(Device device);
  GraphRecording(const GraphRecording&) = default;
  GraphRecording& operator=(const GraphRecording&) = delete;  // entries are in memory of their recording
  void add(const Submission& submission) override;
  /// A loop (one body) or a branch (one or two), whose bodies have been recorded.
  void add_control(RecordedWork::Kind kind, const GraphCondition& condition,
                   std::vector<std::shared_ptr<GraphRecording>> bodies, const char* label, SourceLocation where);
  /// All entries of another recording, with its present calls. Its storages stay alive with this one.
  void add_graph(const GraphRecording& graph, const GraphCalls& calls, SourceLocation where);
  /// A storage was made on this thread while this recording was the innermost one.
  void made(StorageRef storage);
  /// True if a storage that was made here is used by something other than the recording: a tensor that outlives it.
  bool is_held_outside(SourceLocation& first_use) const;
  /// True if `other` does the same with the same storages and numbers; a storage that was made in one of them
  /// corresponds to one of the other. Else `found` is the first difference.
  bool repeats_as(const GraphRecording& other, SourceLocation& found) const;

  /// Ends the recording of a whole capture: temporaries are given memory that they share. Throws DeviceError.
  void finish();

  /// This is the recording of a second call of a body, to be compared with that of the first.
  void set_second_call() noexcept { second_call_ = true; }
  bool is_second_call() const noexcept { return second_call_; }
  /// How many loops and branches it is inside of.
  void set_depth(int depth) noexcept { depth_ = depth; }
  int depth() const noexcept { return depth_; }

  Device device() const noexcept { return device_; }
  const Work& work() const noexcept { return work_; }
  /// Each storage once, with what all entries together do with it. After finish() the memory of the temporaries is one
  /// of them.
  std::span<const Access> accesses() const noexcept { return accesses_; }
  std::span<const RecordedGroup> groups() const noexcept { return groups_; }
  const GraphMemory& memory() const noexcept { return memory_; }
  const GraphCalls& calls() const noexcept { return calls_; }
  /// The entries with scalars, of bodies too; calls()[i] is the call of the i-th.
  std::span<const RecordedWork* const> updatable() const noexcept { return updatable_; }
  /// The number of calls, those of bodies included.
  std::size_t call_count() const noexcept;

 private:
  friend class GraphPlan;
  /// Of one storage: who wrote it last, and who has read it since.
  struct Uses {
    std::size_t writer = kNoEntry;
    std::vector<std::size_t> readers;
  };
  Uses& uses_of(const Access& access);
  void use(RecordedWork& entry, const Access& access, std::size_t number);
  void order(std::size_t number);
  void begin_adding();
  void check_complete() const;
  template <class F>
  void append(F&& fill);
  void number_calls(GraphRecording& root);
  struct Comparison;
  bool repeats_as(const GraphRecording& other, Comparison& all, SourceLocation& found) const;
  void count_references(std::unordered_map<const Storage*, long>& counts) const;
  std::shared_ptr<GraphRecording> with_calls(const GraphCalls& calls) const;

  Device device_;
  bool second_call_ = false;
  int depth_ = 0;
  bool incomplete_ = false;
  std::shared_ptr<std::pmr::memory_resource> memory_of_work_;  // of the entries and their lists; not of copies of them
  Work work_{memory_of_work_.get()};
  std::vector<Access> accesses_;
  std::vector<Uses> uses_;                                   // as accesses_
  std::vector<std::size_t> implied_;                         // of order(), kept for its memory
  std::unordered_map<const Storage*, std::size_t> numbers_;  // of the storages in accesses_
  std::vector<RecordedGroup> groups_;
  std::vector<StorageRef> made_;                // while recording
  std::unordered_set<const Storage*> scratch_;  // whose contents before a replay do not matter
  std::vector<StorageRef> arenas_;              // memory of temporaries: its own, and those of graphs that were added
  std::unordered_set<const Storage*> planned_;  // the temporaries in them
  GraphMemory memory_;
  GraphCalls calls_;
  std::vector<const RecordedWork*> updatable_;
};

/// A recording as a piece of work.
class GraphWork : public Launchable {
 public:
  /// The same with other calls, for replays that are submitted from now on. Does not change this one.
  virtual std::shared_ptr<const GraphWork> with(std::shared_ptr<const GraphCalls> calls) const = 0;
};

/// While it lives, this thread captures into `recording`: submissions to other streams are rejected, and so are waits
/// of the host. Throws DeviceError if the thread captures already.
class CaptureScope {
 public:
  CaptureScope(GraphRecording& recording, SourceLocation where);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
  /// The stream whose submissions are recorded.
  const std::shared_ptr<StreamCore>& stream() const noexcept { return stream_; }
  /// The recording that this thread's submissions go to; null if it does not capture.
  static GraphRecording* innermost() noexcept;

 private:
  friend class BodyScope;
  GraphRecording* recording_;
  std::shared_ptr<StreamCore> stream_;
};

/// While it lives, what this thread captures goes to the body of a loop or a branch. Only on a thread that captures.
class BodyScope {
 public:
  explicit BodyScope(GraphRecording& body);
  ~BodyScope();
  BodyScope(const BodyScope&) = delete;
  BodyScope& operator=(const BodyScope&) = delete;

 private:
  GraphRecording* outer_;
};

}  // namespace tessera::runtime
