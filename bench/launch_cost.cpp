// What a launch costs the host: building the operation, checks, leases, the specialization, submission. The device of
// this program takes every piece of work and does nothing, so that nothing else is measured. Prints nanoseconds and
// allocations per launch; on a GPU bench/gpu measures the same beside the driver's own call.
#include <tessera/tessera.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tessera/runtime/stream.hpp"

namespace {
std::atomic<long> allocations{0};
}

void* operator new(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes != 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace tessera;

class DoneEvent final : public runtime::Event {
 public:
  explicit DoneEvent(const runtime::Backend& backend) : backend_(backend) {}
  bool done() const override { return true; }
  void wait() const override {}
  const runtime::Backend& backend() const noexcept override { return backend_; }

 private:
  const runtime::Backend& backend_;
};

class NullQueue final : public runtime::Queue {
 public:
  explicit NullQueue(const runtime::Backend& backend) : backend_(backend) {}
  void launch(const runtime::Submission&, std::uint64_t) override { ++launches; }
  runtime::EventRef record() override { return std::make_shared<DoneEvent>(backend_); }
  void wait(const runtime::EventRef&) override {}
  void release(runtime::Retired& memory) override { std::free(memory.memory); }
  void synchronize() override {}
  static inline long launches = 0;

 private:
  const runtime::Backend& backend_;
};

class NullDevice final : public runtime::Backend {
 public:
  ~NullDevice() override { close_default_stream(); }
  DeviceKind kind() const noexcept override { return DeviceKind::Fake; }
  int ordinal() const noexcept override { return 0; }
  const std::string& name() const noexcept override { return name_; }
  void* allocate(std::size_t bytes) override { return std::aligned_alloc(256, (bytes + 255) / 256 * 256); }
  void free(void* memory, std::size_t) noexcept override { std::free(memory); }
  std::unique_ptr<runtime::Queue> make_queue(bool, std::shared_ptr<runtime::QueueObserver>) override {
    return std::make_unique<NullQueue>(*this);
  }
  bool queues_hold_storages() const noexcept override { return false; }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, std::uint8_t value, std::size_t bytes) override { std::memset(to, value, bytes); }
  bool host_accessible() const noexcept override { return true; }

 private:
  std::string name_ = "null";
};

template <int B>
void saxpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}

template <int BM, int BN, int BK>
void gemm(MutTiles<f16, BM, BN> c, In<f16, dyn, dyn> a, In<f16, dyn, dyn> b) {
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  for (auto out : c) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, BM, BN>();
    for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
    out.store(cast<f16>(acc));
  }
}

template <class F>
void measure(const char* name, F&& launch) {
  for (int i = 0; i < 1000; ++i) launch();
  constexpr int kRounds = 20000;
  double best = 1e9;
  long allocated = 0;
  for (int repeat = 0; repeat < 9; ++repeat) {
    const long before = allocations;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kRounds; ++i) launch();
    const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, ns / kRounds);
    allocated = allocations - before;
  }
  std::printf("%-28s %6.0f ns   %.2f allocations\n", name, best, static_cast<double>(allocated) / kRounds);
}

}  // namespace

int main() {
  static NullDevice null;
  const Device device(null);
  const Stream stream = Stream::default_of(device);
  set_default_device(device);
  auto x = zeros<f32>({1 << 16}).sync();
  auto y = zeros<f32>({1 << 16}).sync();
  measure("saxpy, lent", [&] { kernel<saxpy<1024>>(mut(y), 2.0f, x).on(stream); });
  auto a = zeros<f16>({512, 512}).sync(), b = zeros<f16>({512, 512}).sync(), c = zeros<f16>({512, 512}).sync();
  measure("gemm, lent, persistent", [&] { kernel<gemm<128, 128, 64>>(mut(c), a, b).on(stream); });
  std::printf("%ld launches\n", NullQueue::launches);
}
