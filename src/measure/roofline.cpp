// GPUs by the driver's numbers and a table per generation; the CPU by two small probes.
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
#include "tessera/runtime/cuda.hpp"

namespace tessera::measure {
namespace {

/// Operations per clock and SM, two for a multiply-add, dense. sm_80: NVIDIA A100 whitepaper (2020), table 1; sm_90:
/// H100 whitepaper (2022), table 2; sm_100: Blackwell architecture brief (2024), B200, divided by its 148 SMs and 1.85
/// GHz. Generations whose chips differ per SM are left out.
struct Throughput {
  int sm;
  const char* math;
  double per_clock;
};
constexpr Throughput kThroughput[] = {
    {80, "f16", 2048},   {80, "bf16", 2048}, {80, "tf32", 1024}, {80, "i8", 4096},   {80, "f32", 128},
    {80, "f64", 128},    {90, "f16", 4096},  {90, "bf16", 4096}, {90, "tf32", 2048}, {90, "f8", 8192},
    {90, "i8", 8192},    {90, "f32", 256},   {90, "f64", 256},   {100, "f16", 8192}, {100, "bf16", 8192},
    {100, "tf32", 4096}, {100, "f8", 16384}, {100, "i8", 16384}, {100, "f32", 256},
};

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
    for (const Throughput& t : kThroughput) {
      if (t.sm == gpu.sm() && std::string_view(t.math) == math) return 1e3 * gpu.clock_khz * gpu.num_sms * t.per_clock;
    }
    return 0;
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
