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
                             {"it throws", Outcome::Rejected},
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

}  // namespace
}  // namespace tessera
