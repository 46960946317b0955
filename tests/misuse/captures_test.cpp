// Misuse of captures: what is captured, whose tensors, the stream of a scope, graphs in graphs, and the numbers of a
// graph.
#include <functional>
#include <optional>
#include <thread>

#include "host/far_device.hpp"
#include "misuse/kernels.hpp"
#include "misuse/misuse.hpp"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wconsumed"  // uses of tensors that were given are what these rows are about
#endif

namespace tessera {
namespace {

using misuse::Outcome;
using misuse::saxpy;
void add_some(Mut<i32, 32> y, Scalar<i32> n) {
  require(n > 0, "n must be positive");
  y.store(y.load() + n);
}

/// y += 2.
Op<void> add_two(Tensor<f32, 1>& y, SourceLocation where = SourceLocation::current()) {
  return kernel<saxpy<32>>(mut(y, where), 2.0f, ones<f32>({5}, where), where);
}

// ---- what is captured ----------------------------------------------------------------------------------------------

MISUSE(CaptureOfSpentWork, "capture") {
  auto& y = c.out<f32, 1>({5});
  const std::vector<std::string> says{"BorrowError", "has been run or moved already"};
  const int wrong = c.other({{"an operation that was moved", Outcome::Rejected, says},
                             {"an operation that is part of another", Outcome::Rejected, says},
                             {"a flow that was run", Outcome::Rejected, says},
                             {"a flow that was moved", Outcome::Rejected, says},
                             {"a function that returns a moved operation", Outcome::Rejected, says},
                             {"a flow that was captured", Outcome::Rejected, says}});
  const auto nothing = []() -> Flow<> { co_return; };
  auto op = add_two(y);
  auto flow = nothing();
  std::optional<Op<void>> other;
  std::optional<Flow<>> moved;
  if (wrong == 0 || wrong == 4) other = std::move(op);
  auto z = ones<f32>({5}).sync();
  if (wrong == 1) other = all(std::move(op), add_two(z));
  if (wrong == 2) std::move(flow).sync();
  if (wrong == 3) moved = std::move(flow);
  if (wrong == 5) auto first = capture(std::move(flow));
  if (wrong == 2 || wrong == 3 || wrong == 5) auto second = capture(std::move(flow));
  if (wrong == 4) auto third = capture([&] { return std::move(op).then([&] { return add_two(y); }); });
  const auto graph = capture(std::move(op));
  graph.replay().sync();
  c.result(y);
}
MISUSE(CaptureOfNoFunction, "capture") {
  auto& y = c.out<f32, 1>({5});
  const std::vector<std::string> says{"BorrowError", "null function"};
  const int wrong = c.other({{"a null pointer", Outcome::Rejected, says},
                             {"an empty std::function", Outcome::Rejected, says},
                             {"an empty std::function, a scope", Outcome::Rejected, says},
                             {"then: an empty std::function", Outcome::Rejected, says}});
  Op<void> (*const pointer)(Tensor<f32, 1>&) = nullptr;
  const std::function<Op<void>(Tensor<f32, 1>&)> good = [](Tensor<f32, 1>& t) { return add_two(t); }, empty;
  const std::function<void(const Stream&, Tensor<f32, 1>&)> no_scope;
  const std::function<Op<void>()> no_step;
  if (wrong == 3) add_two(y).then(no_step).sync();
  const auto where = SourceLocation::current();
  try {
    if (wrong == 0) (void)capture(pointer, y);
    if (wrong == 1) (void)capture(empty, y);
    if (wrong == 2) (void)capture(no_scope, y);
  } catch (const BorrowError& error) {  // capture() ends with a pack, so its errors have no line of the user's
    EXPECT_FALSE(error.where().known());
    throw BorrowError(error.message(), where);
  }
  const auto graph = capture(good, y);
  graph.replay().sync();
  c.result(y);
}
MISUSE(CaptureOfATensorInUse, "capture") {
  const int wrong = c.other({{"an operation that has not run reads it", Outcome::Rejected, {"BorrowError", "write"}},
                             {"an operation that has not run writes it", Outcome::Rejected, {"BorrowError"}},
                             {"another graph's replay that has not run writes it", Outcome::Rejected, {"BorrowError"}},
                             {"it is exported for reading", Outcome::Rejected, {"BorrowError", "to_dlpack"}},
                             {"an operation of the flow writes it and is kept", Outcome::Rejected, {"BorrowError"}},
                             {"an operation of the flow reads it and is kept", Outcome::Rejected, {"BorrowError"}}});
  auto t = ones<f32>({5}).sync();
  auto first = capture([](Tensor<f32, 1>& u) { return add_two(u); }, t);
  std::optional<Op<std::vector<f32>>> reader;
  std::optional<Op<void>> writer;
  dlpack::Ptr<dlpack::ManagedTensorVersioned> exported;
  if (wrong == 0) reader = host(t);
  if (wrong == 1) writer = copy_into(mut(t), zeros<f32>({5}));
  if (wrong == 2) writer = first.replay();
  if (wrong == 3) exported = to_dlpack(t.view());
  const auto flow = [](Tensor<f32, 1>& u, auto& w, auto& r, int n) -> Flow<> {
    if (n == 4) w = copy_into(mut(u), zeros<f32>(Dims(5)));
    if (n == 5) r = host(u);
    co_await add_two(u);
  };
  const auto graph = capture(flow, t, writer, reader, wrong);
  graph.replay().sync();
  c.result(t);
}
MISUSE(CaptureOfEmptyOperands, "capture") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"a given tensor", Outcome::Rejected, {"BorrowError", "empty"}},
                             {"a referred tensor", Outcome::Rejected, {"BorrowError", "empty"}},
                             {"a view", Outcome::Rejected, {"BorrowError", "empty"}},
                             {"a Shared", Outcome::Rejected, {"BorrowError", "empty"}},
                             {"a pinned buffer", Outcome::Rejected, {"BorrowError", "HostBuffer is empty"}}});
  const auto copies = [](const auto& t) { return clone(t); };
  const Tensor<f32, 1> none;
  if (wrong == 0) (void)capture([](Tensor<f32, 1>& t) { return add_two(t); }, Tensor<f32, 1>());
  if (wrong == 1) (void)capture(copies, none);
  if (wrong == 2) (void)capture(copies, View<f32, 1>());
  if (wrong == 3) (void)capture(copies, Shared<f32, 1>());
  if (wrong == 4) (void)capture([](const HostBuffer<f32>& b) { return from(b, Dims(5)); }, HostBuffer<f32>());
  const auto graph = capture([](Tensor<f32, 1>& u) { return add_two(u); }, y);
  graph.replay().sync();
  c.result(y);
}
MISUSE(CaptureOfAnotherDevice, "capture") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"it reads a tensor of another device", Outcome::Rejected, {"DeviceError", "far", "cpu"}},
                             {"it writes a tensor of another device", Outcome::Rejected, {"DeviceError", "far", "cpu"}},
                             {"a loop of it does", Outcome::Rejected, {"DeviceError", "far", "cpu"}}});
  static runtime::FarDevice& far = *new runtime::FarDevice;
  auto there = zeros<f32>({5}).sync(Stream::default_of(Device(far)));
  const auto n = zeros<i32>({1}).sync();
  const auto flow = [](Tensor<f32, 1>& t, Tensor<f32, 1>& u, const Tensor<i32, 1>& k, int how) -> Flow<> {
    if (how == 0) (void)co_await clone(u);
    if (how == 1) co_await kernel<saxpy<32>>(mut(u), 2.0f, t);
    if (how == 2) co_await graph_while(k, [&] { return kernel<saxpy<32>>(mut(t), 2.0f, u); });
    co_await add_two(t);
  };
  const auto graph = capture(flow, y, there, n, wrong);
  graph.replay().sync();
  c.result(y);
}

// ---- the stream of a scope -----------------------------------------------------------------------------------------

MISUSE(ScopeThatWaits, "capture") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"sync() on its stream", Outcome::Rejected, {"DeviceError", "captured", ".on(stream)"}},
                             {"sync() of a flow on its stream", Outcome::Rejected, {"DeviceError", "captured"}},
                             {"a readback on its stream", Outcome::Rejected, {"DeviceError", "captured"}},
                             {"Stream::synchronize", Outcome::Rejected, {"DeviceError", "cannot be captured"}},
                             {"Stream::wait_for", Outcome::Rejected, {"DeviceError", "cannot be captured"}},
                             {"Stream::record_write", Outcome::Rejected, {"DeviceError", "cannot be captured"}},
                             {"an operation without a stream", Outcome::Rejected, {"DeviceError", "captured"}}});
  const auto scope = [wrong](Stream stream, Tensor<f32, 1>& t) {
    if (wrong == 0) add_two(t).sync(stream);
    if (wrong == 1) [](Tensor<f32, 1>& u) -> Flow<> { co_await add_two(u); }(t).sync(stream);
    if (wrong == 2) (void)host(t).on(stream);
    if (wrong == 3) stream.synchronize();
    if (wrong == 4) stream.wait_for(t);
    if (wrong == 5) stream.record_write(mut(t));
    if (wrong == 6) add_two(t).sync();
    add_two(t).on(stream);
  };
  const auto graph = capture(scope, y);
  graph.replay().sync();
  c.result(y);
}
MISUSE(ScopeWhoseStreamIsShared, "capture") {
  auto& y = c.out<f32, 1>({5});
  const std::vector<std::string> says{"DeviceError", "captured", "another thread"};
  const int wrong = c.other({{"another thread runs an operation on it", Outcome::Rejected, says},
                             {"another thread runs a flow on it", Outcome::Rejected, says},
                             {"another thread runs a loop on it", Outcome::Rejected, says},
                             {"another thread replays a graph on it", Outcome::Rejected, says},
                             {"another thread synchronizes it", Outcome::Rejected, {"DeviceError", "captured"}},
                             {"it is used after the capture", Outcome::Same}});
  auto z = zeros<f32>({5}).sync();
  const auto none = zeros<i32>({1}).sync();
  const auto other = capture([](Tensor<f32, 1>& u) { return add_two(u); }, z);
  const auto flow = [](Tensor<f32, 1>& t) -> Flow<> { co_await add_two(t); };
  std::optional<Stream> kept;
  const auto scope = [&](const Stream& stream, Tensor<f32, 1>& t) {
    std::exception_ptr thrown;
    std::thread([&, s = stream]() mutable {
      try {
        if (wrong == 0) add_two(z).on(s);
        if (wrong == 1) flow(z).on(s);
        if (wrong == 2) graph_while(none, [&] { return add_two(z); }).on(s);
        if (wrong == 3) other.replay().on(s);
        if (wrong == 4) s.synchronize();
      } catch (...) { thrown = std::current_exception(); }
    }).join();
    if (thrown) std::rethrow_exception(thrown);
    add_two(t).on(stream);
    kept = stream;
  };
  const auto graph = capture(scope, y);
  if (wrong == 5) add_two(z).sync(*kept);
  graph.replay().sync();
  c.result(y);
}
MISUSE(ScopeThatThrows, "capture") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"at its end", Outcome::Rejected, {"not today"}},
                             {"within a flow on its stream", Outcome::Rejected, {"not today"}},
                             {"within a branch", Outcome::Rejected, {"not today"}}});
  const auto where = SourceLocation::current();
  const auto yes = ones<i32>({1}).sync();
  const auto fails = [](Tensor<f32, 1>& t, SourceLocation at, bool now) -> Flow<> {
    co_await add_two(t);
    if (now) throw ShapeError("not today", at);
  };
  const auto scope = [&](const Stream& stream, Tensor<f32, 1>& t) {
    if (wrong == 1) fails(t, where, true).on(stream);
    if (wrong == 2) graph_if(yes, [&] { return fails(t, where, true); }).on(stream);
    add_two(t).on(stream);
    if (wrong == 0) throw ShapeError("not today", where);
  };
  const auto graph = capture(scope, y);
  graph.replay().sync();
  c.result(y);
}

// ---- graphs in graphs ----------------------------------------------------------------------------------------------

MISUSE(ReplayInACapture, "Graph::replay") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"of a released graph", Outcome::Rejected, {"BorrowError", "released or moved"}},
                             {"of a moved graph", Outcome::Rejected, {"BorrowError", "released or moved"}},
                             {"beside a replay that waits to run", Outcome::Rejected, {"BorrowError", "not enqueued"}},
                             {"beside an operation on what it writes", Outcome::Rejected, {"BorrowError", "replay"}},
                             {"after what it writes was moved", Outcome::Rejected, {"BorrowError", "moved, given"}},
                             {"one operation twice", Outcome::Rejected, {"BorrowError", "has been run or moved"}}});
  auto inner = capture([](Tensor<f32, 1>& u) { return add_two(u); }, zeros<f32>({5}).sync());
  using Inner = decltype(inner);
  const auto flow = [](Tensor<f32, 1>& t, Inner& g, int how) -> Flow<> {
    std::optional<Op<void>> pending;
    std::optional<Inner> other;
    Tensor<f32, 1> moved;
    if (how == 0) (void)std::move(g).release();
    if (how == 1) other = std::move(g);
    if (how == 2) pending = g.replay();
    if (how == 3) pending = copy_into(mut(g.template input<0>()), zeros<f32>(Dims(5)));
    if (how == 4) moved = std::move(g.template input<0>());
    auto replay = g.replay();
    co_await std::move(replay);
    if (how == 5) co_await std::move(replay);
    co_await add_two(t);
  };
  const auto graph = capture(flow, y, inner, wrong);
  graph.replay().sync();
  c.result(y);
}
MISUSE(InnerGraphThatEnds, "Graph::replay") {
  const int wrong = c.other({{"it is destroyed", Outcome::Same},
                             {"its replay waits to run", Outcome::Rejected, {"BorrowError", "replay"}},
                             {"its tensor is released and kept", Outcome::Rejected, {"BorrowError", "moved, given"}},
                             {"its tensor is lent to work", Outcome::Same}});
  std::optional inner(capture([](Tensor<f32, 1>& u) { return add_two(u); }, zeros<f32>({5}).sync()));
  using Inner = std::remove_reference_t<decltype(*inner)>;
  auto out = zeros<f32>({5}).sync();
  const auto flow = [](Inner& g, Tensor<f32, 1>& o) -> Flow<> {
    co_await g.replay();
    co_await copy_into(mut(o), g.template input<0>());
  };
  const auto graph = capture(flow, *inner, out);
  std::optional<Op<void>> pending;
  Tensor<f32, 1> kept;
  if (wrong == 0) inner.reset();
  if (wrong == 1) pending = inner->replay();
  if (wrong == 2) std::tie(kept) = std::move(*inner).release();
  if (wrong == 3) copy_into(mut(inner->input<0>()), zeros<f32>({5})).sync();
  graph.replay().sync();
  c.result(out);
}
MISUSE(GraphThatEnds, "Graph::replay") {
  auto& y = c.out<f32, 1>({5});
  const int wrong =
      c.other({{"a replay is built, and its graph destroyed", Outcome::Same},
               {"a replay is built, and its graph assigned another", Outcome::Same},
               {"replays are in flight, and its graph is destroyed", Outcome::Same},
               {"what it owns is assigned another tensor", Outcome::Rejected, {"BorrowError", "replaced"}}});
  const auto flow = [](Tensor<f32, 1>& t, Tensor<f32, 1>& own) -> Flow<> {
    co_await add_two(own);
    co_await copy_into(mut(t), own);
  };
  std::optional graph(capture(flow, y, zeros<f32>({5}).sync()));
  if (wrong == 3) graph->input<0>() = zeros<f32>({5}).sync();
  auto replay = graph->replay();
  if (wrong == 0) graph.reset();
  auto z = zeros<f32>({5}).sync();
  if (wrong == 1) graph = capture(flow, z, ones<f32>({5}).sync());
  const Stream stream(Device::cpu());
  std::move(replay).on(stream);
  if (wrong == 2) graph.reset();
  c.result(y);
}

// ---- numbers -------------------------------------------------------------------------------------------------------

MISUSE(GraphScalarNumber, "GraphScalar::value") {
  const GraphScalar<i8> a(c.number<i8>(3));
  c.result(static_cast<int>(a.value()));
}
MISUSE(GraphScalarReadInACapture, "GraphScalar::value") {
  auto& y = c.out<f32, 1>({5});
  const std::vector<std::string> says{"DeviceError", "reading a GraphScalar on the host", "another GraphScalar"};
  const int wrong = c.other({{"in the flow", Outcome::Rejected, says},
                             {"in the body of a branch", Outcome::Rejected, says},
                             {"in a scope", Outcome::Rejected, says}});
  const auto yes = ones<i32>({1}).sync();
  const GraphScalar a(2.0f);
  const auto flow = [](Tensor<f32, 1>& t, const GraphScalar<f32>& s, const Tensor<i32, 1>& k, int how) -> Flow<> {
    const auto adds = [&](bool reads) {
      return kernel<saxpy<32>>(mut(t), reads ? s.value() : 2.0f, ones<f32>(Dims(5)));
    };
    if (how == 0) co_await adds(true);
    if (how == 1) co_await graph_if(k, [&] { return adds(true); });
    co_await kernel<saxpy<32>>(mut(t), s, ones<f32>(Dims(5)));
  };
  if (wrong == 2) auto scope = capture([&](const Stream&) { return a.value(); });
  const auto graph = capture(flow, y, a, yes, wrong);
  graph.replay().sync();
  c.result(y);
}
const auto adding = [](Tensor<i32, 1>& t, const GraphScalar<i32>& n) { return kernel<add_some>(mut(t), n); };

MISUSE(GraphSetNumber, "Graph::set") {
  auto graph = capture(adding, zeros<i32>({5}).sync(), GraphScalar<i32>(1));
  graph.set<1>(c.number<i32>(7));
  graph.replay().sync();
  c.result(graph.input<0>());
}
MISUSE(GraphSetForbidden, "Graph::set") {
  const std::vector<std::string> says{"ShapeError", "n must be positive"};
  const int wrong = c.other({{"0, which the kernel requires not to be", Outcome::Rejected, says},
                             {"a negative number", Outcome::Rejected, says},
                             {"what another launch of it requires not to be", Outcome::Rejected, says}});
  const auto twice = [](Tensor<i32, 1>& t, const GraphScalar<i32>& n, const GraphScalar<i32>& m) -> Flow<> {
    co_await kernel<add_some>(mut(t), n);
    co_await kernel<add_some>(mut(t), m);
  };
  GraphScalar<i32> n(1), m(2);
  auto y = zeros<i32>({5}).sync();
  auto graph = capture(twice, y, n, m);
  if (wrong == 0) graph.set(n, 0);
  if (wrong == 1) graph.set(n, -7);
  if (wrong == 2) graph.set(m, 0);
  graph.set(n, 7);
  graph.replay().sync();
  c.result(y);
}
MISUSE(GraphSetOfAnother, "Graph::set") {
  const std::vector<std::string> says{"DeviceError", "no launch of this graph uses", "Pass it to the kernels"};
  const int wrong = c.other({{"one that was passed and not used", Outcome::Rejected, says},
                             {"one of the same value", Outcome::Rejected, says},
                             {"one of another graph", Outcome::Rejected, says},
                             {"one that the host has read before", Outcome::Rejected, says},
                             {"one of a graph inside", Outcome::Rejected, says}});
  GraphScalar<i32> used(3), unused(3), same(3), of_other(3), read(3), inside(3);
  auto y = zeros<i32>({5}).sync(), z = zeros<i32>({5}).sync();
  auto other = capture(adding, z, of_other), inner = capture(adding, z, inside);
  const auto flow = [](Tensor<i32, 1>& t, Graph<void>& g, const GraphScalar<i32>& n, const GraphScalar<i32>&,
                       i32 number) -> Flow<> {
    co_await g.replay();
    co_await kernel<add_some>(mut(t), n);
    co_await kernel<add_some>(mut(t), number);
  };
  auto graph = capture(flow, y, inner, used, unused, read.value());
  GraphScalar<i32>* const wrong_ones[] = {&unused, &same, &of_other, &read, &inside};
  graph.set(wrong < 0 ? used : *wrong_ones[wrong], 5);
  graph.replay().sync();
  c.result(y);
}
MISUSE(GraphSetInUse, "Graph::set") {
  const int wrong = c.other({{"a replay waits to run", Outcome::Rejected, {"BorrowError", "set()", "not enqueued"}},
                             {"replays are in flight", Outcome::Same},
                             {"it was released", Outcome::Rejected, {"BorrowError", "released or moved"}},
                             {"it was moved", Outcome::Rejected, {"BorrowError", "released or moved"}}});
  GraphScalar<i32> n(1);
  auto y = zeros<i32>({5}).sync();
  auto graph = capture(adding, y, n);
  const Stream stream(Device::cpu());
  std::optional<Op<void>> pending;
  std::optional<Graph<void>> other;
  if (wrong == 1) graph.replay().on(stream);
  copy_into(mut(y), zeros<i32>({5})).sync();
  if (wrong == 0) pending = graph.replay();
  if (wrong == 2) (void)std::move(graph).release();
  if (wrong == 3) other = std::move(graph);
  graph.set(n, 7);
  graph.replay().sync();
  c.result(y);
}

}  // namespace
}  // namespace tessera
