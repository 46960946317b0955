// Runs a cpu::Program when its turn on a stream comes; in checked mode it passes the program which memory belongs to
// which argument.
#include "jit/load/cpu_work.hpp"

#include "tessera/runtime/storage.hpp"

namespace tessera::jit {
namespace {

class CpuWork final : public runtime::Launchable {
 public:
  CpuWork(std::shared_ptr<const cpu::Program> program, const CompileOptions& options)
      : program_(std::move(program)), checked_(options.checked), tensors_(options.tensors) {}

  void launch(const runtime::LaunchContext& c) const override {
    const cpu::Grid grid{c.grid.x, c.grid.y, c.grid.z};
    if (!checked_) return program_->run(grid, c.args);
    std::vector<cpu::Region> regions;
    for (const runtime::Access& access : c.accesses) {
      regions.push_back(
          {access.storage->data(), access.storage->bytes(), label(c, *access.storage), access.storage->written_map()});
    }
    cpu::RunOptions options;
    options.checked = true;
    options.regions = regions;
    program_->run(grid, c.args, options);
  }

 private:
  /// "argument 1 (Mut<f32, 128>)"; several arguments may read one storage.
  std::string label(const runtime::LaunchContext& c, const runtime::Storage& storage) const {
    std::string text;
    const auto begin = reinterpret_cast<std::uintptr_t>(storage.data());
    for (const TensorArgument& t : tensors_) {
      const std::uint64_t address = c.args[static_cast<std::size_t>(t.slot)];
      const bool inside =
          address >= begin && (address < begin + storage.bytes() || (address == begin && storage.bytes() == 0));
      if (inside) text += (text.empty() ? "" : ", ") + t.label;
    }
    return text.empty() ? storage.label() : text;
  }

  std::shared_ptr<const cpu::Program> program_;
  bool checked_;
  std::vector<TensorArgument> tensors_;
};

}  // namespace

std::shared_ptr<const runtime::Launchable> make_cpu_work(std::shared_ptr<const cpu::Program> program,
                                                         const CompileOptions& options) {
  return std::make_shared<const CpuWork>(std::move(program), options);
}

}  // namespace tessera::jit
