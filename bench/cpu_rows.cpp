// Rows of f32, bf16 and f16 on the CPU backend: softmax, RMS norm, layer norm and elementwise functions, against a
// copy of the same number of bytes (std::memcpy, split over the threads), which is what memory allows. All tensors are
// 256 MiB, larger than the caches.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <tessera/tessera.hpp>

#include "cpu_peers.hpp"
#include "tessera/kernels/layer_norm.hpp"
#include "tessera/kernels/map.hpp"
#include "tessera/kernels/rms_norm.hpp"
#include "tessera/kernels/softmax.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

using namespace tessera;

namespace {

constexpr std::int64_t kBytes = 256 << 20;  // of a tensor

int threads() {
  const char* text = std::getenv("TESSERA_CPU_THREADS");
  return text ? std::max(1, std::atoi(text)) : 1;
}

void count_bytes(benchmark::State& state) {
  state.counters["GB/s"] = benchmark::Counter(2e-9 * kBytes, benchmark::Counter::kIsIterationInvariantRate);
}

/// What the kernels read and write, made once for an element type; every row length is a view of it.
template <class T>
struct Operands {
  static constexpr std::int64_t elements = kBytes / static_cast<std::int64_t>(sizeof(T));
  Tensor<T, 1> x = random::normal<T>({elements}, 1).sync(), y = zeros<T>({elements}).sync();
  Tensor<T, 1> weight = random::normal<T>({16384}, 2).sync(), bias = random::normal<T>({16384}, 3).sync();
};
template <class T>
struct Rows {
  View<T, 2> x;
  Tensor<T, 2> y;
  View<T, 1> weight, bias;
};

/// One kernel over the same matrices again and again: the results are not allocated anew.
template <class T, class F>
void over_rows(benchmark::State& state, std::int64_t columns, F launch) {
  static Operands<T> o;
  const Dims<2> shape({Operands<T>::elements / columns, columns});
  Rows<T> r{reshape(o.x.view(), shape), reshape(std::move(o.y), shape), o.weight.template slice<0>(0, columns),
            o.bias.template slice<0>(0, columns)};
  for (auto _ : state) launch(r);
  o.y = reshape(std::move(r.y), Dims<1>({Operands<T>::elements}));
  count_bytes(state);
}

template <class T, int N>
void softmax(benchmark::State& state) {
  over_rows<T>(state, N, [](Rows<T>& r) { kernel<kernels::softmax_row<false, T, N>>(mut(r.y), r.x).sync(); });
}
template <class T, int N>
void rms_norm(benchmark::State& state) {
  over_rows<T>(state, N,
               [](Rows<T>& r) { kernel<kernels::rms_norm_row<T, T, N>>(mut(r.y), r.x, r.weight, 1e-6f).sync(); });
}
template <class T, int N>
void layer_norm(benchmark::State& state) {
  over_rows<T>(state, N, [](Rows<T>& r) {
    kernel<kernels::layer_norm_row<T, T, N>>(mut(r.y), r.x, r.weight, r.bias, 1e-5f).sync();
  });
}

template <class T, int N>
void silu_pieces(Mut<T, 1, N> y, In<T, dyn, dyn> x) {
  auto t = kernels::widen(x.load_like(y));
  y.store(kernels::narrow<T>(t / (exp(-t) + 1.0f)));
}
template <class T, int N>
void silu(benchmark::State& state) {
  over_rows<T>(state, N, [](Rows<T>& r) { kernel<silu_pieces<T, N>>(mut(r.y), r.x).sync(); });
}
template <class T, int N>
void scale_pieces(Mut<T, 1, N> y, In<T, dyn, dyn> x) {
  y.store(kernels::narrow<T>(kernels::widen(x.load_like(y)) * 0.5f + 0.25f));
}
template <class T, int N>
void scale(benchmark::State& state) {
  over_rows<T>(state, N, [](Rows<T>& r) { kernel<scale_pieces<T, N>>(mut(r.y), r.x).sync(); });
}

/// Memory as a tensor of this size gets it: in huge pages.
std::unique_ptr<char, decltype(&std::free)> pages() {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  char* memory = static_cast<char*>(std::aligned_alloc(kHugePage, kBytes));
#if defined(__linux__)
  madvise(memory, kBytes, MADV_HUGEPAGE);
#endif
  std::memset(memory, 1, kBytes);
  return {memory, &std::free};
}
void copy(benchmark::State& state) {
  const auto from = pages(), to = pages();
  for (auto _ : state) peers::copy(to.get(), from.get(), kBytes, threads());
  count_bytes(state);
}

#define MEASURED UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond)
#define ROWS(kernel, n)                 \
  BENCHMARK(kernel<f32, n>)->MEASURED;  \
  BENCHMARK(kernel<bf16, n>)->MEASURED; \
  BENCHMARK(kernel<f16, n>)->MEASURED

BENCHMARK(copy)->MEASURED;
ROWS(softmax, 1024);
ROWS(softmax, 4096);
ROWS(rms_norm, 1024);
ROWS(rms_norm, 4096);
ROWS(layer_norm, 1024);
ROWS(silu, 8192);
ROWS(scale, 8192);

}  // namespace
