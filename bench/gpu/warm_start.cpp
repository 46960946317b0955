// The time of the first launch of a kernel that an earlier process has compiled: from the call to the enqueued launch,
// with a warm disk cache, and the driver's part of it.
//
//   gpu_warm_start [--device cuda|cpu]      run it twice: the first run fills the cache, and says so where it had to
//                                           assemble; the first run of a new build makes notes about its kernels
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "tessera/jit/cubin.hpp"
#include "tessera/jit/disk_cache.hpp"
#include "tessera/lang/trace.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/tessera.hpp"

namespace {

using namespace tessera;
using Clock = std::chrono::steady_clock;

/// Different kernels: the number is part of what they compute.
template <int I>
void rows(Mut<bf16, 1, 1024> y, In<bf16, dyn, dyn> x) {
  auto t = cast<f32>(x.load_like(y, pad::neg_inf));
  t = exp(t - max(t, axis<1>)) + static_cast<float>(I);
  y.store(cast<bf16>(t / sum(t, axis<1>)));
}
template <int I>
void products(Mut<bf16, 64, 64> c, In<bf16, dyn, dyn> a, In<bf16, dyn, dyn> b) {
  auto [i, j] = c.index();
  auto A = a.tiles(shape<64, 64>), B = b.tiles(shape<64, 64>);
  auto acc = full<f32, 64, 64>(static_cast<float>(I));
  for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
  c.store(cast<bf16>(acc));
}

double microseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}
double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

/// First launch and second launch of ten kernels.
struct Starts {
  std::vector<double> first, second;
};
template <class F>
void start(Starts& s, F launch) {
  auto begin = Clock::now();
  launch();
  s.first.push_back(microseconds(begin));
  begin = Clock::now();
  launch();
  s.second.push_back(microseconds(begin));
}
void report(const char* what, const Starts& s) {
  std::printf("  %-16s first launch %8.0f us (worst %.0f), second %6.1f us\n", what, median(s.first),
              *std::max_element(s.first.begin(), s.first.end()), median(s.second));
}

/// The driver's part: a cubin of such a kernel, loaded again and again.
template <auto K>
void report_loading(const char* what) {
  const Device gpu = default_device();
  lang::Specialization contiguous;
  for (std::size_t i = 0; i < lang::trace<K>({}).params.size(); ++i) contiguous.tensors.push_back({1, 0, ~0u});
  const lang::Trace trace = lang::trace<K>(contiguous);
  const std::string own = "sm_" + std::to_string(runtime::cuda::device_info(gpu).sm());
  const jit::Cubin made = jit::make_cubin(*trace.module, own, trace.name);
  runtime::cuda::KernelImage image;
  image.cubin = made.code.cubin;
  image.abi.entry = trace.module->functions[0]->name;
  image.label = "kernel " + trace.name;
  std::vector<double> loads;
  for (int i = 0; i < 10; ++i) {
    const auto begin = Clock::now();
    const auto kernel = runtime::cuda::load_kernel(gpu, image);
    loads.push_back(microseconds(begin));
  }
  std::printf("  %-16s cuModuleLoadData and finding the kernel %.0f us (%.0f KiB)\n", what, median(loads),
              static_cast<double>(made.code.cubin.size()) / 1024);
}

void measure() {
  const Stream s = Stream::default_of(default_device());
  const auto a = zeros<bf16>({128, 1024}).on(s), b = zeros<bf16>({1024, 128}).on(s);
  auto y = empty_like(a).on(s);
  auto c = empty<bf16>({128, 128}).on(s);
  Stream(s).synchronize();  // the context, the driver's own kernels
  Starts row, product;
  [&]<int... I>(std::integer_sequence<int, I...>) {
    (start(row, [&] { kernel<rows<I>>(mut(y), a).on(s); }), ...);
    (start(product, [&] { kernel<products<I>>(mut(c), a, b).on(s); }), ...);
  }(std::make_integer_sequence<int, 10>{});
  Stream(s).synchronize();
  report("rows", row);
  report("matrix products", product);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const bool named = argc == 3 && std::strcmp(argv[1], "--device") == 0;
    set_default_device(named ? runtime::parse_device(argv[2]) : default_device());
    const auto cache = jit::DiskCache::of_user();
    const std::size_t before = cache ? cache->list().size() : 0;
    std::printf("start of kernels on %s, host time (medians of 10 kernels)\n", default_device().name().c_str());
    measure();
    const bool gpu = default_device().kind() == DeviceKind::Cuda;
    if (gpu && cache && cache->list().size() != before)
      std::puts("  the cache was cold: these are times of the assembler; run again");
    if (gpu) {
      report_loading<&rows<100>>("rows");
      report_loading<&products<100>>("matrix products");
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_warm_start: %s\n", e.what());
    return 1;
  }
  return 0;
}
