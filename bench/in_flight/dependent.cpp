// A thousand small kernels, each of which reads what the one before has written: on a stream, as a graph, and how long
// capturing and replaying takes the host. Compared with the driver's own launches of the same kernel, with and without
// programmatic dependent launch.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "in_flight/plain_driver.hpp"

namespace in_flight {
namespace {

constexpr int kBlock = 1024;
constexpr std::int64_t kElements = 4096;
constexpr unsigned kBlocks = kElements / kBlock;

void accumulate(Mut<f32, kBlock> y, Scalar<f32> s, In<f32, dyn> x) { y.store(s * y.load() + x.load_like(y)); }

#if defined(__clang__)
#pragma clang diagnostic ignored "-Wconsumed"  // it takes a tensor that is lent in a loop of a coroutine for moved
#endif
Flow<> chain(Tensor<f32, 1>& y, const Tensor<f32, 1>& x, const int& kernels) {
  for (int i = 0; i < kernels; ++i) co_await kernel<accumulate>(mut(y), 0.5f, x);
}

/// The driver's ways.
struct Plain {
  PlainKernel kernel;
  Stream stream;
  Handle native;
  Timing launched = {}, programmatic = {}, graph = {}, programmatic_graph = {}, captured = {}, added = {},
         replayed = {};

  Plain(const Options& options, const Tensor<f32, 1>& y, const Tensor<f32, 1>& x)
      : kernel(PlainKernel::make<accumulate>(options, "accumulate", kBlocks, args_of(y, x))),
        stream(options.device),
        native(stream.native()) {}
  static std::vector<std::uint64_t> args_of(const Tensor<f32, 1>& y, const Tensor<f32, 1>& x) {
    std::vector<std::uint64_t> args = tensor_args(y);
    args.push_back(number_arg(0.5f));
    for (const std::uint64_t arg : tensor_args(x)) args.push_back(arg);
    return args;
  }
  void all(int kernels) {
    for (int i = 0; i < kernels; ++i) kernel.launch(native);
  }
  void all_programmatic(int kernels) {
    for (int i = 0; i < kernels; ++i) kernel.waits() ? kernel.launch_programmatic(native) : kernel.launch(native);
  }
  void add_all(Handle graph, int kernels) {
    Handle last = nullptr;
    for (int i = 0; i < kernels; ++i) last = kernel.add_to(graph, last);
  }
  void wait() const { check(PlainDriver::get().synchronize(native), "cuStreamSynchronize"); }
};

struct Ours {
  Timing stream, flow, graph, captured, replayed;
};

void print_rows(const Ours& ours, const Plain* plain, int kernels) {
  const auto us = [&](const Timing& t) { return t.seconds() / kernels * 1e6; };
  const auto row = [&](std::string name, const Timing& t, const char* peer, const Timing* p, Asked asked,
                       std::optional<double> allocations = {}) {
    if (plain == nullptr) asked = {};
    print({std::move(name), "us a kernel", us(t), plain != nullptr ? peer : "", p != nullptr ? us(*p) : 0, asked,
           allocations});
  };
  const auto of = [&](Timing Plain::*t) { return plain != nullptr ? &(plain->*t) : nullptr; };
  const std::string n = std::to_string(kernels);
  row(n + " dependent kernels on a stream, waited for", ours.stream, "cuLaunchKernel", of(&Plain::launched),
      times(1.1));
  row("the same beside programmatic launches", ours.stream, "cuLaunchKernelEx", of(&Plain::programmatic), {});
  row("the same in a flow", ours.flow, "cuLaunchKernel", of(&Plain::launched), times(1.1));
  row("the same as a graph", ours.graph, "cuGraphLaunch", of(&Plain::graph), times(1.03));
  row("the same as a graph, beside programmatic edges", ours.graph, "cuGraphLaunch, programmatic",
      of(&Plain::programmatic_graph), most(0.75));
  Figure capture{"capture of " + n + " kernels", "ms", ours.captured.seconds() * 1e3, {}};
  Figure beside_nodes{"the same beside nodes with programmatic edges", "ms", capture.value, {}};
  Figure replay{"replay of the graph, the call alone", "us", ours.replayed.seconds() * 1e6, {}};
  if (plain != nullptr) {
    capture.peer = "capture and instantiation", capture.peer_value = plain->captured.seconds() * 1e3;
    capture.asked = most(2);
    beside_nodes.peer = "cuGraphAddNode and instantiation", beside_nodes.peer_value = plain->added.seconds() * 1e3;
    replay.peer = "cuGraphLaunch", replay.peer_value = plain->replayed.seconds() * 1e6;
    replay.allocations = ours.replayed.allocations();
  }
  print(capture);
  print(beside_nodes);
  print(replay);
}

void round(Ours& ours, Plain* plain, const Stream& stream, Tensor<f32, 1>& y, const Tensor<f32, 1>& x, int kernels) {
  const auto wait = [&] { Stream(stream).synchronize(); };
  const auto all = [&] {
    for (int i = 0; i < kernels; ++i) y = kernel<accumulate>(std::move(y), 0.5f, x).on(stream);
  };
  std::optional<Graph<void>> graph;
  ours.stream.round(1, true, all, wait);
  ours.flow.round(
      1, true, [&] { chain(y, x, kernels).on(stream); }, wait);
  ours.captured.round(
      1, false, [&] { graph.emplace(capture(chain, y, x, kernels)); }, wait);
  graph->replay().sync(stream);
  ours.graph.round(
      1, true, [&] { graph->replay().on(stream); }, wait);
  ours.replayed.round(
      1, false, [&] { graph->replay().on(stream); }, wait);
  if (plain == nullptr) return;
  const auto wait_plain = [&] { plain->wait(); };
  plain->launched.round(
      1, true, [&] { plain->all(kernels); }, wait_plain);
  plain->programmatic.round(
      1, true, [&] { plain->all_programmatic(kernels); }, wait_plain);
  std::optional<PlainGraph> own, early;
  plain->captured.round(
      1, false, [&] { own.emplace(PlainGraph::captured(plain->native, [&] { plain->all(kernels); })); }, wait_plain);
  plain->added.round(
      1, false, [&] { early.emplace(PlainGraph::added([&](Handle graph) { plain->add_all(graph, kernels); })); },
      wait_plain);
  const auto launch = [&](PlainGraph& g) {
    g.launch(plain->native);  // the first launch uploads it
    plain->wait();
  };
  launch(*own), launch(*early);
  plain->graph.round(
      1, true, [&] { own->launch(plain->native); }, wait_plain);
  plain->programmatic_graph.round(
      1, true, [&] { early->launch(plain->native); }, wait_plain);
  plain->replayed.round(
      1, false, [&] { own->launch(plain->native); }, wait_plain);
}

}  // namespace

void measure_dependent(const Options& options) {
  const int kernels = options.count(1000, 10);
  const Stream stream(options.device);
  const auto x = ones<f32>({kElements}).sync();
  auto y = zeros<f32>({kElements}).sync();
  auto z = zeros<f32>({kElements}).sync();  // the driver's
  std::optional<Plain> plain;
  if (options.has_driver()) plain.emplace(options, z, x);
  Ours ours;
  {
    Ours warm;
    round(warm, nullptr, stream, y, x, kernels);
  }
  for (int i = 0; i < options.count(21, 2); ++i) round(ours, plain ? &*plain : nullptr, stream, y, x, kernels);
  if (options.executes) {
    const float found = host(y).sync()[kElements - 1];  // converges to 2
    if (!(found > 1.99f && found < 2.01f)) throw DeviceError("the chain of kernels computes a wrong number");
  }
  print_rows(ours, plain ? &*plain : nullptr, kernels);
}

}  // namespace in_flight
