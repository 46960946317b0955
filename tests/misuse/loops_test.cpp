// Misuse of graph_while and graph_if: their conditions, and what a body does that a graph cannot repeat.
#include <functional>
#include <optional>
#include <stdexcept>

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
/// Two kernels of one name.
template <int Factor>
void scale(Mut<f32, 32> y) {
  y.store(y.load() * static_cast<float>(Factor));
}
void scale_by(Mut<f32, 32> y, Constant<int> factor) { y.store(y.load() * static_cast<float>(factor)); }
void count_down(Mut<i32, 1> n) { n.store(n.load() - 1); }

/// y += 2, n -= 1.
Op<void> step(Tensor<f32, 1>& y, Tensor<i32, 1>& n, SourceLocation where = SourceLocation::current()) {
  return all(kernel<saxpy<32>>(mut(y, where), 2.0f, ones<f32>({5}, where), where),
             kernel<count_down>(mut(n, where), where));
}
/// Runs a loop or a branch with `make()`, at once or as a graph.
template <class Make>
void run(bool as_graph, Make make) {
  if (!as_graph) return make().sync();
  const auto graph = capture(make);
  graph.replay().sync();
}

MISUSE(LoopCondition, "graph_while") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"two elements", Outcome::Rejected, {"ShapeError", "graph_while", "one element, found 2"}},
                             {"no elements", Outcome::Rejected, {"ShapeError", "one element, found 0"}},
                             {"two axes", Outcome::Rejected, {"ShapeError", "one element, found 4"}},
                             {"an empty tensor", Outcome::Rejected, {"BorrowError", "empty"}},
                             {"a tensor that was given away", Outcome::Rejected, {"BorrowError", "empty"}},
                             {"an empty view", Outcome::Rejected, {"BorrowError", "empty"}},
                             {"an empty Shared", Outcome::Rejected, {"BorrowError", "empty"}}});
  auto n = full<i32>({wrong == 0 ? 2 : wrong == 1 ? 0 : 1}, 2).sync();
  const auto square = ones<bool>({2, 2}).sync();
  if (wrong == 3) n = Tensor<i32, 1>();
  if (wrong == 4) auto other = std::move(n);
  const auto body = [&] { return step(y, n); };
  if (wrong == 2) graph_while(square, body).sync();
  if (wrong == 5) graph_while(View<i32, 1>(), body).sync();
  if (wrong == 6) graph_while(Shared<i32, 1>(), body).sync();
  graph_while(n, body).sync();
  c.result(y);
}
MISUSE(BranchCondition, "graph_if") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"two elements", Outcome::Rejected, {"ShapeError", "graph_if", "one element, found 2"}},
                             {"an empty tensor", Outcome::Rejected, {"BorrowError", "empty"}},
                             {"a tensor that was given away", Outcome::Rejected, {"BorrowError", "empty"}}});
  auto n = full<i32>({wrong == 0 ? 2 : 1}, 1).sync();
  if (wrong == 1) n = Tensor<i32, 1>();
  if (wrong == 2) auto other = std::move(n);
  const auto fill = [&](f32 value) { return [&y, value] { return copy_into(mut(y), full<f32>({5}, value)); }; };
  graph_if(n, fill(1), fill(2)).sync();
  c.result(y);
}
MISUSE(LoopConditionInUse, "graph_while") {
  auto y = ones<f32>({5}).sync();
  const int wrong =
      c.other({{"an operation writes it", Outcome::Rejected, {"BorrowError", "being written by copy_into"}},
               {"an operation that the body has built writes it", Outcome::Rejected, {"BorrowError"}},
               {"an operation that the body has built reads it", Outcome::Rejected, {"BorrowError"}},
               {"the body gives it away", Outcome::Rejected, {"BorrowError"}},
               {"captured: an operation writes it", Outcome::Rejected, {"BorrowError", "graph_while"}},
               {"captured: the body gives it away", Outcome::Rejected, {"BorrowError", "empty"}}});
  auto n = full<i32>({1}, 2).sync();
  std::optional<Op<void>> writer;
  std::optional<Op<std::vector<i32>>> reader;
  Tensor<i32, 1> other;
  if (wrong == 0 || wrong == 4) writer = copy_into(mut(n), zeros<i32>({1}));
  const auto body = [&]() -> Flow<> {
    return [](Tensor<f32, 1>& t, Tensor<i32, 1>& k, auto& w, auto& r, Tensor<i32, 1>& o, int how) -> Flow<> {
      co_await step(t, k);
      if (how == 1) w = copy_into(mut(k), zeros<i32>(Dims(1)));
      if (how == 2) r = host(k);
      if (how == 3 || how == 5) o = std::move(k);
    }(y, n, writer, reader, other, wrong);
  };
  run(wrong >= 4, [&] { return graph_while(n, body); });
  c.result(y);
}
MISUSE(LoopConditionElsewhere, "graph_while") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"captured: it is on another device", Outcome::Rejected, {"DeviceError", "far", "cpu"}}});
  static runtime::FarDevice& far = *new runtime::FarDevice;
  auto n = full<i32>({1}, 2).sync();
  const auto there = zeros<i32>({1}).sync(Stream::default_of(Device(far)));
  const auto body = [&] { return step(y, n); };
  run(true, [&] { return wrong == 0 ? graph_while(there, body) : graph_while(n, body); });
  c.result(y);
}

// ---- what a body may not keep, and has to repeat -------------------------------------------------------------------

MISUSE(BodyThatKeeps, "graph_while") {
  auto& y = c.out<f32, 1>({5});
  const std::vector<std::string> says{"DeviceError", "graph_while: a tensor that was made in the body", "copy_into"};
  const int wrong = c.other({{"a tensor", Outcome::Rejected, says},
                             {"a view", Outcome::Rejected, says},
                             {"a Shared", Outcome::Rejected, says},
                             {"an operation that reads a tensor of it", Outcome::Rejected, says},
                             {"a tensor that it has ended", Outcome::Same}});
  auto n = full<i32>({1}, 2).sync();
  Tensor<f32, 1> tensor;
  View<f32, 1> view;
  std::optional<Shared<f32, 1>> shared;
  std::optional<Op<std::vector<f32>>> reader;
  const auto body = [&]() -> Flow<> {
    return [](Tensor<f32, 1>& t, Tensor<i32, 1>& k, auto& a, auto& v, auto& s, auto& r, int how) -> Flow<> {
      co_await step(t, k);
      auto made = co_await clone(t);
      if (how == 1) v = made.view();
      if (how == 3) r = host(made);
      if (how == 0) a = std::move(made);
      if (how == 2) s = share(std::move(made));
    }(y, n, tensor, view, shared, reader, wrong);
  };
  run(true, [&] { return graph_while(n, body); });
  c.result(y);
}
MISUSE(BranchThatKeeps, "graph_if") {
  auto& y = c.out<f32, 1>({5});
  const std::vector<std::string> says{"DeviceError", "graph_if: a tensor that was made in the body", "copy_into"};
  const int wrong = c.other({{"the first body keeps a tensor", Outcome::Rejected, says},
                             {"the second body keeps a tensor", Outcome::Rejected, says}});
  const auto n = full<i32>({1}, 1).sync();
  Tensor<f32, 1> kept;
  const auto body = [](Tensor<f32, 1>& t, f32 value, Tensor<f32, 1>& a, bool keeps) -> Flow<> {
    auto made = co_await full<f32>(Dims(5), value);
    co_await copy_into(mut(t), made);
    if (keeps) a = std::move(made);
  };
  run(true, [&] {
    return graph_if(
        n, [&] { return body(y, 1, kept, wrong == 0); }, [&] { return body(y, 2, kept, wrong == 1); });
  });
  c.result(y);
}
MISUSE(BodyThatDiffers, "graph_while") {
  auto& y = c.out<f32, 1>({5});
  const std::vector<std::string> says{"DeviceError", "something else when it is called again", "std::swap"};
  const int wrong = c.other({{"another number", Outcome::Rejected, says},
                             {"another tensor", Outcome::Rejected, says},
                             {"another part of it", Outcome::Rejected, says},
                             {"another kernel", Outcome::Rejected, says},
                             {"another kernel of the same name", Outcome::Rejected, says},
                             {"one launch more", Outcome::Rejected, says},
                             {"one launch less", Outcome::Rejected, says},
                             {"another GraphScalar of the same value", Outcome::Rejected, says},
                             {"a GraphScalar, then its number", Outcome::Rejected, says},
                             {"another body of a loop inside", Outcome::Rejected, says},
                             {"another value of a fill", Outcome::Rejected, says},
                             {"another Constant", Outcome::Rejected, says}});
  auto n = full<i32>({1}, 2).sync(), none = zeros<i32>({1}).sync();
  auto x = ones<f32>({5}).sync(), z = ones<f32>({5}).sync();
  const GraphScalar a(2.0f), b(2.0f);
  int call = 0;
  const auto body = [&]() -> Flow<> {
    return [](int w, bool again, Tensor<f32, 1>& t, Tensor<f32, 1>& u, Tensor<f32, 1>& v, Tensor<i32, 1>& k,
              Tensor<i32, 1>& no, const GraphScalar<f32>& s, const GraphScalar<f32>& r) -> Flow<> {
      co_await kernel<count_down>(mut(k));
      if (w == 0) co_await kernel<saxpy<32>>(mut(t), again ? 3.0f : 2.0f, u);
      if (w == 1) co_await kernel<saxpy<32>>(mut(t), 2.0f, again ? v : u);
      if (w == 2) co_await copy_into(mut(t).slice<0>(again ? 1 : 0, again ? 3 : 2), full<f32>(Dims(2), 1.0f));
      if (w == 3 && again) co_await copy_into(mut(t), u);
      if (w == 3 && !again) co_await copy_into(mut(t), full<f32>(Dims(5), 1.0f));
      if (w == 4 && again) co_await kernel<scale<3>>(mut(t));
      if (w == 4 && !again) co_await kernel<scale<2>>(mut(t));
      if (w == (again ? 5 : 6)) co_await kernel<saxpy<32>>(mut(t), 2.0f, u);
      if (w == 7) co_await kernel<saxpy<32>>(mut(t), again ? r : s, u);
      if (w == 8 && again) co_await kernel<saxpy<32>>(mut(t), 2.0f, u);
      if (w == 8 && !again) co_await kernel<saxpy<32>>(mut(t), s, u);
      if (w == 9) co_await graph_while(no, [&, again] { return kernel<saxpy<32>>(mut(t), again ? 3.0f : 2.0f, u); });
      if (w == 10) co_await copy_into(mut(t), full<f32>(Dims(5), again ? 2.0f : 1.0f));
      if (w == 11) co_await kernel<scale_by>(mut(t), again ? 3 : 2);
      co_await kernel<saxpy<32>>(mut(t), 2.0f, u);
    }(wrong, call++ == 1, y, x, z, n, none, a, b);
  };
  run(true, [&] { return graph_while(n, body); });
  c.result(y);
}
MISUSE(BranchThatDiffers, "graph_if") {
  auto& y = c.out<f32, 1>({5});
  const std::vector<std::string> says{"DeviceError", "graph_if", "something else when it is called again", "std::swap"};
  const int wrong = c.other({{"the first body swaps tensors that it uses", Outcome::Rejected, says},
                             {"the second body swaps tensors that it uses", Outcome::Rejected, says},
                             {"the first body counts its runs", Outcome::Rejected, says},
                             {"the second body counts its runs", Outcome::Rejected, says}});
  const auto yes = ones<i32>({1}).sync();
  auto x = ones<f32>({5}).sync(), z = ones<f32>({5}).sync();
  int runs = 0;
  const auto body = [&](bool swaps, bool counts) {
    if (swaps) std::swap(x, z);
    return kernel<saxpy<32>>(mut(y), counts ? static_cast<f32>(++runs) : 2.0f, x);
  };
  run(true, [&] {
    return graph_if(
        yes, [&] { return body(wrong == 0, wrong == 2); }, [&] { return body(wrong == 1, wrong == 3); });
  });
  c.result(y);
}
MISUSE(BodyThatWaits, "graph_while") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"co_await host(...)", Outcome::Rejected, {"DeviceError", "cannot be captured"}},
                             {"host(...).sync()", Outcome::Rejected, {"DeviceError", "captured"}},
                             {"an upload", Outcome::Rejected, {"DeviceError", "cannot be captured"}},
                             {"Stream::synchronize", Outcome::Rejected, {"DeviceError", "cannot be captured"}},
                             {"a capture", Outcome::Rejected, {"DeviceError", "cannot be captured"}},
                             {"a task", Outcome::Rejected, {"DeviceError", "awaiting a task cannot be captured"}},
                             {"an operation on another stream", Outcome::Rejected, {"DeviceError", "another stream"}}});
  auto n = full<i32>({1}, 2).sync();
  Stream other(Device::cpu());
  auto task = spawn([]() -> Flow<> { co_return; }());
  const auto body = [&]() -> Flow<> {
    return [](Tensor<f32, 1>& t, Tensor<i32, 1>& k, Stream& s, Task<>& of, int how) -> Flow<> {
      const std::vector<f32> values(5, 1.0f);
      if (how == 0) (void)co_await host(t);
      if (how == 1) (void)host(t).sync();
      if (how == 2) co_await copy_into(mut(t), from(values, Dims(5)));
      if (how == 3) s.synchronize();
      if (how == 4) auto inner = capture(copy_into(mut(t), zeros<f32>(Dims(5))));
      if (how == 5) co_await of;
      if (how == 6) copy_into(mut(t), zeros<f32>(Dims(5))).on(s);
      co_await step(t, k);
    }(y, n, other, task, wrong);
  };
  run(true, [&] { return graph_while(n, body); });
  c.result(y);
}
MISUSE(BodyThatThrows, "graph_while") {
  const int wrong = c.other({{"at once", Outcome::Rejected, {"not today"}},
                             {"in its second run", Outcome::Rejected, {"not today"}},
                             {"captured: at once", Outcome::Rejected, {"not today"}},
                             {"captured: in its second call", Outcome::Rejected, {"not today"}},
                             {"captured: an operation has other extents", Outcome::Rejected, {"ShapeError"}},
                             {"captured: in a loop inside", Outcome::Rejected, {"not today"}}});
  const auto where = SourceLocation::current();
  auto n = full<i32>({1}, 2).sync();
  auto copy = ones<f32>({5}).sync();  // which some runs change before one throws
  int call = 0;
  const auto fails = [where]() -> Op<void> { throw ShapeError("not today", where); };
  const auto body = [&]() -> Flow<> {
    const bool now = wrong == 0 || wrong == 2 || ((wrong == 1 || wrong == 3) && call++ == 1);
    if (now) throw ShapeError("not today", where);
    return [](Tensor<f32, 1>& t, Tensor<i32, 1>& k, int how, auto inner) -> Flow<> {
      if (how == 4) co_await copy_into(mut(t), zeros<f32>(Dims(7)));
      if (how == 5) co_await graph_while(k, inner);
      co_await step(t, k);
    }(copy, n, wrong, fails);
  };
  run(wrong >= 2, [&] { return graph_while(n, body); });
  c.result(copy);
}
MISUSE(BodyThatWasRun, "graph_while") {
  const std::vector<std::string> flow_says{"BorrowError", "has been run or moved already"};
  const std::vector<std::string> op_says{"BorrowError", "has been run or moved already"};
  const int wrong = c.other({{"one flow for all runs", Outcome::Rejected, flow_says},
                             {"one operation for all runs", Outcome::Rejected, op_says},
                             {"captured: one flow for all calls", Outcome::Rejected, flow_says},
                             {"captured: one operation for all calls", Outcome::Rejected, op_says}});
  auto n = full<i32>({1}, 2).sync();
  auto copy = ones<f32>({5}).sync();
  const auto made = [](Tensor<f32, 1>& t, Tensor<i32, 1>& k) -> Flow<> { co_await step(t, k); };
  if (wrong == 0 || wrong == 2) {
    auto flow = made(copy, n);
    run(wrong == 2, [&] { return graph_while(n, [&] { return std::move(flow); }); });
  } else if (wrong == 1 || wrong == 3) {
    auto op = step(copy, n);
    auto always = ones<i32>({1}).sync();
    run(wrong == 3, [&] { return graph_while(std::move(always), [&] { return std::move(op); }); });  // kept by the flow
  } else {
    run(false, [&] { return graph_while(n, [&] { return made(copy, n); }); });
  }
  c.result(copy);
}
MISUSE(BodyThatIsNoFunction, "graph_while") {
  auto& y = c.out<f32, 1>({5});
  const std::vector<std::string> says{"BorrowError", "null function"};
  const int wrong = c.other({{"graph_while: a null pointer", Outcome::Rejected, says},
                             {"graph_while: an empty std::function", Outcome::Rejected, says},
                             {"graph_if: a null pointer", Outcome::Rejected, says},
                             {"graph_if: an empty std::function as its second body", Outcome::Rejected, says}});
  auto n = full<i32>({1}, 2).sync();
  Flow<> (*const pointer)() = nullptr;
  const std::function<Op<void>()> body = [&] { return step(y, n); }, empty;
  if (wrong == 0) graph_while(n, pointer).sync();
  if (wrong == 1) graph_while(n, empty).sync();
  if (wrong == 2) graph_if(n, pointer).sync();
  if (wrong == 3) graph_if(n, body, empty).sync();
  graph_while(n, body).sync();
  c.result(y);
}
MISUSE(LoopInAScope, "capture") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"a loop that is run with sync()", Outcome::Rejected, {"DeviceError", "captured"}},
                             {"a loop on another stream", Outcome::Rejected, {"DeviceError"}},
                             {"a spawned loop", Outcome::Rejected, {"DeviceError"}}});
  auto n = full<i32>({1}, 2).sync();
  const Stream other(Device::cpu());
  const auto scope = [&](const Stream& stream, Tensor<f32, 1>& t) {
    const auto loop = [&] { return graph_while(n, [&] { return step(t, n); }); };
    if (wrong == 0) loop().sync();
    if (wrong == 1) loop().on(other);
    if (wrong == 2) spawn(loop()).get();
    loop().on(stream);
  };
  const auto graph = capture(scope, y);
  graph.replay().sync();
  c.result(y);
}

}  // namespace
}  // namespace tessera
