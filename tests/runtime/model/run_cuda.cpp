// The CUDA backend over the fake driver as a world. The host runs ahead of the device; whenever a call waits, and at
// random between calls, the choices say which stream runs its next step and which dependent kernel starts.
#include <array>
#include <cstring>
#include <map>
#include <utility>

#include "runtime/cuda/backend.hpp"
#include "runtime/cuda_fake_driver.hpp"
#include "runtime/model/world.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/cuda.hpp"

namespace tessera::runtime::model {

namespace {

using cuda::fake::Call;
using cuda::fake::FakeDriver;
using cuda::fake::Fn;

constexpr int kFaultResult = 1;
constexpr int kMaxOperations = 64;
constexpr const char* kInjectedText = "as injected";

/// The calls that fail by choice: one of each kind, since each text of the runtime is a place of its own.
bool may_fail(Fn fn) {
  switch (fn) {
    case Fn::cuLaunchKernel:
    case Fn::cuLaunchKernelEx:
    case Fn::cuStreamCreate:
    case Fn::cuEventCreate:
    case Fn::cuEventRecord:
    case Fn::cuStreamWaitEvent:
    case Fn::cuEventSynchronize:
    case Fn::cuMemAllocFromPoolAsync:
    case Fn::cuMemFreeAsync:
    case Fn::cuMemcpyAsync:
    case Fn::cuGraphCreate:
    case Fn::cuGraphAddKernelNode:
    case Fn::cuGraphAddNode:
    case Fn::cuGraphInstantiateWithFlags:
    case Fn::cuGraphExecKernelNodeSetParams:
    case Fn::cuGraphLaunch:
    case Fn::cuStreamSynchronize: return true;
    default: return false;
  }
}

class CudaWorld final : public World, FakeDriver::Scheduler {
 public:
  CudaWorld(Choices& choices, bool faults, bool log) : choices_(choices), faults_(faults), log_lines_(log) {
    active = this;
    driver_.add_kernel(
        "early", {4, [](const Call& call) { run_kernel(call); }, [](Call& call) { active->kernel_starts(call); }});
    driver_.add_kernel("plain", {3, [](const Call& call) { run_kernel(call); }});
    driver_.add_kernel("checked", {4, [](const Call& call) { run_kernel(call); }});
    backend_ = std::make_unique<cuda::CudaBackend>(driver_.table(), 0);
    early_ = load("early"), plain_ = load("plain"), checked_ = load("checked");
    driver_.set_scheduler(this);
  }
  ~CudaWorld() override {
    driver_.set_scheduler(nullptr);
    active = nullptr;  // what a deadlock has left does nothing any more
  }

  Outcome outcome() const { return {violation_, redundant_, log_}; }

  // -- World --
  Device device() override { return Device(*backend_); }
  void allow_faults(bool allow) override { faults_left_ = allow && faults_ ? 1 : 0; }
  bool stopped() const override { return stopped_; }
  void violate(const std::string& text) override {
    if (!violation_.empty() || redundant_) return;
    violation_ = text;
    stopped_ = true;
    note(concat("violation: ", text));
  }
  void note(const std::string& line) override {
    if (log_lines_) log_.push_back(line);
  }
  void run_all() override { driver_.run_all(); }
  std::string left() override {
    early_.reset(), plain_.reset(), checked_.reset();
    backend_.reset();
    driver_.run_all();
    if (const std::string misuse = driver_.violation(); !misuse.empty()) violate(misuse);
    return driver_.leaks();
  }
  Ticket submit(StreamCore& stream, Work& work, std::span<const Access> accesses) override {
    const auto address = [](const Access& access) {
      return std::uint64_t{reinterpret_cast<std::uintptr_t>(access.storage->data())};
    };
    const std::array<std::uint64_t, 3> args{address(accesses.front()), address(accesses.back()),
                                            reinterpret_cast<std::uintptr_t>(&work)};
    const auto& kernel = work.fails ? checked_ : work.overwrites ? plain_ : early_;
    static constexpr std::uint16_t kAddresses[] = {0, 1};
    Submission submission{kernel, {}, args, accesses, "work", {}};
    submission.movable = accesses.size() == 2;
    submission.addresses = kAddresses;
    return GraphNotes(work, work_slot()).submit(stream, submission);
  }
  std::size_t work_slot() const override { return 2; }
  Ended classify() override {
    constexpr const char* kFailed = "assertion failed: operation ";
    try {
      throw;
    } catch (const DeviceError& error) {
      const std::string& text = error.message();
      const std::size_t at = text.find(kFailed);
      if (at != std::string::npos) return {Ended::How::Failed, std::stoi(text.substr(at + std::strlen(kFailed))), ""};
      const bool injected = text.find(kInjectedText) != std::string::npos;
      return {injected ? Ended::How::Injected : Ended::How::Strange, -1, text};
    } catch (const std::exception& error) { return {Ended::How::Strange, -1, error.what()}; }
  }
  bool failed_writes_write() const override { return true; }
  bool failures_come_late() const override { return true; }
  std::shared_ptr<void> make_foreign(void**) override { throw InternalError("no borrowed memory in this world"); }

 private:
  static inline CudaWorld* active = nullptr;
  static void run_kernel(const Call& call) {
    if (active != nullptr) active->kernel_ends(call);
  }

  std::shared_ptr<const Launchable> load(const std::string& name) {
    const auto bytes = FakeDriver::image(name, name == "early");
    cuda::KernelImage image;
    image.cubin = bytes;
    image.abi.entry = image.label = name;
    image.abi.num_args = 3;
    image.abi.programmatic_launch = image.abi.launch_flags = name == "early";
    if (name == "early") image.abi.early_reads = {1, 0};
    for (int i = 0; i < kMaxOperations && name == "checked"; ++i)
      image.abi.checks.push_back({concat("operation ", i), {"model.cpp", "", 1}});
    return cuda::load_kernel(device(), image);
  }

  // -- scheduling --
  void before_call(Fn fn) override {
    if (running_ || stopped_) return;
    while (!choices_.reduced() && choices_.pick(3) == 2) {
      if (!run_one()) break;
    }
    if (faults_left_ == 0 || !may_fail(fn) || choices_.pick(2) == 0) return;
    --faults_left_;
    note(concat("host: ", cuda::fake::name(fn), " fails"));
    driver_.fail_next(fn, kFaultResult);
  }
  std::uint64_t bit(std::uint64_t address) {
    if (address == 0) return 0;
    const auto [at, is_new] = bits_.try_emplace(address, bits_.size() % 60);
    return std::uint64_t{1} << at->second;
  }
  Action model_action(const FakeDriver::Action& action) {
    Action made{static_cast<std::uint8_t>(action.stream + 1), static_cast<std::uint8_t>(action.early ? 1 : 0), {}};
    for (const std::uint64_t memory : action.memory) made.footprint.writes |= bit(memory);
    if (action.args.empty()) return made;
    const auto& work = work_of(action.args);
    for (std::size_t i = 0; i < 2; ++i) {
      const bool written = i == 0 && !action.early && work.touches[0].mode != AccessMode::Read;
      (written ? made.footprint.writes : made.footprint.reads) |= bit(action.args[i]);
    }
    return made;
  }
  bool run_one() override {
    if (running_) return false;
    const std::vector<FakeDriver::Action> possible = driver_.actions();
    if (possible.empty()) return false;
    std::size_t chosen = possible.size();
    for (std::size_t i = 0; i < possible.size() && (stopped_ || choices_.reduced()); ++i) {
      if (possible[i].orders || stopped_) chosen = i;  // nothing depends on the moment of these
    }
    if (chosen == possible.size()) {
      std::array<Action, kMaxActions> actions;
      const std::size_t count = std::min(possible.size(), actions.size());
      for (std::size_t i = 0; i < count; ++i) actions[i] = model_action(possible[i]);
      const unsigned choice = choices_.schedule({actions.data(), count});
      if (choice == Choices::kRedundant) redundant_ = stopped_ = true;
      chosen = choice == Choices::kRedundant ? 0 : choice;
    }
    running_ = true;
    driver_.perform(possible[chosen]);
    running_ = false;
    return true;
  }

  // -- kernels --
  static const Work& work_of(std::span<const std::uint64_t> args) {
    return *reinterpret_cast<const Work*>(static_cast<std::uintptr_t>(args[2]));
  }
  /// Argument `i` of the kernel, which must have the contents of the sequential program.
  std::uint64_t checked_read(const Call& call, const Work& work, std::size_t i, const char* when) {
    const auto* memory = static_cast<const std::uint64_t*>(call.memory(i, 8));
    if (memory == nullptr) {
      violate(concat("operation ", work.operation, " uses memory that is not ready, or has been freed, ", when));
      return 0;
    }
    const Work::Touch& touch = work.touches[std::min(i, work.touches.size() - 1)];
    if (touch.known && *memory != touch.before)
      violate(
          concat("operation ", work.operation, " finds, ", when, ", other contents than those of the program's order"));
    return *memory;
  }
  void kernel_starts(Call& call) {
    const Work& work = work_of(call.args);
    note(concat("device: operation ", work.operation, " starts before its predecessor has ended, launch flags ",
                call.args[3] & 3));
    call.kept.assign(2, 0);
    for (std::size_t i = 0; i < 2; ++i) {
      if ((call.args[3] >> (1 - i) & 1) != 0) call.kept[i] = checked_read(call, work, i, "before it waits");
    }
  }
  void kernel_ends(const Call& call) {
    const Work& work = work_of(call.args);
    note(concat("device: operation ", work.operation, " runs"));
    const bool early = !call.kept.empty();
    std::uint64_t values[2] = {checked_read(call, work, 0, "at its end"), checked_read(call, work, 1, "at its end")};
    for (std::size_t i = 0; early && i < 2; ++i) {
      if ((call.args[3] >> (1 - i) & 1) != 0) values[i] = call.kept[i];
    }
    if (stopped_ || work.touches[0].mode == AccessMode::Read) return;
    const std::uint64_t y = work.fails        ? kGarbage
                            : work.overwrites ? work.addend
                                              : mixed(values[0], values[1], work.addend);
    std::memcpy(call.memory(0, 8), &y, sizeof y);
    if (work.fails) *reinterpret_cast<volatile std::int32_t*>(call.args[3]) = work.operation + 1;
  }

  Choices& choices_;
  bool faults_, log_lines_, stopped_ = false, redundant_ = false, running_ = false;
  int faults_left_ = 0;
  std::string violation_;
  std::vector<std::string> log_;
  std::map<std::uint64_t, std::size_t> bits_;
  FakeDriver driver_;
  std::unique_ptr<cuda::CudaBackend> backend_;
  std::shared_ptr<const Launchable> early_, plain_, checked_;
};

}  // namespace

Outcome run_cuda(const Program& program, const Setting& setting, Choices& choices, bool log) {
  CudaWorld world(choices, setting.fault != Setting::Fault::None, log);
  interpret(program, world, choices, false);
  return world.outcome();
}

}  // namespace tessera::runtime::model
