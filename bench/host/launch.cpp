// The cost of a launch on the host, phase by phase, with a driver that does nothing: the driver's own call, the
// runtime's submission, and the whole of kernel<K>(...).on(stream). Nanoseconds (best of interleaved rounds, because
// what is measured is instructions and a shared machine only adds to them) and allocations. bench/in_flight
// measures the same on a GPU.
//
// usage: bench_launch [TEXT]     only the rows whose name contains TEXT
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>
#include <tessera/tessera.hpp>
#include <vector>

#include "count_allocations.hpp"
#include "null_gpu.hpp"
#include "tessera/runtime/access.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace {

using namespace tessera;

template <int B>
void saxpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}

template <int B>
void blend(Mut<f32, 1, B> y, In<f32, dyn, dyn> a, In<f32, dyn, dyn> b, In<f32, dyn, dyn> c, In<f32, dyn> d,
           Scalar<f32> s) {
  y.store(s * a.load_like(y) + b.load_like(y) * c.load_like(y) + d.load_like(y, axes<1>));
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

/// The driver's own call.
struct PlainDriver {
  using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                         void**);
  Launch launch = nullptr;
  PlainDriver() { cuGetProcAddress_v2("cuLaunchKernel", reinterpret_cast<void**>(&launch), 4000, 0, nullptr); }
  void operator()() const {
    std::uint64_t args[7] = {};
    void* pointers[7];
    for (int i = 0; i < 7; ++i) pointers[i] = &args[i];
    launch(nullptr, 64, 1, 1, 1, 1, 1, 0, nullptr, pointers, nullptr);
  }
};

struct Row {
  const char* name;
  double best = 1e9;
  long allocated = 0;
};

constexpr int kLaunches = 2000, kRounds = 200;
template <class F>
void measure_round(Row& row, F&& launch) {
  for (int i = 0; i < 20; ++i) launch();
  const long before = allocations;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunches; ++i) launch();
  const double ns = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
  row.best = std::min(row.best, ns / kLaunches);
  row.allocated += allocations - before;
}

/// A Launchable of the runtime that enqueues a driver kernel, like a loaded kernel.
std::shared_ptr<const runtime::Launchable> empty_kernel(const Device& gpu, const std::string& folder) {
  std::ifstream in(folder + "/image", std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(in), {}};
  runtime::cuda::KernelImage image;
  image.cubin = std::as_bytes(std::span(bytes));
  image.abi.entry = "saxpy";
  image.label = "kernel saxpy";
  image.abi.num_args = 7;
  return runtime::cuda::load_kernel(gpu, image);
}

int run(const std::string& folder, std::string_view wanted) {
  const Device gpu = Device::cuda(0);
  set_default_device(gpu);
  const Stream stream(gpu);
  auto x = zeros<f32>({1 << 12}).sync(), y = zeros<f32>({1 << 12}).sync();
  auto p = zeros<f16>({512, 512}).sync(), q = zeros<f16>({512, 512}).sync(), r = zeros<f16>({512, 512}).sync();
  auto a = zeros<f32>({8, 1024}).sync(), b = zeros<f32>({8, 1024}).sync(), c = zeros<f32>({8, 1024}).sync();
  auto d = zeros<f32>({1024}).sync();
  auto e = zeros<f32>({8, 1024}).sync();

  const auto loaded = empty_kernel(gpu, folder);
  const runtime::StorageRef xs = runtime::Storage::allocate(gpu, 4096), ys = runtime::Storage::allocate(gpu, 4096);
  const std::uint64_t args[7] = {};
  const runtime::Access accesses[2] = {{ys, runtime::AccessMode::ReadWrite}, {xs, runtime::AccessMode::Read}};
  const PlainDriver plain;

  Row rows[] = {{"cuLaunchKernel"},
                {"leases of two tensors"},
                {"runtime submit, two tensors"},
                {"saxpy, built and dropped"},
                {"saxpy, lent"},
                {"saxpy, given"},
                {"gemm, lent, persistent"},
                {"blend of five tensors, lent"},
                {"blend of five tensors, given"}};
  const auto round_of = [&](Row& row, auto&& launch) {
    if (std::string_view(row.name).find(wanted) != std::string_view::npos) measure_round(row, launch);
  };
  for (int i = 0; i < kRounds; ++i) {
    round_of(rows[0], plain);
    round_of(rows[1], [&] {
      const runtime::WriteLease write(ys, {});
      const runtime::ReadLease read(xs, {});
    });
    round_of(rows[2], [&] { stream.core()->submit({loaded, {4, 1, 1}, args, accesses, "kernel saxpy", {}}); });
    round_of(rows[3], [&] { (void)kernel<saxpy<1024>>(mut(y), 2.0f, x); });
    round_of(rows[4], [&] { kernel<saxpy<1024>>(mut(y), 2.0f, x).on(stream); });
    round_of(rows[5], [&] { y = kernel<saxpy<1024>>(std::move(y), 2.0f, x).on(stream); });
    round_of(rows[6], [&] { kernel<gemm<128, 128, 64>>(mut(r), p, q).on(stream); });
    round_of(rows[7], [&] { kernel<blend<1024>>(mut(e), a, b, c, d, 2.0f).on(stream); });
    round_of(rows[8], [&] { e = kernel<blend<1024>>(std::move(e), a, b, c, d, 2.0f).on(stream); });
  }
  std::printf("host cost of a launch, nanoseconds (best of %d rounds of %d)\n", kRounds, kLaunches);
  for (const Row& row : rows) {
    if (row.best == 1e9) continue;
    std::printf("  %-30s %6.0f   %.2f allocations\n", row.name, row.best,
                static_cast<double>(row.allocated) / (kRounds * kLaunches));
  }
  std::printf("%lu launches\n", tessera_null_driver_launches());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const null_gpu::TemporaryFolder folder;
    null_gpu::use_empty_images(folder);
    return run(folder.path(), argc > 1 ? argv[1] : "");
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
