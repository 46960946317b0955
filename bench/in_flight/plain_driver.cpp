// Finding the driver's functions; building a kernel for it.
#include "in_flight/plain_driver.hpp"

#include <dlfcn.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "tessera/base/format.hpp"

namespace in_flight {

const PlainDriver& PlainDriver::get() {
  static const PlainDriver driver = [] {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    using Find = int (*)(const char*, void**, int, std::uint64_t, int*);
    const auto find = library == nullptr ? nullptr : reinterpret_cast<Find>(dlsym(library, "cuGetProcAddress_v2"));
    if (find == nullptr) throw DeviceError("there is no driver to compare with");
    PlainDriver d;
    const auto get = [&](auto& function, const char* name, int version) {
      void* found = nullptr;
      int status = 0;
      if (find(name, &found, version, 0, &status) != 0 || found == nullptr)
        throw DeviceError(concat("this driver has no ", name));
      std::memcpy(&function, &found, sizeof found);
    };
    get(d.launch, "cuLaunchKernel", 4000);
    get(d.launch_ex, "cuLaunchKernelEx", 11060);
    get(d.synchronize, "cuStreamSynchronize", 2000);
    get(d.copy, "cuMemcpyAsync", 4000);
    get(d.load, "cuModuleLoadDataEx", 2010);
    get(d.find, "cuModuleGetFunction", 2000);
    get(d.begin_capture, "cuStreamBeginCapture", 10010);
    get(d.end_capture, "cuStreamEndCapture", 10000);
    get(d.create_graph, "cuGraphCreate", 10000);
    get(d.add_node, "cuGraphAddNode", 12030);
    get(d.instantiate, "cuGraphInstantiateWithFlags", 11040);
    get(d.launch_graph, "cuGraphLaunch", 10000);
    get(d.destroy_exec, "cuGraphExecDestroy", 10000);
    get(d.destroy_graph, "cuGraphDestroy", 10000);
    return d;
  }();
  return driver;
}

void check(int result, const char* call) {
  if (result != 0) throw DeviceError(concat(call, " failed with error ", result));
}

PlainKernel::PlainKernel(const Options& options, const char* name, unsigned blocks, const lang::Trace& trace,
                         const analysis::LaunchContract& contract, std::vector<std::uint64_t> args)
    : blocks_(blocks), args_(std::move(args)) {
  const auto facts = analysis::Facts::analyze(*trace.module, contract);
  const std::size_t predicates = facts.obligations().size();
  const std::uint64_t all_hold = predicates >= 64 ? ~0ull : (1ull << predicates) - 1;
  const jit::Build build = jit::build(*trace.module, contract, all_hold,
                                      jit::target_for(runtime::cuda::device_info(options.device).sm()), name);
  if (static_cast<std::size_t>(build.choices.abi.num_args) != args_.size())
    throw DeviceError(concat(name, " takes ", build.choices.abi.num_args, " arguments, found ", args_.size()));
  waits_ = build.choices.abi.programmatic_launch;
  blocks_ =
      (blocks + static_cast<unsigned>(build.choices.abi.pieces) - 1) / static_cast<unsigned>(build.choices.abi.pieces);
  if (build.choices.abi.launch_flags) args_.push_back(0);
  Handle module = nullptr;
  check(driver_.load(&module, build.cubin.code.cubin.data(), 0, nullptr, nullptr), "cuModuleLoadDataEx");
  check(driver_.find(&function_, module, build.choices.abi.entry.c_str()), "cuModuleGetFunction");
  for (std::uint64_t& arg : args_) pointers_.push_back(&arg);
}

}  // namespace in_flight
