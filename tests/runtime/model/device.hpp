// The device of the model check: a scheduler that takes every decision from a sequence of choices, and notices work
// that overlaps, memory that is used after its end, and contents that are not those of the sequential program.
#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "runtime/model/choices.hpp"
#include "runtime/model/world.hpp"
#include "tessera/runtime/backend.hpp"
#include "tessera/runtime/graph.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime::model {

enum class Flavour : std::uint8_t { Gpu, Cpu };  ///< keeps nothing alive; holds the storages of its work

/// How calls fail: none; one; one, and every call after it.
enum class Faults : std::uint8_t { None, Once, Dead };

/// Seeded defects of the device itself, to test the check.
enum class Defect : std::uint8_t { None, IgnoresWaits, FreesAtOnce };

/// What is thrown by work that fails: the number of the operation.
struct WorkFailed {
  int operation;
};
/// The text of injected failures.
inline constexpr const char* kInjected = "injected failure of a call";

class ModelDevice;

struct Step {
  enum class Kind : std::uint8_t { Kernel, Record, Wait, Release, Alloc } kind = Kind::Kernel;
  bool begun = false;
  Work* work = nullptr;
  int event = -1;
  int block = -1;
  unsigned generation = 0;
  std::shared_ptr<void> owner;  // foreign memory
  // Flavour::Cpu
  std::shared_ptr<const Launchable> launchable;
  std::vector<Access> accesses;
  std::uint64_t number = 0;
};

struct QueueState {
  int id = 0;
  std::deque<Step> steps;
  std::shared_ptr<QueueObserver> observer;
};

class ModelDevice final : public Backend {
 public:
  struct Options {
    Flavour flavour = Flavour::Gpu;
    Faults faults = Faults::None;
    Defect defect = Defect::None;
    bool events_are_asked = false;  ///< the program may ask whether an event is done, so its moment matters
    bool log = false;
  };
  ModelDevice(Choices& choices, const Options& options);
  ~ModelDevice() override;

  // -- the run --
  void allow_faults() { faults_left_ = options_.faults == Faults::None ? 0 : 1; }
  void forbid_faults() { faults_left_ = 0; }
  bool dead() const { return dead_; }
  bool fault_happened() const { return fault_happened_; }
  void heal();
  /// The host is about to do something with this footprint.
  void host(const char* what, Footprint footprint);
  void run_all();
  bool redundant() const { return redundant_; }
  bool stopped() const { return stopped_; }
  void violate(const std::string& text);
  const std::string& violation() const { return violation_; }
  void note(const std::string& line);
  const std::vector<std::string>& log() const { return log_; }

  // -- memory --
  int block_at(const void* address) const;
  Footprint block_footprint(const void* address) const;
  /// Foreign memory (one block of a device), which is marked as ended when the last reference goes.
  std::shared_ptr<void> make_foreign(void** memory);
  std::uint64_t value(const void* address) const;
  int live_blocks() const;
  int live_queues() const { return live_queues_; }
  int pending_steps() const;

  /// Called by the work of Flavour::Cpu when it runs.
  void execute(const Work& work);

  // -- Backend --
  DeviceKind kind() const noexcept override { return DeviceKind::Fake; }
  int ordinal() const noexcept override { return 0; }
  const std::string& name() const noexcept override { return name_; }
  void* allocate(std::size_t bytes) override;
  void free(void* memory, std::size_t bytes) noexcept override;
  std::unique_ptr<Queue> make_queue(bool is_default, std::shared_ptr<QueueObserver> observer) override;
  bool queues_hold_storages() const noexcept override { return options_.flavour == Flavour::Cpu; }
  void copy(void* to, const void* from, std::size_t bytes) override;
  void fill(void* to, std::uint8_t value, std::size_t bytes) override;
  bool host_accessible() const noexcept override { return true; }
  std::shared_ptr<const GraphWork> make_graph(std::shared_ptr<const GraphRecording> recording) override;

 private:
  friend class ModelQueue;
  friend class ModelEvent;
  friend class ModelGraph;
  struct Block {
    bool live = false;         // for the device, with this generation
    unsigned generation = 0;   // of the device
    unsigned handed_out = 0;   // the last generation given to the host
    bool free = true;          // may be handed out to anybody
    int free_pending_on = -1;  // a queue in which its release stands
    int readers = 0, writer = -1;
  };
  static constexpr int kBlocks = 24;
  static constexpr std::size_t kBlockBytes = 1024;  ///< the memory of a graph's temporaries is one block

  template <class Ready>
  bool host_when(const char* what, Footprint footprint, Ready ready);
  void enter(const char* what, Footprint footprint = {});
  void may_fail(const char* what);
  std::size_t actions(std::array<Action, kMaxActions>& found, std::size_t count) const;
  bool ready(const Step& step) const;
  bool invisible(const Step& step) const;
  Footprint footprint(const Step& step) const;
  void perform(QueueState& queue);
  void begin(Step& step);
  void end(QueueState& queue);
  void check_contents(const Work& work, const char* when);
  bool check_live(const Work& work);
  void end_block(int block, unsigned generation, const char* what);
  void die();
  std::byte* address(int block) { return arena_.get() + kBlockBytes * static_cast<std::size_t>(block); }
  void locate(Work& work, std::span<const Access> accesses);
  /// For an allocation on a queue, or for any queue (-1).
  int choose_block(int queue);
  void* hand_out(int block);

  Choices& choices_;
  Options options_;
  std::string name_ = "model:0";
  std::unique_ptr<std::byte[]> arena_;
  std::array<Block, kBlocks> blocks_{};
  std::vector<std::shared_ptr<QueueState>> queues_;
  std::vector<char> events_;
  int foreign_block_ = -1, live_queues_ = 0, faults_left_ = 0;
  bool dead_ = false, fault_happened_ = false, redundant_ = false, stopped_ = false, running_ = false;
  std::string violation_;
  std::vector<std::string> log_;
};

/// The work that programs submit: args[0] is the address of a Work.
std::shared_ptr<const Launchable> model_work();

}  // namespace tessera::runtime::model
