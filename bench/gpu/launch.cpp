// The cost of a launch on the host, compared with the driver's own call for the same kernel on the same stream: plain
// cuLaunchKernel, the runtime's submission (order, failures), and the whole of kernel<K>(...).on(stream). Prints
// nanoseconds (median of interleaved rounds, each short enough that the driver's queue does not fill) and allocations.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <tessera/tessera.hpp>
#include <vector>

#include "count_allocations.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/lang/recording.hpp"
#include "tessera/runtime/cuda.hpp"
#include "tessera/runtime/stream.hpp"

namespace {

using namespace tessera;

template <int B>
void saxpy(Mut<f32, B> y, Scalar<f32> a, In<f32, dyn> x) {
  y.store(a * x.load_like(y) + y.load());
}

template <int B>
void blend(Mut<f32, B> y, In<f32, dyn> a, In<f32, dyn> b, In<f32, dyn> c, In<f32, dyn> d, Scalar<f32> s) {
  y.store(s * a.load_like(y) + b.load_like(y) * c.load_like(y) + d.load_like(y));
}

// -- the driver's own call ("CUDA Driver API": cuModuleLoadData, cuModuleGetFunction, cuLaunchKernel) --
struct PlainDriver {
  using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                         void**);
  Launch launch = nullptr;
  void* function = nullptr;

  PlainDriver(const void* cubin, const char* entry) {
    void* library = dlopen("libcuda.so.1", RTLD_NOW);
    auto load = reinterpret_cast<int (*)(void**, const void*)>(dlsym(library, "cuModuleLoadData"));
    auto find = reinterpret_cast<int (*)(void**, void*, const char*)>(dlsym(library, "cuModuleGetFunction"));
    launch = reinterpret_cast<Launch>(dlsym(library, "cuLaunchKernel"));
    void* module = nullptr;
    if (load(&module, cubin) != 0 || find(&function, module, entry) != 0)
      throw DeviceError("the driver rejected the cubin");
  }
};

/// The driver's stream of a Tessera stream.
void* native(const Stream& stream) {
  void* found = nullptr;
  const auto ask = runtime::host_work([&](const runtime::LaunchContext& context) { found = context.native_queue; });
  stream.core()->submit({ask, {}, {}, {}, "ask", {}});
  return found;
}

struct Row {
  const char* name;
  std::vector<double> rounds;
  long allocated = 0;
};

/// One round: launches, timed until the last call has returned; then waits for their end.
constexpr int kLaunches = 256;
template <class F>
void round_of(Row& row, const Stream& stream, F&& launch) {
  launch();
  Stream(stream).synchronize();
  const long before = allocations;
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kLaunches; ++i) launch();
  const auto end = std::chrono::steady_clock::now();
  row.allocated += allocations - before;
  row.rounds.push_back(std::chrono::duration<double, std::nano>(end - start).count() / kLaunches);
  Stream(stream).synchronize();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void print(const std::vector<Row>& rows, const std::string& gpu) {
  const auto rounds = rows.front().rounds.size();
  std::printf("host cost of a launch on %s, nanoseconds (median of %zu rounds of %d)\n", gpu.c_str(), rounds,
              kLaunches);
  const double base = median(rows.front().rounds);
  for (const Row& row : rows) {
    const double ns = median(row.rounds);
    std::printf("  %-28s %7.0f   +%5.0f   %.2f allocations\n", row.name, ns, ns - base,
                static_cast<double>(row.allocated) / (static_cast<double>(rounds) * kLaunches));
  }
}

/// The contract for saxpy's arguments.
analysis::LaunchContract saxpy_contract() {
  using Role = analysis::ArgRole;
  return {{{Role::Base, 0},
           {Role::Dim, 0, 0},
           {Role::Stride, 0, 0},
           {},
           {Role::Base, 1},
           {Role::Dim, 1, 0},
           {Role::Stride, 1, 0}},
          {{0, 1, true, true}, {4, 1, false, false}},
          0,
          {1024},
          false,
          {}};
}

int run() {
  const Device gpu = Device::cuda(0);
  set_default_device(gpu);
  const Stream stream(gpu);
  constexpr std::int64_t kElements = 4096;
  auto x = ones<f32>({kElements}).sync(), y = zeros<f32>({kElements}).sync();
  const auto xs = runtime::Storage::allocate(gpu, kElements * 4), ys = runtime::Storage::allocate(gpu, kElements * 4);

  lang::Specialization specialization;
  for (int i = 0; i < 2; ++i) specialization.tensors.push_back({0, 0, ~0u});
  const lang::Trace trace = lang::trace<saxpy<1024>>(specialization);
  const jit::Build build =
      jit::build(*trace.module, saxpy_contract(), 0, jit::target_for(runtime::cuda::device_info(gpu).sm()), "saxpy");
  const auto& cubin = build.cubin.code.cubin;
  runtime::cuda::KernelImage image;
  image.cubin = cubin;
  image.entry = build.entry;
  image.label = "kernel saxpy";
  image.num_args = build.num_args;
  image.launch_flags = build.choices.launch_flags;
  const auto loaded = runtime::cuda::load_kernel(gpu, image);
  const PlainDriver plain(cubin.data(), build.entry.c_str());
  void* const queue = native(stream);

  const auto address = [](const runtime::StorageRef& s) { return reinterpret_cast<std::uintptr_t>(s->data()); };
  std::array<std::uint64_t, 7> args{address(ys), kElements, 1, 0x40000000 /* 2.0f */, address(xs), kElements, 1};
  std::uint64_t launch_flags = 0;
  std::array<void*, 8> pointers{};
  for (std::size_t i = 0; i < args.size(); ++i) pointers[i] = &args[i];
  if (build.choices.launch_flags) pointers[args.size()] = &launch_flags;
  const std::array<runtime::Access, 2> accesses{
      {{ys, runtime::AccessMode::ReadWrite}, {xs, runtime::AccessMode::Read}}};

  auto a = ones<f32>({kElements}).sync(), b = ones<f32>({kElements}).sync(), c = ones<f32>({kElements}).sync();
  std::vector<Row> rows = {{"cuLaunchKernel", {}},
                           {"runtime submit", {}},
                           {"kernel<K>(...).on(stream)", {}},
                           {"the same, tensor given", {}},
                           {"five tensors", {}}};
  constexpr int kRounds = 101;
  for (int i = 0; i < kRounds; ++i) {
    round_of(rows[0], stream, [&] {
      plain.launch(plain.function, kElements / 1024, 1, 1, 1, 1, 1, 0, queue, pointers.data(), nullptr);
    });
    round_of(rows[1], stream, [&] {
      stream.core()->submit({loaded, {kElements / 1024, 1, 1}, args, accesses, "kernel saxpy", {}});
    });
    round_of(rows[2], stream, [&] { kernel<saxpy<1024>>(mut(y), 2.0f, x).on(stream); });
    round_of(rows[3], stream, [&] { y = kernel<saxpy<1024>>(std::move(y), 2.0f, x).on(stream); });
    round_of(rows[4], stream, [&] { kernel<blend<1024>>(mut(y), a, b, c, x, 2.0f).on(stream); });
  }
  print(rows, runtime::cuda::device_info(gpu).name);
  return 0;
}

}  // namespace

int main() {
  std::string why;
  if (!runtime::cuda::available(&why)) {
    std::printf("skipped: %s\n", why.c_str());
    return 0;
  }
  try {
    return run();
  } catch (const Error& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
