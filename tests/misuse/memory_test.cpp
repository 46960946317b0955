// Misuse of memory in flight: limits, allocators, pinned buffers, lends that were kept, memory of others taken twice.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "misuse/misuse.hpp"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wconsumed"  // uses of tensors that were given are what these rows are about
#endif

namespace tessera {
namespace {

using misuse::Outcome;

/// While it lives, the CPU has room for some kilobytes more.
struct Limit {
  explicit Limit(bool on) {
    if (on) set_memory_limit(Device::cpu(), memory_stats(Device::cpu()).in_use + 4096);
  }
  ~Limit() { set_memory_limit(Device::cpu(), kNoMemoryLimit); }
};
MISUSE(MemoryLimit, "set_memory_limit") {
  const int wrong = c.other({{"a tensor", Outcome::Rejected},
                             {"an upload", Outcome::Rejected},
                             {"a cast", Outcome::Rejected},
                             {"a flow", Outcome::Rejected},
                             {"a task", Outcome::Rejected},
                             {"a capture", Outcome::Rejected}});
  const auto flow = []() -> Flow<> { (void)co_await zeros<f32>(Dims(100000)); };
  const std::vector<f32> values(100000);
  const auto small = ones<i8>({100000}).sync();
  {
    const Limit limit(wrong >= 0);
    if (wrong == 0) (void)zeros<f32>({100000}).sync();
    if (wrong == 1) (void)from(values, {100000}).sync();
    if (wrong == 2) (void)cast<f32>(small).sync();
    if (wrong == 3) flow().sync();
    if (wrong == 4) spawn(flow()).get();
    if (wrong == 5) (void)capture(flow);
  }
  c.result(small);
}

class Stubborn final : public Allocator {
 public:
  Stubborn(int how, SourceLocation where) : how_(how), where_(where) {}
  void* allocate(std::size_t bytes, void*) override {
    if (how_ == 0) return nullptr;
    if (how_ == 1) throw DeviceError("no room", where_);
    if (how_ == 2) throw std::bad_alloc();
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(256, (bytes + 767) / 256 * 256));
    return how_ == 3 ? memory + 8 : memory;
  }
  void deallocate(void* memory, std::size_t, void*) noexcept override {
    std::free(static_cast<std::byte*>(memory) - (how_ == 3 ? 8 : 0));
  }

 private:
  int how_;
  SourceLocation where_;
};
MISUSE(AllocatorThatFails, "set_allocator") {
  const auto x = c.view<f32, 1>({5});
  const int wrong = c.other({{"it has none", Outcome::Rejected},
                             {"it throws", Outcome::Rejected, {"no room"}},
                             {"it throws std::bad_alloc", Outcome::Rejected},
                             {"it gives what is not aligned", Outcome::Rejected},
                             {"it is replaced while its memory is used", Outcome::Same}});
  const auto where = SourceLocation::current();
  struct Restore {
    ~Restore() { set_allocator(Device::cpu(), nullptr); }
  };
  std::optional<Tensor<f32, 1>> copy;
  {
    const Restore restore;
    if (wrong >= 0) set_allocator(Device::cpu(), std::make_shared<Stubborn>(wrong, where));
    copy = clone(x).sync();
  }
  c.result(*copy);
}
MISUSE(HostBufferCount, "HostBuffer::size") {
  const int wrong = c.other({{"-1 elements", Outcome::Rejected},
                             {"2^63 - 1 elements", Outcome::Rejected},
                             {"-2^63 elements", Outcome::Rejected}});
  const std::int64_t counts[] = {-1, std::numeric_limits<std::int64_t>::max(),
                                 std::numeric_limits<std::int64_t>::min()};
  const HostBuffer<f32> buffer(wrong < 0 ? 3 : counts[wrong], Device::cpu());
  c.result(buffer.size());
}
MISUSE(HostBufferInUse, "HostBuffer::write") {
  const int wrong = c.other({{"the host reads it", Outcome::Rejected},
                             {"the host writes it", Outcome::Rejected},
                             {"an operation reads it", Outcome::Rejected},
                             {"an operation was given it", Outcome::Rejected},
                             {"it was moved while the host reads it", Outcome::Rejected},
                             {"work in flight reads it", Outcome::Same},
                             {"the graph's replay reads it", Outcome::Rejected}});
  HostBuffer<f32> buffer(4, Device::cpu());
  {
    const auto values = buffer.write();
    std::fill(values.begin(), values.end(), 2.0f);
  }
  const auto x = ones<f32>({4}).sync();
  const auto upload = [](const HostBuffer<f32>& b) { return from(b, Dims(4)); };
  auto graph = capture(upload, buffer);
  std::optional<Tensor<f32, 1>> copy;
  std::optional<Op<Tensor<f32, 1>>> reader;
  std::optional<Op<HostBuffer<f32>>> writer;
  std::optional<Op<void>> replay;
  const std::unique_ptr<HostRead<f32>> reading(wrong == 0 || wrong == 4 ? new HostRead<f32>(buffer.read()) : nullptr);
  const std::unique_ptr<HostWrite<f32>> writing(wrong == 1 ? new HostWrite<f32>(buffer.write()) : nullptr);
  if (wrong == 2) reader = from(buffer, {4});
  if (wrong == 3) writer = host(x, std::move(buffer));
  if (wrong == 4) {
    HostBuffer<f32> other = std::move(buffer);
    buffer = std::move(other);
  }
  if (wrong == 5) copy = from(buffer, {4}).on(Stream(Device::cpu()));
  if (wrong == 6) replay = graph.replay();
  {
    const auto values = buffer.write();
    values[0] = 3;
  }
  c.result(from(buffer, {4}).sync());
}
MISUSE(HostBufferTakenAway, "host") {
  const auto x = c.view<f32, 1>({4});
  const int wrong = c.other({{"the host reads it", Outcome::Rejected},
                             {"an operation was given it", Outcome::Rejected},
                             {"it has more elements", Outcome::Rejected},
                             {"it has fewer elements", Outcome::Rejected}});
  HostBuffer<f32> buffer(wrong == 2 ? 5 : wrong == 3 ? 3 : 4, Device::cpu());
  std::optional<Op<HostBuffer<f32>>> writer;
  const std::unique_ptr<HostRead<f32>> reading(wrong == 0 ? new HostRead<f32>(buffer.read()) : nullptr);
  if (wrong == 1) writer = host(x, std::move(buffer));
  buffer = host(x, std::move(buffer)).sync();
  c.result(from(buffer, {4}).sync());
}

// ---- lends and exports that were kept
// ---------------------------------------------------------------------------------

MISUSE(LendOfShared, "Stream::record_write") {
  const int wrong = c.other({{"the lent tensor was moved", Outcome::Rejected},
                             {"it was shared", Outcome::Rejected},
                             {"it was exported", Outcome::Rejected},
                             {"it was given to be reshaped", Outcome::Rejected}});
  auto y = ones<f32>({5}).sync();
  auto lent = mut(y);
  Tensor<f32, 1> other;
  std::optional<Shared<f32, 1>> shared;
  dlpack::Ptr<dlpack::ManagedTensorVersioned> exported;
  if (wrong == 0) other = std::move(y);
  if (wrong == 1) shared = share(std::move(y));
  if (wrong == 2) exported = to_dlpack(std::move(y));
  if (wrong == 3) other = std::move(y).reshape({5});
  Stream(Device::cpu()).record_write(lent);
  c.result(y);
}
MISUSE(LendWaitedFor, "Stream::wait_for") {
  const int wrong = c.other({{"the lent tensor was moved", Outcome::Rejected},
                             {"it was shared", Outcome::Rejected},
                             {"an operation reads it", Outcome::Rejected},
                             {"an operation writes it", Outcome::Rejected}});
  auto y = ones<f32>({5}).sync();
  auto lent = mut(y);
  Tensor<f32, 1> other;
  std::optional<Shared<f32, 1>> shared;
  std::optional<Op<std::vector<f32>>> reader;
  std::optional<Op<void>> writer;
  if (wrong == 0) other = std::move(y);
  if (wrong == 1) shared = share(std::move(y));
  if (wrong == 2) reader = host(y);
  if (wrong == 3) writer = copy_into(mut(y), zeros<f32>({5}));
  Stream(Device::cpu()).wait_for(lent);
  c.result(y);
}
MISUSE(DlpackTakenTwice, "from_dlpack") {
  const int wrong = c.other({{"an export that was taken", Outcome::Rejected},
                             {"its memory, by another structure", Outcome::Rejected},
                             {"its memory, borrowed", Outcome::Rejected}});
  auto p = to_dlpack(ones<f32>({5}).sync());
  auto* const structure = p.get();
  auto* const memory = static_cast<f32*>(p->dl_tensor.data);
  dlpack::ManagedTensorVersioned another = *p;
  another.deleter = nullptr;
  std::optional<Tensor<f32, 1>> taken(from_dlpack<f32, 1>(std::move(p)));
  if (wrong == 0) (void)from_dlpack<f32, 1>(structure);
  if (wrong == 1) (void)from_dlpack<f32, 1>(&another);
  if (wrong == 2) (void)borrow<f32, 1>(memory, {5}, {1}, nullptr);
  c.result(*taken);
}
MISUSE(ExportedTensor, "to_dlpack") {
  const auto& y = c.in<f32, 1>({5});
  const int wrong = c.other({{"written while it is exported for reading", Outcome::Rejected},
                             {"given while it is exported for reading", Outcome::Rejected},
                             {"read while it is exported for reading", Outcome::Same},
                             {"a view of it read while it is exported for writing", Outcome::Rejected},
                             {"recorded as written while it is exported", Outcome::Rejected}});
  auto t = clone(y).sync();
  const auto v = t.view();
  auto exported = wrong == 3 ? to_dlpack(std::move(t)) : to_dlpack(t.view());
  if (wrong == 0) copy_into(mut(t), y).sync();
  if (wrong == 1) (void)to_dlpack(std::move(t));
  if (wrong == 2) (void)host(t).sync();
  if (wrong == 3) (void)host(v).sync();
  if (wrong == 4) Stream(Device::cpu()).record_write(mut(t));
  c.result(t);
}

MISUSE(LendOfWhatEnds, "mut") {
  const int wrong = c.other({{"the lent tensor was destroyed", Outcome::Either},
                             {"the lent tensor was assigned another", Outcome::Rejected, {"BorrowError", "mut"}},
                             {"it was used for an operation that has not run", Outcome::Rejected, {"BorrowError"}},
                             {"a part of it was", Outcome::Rejected, {"BorrowError"}},
                             {"it was used before", Outcome::Same}});
  std::optional y(ones<f32>({5}).sync());
  auto lent = mut(*y);
  std::optional<Op<void>> writer;
  if (wrong == 0) y.reset();
  if (wrong == 1) y = zeros<f32>({5}).sync();
  if (wrong == 2) writer = copy_into(lent, zeros<f32>({5}));
  if (wrong == 3) writer = copy_into(mut(*y).slice<0>(1, 3), zeros<f32>({2}));
  if (wrong == 4) copy_into(lent, zeros<f32>({5})).sync();
  copy_into(lent, full<f32>({5}, 2.0f)).sync();
  if (y) c.result(*y);
}
MISUSE(TensorThatEnds, "copy_into") {
  const auto& x = c.in<f32, 1>({5});
  const int wrong = c.other({{"before an operation that reads it is run", Outcome::Same},
                             {"it is assigned another before that", Outcome::Same},
                             {"before an operation that writes it is run", Outcome::Same},
                             {"it is given while an operation reads it", Outcome::Rejected, {"BorrowError"}},
                             {"it is shared while an operation writes it", Outcome::Rejected, {"BorrowError"}},
                             {"an operation is replaced by another on it", Outcome::Rejected, {"BorrowError"}}});
  std::optional from(clone(x).sync()), other(clone(x).sync());
  auto to = zeros<f32>({5}).sync();
  auto op = copy_into(mut(to), *from);
  std::optional<Op<void>> writer;
  if (wrong == 0) from.reset();
  if (wrong == 1) from = zeros<f32>({5}).sync();
  if (wrong == 2 || wrong == 4) writer = copy_into(mut(*other), zeros<f32>({5}));
  if (wrong == 2) other.reset();
  if (wrong == 2) std::move(*writer).sync();
  if (wrong == 3) (void)to_dlpack(std::move(*from));
  if (wrong == 4) (void)share(std::move(*other));
  if (wrong == 5) op = copy_into(mut(to), zeros<f32>({5}));
  std::move(op).sync();
  c.result(to);
}
MISUSE(OperationsThatConflict, "all") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"both write one tensor", Outcome::Rejected, {"BorrowError", "being written"}},
                             {"one reads what the other writes", Outcome::Rejected, {"BorrowError", "being"}},
                             {"one operation twice", Outcome::Rejected, {"BorrowError", "run or moved already"}},
                             {"the second fails when it is run", Outcome::Rejected, {"ShapeError"}}});
  auto z = zeros<f32>({5}).sync();
  const auto fill = [](Tensor<f32, 1>& t, f32 value) { return copy_into(mut(t), full<f32>({5}, value)); };
  const auto grows = [](Tensor<f32, 1>& t) {  // whose extents are not known before
    return copy_into(mut(t), ones<f32>({3}).then([](const Tensor<f32, 1>&) { return ones<f32>({7}); }));
  };
  if (wrong == 0) all(fill(y, 1), fill(y, 2)).sync();
  if (wrong == 1) all(fill(y, 1), copy_into(mut(z), y)).sync();
  auto op = fill(y, 1);
  std::optional<Op<void>> first;
  if (wrong == 2) first = std::move(op);
  if (wrong == 3) all(grows(z), std::move(op)).sync();
  all(std::move(op), fill(z, 2)).sync();
  c.result(y);
}

/// Memory for the CPU, and a call of the library first.
class Reentrant final : public Allocator {
 public:
  Reentrant(int how, SourceLocation where) : how_(how), where_(where) {}
  void* allocate(std::size_t bytes, void*) override {
    if (how_ == 0) (void)zeros<f32>({5}, where_).sync(where_);
    if (how_ == 1) (void)HostBuffer<f32>(5, Device::cpu());
    if (how_ == 2) (void)memory_stats(Device::cpu());
    if (how_ == 3) trim_memory(Device::cpu());
    if (how_ == 4) set_allocator(Device::cpu(), nullptr);
    return std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  }
  void deallocate(void* memory, std::size_t, void*) noexcept override { std::free(memory); }

 private:
  int how_;
  SourceLocation where_;
};
MISUSE(AllocatorThatCallsTheLibrary, "set_allocator") {
  const auto x = c.view<f32, 1>({5});
  const int wrong = c.other({{"it makes a tensor", Outcome::Rejected, {"DeviceError", "allocator of cpu", "tensor"}},
                             {"it makes a pinned buffer", Outcome::Same},
                             {"it asks for figures", Outcome::Same},
                             {"it trims", Outcome::Same},
                             {"it removes itself", Outcome::Same}});
  const auto where = SourceLocation::current();
  struct Restore {
    ~Restore() { set_allocator(Device::cpu(), nullptr); }
  };
  std::optional<Tensor<f32, 1>> copy;
  {
    const Restore restore;
    if (wrong >= 0) set_allocator(Device::cpu(), std::make_shared<Reentrant>(wrong, where));
    copy = clone(x).sync();
  }
  c.result(*copy);
}
MISUSE(MemoryLimitInTheMiddle, "set_memory_limit") {
  auto& y = c.out<f32, 1>({5});
  const int wrong = c.other({{"the second of two operations", Outcome::Rejected, {"out of memory on cpu", "limit"}},
                             {"the operation of then()", Outcome::Rejected, {"out of memory on cpu", "limit"}},
                             {"a part of a fork", Outcome::Rejected, {"out of memory on cpu", "limit"}},
                             {"a task after its first readback", Outcome::Rejected, {"out of memory on cpu", "limit"}},
                             {"the body of a loop", Outcome::Rejected, {"out of memory on cpu", "limit"}},
                             {"the body of a captured loop", Outcome::Rejected, {"out of memory on cpu", "limit"}},
                             {"a replay, whose memory is its graph's", Outcome::Same}});
  const auto small = ones<f32>({5}).sync();
  const auto n = ones<i32>({1}).sync();
  const auto large = [](bool reads) -> Flow<> {
    auto t = co_await zeros<f32>(Dims(4));
    if (reads) (void)co_await host(t);
    (void)co_await zeros<f32>(Dims(100000));
  };
  const auto graph = capture(large, false);
  {
    const Limit limit(wrong >= 0);
    if (wrong == 0) (void)all(clone(small), zeros<f32>({100000})).sync();
    if (wrong == 1) (void)clone(small).then([](const Tensor<f32, 1>&) { return zeros<f32>({100000}); }).sync();
    if (wrong == 2) [](auto part) -> Flow<> { co_await fork(part(false), part(true)); }(large).sync();
    if (wrong == 3) spawn(large(true)).get();
    if (wrong == 4) graph_while(n, [&] { return large(false); }).sync();
    if (wrong == 5) (void)capture([&] { return graph_while(n, [&] { return large(false); }); });
    if (wrong == 6) graph.replay().sync();
    copy_into(mut(y), small).sync();
  }
  c.result(y);
}

}  // namespace
}  // namespace tessera
