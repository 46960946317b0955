// Use of what work that failed has left: the failure is thrown where it is waited for, and overwriting ends it.
#include <optional>

#include "misuse/misuse.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera {
namespace {

using misuse::Outcome;

void add_positive(Mut<f32, 32> y, Scalar<f32> number) {
  check(number >= 0, "a number is negative");
  y.store(y.load() + number);
}
void set_positive(Mut<i32, 1> y, Scalar<i32> number) {
  check(number >= 0, "a number is negative");
  y.store(full<i32, 1>(number));
}

/// A stream whose work on `y` fails, or succeeds.
Stream after_work(Tensor<f32, 1>& y, bool fails) {
  const Stream stream(Device::cpu());
  kernel<add_positive>(mut(y), fails ? -1.0f : 1.0f).on(stream);
  return stream;
}
/// Runs a use of what has failed; its error is the check's, with the line of the kernel.
template <class F>
void use(F f, SourceLocation where = SourceLocation::current()) {
  try {
    f();
  } catch (const DeviceError& error) {
    if (error.message().find("a number is negative") == std::string::npos) throw;
    EXPECT_NE(std::string(error.what()).find("failures_test.cpp"), std::string::npos) << error.what();
    throw DeviceError(error.message() + "\n  (thrown again with the row's line)", where);
  }
}
const std::vector<std::string> kSays{"DeviceError", "a number is negative"};

MISUSE(FailedOperand, "host") {
  auto y = ones<f32>({5}).sync();
  const int wrong = c.other({{"it is read back", Outcome::Rejected, kSays},
                             {"it is read back on another stream", Outcome::Rejected, kSays},
                             {"it is copied", Outcome::Rejected, kSays},
                             {"it is converted", Outcome::Rejected, kSays},
                             {"it is an operand of a kernel", Outcome::Rejected, kSays},
                             {"it is copied to a device", Outcome::Rejected, kSays},
                             {"it is printed", Outcome::Rejected, kSays},
                             {"it is saved", Outcome::Rejected, kSays},
                             {"it is written once more in place", Outcome::Rejected, kSays},
                             {"it is overwritten", Outcome::Same}});
  const Stream other(Device::cpu());
  const Stream stream = after_work(y, wrong >= 0);
  use([&] {
    if (wrong == 0) (void)host(y).sync();
    if (wrong == 1) (void)host(y).on(other);
    if (wrong == 2) (void)clone(y).sync();
    if (wrong == 3) (void)cast<i32>(y).sync();
    if (wrong == 4) kernel<add_positive>(mut(y), 1.0f).sync(other);
    if (wrong == 5) (void)copy_to(y, Device::cpu()).sync();
    if (wrong == 6) (void)to_string(y);
    if (wrong == 7) save_npy(misuse::path_of("failed.npy"), y);
    if (wrong == 8) copy_into(mut(y).slice<0>(1, 2), zeros<f32>({1})).sync();
  });
  copy_into(mut(y), full<f32>({5}, 2.0f)).sync();
  c.result(y);
}
MISUSE(FailedWorkOfAStream, "Stream::wait_for") {
  auto y = ones<f32>({5}).sync();
  const int wrong = c.other({{"another stream waits for it", Outcome::Rejected, kSays},
                             {"another stream waits to write it", Outcome::Rejected, kSays},
                             {"its stream is synchronized", Outcome::Rejected, kSays},
                             {"its stream is synchronized twice", Outcome::Same},
                             {"another stream is synchronized", Outcome::Same}});
  Stream other(Device::cpu());
  Stream stream = after_work(y, wrong >= 0);
  use([&] {
    while (wrong <= 1 && wrong >= 0 && !stream.core()->has_ended(1)) {}  // a failure that is known
    if (wrong == 0) other.wait_for(y);
    if (wrong == 1) other.wait_for(mut(y));
    if (wrong == 2) stream.synchronize();
    if (wrong == 3) { EXPECT_THROW(stream.synchronize(), DeviceError); }
    if (wrong == 3) stream.synchronize();
    if (wrong == 4) other.synchronize();
  });
  copy_into(mut(y), full<f32>({5}, 2.0f)).sync();
  c.result(y);
}
MISUSE(FailedGraph, "Graph::replay") {
  auto y = ones<f32>({5}).sync();
  const int wrong = c.other({{"its own work fails", Outcome::Rejected, kSays},
                             {"what it reads has failed", Outcome::Rejected, kSays},
                             {"an output of a failed replay is read", Outcome::Rejected, kSays},
                             {"a replay before has failed, and was waited for", Outcome::Same}});
  auto x = full<f32>({5}, 3.0f).sync();
  const auto flow = [](Tensor<f32, 1>& t, const Tensor<f32, 1>& from,
                       const GraphScalar<f32>& n) -> Flow<Tensor<f32, 1>> {
    co_await copy_into(mut(t), from);
    co_await kernel<add_positive>(mut(t), n);
    co_return co_await clone(t);
  };
  GraphScalar<f32> n(1);
  auto graph = capture(flow, y, x, n);
  const Stream stream(Device::cpu());
  if (wrong == 0 || wrong >= 2) graph.set(n, -1);
  if (wrong == 1) kernel<add_positive>(mut(x), -1.0f).on(stream);
  use([&] {
    if (wrong == 0 || wrong == 1) graph.replay().sync();
    if (wrong == 2) graph.replay().on(stream);
    if (wrong == 2) (void)host(graph.output()).sync();
    if (wrong == 3) { EXPECT_THROW(graph.replay().sync(), DeviceError); }
  });
  graph.set(n, 1);
  graph.replay().sync();
  c.result(graph.output());
}
MISUSE(FailedCondition, "graph_while") {
  const int wrong = c.other({{"it was written by work that failed", Outcome::Rejected, kSays},
                             {"the body writes it, and fails", Outcome::Rejected, kSays},
                             {"captured: the body writes it, and fails", Outcome::Rejected, kSays},
                             {"captured: it was written by work that failed", Outcome::Rejected, kSays}});
  auto n = ones<i32>({1}).sync();
  const Stream stream(Device::cpu());
  const auto loop = [&](i32 number) {
    return graph_while(n, [&n, number] { return kernel<set_positive>(mut(n), number); });
  };
  if (wrong == 0 || wrong == 3) kernel<set_positive>(mut(n), -1).on(stream);
  use([&] {
    if (wrong == 0 || wrong == 1) loop(wrong == 1 ? -1 : 0).sync();
    if (wrong >= 2) capture([&] { return loop(wrong == 2 ? -1 : 0); }).replay().sync();
  });
  loop(0).sync();
  c.result(n);
}
MISUSE(FailedTask, "Task::get") {
  const int wrong = c.other({{"its work fails at its end", Outcome::Rejected, kSays},
                             {"its work fails before a readback", Outcome::Rejected, kSays},
                             {"a task that it awaits has failed", Outcome::Rejected, kSays},
                             {"a part of its fork fails", Outcome::Rejected, kSays},
                             {"it was given what has failed", Outcome::Rejected, kSays},
                             {"it overwrites what has failed", Outcome::Same}});
  const auto adds = [](Tensor<f32, 1>& t, f32 number, bool reads) -> Flow<> {
    co_await kernel<add_positive>(mut(t), number);
    if (reads) (void)co_await host(t);
  };
  const auto flow = [&adds](Tensor<f32, 1>& t, Tensor<f32, 1>& u, int how) {
    return [](auto part, Tensor<f32, 1>& a, Tensor<f32, 1>& b, int n) -> Flow<> {
      if (n == 2) {
        auto inner = spawn(part(a, -1, true));
        co_await inner;
      }
      if (n == 3) co_await fork(part(a, -1, true), part(b, 1, true));
      if (n == 4) (void)co_await host(a);
      if (n == 5) co_await copy_into(mut(a), ones<f32>(Dims(5)));
      if (n < 2) co_await part(a, n < 0 ? 1.0f : -1.0f, n == 1);
    }(adds, t, u, how);
  };
  auto y = ones<f32>({5}).sync(), z = ones<f32>({5}).sync();
  const Stream stream(Device::cpu());
  if (wrong >= 4) kernel<add_positive>(mut(y), -1.0f).on(stream);
  use([&] {
    auto task = spawn(flow(y, z, wrong), Stream(Device::cpu()));
    task.get();
  });
  copy_into(mut(y), full<f32>({5}, 2.0f)).sync();
  c.result(y);
}
MISUSE(FailedExport, "to_dlpack") {
  auto y = ones<f32>({5}).sync();
  const int wrong = c.other({{"for reading", Outcome::Rejected, kSays},
                             {"for writing", Outcome::Rejected, kSays},
                             {"for another stream", Outcome::Rejected, kSays}});
  const Stream stream = after_work(y, wrong >= 0), other(Device::cpu());
  use([&] {
    while (wrong == 2 && !stream.core()->has_ended(1)) {}  // a failure that is known
    if (wrong == 0) (void)to_dlpack(y.view());
    if (wrong == 1) (void)to_dlpack(std::move(y));
    if (wrong == 2) (void)to_dlpack(y.view(), other);
  });
  copy_into(mut(y), full<f32>({5}, 2.0f)).sync();
  c.result(shared_from_dlpack<f32, 1>(to_dlpack(y.view())));
}
MISUSE(FailedBuffer, "HostBuffer::read") {
  auto y = ones<f32>({5}).sync();
  const int wrong = c.other({{"what was read back into it has failed", Outcome::Rejected, kSays},
                             {"it is written by the host afterwards", Outcome::Same}});
  HostBuffer<f32> buffer(5, Device::cpu());
  const Stream stream = after_work(y, wrong >= 0);
  use([&] {
    if (wrong >= 0) buffer = host(y, std::move(buffer)).on(stream);
    if (wrong == 0) (void)buffer.read();
  });
  {
    const auto values = buffer.write();
    std::fill(values.begin(), values.end(), 4.0f);
  }
  const auto read = buffer.read();
  c.result(std::vector<f32>(read.begin(), read.end()));
}

}  // namespace
}  // namespace tessera
