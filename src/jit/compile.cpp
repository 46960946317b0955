// Compiling with an in-memory cache: equal modules are compiled once per device, concurrent requests for one wait for
// the first.
#include "tessera/jit/compile.hpp"

#include <mutex>
#include <unordered_map>

#include "jit/cpu_work.hpp"
#include "jit/pipeline.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/ir/bytecode.hpp"

namespace tessera::jit {
namespace {

struct Entry {
  std::mutex mutex;  // held while compiling
  std::shared_ptr<const runtime::Launchable> work;
};

class Cache {
 public:
  std::shared_ptr<Entry> entry(const std::string& key) {
    const std::lock_guard lock(mutex_);
    std::shared_ptr<Entry>& e = entries_[key];
    if (!e) e = std::make_shared<Entry>();
    return e;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<Entry>> entries_;
};

/// Never destroyed: streams may still run work while the process ends.
Cache& cache() {
  static Cache* const instance = new Cache;
  return *instance;
}

/// Everything that the code depends on. The bytecode is with locations: errors name them.
std::string key_of(const ir::Module& module, Device device, const CompileOptions& options) {
  const std::vector<std::byte> bytes = ir::write_bytecode(module);
  std::string key = concat(device.name(), options.checked ? "\nchecked\n" : "\n");
  if (options.checked) {
    for (const TensorArgument& t : options.tensors) key += concat(t.slot, " ", t.label, "\n");
  }
  key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return key;
}

std::shared_ptr<const runtime::Launchable> generate(const ir::Module& module, Device device,
                                                    const CompileOptions& options) {
  switch (device.kind()) {
    case DeviceKind::Cpu:
    case DeviceKind::Fake: return make_cpu_work(cpu::Program::compile(module), options);
    case DeviceKind::Cuda: break;
  }
  throw CompileError(concat("kernel ", options.label, " cannot be compiled for ", device.name(),
                            ": this build of Tessera has no code generation for GPUs yet. Use Device::cpu()."));
}

}  // namespace

std::shared_ptr<const runtime::Launchable> compile(const ir::Module& module, Device device,
                                                   const CompileOptions& options) {
  const std::unique_ptr<ir::Module> ready = prepared(module);
  const std::shared_ptr<Entry> entry = cache().entry(key_of(*ready, device, options));
  const std::lock_guard lock(entry->mutex);
  if (!entry->work) {
    dump(*ready, options.label);
    entry->work = generate(*ready, device, options);
  }
  return entry->work;
}

}  // namespace tessera::jit
