// A launch with a tuning record that has been made before allocates no more than one without: every operator new of the
// process is counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include <tessera/tessera.hpp>

namespace {
std::atomic<long> allocations{0};
}

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes != 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using namespace tessera;

void counted(Mut<f32, 64> y, In<f32, dyn> x) { y.store(y.load() + x.load_like(y)); }

template <class F>
long allocations_of(F&& launch) {
  for (int i = 0; i < 3; ++i) launch();
  const long before = allocations;
  for (int i = 0; i < 100; ++i) launch();
  return allocations - before;
}

TEST(TunedCost, ARecordAddsNoAllocationToALaunch) {
  auto x = ones<f32>({64}).sync(), y = zeros<f32>({64}).sync();
  TuningRecord record;
  record.hints = "warps=2 occupancy=2";
  record.space = "a name that is longer than a string's own memory";
  const Stream stream = Stream::default_of(Device::cpu());
  const auto tuned = kernel<&counted>.tuned(record);
  const long plain = allocations_of([&] { kernel<&counted>(mut(y), x).on(stream); });
  EXPECT_EQ(allocations_of([&] { tuned(mut(y), x).on(stream); }), plain);
  EXPECT_EQ(allocations_of([&] { kernel<&counted>.tuned(record)(mut(y), x).on(stream); }), plain);
}

}  // namespace
