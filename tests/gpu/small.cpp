// Every kernel of the API page and of the benchmarks at small sizes, each checked, in one program without a test
// framework: the first program to run on a GPU, also under compute-sanitizer.
//
//   gpu_small [--tiny] [--only TEXT]     --tiny: the smallest sizes, for checkers that slow everything down
#include <cstdio>
#include <sstream>

#include "api/kernels.hpp"
#include "gpu/sides.hpp"
#include "harness.hpp"

namespace {

using namespace gpu_test;
using namespace tessera;
using namespace api_kernels;

/// A benchmark case at a small size.
std::string run_case(const gpu_bench::Case& c, const std::string& arguments) {
  gpu_bench::Args args;
  std::istringstream words(arguments);
  for (std::string word; words >> word;) args.set(word.substr(0, word.find('=')), word.substr(word.find('=') + 1));
  args.set("one_set", "1");
  const gpu_bench::Prepared p = c.prepare(args);
  const tessera::Stream stream = tessera::Stream::default_of(device_under_test());
  p.launch(0, stream);
  tessera::Stream(stream).synchronize();
  const gpu_bench::Accuracy a = p.check();
  if (a.error <= a.tolerance) return {};
  return "relative error " + std::to_string(a.error) + ", allowed " + std::to_string(a.tolerance);
}

constexpr const char* kCases[] = {
    "copy n=5000",
    "add n=5000 dtype=f32",
    "add n=4096 dtype=f16",
    "saxpy n=5000 dtype=f32",
    "transpose n=130",
    "softmax rows=5 columns=1024",
    "softmax rows=5 columns=1000",
    "rms_norm rows=5 columns=1024",
    "rms_norm rows=5 columns=1023",
    "layer_norm rows=5 columns=512",
    "layer_norm rows=5 columns=1000",
    "row_sum rows=5 columns=1024",
    "softmax rows=3 columns=16900 impl=library",
    "layer_norm rows=3 columns=16900 impl=library",
    "softmax rows=3 columns=16901 impl=library",
    "softmax rows=3 columns=8193 impl=library",
    "softmax rows=5 columns=600 impl=library",
    "rms_norm rows=3 columns=16901 impl=library",
    "layer_norm rows=5 columns=1000 impl=library",
    "rms_norm rows=3 columns=4099 impl=library",
    "layer_norm rows=3 columns=4099 impl=library",
    "long_softmax rows=3 columns=50257 parts=5",
    "long_softmax rows=2 columns=8193 parts=100 dtype=f32",
    "long_softmax rows=1 columns=400000 parts=100",
    "long_rms_norm rows=3 columns=50257 parts=5",
    "long_rms_norm rows=2 columns=8192 parts=100 dtype=f32",
    "long_rms_norm rows=1 columns=400000 parts=100",
    "long_layer_norm rows=3 columns=50257 parts=5",
    "long_layer_norm rows=2 columns=8193 parts=100 dtype=f32",
    "long_layer_norm rows=1 columns=400000 parts=100",
    "long_row_sum rows=3 columns=50257 parts=5",
    "long_row_sum rows=2 columns=8192 parts=100 dtype=f32",
    "long_argmax rows=3 columns=50257 parts=5",
    "long_argmax rows=2 columns=400000 dtype=f32",
    "gemm m=256 n=256 k=256 dtype=bf16 layout=NT tile=128x128x64",
    "gemm m=256 n=256 k=128 dtype=bf16 layout=NN tile=128x128x64",
    "gemm m=200 n=136 k=104 dtype=bf16 layout=TN tile=64x128x64",
    "gemm m=256 n=256 k=256 dtype=f16 layout=NT tile=128x128x64 form=blocks",
    "gemm m=256 n=256 k=256 dtype=f8e4m3 layout=NT tile=128x128x64",
    "gemm_unsafe m=128 n=256 k=128",
    "gemm m=200 n=136 k=104 dtype=bf16 layout=NT",
    "gemm m=256 n=256 k=256 dtype=f16 layout=NN",
    "gemm m=300 n=256 k=256 dtype=bf16 layout=NT impl=stream_k",
    "gemm m=128 n=128 k=1024 dtype=bf16 layout=NT impl=split_k",
    "gemm m=256 n=640 k=512 dtype=bf16 layout=NT impl=split_k row=7 parts=2",
    "gemm m=512 n=640 k=256 dtype=bf16 layout=NT row=6",
    "gemm m=520 n=328 k=264 dtype=bf16 layout=NN row=7",
    "gemm m=200 n=264 k=264 dtype=f16 layout=TN row=8",
    "gemm m=264 n=400 k=264 dtype=bf16 layout=NN row=9",
    "gemm m=256 n=320 k=256 dtype=bf16 layout=NT impl=matmul",
    "gemv m=1 n=100 k=1024",
    "few_rows m=8 n=100 k=512",
    "few_rows m=16 n=64 k=512",
    "linear m=1 n=100 k=1024",
    "linear m=8 n=100 k=512",
    "linear m=64 n=100 k=512 row=3",
    "linear m=64 n=200 k=512 row=4",
    "attention length=256 d=64 causal=1 heads=2 kv_heads=1 tile=64x128",
    "attention length=200 d=128 causal=1 heads=2 tile=64x128",
    "attention length=256 d=128 causal=0 heads=1 tile=64x128",
    "attention length=256 d=64 causal=1 heads=2 kv_heads=1",
    "attention length=200 d=128 causal=0 heads=2",
    "softmax rows=5 columns=1000 impl=library",
    "rms_norm rows=5 columns=1024 impl=library",
    "layer_norm rows=5 columns=1023 impl=library",
    "decode batch=2 length=1000 kv_heads=2 impl=naive",
    "attention_unsafe length=256 d=128 causal=1 heads=1",
    "decode batch=1 length=1000 kv_heads=2",
    "softmax rows=2 columns=50257",
};

// -- the programs of the API page, against the CPU -------------------------------------------------------------------

using tessera::bf16;
using tessera::f32;
using tessera::i32;
using tessera::kernel;

constexpr float kBf16 = 8e-3f;

Difference api_saxpy() {
  const auto hx = values_in<f32>(1000, 1, -2, 2), hy = values_in<f32>(1000, 2, -2, 2);
  const auto r = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(hx, {1000}), y = side.input(hy, {1000});
    kernel<saxpy<128>>(y.lend(), 2.0f, x.view()).sync();
    return y.take();
  });
  return close(r.cpu, r.gpu, 1e-6);
}
Difference api_add_rms_norm() {
  const auto hx = values_in<bf16>(3000, 1, -2, 2), hr = values_in<bf16>(3000, 2, -2, 2);
  const auto hw = values_in<bf16>(1000, 3, 0, 2);
  const auto r = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(hx, {3, 1000}), residual = side.input(hr, {3, 1000});
    auto w = side.input(hw, {1000});
    auto y = side.output<bf16>({3, 1000});
    kernel<add_rms_norm<1024>>(y.lend(), residual.lend(), x.view(), w.view(), 1e-6f).sync();
    auto all = y.take();
    const auto more = residual.take();
    all.insert(all.end(), more.begin(), more.end());
    return all;
  });
  return close(r.cpu, r.gpu, kBf16);
}
Difference api_logsumexp() {
  const auto hx = values_in<bf16>(5 * 300, 1, -4, 4);
  const auto r = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(hx, {5, 300});
    auto y = side.output<f32>({5});
    kernel<logsumexp<128>>(y.lend(), x.view()).sync();
    return y.take();
  });
  return close(r.cpu, r.gpu, 1e-5);
}
Difference api_blur() {
  const auto hx = values_in<f32>(37 * 50, 1, 0, 1);
  const auto r = on_both(Placement::Shifted, [&](const Side& side) {
    auto x = side.input(hx, {37, 50});
    auto y = side.output<f32>({37, 50});
    kernel<blur<16, 16>>(y.lend(), x.view()).sync();
    return y.take();
  });
  return exact(r.cpu, r.gpu);
}
Difference api_embed() {
  const auto table = values_in<bf16>(50 * 64, 1, -2, 2);
  const std::vector<i32> rows{0, 49, 7, 7, -1, 50, 1000000, 3, 12};
  const auto r = on_both(Placement::Aligned, [&](const Side& side) {
    auto t = side.input(table, {50, 64});
    auto ids = side.input(rows, {9});
    auto y = side.output<bf16>({9, 64});
    kernel<embed<4, 64>>(y.lend(), t.view(), ids.view()).sync();
    return y.take();
  });
  return exact(r.cpu, r.gpu);
}
Difference api_dropout() {
  const auto hx = values_in<f32>(3000, 1, 1, 2);
  const auto r = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(hx, {3000});
    auto y = side.output<f32>({3000});
    kernel<dropout<256>>(y.lend(), x.view(), 0.25f, std::uint64_t{42}).sync();
    return y.take();
  });
  return exact(r.cpu, r.gpu);
}
Difference api_running_product() {
  const auto hx = values_in<f32>(6 * 200, 1, 0.9, 1.1);
  const auto r = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(hx, {6, 200});
    auto y = side.output<f32>({6, 200});
    kernel<running_product<256>>(y.lend(), x.view()).sync();
    return y.take();
  });
  return close(r.cpu, r.gpu, 1e-5);
}
Difference api_histogram() {
  const auto hx = values_in<i32>(10000, 1, -3, 12);
  const auto r = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(hx, {10000});
    auto counts = side.input(std::vector<i32>(10, 0), {10});
    kernel<histogram<1024>>.blocks(10)(counts.lend(), x.view()).sync();
    return counts.take();
  });
  return exact(r.cpu, r.gpu);
}
Difference api_row_extremes() {
  const auto hx = values_in<f32>(7 * 100, 1, -5, 5);
  const auto r = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(hx, {7, 100});
    auto value = side.output<f32>({7}), longest = side.output<f32>({7});
    auto index = side.output<i32>({7});
    kernel<row_extremes<128>>(value.lend(), index.lend(), longest.lend(), x.view()).sync();
    auto all = value.take();
    for (const i32 i : index.take()) all.push_back(static_cast<f32>(i));
    for (const f32 v : longest.take()) all.push_back(v);
    return all;
  });
  return exact(r.cpu, r.gpu);
}
Difference api_collatz() {
  std::vector<i32> start(200);
  for (int i = 0; i < 200; ++i) start[static_cast<std::size_t>(i)] = i;
  const auto r = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(start, {200});
    auto y = side.output<i32>({200});
    kernel<collatz<64>>(y.lend(), x.view()).sync();
    return y.take();
  });
  return exact(r.cpu, r.gpu);
}
template <class T>
Difference api_gemm() {
  const auto ha = values_in<T>(70 * 50, 1, -2, 2), hb = values_in<T>(50 * 40, 2, -2, 2);
  const auto r = on_both(Placement::Shifted, [&](const Side& side) {
    auto a = side.input(ha, {70, 50});
    auto b = side.input(hb, {50, 40});
    auto c = side.template output<T>({70, 40});
    kernel<gemm<T, 32, 32, 32>>(c.lend(), a.view(), b.view()).sync();
    return c.take();
  });
  return close(r.cpu, r.gpu, sizeof(T) == 2 ? 8e-3 : sizeof(T) == 4 ? 1e-5 : 1e-13);
}
Difference api_attention() {
  const auto q = values_in<bf16>(2 * 4 * 100 * 32, 1, -2, 2), k = values_in<bf16>(2 * 2 * 100 * 32, 2, -2, 2);
  const auto v = values_in<bf16>(2 * 2 * 100 * 32, 3, -2, 2);
  const auto r = on_both(Placement::Aligned, [&](const Side& side) {
    auto dq = side.input(q, {2, 4, 100, 32}), dk = side.input(k, {2, 2, 100, 32}), dv = side.input(v, {2, 2, 100, 32});
    auto o = side.output<bf16>({2, 4, 100, 32});
    kernel<attention<32, 32, 32>>(o.lend(), dq.view(), dk.view(), dv.view(), 0.17f).sync();
    return o.take();
  });
  return close(r.cpu, r.gpu, kBf16);
}

struct Program {
  const char* name;
  Difference (*run)();
};
constexpr Program kPrograms[] = {
    {"api saxpy", api_saxpy},
    {"api blur", api_blur},
    {"api add_rms_norm", api_add_rms_norm},
    {"api logsumexp", api_logsumexp},
    {"api embed", api_embed},
    {"api dropout", api_dropout},
    {"api running_product", api_running_product},
    {"api histogram", api_histogram},
    {"api row_extremes", api_row_extremes},
    {"api collatz", api_collatz},
    {"api gemm f32", api_gemm<f32>},
    {"api gemm f16", api_gemm<tessera::f16>},
    {"api gemm bf16", api_gemm<bf16>},
    {"api gemm f64", api_gemm<tessera::f64>},
    {"api attention", api_attention},
};

struct Count {
  int all = 0, bad = 0;
};
template <class F>
void attempt(const std::string& name, const std::string& only, Count& count, F f) {
  if (name.find(only) == std::string::npos) return;
  std::printf("%-80s ", name.c_str());
  std::fflush(stdout);
  std::string problem;
  try {
    problem = f();
    if (!problem.empty()) problem = "WRONG: " + problem;
  } catch (const std::exception& e) { problem = std::string("FAILED: ") + e.what(); }
  ++count.all;
  count.bad += problem.empty() ? 0 : 1;
  std::printf("%s\n", problem.empty() ? "ok" : problem.c_str());
  std::fflush(stdout);
}

int run_all(bool tiny, const std::string& only) {
  tessera::set_default_device(device_under_test());
  std::printf("device %s\n", device_under_test().name().c_str());
  Count count;
  for (const Program& p : kPrograms) attempt(p.name, only, count, p.run);
  std::vector<gpu_bench::Case> cases;
  for (auto some : {gpu_bench::elementwise_cases, gpu_bench::row_cases, gpu_bench::gemm_cases, gpu_bench::few_row_cases,
                    gpu_bench::long_row_cases, gpu_bench::attention_cases}) {
    for (const auto& c : some()) cases.push_back(c);
  }
  for (const char* text : kCases) {
    const std::string line = text, name = line.substr(0, line.find(' '));
    if (tiny && line.find("50257") != std::string::npos) continue;
    for (const auto& c : cases) {
      if (name == c.name) attempt(line, only, count, [&] { return run_case(c, line.substr(name.size())); });
    }
  }
  std::printf("%d of %d small cases are right\n", count.all - count.bad, count.all);
  return count.bad == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  bool tiny = false;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "--tiny") tiny = true;
    if (a == "--only" && i + 1 < argc) only = argv[++i];
  }
  try {
    return run_all(tiny, only);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gpu_small: %s\n", e.what());
    return 1;
  }
}
