// The driver's own API, which Tessera's launches are compared with: the same kernels, built by the same compiler,
// launched by cuLaunchKernel and cuLaunchKernelEx ("CUDA Driver API" reference, 13.0).
#pragma once
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "in_flight/figures.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/host/contract.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/lang/handles.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/storage.hpp"

namespace in_flight {

using Handle = void*;  // of a stream, a module, a function, a graph

/// CUlaunchConfig and CUlaunchAttribute.
struct LaunchAttribute {
  static constexpr int kProgrammaticStreamSerialization = 6;
  int id = kProgrammaticStreamSerialization, pad = 0, allowed = 1;
  char rest[60] = {};
};
static_assert(sizeof(LaunchAttribute) == 72);
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared_bytes = 0;
  Handle stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchConfig) == 56);

/// CUgraphNodeParams of a kernel (CUDA_KERNEL_NODE_PARAMS_v3), and CUgraphEdgeData.
struct KernelNode {
  int type = 0, reserved[3] = {};  // CU_GRAPH_NODE_TYPE_KERNEL
  Handle function = nullptr;
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared_bytes = 0;
  void** arguments = nullptr;
  Handle others[3] = {};
  char rest[168] = {};
};
static_assert(sizeof(KernelNode) == 256);
struct Edge {
  unsigned char from_port = 0, to_port = 0, type = 0, reserved[5] = {};
};
inline constexpr Edge kProgrammatic = {1, 0, 1};

/// The functions of the driver that the library has loaded. Throws DeviceError where one is missing.
struct PlainDriver {
  int (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**,
                void**) = nullptr;
  int (*launch_ex)(const LaunchConfig*, Handle, void**, void**) = nullptr;
  int (*synchronize)(Handle) = nullptr;
  int (*copy)(std::uint64_t, std::uint64_t, std::size_t, Handle) = nullptr;
  int (*load)(Handle*, const void*, unsigned, int*, void**) = nullptr;
  int (*find)(Handle*, Handle, const char*) = nullptr;
  int (*begin_capture)(Handle, int) = nullptr;
  int (*end_capture)(Handle, Handle*) = nullptr;
  int (*create_graph)(Handle*, unsigned) = nullptr;
  int (*add_node)(Handle*, Handle, const Handle*, const Edge*, std::size_t, KernelNode*) = nullptr;
  int (*instantiate)(Handle*, Handle, unsigned long long) = nullptr;
  int (*launch_graph)(Handle, Handle) = nullptr;
  int (*destroy_exec)(Handle) = nullptr;
  int (*destroy_graph)(Handle) = nullptr;

  static const PlainDriver& get();
};
/// Throws DeviceError unless a driver's call has succeeded.
void check(int result, const char* call);

/// A kernel with its arguments, as the driver takes them.
class PlainKernel {
 public:
  /// Kernel `K` with an argument per parameter: the tensors, which have one axis and no gaps, and the bits of numbers.
  template <auto K>
  static PlainKernel make(const Options& options, const char* name, unsigned blocks, std::vector<std::uint64_t> args) {
    std::vector<lang::ParamInfo> params = lang::kernel_param_infos<K>();
    lang::lay_out(params);
    lang::Specialization specialization;
    for (const lang::ParamInfo& p : params)
      if (p.is_tensor()) specialization.tensors.push_back({p.rank - 1, 0, (1u << p.rank) - 1});
    return PlainKernel(options, name, blocks, lang::trace<K>(specialization), detail::launch_contract(params, false),
                       std::move(args));
  }
  void launch(Handle stream) {
    check(driver_.launch(function_, blocks_, 1, 1, 1, 1, 1, 0, stream, pointers_.data(), nullptr), "cuLaunchKernel");
  }
  /// May start before its predecessor has ended; its code waits for it.
  void launch_programmatic(Handle stream) {
    LaunchAttribute attribute;
    LaunchConfig config;
    config.grid[0] = blocks_;
    config.stream = stream;
    config.attributes = &attribute;
    config.attribute_count = 1;
    check(driver_.launch_ex(&config, function_, pointers_.data(), nullptr), "cuLaunchKernelEx");
  }
  /// As a node of `graph` behind `previous`, if that is not null; the edge is programmatic if the code waits.
  Handle add_to(Handle graph, Handle previous) {
    KernelNode parameters;
    parameters.function = function_;
    parameters.grid[0] = blocks_;
    parameters.arguments = pointers_.data();
    Handle node = nullptr;
    check(driver_.add_node(&node, graph, &previous, waits_ ? &kProgrammatic : nullptr, previous == nullptr ? 0 : 1,
                           &parameters),
          "cuGraphAddNode");
    return node;
  }
  /// Without the instruction that waits it must start after its predecessor has ended.
  bool waits() const { return waits_; }

 private:
  PlainKernel(const Options&, const char* name, unsigned blocks, const lang::Trace&, const analysis::LaunchContract&,
              std::vector<std::uint64_t> args);
  const PlainDriver& driver_ = PlainDriver::get();
  Handle function_ = nullptr;
  unsigned blocks_;
  bool waits_ = false;
  std::vector<std::uint64_t> args_;
  std::vector<void*> pointers_;
};

/// The three arguments of a tensor with one axis.
inline std::vector<std::uint64_t> tensor_args(const Tensor<f32, 1>& t) {
  return {reinterpret_cast<std::uintptr_t>(detail::Reach::layout(t).storage->data()),
          static_cast<std::uint64_t>(t.size()), 1};
}
inline std::uint64_t number_arg(float v) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}

/// An executable CUDA graph.
class PlainGraph {
 public:
  /// What `enqueue` enqueues on a stream that captures.
  template <class F>
  static PlainGraph captured(Handle stream, F&& enqueue) {
    const PlainDriver& driver = PlainDriver::get();
    constexpr int kThreadLocal = 1;
    check(driver.begin_capture(stream, kThreadLocal), "cuStreamBeginCapture");
    enqueue();
    Handle graph = nullptr;
    check(driver.end_capture(stream, &graph), "cuStreamEndCapture");
    return PlainGraph(graph);
  }
  /// The nodes that `add` adds to an empty graph.
  template <class F>
  static PlainGraph added(F&& add) {
    Handle graph = nullptr;
    check(PlainDriver::get().create_graph(&graph, 0), "cuGraphCreate");
    add(graph);
    return PlainGraph(graph);
  }
  ~PlainGraph() {
    if (exec_ != nullptr) driver_.destroy_exec(exec_);
  }
  PlainGraph(PlainGraph&& other) noexcept : exec_(std::exchange(other.exec_, nullptr)) {}
  PlainGraph& operator=(PlainGraph&&) = delete;
  void launch(Handle stream) { check(driver_.launch_graph(exec_, stream), "cuGraphLaunch"); }

 private:
  explicit PlainGraph(Handle graph) {
    const int result = driver_.instantiate(&exec_, graph, 0);
    driver_.destroy_graph(graph);
    check(result, "cuGraphInstantiateWithFlags");
  }
  const PlainDriver& driver_ = PlainDriver::get();
  Handle exec_ = nullptr;
};

}  // namespace in_flight
