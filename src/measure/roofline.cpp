// GPUs by the driver's numbers and the table of machines; the CPU by two small probes.
#include "tessera/measure/roofline.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "measure/probes.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/runtime/cuda.hpp"

namespace tessera::measure {
namespace {

unsigned cpu_threads() {
  const auto all = static_cast<std::int64_t>(std::max(1u, std::thread::hardware_concurrency()));
  return static_cast<unsigned>(std::max<std::int64_t>(1, env_int(Env::CPU_THREADS, all, 1)));
}

/// Seconds until every thread has finished f(thread), the best of `rounds`.
template <class F>
double best_seconds(int rounds, F f) {
  double best = 1e300;
  for (int r = 0; r < rounds; ++r) {
    const auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> threads;
    for (unsigned t = 1; t < cpu_threads(); ++t) threads.emplace_back(f, t);
    f(0u);
    for (std::thread& t : threads) t.join();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// Floats in huge pages where the system grants them, as large tensors have them (runtime.md, "Memory of the CPU").
class Floats {
 public:
  explicit Floats(std::size_t count) : data_(static_cast<float*>(::operator new(count * sizeof(float), kAlignment))) {
#if defined(__linux__)
    madvise(data_, count * sizeof(float), MADV_HUGEPAGE);
#endif
    std::fill_n(data_, count, 1.0f);
  }
  ~Floats() { ::operator delete(data_, kAlignment); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  const float* data() const { return data_; }

 private:
  static constexpr std::align_val_t kAlignment{std::size_t{2} << 20};
  float* data_;
};

Roofline measure_memory() {
  constexpr std::size_t kFloats = std::size_t{64} << 20;  // 256 MB
  const Floats data(kFloats);
  const std::size_t share = kFloats / cpu_threads();
  const double seconds = best_seconds(12, [&](unsigned t) { keep(sum_of(data.data() + t * share, share)); });
  return {static_cast<double>(share * cpu_threads()) * sizeof(float) / seconds,
          concat("measured: a pure read of 256 MB with ", cpu_threads(), " threads")};
}

double measure_multiply_adds(const char* math) {
  const bool wide = std::string_view(math) == "f64";
  if (!wide && std::string_view(math) != "f32") return 0;
  constexpr long kRounds = 500'000;
  const double seconds = best_seconds(12, [&](unsigned) { keep(wide ? chain_f64(kRounds) : chain_f32(kRounds)); });
  return cpu_threads() * (wide ? kChainFlopsF64 : kChainFlopsF32) * static_cast<double>(kRounds) / seconds;
}

Roofline describe_memory(Device device) {
  if (device.kind() != DeviceKind::Cuda) return measure_memory();
  const runtime::cuda::DeviceInfo& gpu = runtime::cuda::device_info(device);
  // Two transfers a clock (CUDA C++ Best Practices Guide, "Theoretical Bandwidth Calculation").
  return {2e3 * gpu.memory_khz * (gpu.memory_bus_bits / 8.0), "memory clock and bus width"};
}

}  // namespace

const Roofline& memory_roofline(Device device) {
  static std::mutex mutex;
  static auto* const known = new std::vector<std::pair<Device, std::unique_ptr<Roofline>>>;
  const std::lock_guard lock(mutex);
  for (const auto& [which, roofline] : *known) {
    if (which == device) return *roofline;
  }
  return *known->emplace_back(device, std::make_unique<Roofline>(describe_memory(device))).second;
}

double compute_roofline(Device device, const char* math) {
  if (math == nullptr) return 0;
  if (device.kind() == DeviceKind::Cuda) {
    const runtime::cuda::DeviceInfo& gpu = runtime::cuda::device_info(device);
    const machine::Machine* known = machine::find_machine(gpu.sm());
    return known == nullptr ? 0 : 1e3 * gpu.clock_khz * gpu.num_sms * machine::rate_of(*known, math);
  }
  static std::mutex mutex;
  static auto* const known = new std::vector<std::pair<std::string, double>>;
  const std::lock_guard lock(mutex);
  for (const auto& [which, roofline] : *known) {
    if (which == math) return roofline;
  }
  return known->emplace_back(math, measure_multiply_adds(math)).second;
}

double least_ms(Device device, double bytes, double flops, const char* math) {
  const double memory = memory_roofline(device).bytes_per_second;
  if (memory <= 0) return 0;
  double seconds = bytes / memory;
  if (flops > 0) {
    const double compute = compute_roofline(device, math);
    if (compute <= 0) return 0;
    seconds = std::max(seconds, flops / compute);
  }
  return 1e3 * seconds;
}

}  // namespace tessera::measure
