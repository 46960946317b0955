// The CPU backend against hand-vectorised loops and OpenBLAS, on random data larger than the caches. Threads come from
// the environment (TESSERA_CPU_THREADS and OPENBLAS_NUM_THREADS must agree; bench/run_cpu.sh sets both).
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <tessera/tessera.hpp>

#include "cpu_peers.hpp"

extern "C" void cblas_sgemm(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*,
                            int);

using namespace tessera;

namespace {

template <int B>
void add(Mut<f32, B> z, In<f32, dyn> x, In<f32, dyn> y) {
  z.store(x.load_like(z) + y.load_like(z));
}

template <int B>
void saxpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}

template <int N>
void softmax(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = x.load_like(y, pad::neg_inf);
  t = exp(t - max(t, axis<1>));
  y.store(t / sum(t, axis<1>));
}

template <int BM, int BN, int BK>
void gemm(MutTiles<f32, BM, BN> c, In<f32, dyn, dyn> a, In<f32, dyn, dyn> b) {
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  for (auto out : c.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, BM, BN>();
    for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
    out.store(acc);
  }
}

int threads() {
  const char* text = std::getenv("TESSERA_CPU_THREADS");
  return text ? std::max(1, std::atoi(text)) : 1;
}

constexpr long kElements = 1 << 26;  // 256 MiB a tensor

/// Random operands, made once: x and y for Tessera, the same values for the peers.
const Tensor<f32, 1>& operand(int seed) {
  static const auto x = random::uniform<f32>({kElements}, 1).sync(), y = random::uniform<f32>({kElements}, 2).sync();
  return seed == 1 ? x : y;
}
std::vector<float>& peer_operand(int seed) {
  static auto x = host(random::uniform<f32>({kElements}, 1).sync()).sync(),
              y = host(random::uniform<f32>({kElements}, 2).sync()).sync();
  return seed == 1 ? x : y;
}
std::vector<float>& peer_result() {
  static std::vector<float> z(kElements);
  return z;
}

void bytes_per_second(benchmark::State& state, double bytes) {
  state.counters["GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void add_tessera(benchmark::State& state) {
  const auto &x = operand(1), &y = operand(2);
  static auto z = zeros<f32>({kElements}).sync();
  for (auto _ : state) kernel<add<1024>>(mut(z), x, y).sync();
  bytes_per_second(state, 12.0 * kElements);
}
void add_peer(benchmark::State& state) {
  const auto &x = peer_operand(1), &y = peer_operand(2);
  auto& z = peer_result();
  for (auto _ : state) peers::add(z.data(), x.data(), y.data(), kElements, threads());
  bytes_per_second(state, 12.0 * kElements);
}

void saxpy_tessera(benchmark::State& state) {
  const auto& x = operand(1);
  static auto y = random::uniform<f32>({kElements}, 3).sync();
  for (auto _ : state) kernel<saxpy<1024>>(mut(y), 0.5f, x).sync();
  bytes_per_second(state, 12.0 * kElements);
}
void saxpy_peer(benchmark::State& state) {
  const auto& x = peer_operand(1);
  auto& y = peer_result();
  for (auto _ : state) peers::saxpy(y.data(), 0.5f, x.data(), kElements, threads());
  bytes_per_second(state, 12.0 * kElements);
}

template <int N>
void softmax_tessera(benchmark::State& state) {
  static const auto x = random::uniform<f32>({kElements / N, N}, 1).sync();
  static auto y = zeros<f32>({kElements / N, N}).sync();
  for (auto _ : state) kernel<softmax<N>>(mut(y), x).sync();
  bytes_per_second(state, 8.0 * kElements);
}
template <int N>
void softmax_peer(benchmark::State& state) {
  const auto& x = peer_operand(1);
  auto& y = peer_result();
  for (auto _ : state) peers::softmax(y.data(), x.data(), kElements / N, N, threads());
  bytes_per_second(state, 8.0 * kElements);
}

void flops(benchmark::State& state, double n) {
  state.counters["GFLOP/s"] = benchmark::Counter(2e-9 * n * n * n, benchmark::Counter::kIsIterationInvariantRate);
}
void matmul_tessera(benchmark::State& state) {
  const int n = static_cast<int>(state.range(0));
  auto a = random::uniform<f32>({n, n}, 1).sync(), b = random::uniform<f32>({n, n}, 2).sync();
  auto c = zeros<f32>({n, n}).sync();
  for (auto _ : state) kernel<gemm<256, 256, 256>>(mut(c), a, b).sync();
  flops(state, n);
}
void matmul_openblas(benchmark::State& state) {
  const int n = static_cast<int>(state.range(0));
  const auto a = host(random::uniform<f32>({n, n}, 1).sync()).sync(),
             b = host(random::uniform<f32>({n, n}, 2).sync()).sync();
  std::vector<float> c(static_cast<std::size_t>(n) * n);
  const int row_major = 101, no_transpose = 111;
  for (auto _ : state)
    cblas_sgemm(row_major, no_transpose, no_transpose, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
  flops(state, n);
}

// The result is wall time; the CPU time of all threads is reported too, because other processes disturb it less.
#define MEASURED UseRealTime()->MeasureProcessCPUTime()->Unit(benchmark::kMillisecond)
#define PAIR(ours, peer, ...)            \
  BENCHMARK(ours)->MEASURED __VA_ARGS__; \
  BENCHMARK(peer)->MEASURED __VA_ARGS__

PAIR(add_tessera, add_peer);
PAIR(saxpy_tessera, saxpy_peer);
PAIR(softmax_tessera<1024>, softmax_peer<1024>);
PAIR(softmax_tessera<4096>, softmax_peer<4096>);
PAIR(softmax_tessera<16384>, softmax_peer<16384>);
PAIR(matmul_tessera, matmul_openblas, ->Arg(2048)->Arg(4096));

}  // namespace

BENCHMARK_MAIN();
