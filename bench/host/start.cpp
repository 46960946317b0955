// The cost of a start with a warm disk cache: the first launch of a kernel in a new process, up to the driver's load of
// the module; and the phases of a process that finds the cubin but no cached facts about the recording (docs/jit.md),
// like the first one after the program was linked again. The driver does nothing (null_driver.cpp) and the assembler
// gives every kernel the same image of 96 KiB, so neither is measured. Milliseconds, medians; every first launch in a
// process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <tessera/kernels/attention.hpp>
#include <tessera/kernels/gemm.hpp>
#include <tessera/tessera.hpp>
#include <vector>

#include "null_gpu.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/host/contract.hpp"
#include "tessera/ir/bytecode.hpp"
#include "tessera/ir/verifier.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/passes/apply_claims.hpp"
#include "tessera/passes/lower_checks.hpp"
#include "tessera/passes/pipeline.hpp"

namespace {

using namespace tessera;

template <int N>
void softmax(Mut<bf16, 1, N> y, In<bf16, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = cast<f32>(x.load_like(y, pad::neg_inf));
  t = exp(t - max(t, axis<1>));
  y.store(cast<bf16>(t / sum(t, axis<1>)));
}

template <class T, int BM, int BN, int BK>
void gemm(MutTiles<T, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  for (auto out : c.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<acc_t<T>, BM, BN>();
    for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
    out.store(cast<T>(acc));
  }
}

constexpr auto kAttention = kernels::attention_forward<kernels::AttentionMask::Causal, bf16, 64, 128, 128>;
constexpr auto kGemm = gemm<bf16, 128, 256, 64>;
constexpr auto kSoftmax = softmax<4096>;

/// CPU time of the calling thread in milliseconds: on a quiet machine the wall time, on a busy one without the time of
/// other programs. Nothing here waits for a disk or another thread.
double now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) * 1e-6;
}
double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

// -- the first launches of a process --

constexpr std::size_t kFirsts = 3;
const char* const kNames[kFirsts] = {"softmax", "gemm", "attention"};
using Times = std::array<double, kFirsts>;

template <class F>
double timed(F&& launch) {
  const double start = now();
  launch();
  return now() - start;
}

/// Launches kernel `only`, or all in order (-1), each for the first time.
Times first_launches(int only) {
  const Device gpu = Device::cuda(0);
  set_default_device(gpu);
  const Stream stream(gpu);
  auto x = zeros<bf16>({64, 4096}).sync(), y = zeros<bf16>({64, 4096}).sync();
  auto a = zeros<bf16>({512, 512}).sync(), b = zeros<bf16>({512, 512}).sync(), c = zeros<bf16>({512, 512}).sync();
  auto q = zeros<bf16>({1, 2, 256, 128}).sync(), k = zeros<bf16>({1, 2, 256, 128}).sync(),
       v = zeros<bf16>({1, 2, 256, 128}).sync(), o = zeros<bf16>({1, 2, 256, 128}).sync();
  Times t{};
  const auto wanted = [&](int i) { return only < 0 || only == i; };
  if (wanted(0)) t[0] = timed([&] { kernel<kSoftmax>(mut(y), x).on(stream); });
  if (wanted(1)) t[1] = timed([&] { kernel<kGemm>(mut(c), a, b).on(stream); });
  if (wanted(2)) t[2] = timed([&] { kernel<kAttention>(mut(o), q, k, v, 0.1f, 0).on(stream); });
  return t;
}

/// first_launches() in a process of its own. Throws IoError if that failed: nothing was measured then.
Times in_new_process(int only) {
  Times times{};
  int ends[2];
  if (pipe(ends) != 0) throw IoError("no pipe for a process to be measured");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    try {
      times = first_launches(only);
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      _exit(1);
    }
    const bool told = write(ends[1], times.data(), sizeof times) == sizeof times;
    _exit(told ? 0 : 1);
  }
  close(ends[1]);
  const bool told = child > 0 && read(ends[0], times.data(), sizeof times) == sizeof times;
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  if (!told) throw IoError("a first launch could not be measured");
  return times;
}

void print_first_launches() {
  constexpr int kProcesses = 31;
  in_new_process(-1);  // fills the disk cache
  std::array<std::vector<double>, kFirsts> alone, together;
  for (int i = 0; i < kProcesses; ++i) {
    for (std::size_t k = 0; k < kFirsts; ++k) alone[k].push_back(in_new_process(static_cast<int>(k))[k]);
    const Times all = in_new_process(-1);
    for (std::size_t k = 0; k < kFirsts; ++k) together[k].push_back(all[k]);
  }
  std::printf("first launch with a warm disk cache, ms\n%-12s %16s %28s\n", "kernel", "alone", "after those before");
  for (std::size_t k = 0; k < kFirsts; ++k)
    std::printf("%-12s %16.2f %28.2f\n", kNames[k], median(alone[k]), median(together[k]));
}

// -- the phases --

constexpr const char* kPhases[] = {"trace",    "verify and facts",  "clone and claims", "passes",
                                   "bytecode", "key, read, verify", "passes + bytecode"};
constexpr std::size_t kPhaseCount = std::size(kPhases);

/// A recording as a launch on row-major tensors without axes of size 1 makes it.
lang::Specialization proper(std::span<const lang::ParamInfo> params) {
  lang::Specialization s;
  for (const lang::ParamInfo& p : params) {
    if (p.is_tensor()) s.tensors.push_back({p.rank - 1, 0, (1u << p.rank) - 1});
  }
  return s;
}

/// Uses the claims of passes, as compiles do, without the time that verifying them takes.
struct Accepting final : passes::Certifier {
  std::vector<bool> judge(const ir::Function&, std::span<const analysis::Claim> claims) const override {
    return std::vector<bool>(claims.size(), true);
  }
};

template <auto K>
std::array<double, kPhaseCount> phases_of(const char* label) {
  std::vector<lang::ParamInfo> params = lang::kernel_param_infos<K>();
  lang::lay_out(params);
  const lang::Specialization specialization = proper(params);
  const jit::LaunchContract contract = detail::launch_contract(params, false);
  const passes::Target target = jit::target_for(90);
  const Accepting accepting;
  std::array<std::vector<double>, kPhaseCount> times;
  for (int i = 0; i < 101; ++i) {
    double mark = now();
    const auto lap = [&](std::size_t phase) {
      times[phase].push_back(now() - mark);
      mark = now();
    };
    const lang::Trace trace = lang::trace<K>(specialization);
    lap(0);
    ir::verify_or_throw(*trace.module);
    const auto facts = analysis::Facts::analyze(*trace.module, contract);
    lap(1);
    const std::size_t obligations = facts.obligations().size();
    const std::uint64_t held = obligations >= 64 ? ~0ull : (1ull << obligations) - 1;
    const auto copy = ir::clone(*trace.module);
    passes::apply_claims(*copy, facts.claims_of(*copy), held);
    lap(2);
    passes::Work work;
    work.certifier = &accepting;
    passes::run_passes(*copy, target, nullptr, work);
    passes::lower_checks(*copy->functions.front());
    lap(3);
    const std::vector<std::byte> bytecode = ir::write_bytecode(*copy);
    lap(4);
    jit::make_cubin(*copy, "sm_90", label, bytecode);
    lap(5);
    times[6].push_back(times[2].back() + times[3].back() + times[4].back());
  }
  std::array<double, kPhaseCount> medians;
  for (std::size_t p = 0; p < kPhaseCount; ++p) medians[p] = median(times[p]);
  return medians;
}

void print_phases() {
  const std::array<double, kPhaseCount> columns[] = {phases_of<kSoftmax>("softmax"), phases_of<kGemm>("gemm"),
                                                     phases_of<kAttention>("attention")};
  std::printf("phases without notes, in a process that is warm, ms\n%-20s", "phase");
  for (const char* name : kNames) std::printf(" %10s", name);
  std::printf("\n");
  for (std::size_t p = 0; p < kPhaseCount; ++p) {
    std::printf("%-20s", kPhases[p]);
    for (const auto& column : columns) std::printf(" %10.3f", column[p]);
    std::printf("\n");
  }
}

}  // namespace

int main() {
  try {
    const null_gpu::TemporaryFolder folder;
    null_gpu::use_empty_images(folder);
    print_first_launches();
    print_phases();
    return 0;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
