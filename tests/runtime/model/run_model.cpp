// The model device as a world.
#include "runtime/model/device.hpp"
#include "runtime/model/run.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::model {

namespace {

class ModelWorld final : public World {
 public:
  ModelWorld(Choices& choices, const ModelDevice::Options& options) : device_(choices, options) {}
  const ModelDevice& model() const { return device_; }

  Device device() override { return Device(device_); }
  void allow_faults(bool allow) override { allow ? device_.allow_faults() : device_.forbid_faults(); }
  bool stopped() const override { return device_.stopped(); }
  bool dead() const override { return device_.dead(); }
  void heal() override { device_.heal(); }
  void violate(const std::string& text) override { device_.violate(text); }
  void note(const std::string& line) override { device_.note(line); }
  /// Where queues hold storages, dropping the last reference frees memory at once.
  void before_drop(const Storage& storage) override {
    if (device_.queues_hold_storages()) device_.host("drop a tensor", device_.block_footprint(storage.data()));
  }
  void run_all() override { device_.run_all(); }
  std::string left() override {
    std::string text;
    const auto add = [&](int n, const char* what) {
      if (n != 0) text += concat(text.empty() ? "" : ", ", n, " ", what);
    };
    add(device_.live_blocks(), "blocks of memory");
    add(device_.live_queues(), "queues");
    add(device_.pending_steps(), "steps");
    return text;
  }
  Ticket submit(StreamCore& stream, Work& work, std::span<const Access> accesses) override {
    const std::uint64_t arg = reinterpret_cast<std::uintptr_t>(&work);
    Submission submission{model_work(), {}, {&arg, 1}, accesses, "work", {}};
    submission.movable = true;
    return GraphNotes(work, work_slot()).submit(stream, submission);
  }
  std::size_t work_slot() const override { return 0; }
  Ended classify() override {
    try {
      throw;
    } catch (const WorkFailed& failed) {
      return {Ended::How::Failed, failed.operation, ""};
    } catch (const DeviceError& error) {
      const bool injected = error.message().find(kInjected) != std::string::npos;
      return {injected ? Ended::How::Injected : Ended::How::Strange, -1, error.message()};
    } catch (const std::exception& error) { return {Ended::How::Strange, -1, error.what()}; }
  }
  std::shared_ptr<void> make_foreign(void** memory) override { return device_.make_foreign(memory); }

 private:
  ModelDevice device_;
};

}  // namespace

Outcome run_model(const Program& program, const Setting& setting, Choices& choices, bool log) {
  ModelDevice::Options options;
  options.flavour = setting.on == Setting::On::Cpu ? Flavour::Cpu : Flavour::Gpu;
  options.faults = static_cast<Faults>(setting.fault);
  options.defect = static_cast<Defect>(setting.defect);
  options.log = log;
  int streams = 0;
  for (const Operation& op : program)
    streams = std::max<int>(streams, op.stream + 1) + (op.kind == Kind::Restart ? 1 : 0);
  options.events_are_asked = streams > static_cast<int>(kInlineReads);
  ModelWorld world(choices, options);
  interpret(program, world, choices, setting.foreign);
  return {world.model().violation(), world.model().redundant(), world.model().log()};
}

}  // namespace tessera::runtime::model
