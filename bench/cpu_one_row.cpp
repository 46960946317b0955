// Products of one row with weights, y = x w^T, on the CPU backend, beside a loop that only reads as many bytes with as
// many threads. Both are timed in turn, so that what else runs on the machine slows both; the share is the median of
// the ratios of neighbours, also of the processor time, which leaves out what waits for a processor.
//
//   bench_cpu_one_row [REPETITIONS]        default: 15
//
// The weights of a type are 512 MB in several matrices, so that no cache holds them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <tessera/tessera.hpp>
#include <thread>
#include <vector>

#include "cpu_peers.hpp"
#include "tessera/kernels/linear.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

using namespace tessera;

namespace {

constexpr std::int64_t kBytes = std::int64_t{512} << 20, kMatrixBytes = std::int64_t{32} << 20;

struct Time {
  double wall, cpu;  ///< seconds; cpu: of all threads of the process
};
Time time_of(const auto& work) {
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu = std::clock();
  work();
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
          static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC};
}
int threads() {
  const char* text = std::getenv("TESSERA_CPU_THREADS");
  return text != nullptr ? std::max(1, std::atoi(text))
                         : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}
double median(std::vector<double> v) {
  std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
  return v[v.size() / 2];
}

/// Memory that is only read, in huge pages where the system grants them, as the weights have them.
const float* plain_memory() {
  constexpr std::size_t page = std::size_t{2} << 20;
  auto* memory = static_cast<float*>(std::aligned_alloc(page, kBytes));
#if defined(__linux__)
  madvise(memory, kBytes, MADV_HUGEPAGE);
#endif
  std::fill_n(memory, kBytes / static_cast<std::int64_t>(sizeof(float)), 1.0f);
  return memory;
}

template <class T>
void measure(const char* name, std::int64_t k, const float* memory, int repetitions) {
  const std::int64_t n = kMatrixBytes / static_cast<std::int64_t>(sizeof(T)) / k;
  std::vector<Tensor<T, 2>> weights;
  for (std::int64_t i = 0; i < kBytes / kMatrixBytes; ++i) weights.push_back(full<T>({n, k}, 0.5f).sync());
  const Tensor<T, 2> x = full<T>({1, k}, 0.25f).sync();
  const auto products = [&] {
    for (const Tensor<T, 2>& w : weights) (void)kernels::linear<f32>(x, w).sync();
  };
  volatile float sink = 0;
  products();
  std::vector<double> read, product, share, cpu_share;
  for (int i = 0; i < repetitions; ++i) {
    const Time plain = time_of([&] { sink = peers::read(memory, kBytes, threads()); });
    const Time ours = time_of(products);
    read.push_back(plain.wall);
    product.push_back(ours.wall);
    share.push_back(plain.wall / ours.wall);
    cpu_share.push_back(plain.cpu / ours.cpu);
  }
  const double gb = static_cast<double>(kBytes) * 1e-9;
  std::printf("| %-4s | %5lld | %5.1f GB/s | %5.1f GB/s | %5.2f | %6.2f |\n", name, static_cast<long long>(k),
              gb / median(read), gb / median(product), median(share), median(cpu_share));
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::max(1, std::atoi(argv[1])) : 15;
  const float* memory = plain_memory();
  std::printf("| type |     k |        read |     product | share | by CPU |\n|---|---|---|---|---|---|\n");
  for (const std::int64_t k : {1024, 4096}) {
    measure<bf16>("bf16", k, memory, repetitions);
    measure<f16>("f16", k, memory, repetitions);
    measure<f32>("f32", k, memory, repetitions);
    measure<f8e4m3>("fp8", k, memory, repetitions);
  }
}
