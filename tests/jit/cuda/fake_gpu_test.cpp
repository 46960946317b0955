// The whole way of a launch on a GPU: specialization, passes, assembler or bundle, cubin, driver, failed checks. The
// driver is the runtime's fake one, whose kernels are host functions; the assembler is a script that hands out an image
// that names one of them, and counts its runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>

#include <tessera/tessera.hpp>

#include "jit/collect.hpp"
#include "jit/cuda/kernels.hpp"
#include "runtime/cuda_rig.hpp"
#include "tessera/jit/bundle.hpp"
#include "tessera/jit/kernel.hpp"

namespace {

using namespace tessera;
namespace fake = runtime::cuda::fake;
namespace fs = std::filesystem;
using testing::HasSubstr;

void bundled(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) * 4.0f); }

/// What the driver was asked to launch last.
std::atomic<unsigned> last_grid{0};

/// Arguments: y, its extent and stride, x, its extent and stride.
void run_scaled(const fake::Call& call, float factor, std::int32_t* record) {
  last_grid = call.grid[0];
  const std::size_t n = call.args[1];
  auto* y = static_cast<float*>(call.memory(0, n * 4));
  const auto* x = static_cast<const float*>(call.memory(3, n * 4));
  for (std::size_t i = 0; y && x && i < n; ++i) {
    if (record && x[i] < 0 && record[0] == 0) {
      record[0] = 1;
      record[1] = static_cast<std::int32_t>(i / 64) + 1;
      record[2] = record[3] = 1;
    }
    y[i] = factor * x[i];
  }
}
void run_twice(const fake::Call& call) { run_scaled(call, 2, nullptr); }
void run_bundled(const fake::Call& call) { run_scaled(call, 4, nullptr); }
void run_careful(const fake::Call& call) { run_scaled(call, 2, reinterpret_cast<std::int32_t*>(call.args[6])); }
void run_dealt(const fake::Call& call) {
  last_grid = call.grid[0];
  auto* y = static_cast<float*>(call.memory(0, call.args[1] * 4));
  for (std::size_t i = 0; y && i < call.args[1]; ++i) y[i] = 3;
}

/// One machine for the process: compiled kernels live as long as it does.
struct Machine {
  std::string folder;
  fake::FakeDriver driver;
  std::unique_ptr<runtime::cuda::CudaBackend> backend;

  static Machine& get() {
    static Machine* const machine = new Machine;
    return *machine;
  }
  Device device() { return Device(*backend); }

  void write_image(const char* kernel, bool waits = false) const {
    const auto image = fake::FakeDriver::image(kernel, waits);
    std::ofstream(folder + "/image", std::ios::binary)
        .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
  }
  void write_assembler(const std::string& body) const {
    const std::string path = folder + "/tileiras";
    std::ofstream(path + ".new") << "#!/bin/sh\ncase \"$1\" in --version) echo 'release 13.5,'; exit 0;;\n"
                                 << "--list-versions) echo 13.1 13.2 13.3 13.4; exit 0;; esac\nfor last; do :; done\n"
                                 << "echo run >> " << folder << "/runs\n"
                                 << body << "\n";
    chmod((path + ".new").c_str(), 0755);
    fs::rename(path + ".new", path);
  }
  int runs() const {
    std::ifstream in(folder + "/runs");
    return static_cast<int>(std::count(std::istreambuf_iterator<char>(in), {}, '\n'));
  }
  /// The bundle holds `bundled` for lengths that fill its pieces.
  void write_bundle() const {
    lang::Specialization s;
    s.tensors = {{0, 0, 1}, {0, 0, 1}};
    const lang::Trace trace = lang::trace<&bundled>(s);
    jit::LaunchContract contract;
    for (int tensor = 0; tensor < 2; ++tensor) {
      contract.args.push_back({jit::ArgRole::Base, tensor, -1});
      contract.args.push_back({jit::ArgRole::Dim, tensor, 0});
      contract.args.push_back({jit::ArgRole::Stride, tensor, 0});
    }
    contract.tensors = {{0, 1, true, true}, {3, 1, false, false}};
    contract.pieces_of_tensor = 0;
    contract.piece = {64};
    const auto facts = analysis::Facts::analyze(*trace.module, contract);
    alignas(256) static float memory[64];
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    const std::uint64_t slots[] = {address, 256, 1, address, 256, 1};
    jit::CachedCubin code;
    code.cubin = fake::FakeDriver::image("bundled");
    code.label = "bundled";
    code.gpu = "sm_90";
    jit::write_bundle(folder + "/bundle",
                      {{jit::bundle_key(*trace.module, contract, facts, facts.evaluate(slots), "sm_90"), code}});
  }

 private:
  Machine() {
    std::string pattern = fs::temp_directory_path().string() + "/tessera-fake-gpu-XXXXXX";
    folder = mkdtemp(pattern.data());
    std::atexit([] { fs::remove_all(get().folder); });
    setenv("TESSERA_TILEIRAS", (folder + "/tileiras").c_str(), 1);
    setenv("TESSERA_CACHE_DIR", (folder + "/cache").c_str(), 1);
    setenv("TESSERA_BUNDLE", (folder + "/bundle").c_str(), 1);
    write_bundle();
    driver.add_kernel("twice", {6, run_twice});
    driver.add_kernel("bundled", {6, run_bundled});
    driver.add_kernel("careful", {7, run_careful});
    driver.add_kernel("dealt", {3, run_dealt});
    backend = std::make_unique<runtime::cuda::CudaBackend>(driver.table(), 0);
    set_default_device(device());
  }
};

class FakeGpu : public testing::Test {
 protected:
  FakeGpu() : machine(Machine::get()), runs_before(machine.runs()) {}
  ~FakeGpu() override {
    machine.driver.run_all();
    EXPECT_EQ(machine.driver.violation(), "");
  }
  void assembler_gives(const char* kernel, bool waits = false) const {
    machine.write_image(kernel, waits);
    machine.write_assembler("cp " + machine.folder + "/image \"$last\"");
  }
  Tensor<f32, 1> tensor(std::vector<float> values) const { return from(values, {std::ssize(values)}).sync(); }
  static std::vector<float> iota(int n) {
    std::vector<float> v(static_cast<std::size_t>(n));
    for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i);
    return v;
  }
  int runs() const { return machine.runs() - runs_before; }
  Machine& machine;
  int runs_before;
};

TEST_F(FakeGpu, AKernelGoesAllTheWayAndIsCompiledOncePerSpecialization) {
  assembler_gives("twice");
  auto x = tensor(iota(256)), y = tensor(std::vector<float>(256, -1));
  for (int i = 0; i < 3; ++i) kernel<&twice>(mut(y), x).sync();
  EXPECT_EQ(host(y).sync()[255], 510.0f);
  EXPECT_EQ(last_grid, 4u);
  EXPECT_EQ(runs(), 1);
  // A length that does not fill the pieces is another specialization of the same recording.
  auto a = tensor(iota(100)), b = tensor(std::vector<float>(100, -1));
  for (int i = 0; i < 3; ++i) kernel<&twice>(mut(b), a).sync();
  EXPECT_EQ(host(b).sync()[99], 198.0f);
  EXPECT_EQ(runs(), 2);
}

TEST_F(FakeGpu, AFailedCheckIsAnErrorWithItsLineAndTheDeviceStaysUsable) {
  assembler_gives("careful");
  auto y = tensor(std::vector<float>(256, -1));
  auto good = tensor(iota(256));
  auto values = iota(256);
  values[130] = -1;
  auto bad = tensor(values);
  try {
    kernel<&careful>(mut(y), bad).sync();
    FAIL() << "no error";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("jit/cuda/kernels.hpp:"), HasSubstr("x must not be negative"),
                                    HasSubstr("kernel careful"), HasSubstr("block (2, 0, 0)")));
  }
  kernel<&careful>(mut(y), good).sync();
  EXPECT_EQ(host(y).sync()[200], 400.0f);
}

TEST_F(FakeGpu, ThePersistentGridComesFromTheCode) {
  assembler_gives("dealt");
  auto y = tensor(std::vector<float>(64 * 5000, 0));
  kernel<&dealt>(mut(y)).sync();
  EXPECT_EQ(host(y).sync()[1000], 3.0f);
  const auto& info = runtime::cuda::device_info(machine.device());
  EXPECT_GE(last_grid, 1u);
  EXPECT_LT(last_grid, 5000u) << "a block per tile";
  EXPECT_LE(last_grid, static_cast<unsigned>(info.multiprocessors) * 32);
  auto small = tensor(std::vector<float>(64 * 3, 0));
  kernel<&dealt>(mut(small)).sync();
  EXPECT_EQ(last_grid, 3u) << "more blocks than tiles";
}

void early(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) * 2.0f - 0.0f); }
void not_early(Mut<f32, 64> y, In<f32, dyn> x) { y.store(2.0f * x.load_like(y)); }

TEST_F(FakeGpu, AKernelStartsEarlyIfItsCodeWaits) {
  using fake::Fn;
  machine.driver.add_kernel("early", {6, run_twice});
  machine.driver.add_kernel("not_early", {6, run_twice});
  const Stream stream(machine.device());
  auto x = tensor(iota(256)), y = tensor(std::vector<float>(256, -1));
  const int before = machine.driver.count(Fn::cuLaunchKernelEx);
  assembler_gives("early", true);
  for (int i = 0; i < 3; ++i) kernel<&early>(mut(y), x).on(stream);
  EXPECT_GE(machine.driver.count(Fn::cuLaunchKernelEx), before + 2);
  EXPECT_EQ(host(y).sync()[5], 10.0f);
  const int early_ones = machine.driver.count(Fn::cuLaunchKernelEx);
  assembler_gives("not_early", false);
  for (int i = 0; i < 3; ++i) kernel<&not_early>(mut(y), x).on(stream);
  EXPECT_EQ(host(y).sync()[5], 10.0f);
  EXPECT_EQ(machine.driver.count(Fn::cuLaunchKernelEx), early_ones);
}

TEST_F(FakeGpu, ABundleNeedsNoAssembler) {
  fs::remove(machine.folder + "/tileiras");
  auto x = tensor(iota(256)), y = tensor(std::vector<float>(256, -1));
  kernel<&bundled>(mut(y), x).sync();
  EXPECT_EQ(host(y).sync()[10], 40.0f);
  EXPECT_EQ(runs(), 0);
  // What is not in it is compiled as usual.
  auto a = tensor(iota(100)), b = tensor(std::vector<float>(100, -1));
  EXPECT_THROW(kernel<&bundled>(mut(b), a).sync(), CompileError);
  assembler_gives("bundled");
  kernel<&bundled>(mut(b), a).sync();
  EXPECT_EQ(host(b).sync()[10], 40.0f);
  EXPECT_EQ(runs(), 1);
}

void refused(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) * 2.0f + 1.0f); }

TEST_F(FakeGpu, AfterAFailureToCompileTheNextLaunchWorks) {
  machine.write_assembler("echo 'loc(\"somewhere.cpp\":77:3): error: too hard' >&2; exit 1");
  auto x = tensor(iota(256)), y = tensor(std::vector<float>(256, -1));
  try {
    kernel<&refused>(mut(y), x).sync();
    FAIL() << "no error";
  } catch (const CompileError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("somewhere.cpp:77"), HasSubstr("kernel refused"), HasSubstr("too hard")));
  }
  assembler_gives("twice");  // an image without this kernel: the driver refuses it
  EXPECT_THROW(kernel<&refused>(mut(y), x).sync(), Error);
  machine.driver.add_kernel("refused", {6, run_twice});
  EXPECT_EQ(host(y).sync()[3], -1.0f) << "nothing has run, and nothing is leased";
}

void shared_by_threads(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) * 3.0f - 1.0f); }

TEST_F(FakeGpu, ThreadsThatNeedTheSameKernelWaitForOneRun) {
  machine.driver.add_kernel("shared_by_threads", {6, run_twice});
  machine.write_image("shared_by_threads");
  machine.write_assembler("sleep 0.2; cp " + machine.folder + "/image \"$last\"");
  std::vector<Tensor<f32, 1>> ys;
  auto x = tensor(iota(256));
  for (int i = 0; i < 4; ++i) ys.push_back(tensor(std::vector<float>(256, -1)));
  std::vector<std::thread> threads;
  for (auto& y : ys) threads.emplace_back([&] { kernel<&shared_by_threads>(mut(y), x).sync(); });
  for (std::thread& t : threads) t.join();
  for (auto& y : ys) EXPECT_EQ(host(y).sync()[7], 14.0f);
  EXPECT_EQ(runs(), 1);
}

// -- tuning: the driver's clock says how long a kernel takes, the assembler which one it is
// ----------------------------

void takes_five(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) * 2.0f); }
void takes_three(Mut<f32, 64> y, In<f32, dyn> x) { y.store(2.0f * x.load_like(y)); }
void takes_one_and_is_wrong(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) * 3.0f); }
void is_pressed(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) + x.load_like(y)); }

template <int Factor, int Milliseconds>
void run_for(const fake::Call& call) {
  run_scaled(call, Factor, nullptr);
  call.driver.spend(Milliseconds);
}

class FakeGpuTuning : public FakeGpu {
 protected:
  FakeGpuTuning() {
    const std::pair<const char*, fake::KernelFunction> kernels[] = {{"takes_five", run_for<2, 5>},
                                                                    {"takes_three", run_for<2, 3>},
                                                                    {"takes_one_and_is_wrong", run_for<3, 1>},
                                                                    {"is_pressed", run_for<2, 1>}};
    std::string script = "for a; do if [ -f \"$a\" ]; then in=$a; fi; done\n";
    for (const auto& [name, run] : kernels) {
      machine.driver.add_kernel(name, {6, run});
      machine.write_image(name);
      fs::rename(machine.folder + "/image", machine.folder + "/image." + name);
      script += std::string("if grep -q ") + name + " \"$in\"; then cp " + machine.folder + "/image." + name +
                " \"$last\"; fi\n";
    }
    script += "if grep -q is_pressed \"$in\"; then echo 'warning: High register usage detected' >&2; fi\n";
    machine.write_assembler(script);
    options.jobs = 2;
  }
  static constexpr auto doublers =
      space("doublers", "warps=2,8", candidate<&takes_five>("five"), candidate<&takes_one_and_is_wrong>("wrong"),
            candidate<&is_pressed>("pressed"), candidate<&takes_three>("three"));
  TuneOptions options;
  Tensor<f32, 1> x = tensor(iota(256)), y = tensor(std::vector<float>(256, -1));
};

TEST_F(FakeGpuTuning, TheDevicesClockDecidesAmongTheRightOnesThatDoNotSpill) {
  const TuningReport r = tune(doublers, options, mut(y), x);
  EXPECT_EQ(runs(), 12) << "four kernels, each without hints and with two values of one: as many pieces of code";
  ASSERT_EQ(r.trials.size(), 12u);
  std::map<std::string, TrialOutcome> outcomes;
  for (const TuningTrial& t : r.trials) outcomes[t.choice + " " + t.hints] = t.outcome;
  EXPECT_EQ(outcomes["five "], TrialOutcome::Measured);
  EXPECT_EQ(outcomes["five warps=8"], TrialOutcome::Measured);
  EXPECT_EQ(outcomes["wrong "], TrialOutcome::Wrong);
  EXPECT_EQ(outcomes["pressed warps=2"], TrialOutcome::Pressure);
  EXPECT_EQ(outcomes["three warps=2"], TrialOutcome::Measured);
  EXPECT_EQ(r.best.choice, "three");
  EXPECT_EQ(r.best.hints, "");
  EXPECT_NEAR(r.best.ms, 3, 1e-6);
  EXPECT_NEAR(r.best.default_ms, 5, 1e-6);
  EXPECT_EQ(r.best.device, "Fake GPU 0");
  EXPECT_EQ(r.best.gpu, "sm_90");
  EXPECT_EQ(r.best.assembler, "13.5");
  EXPECT_EQ(host(y).sync()[5], -1.0f);
  doublers.tuned(r.best)(mut(y), x).sync();
  EXPECT_EQ(host(y).sync()[5], 10.0f);
}

TEST_F(FakeGpuTuning, ARecordOfAnotherDeviceAssemblerOrKernelIsRefused) {
  const TuningRecord fresh = tune(doublers, options, mut(y), x).best;
  const auto refusal = [&](auto&& change) -> std::string {
    TuningRecord r = fresh;
    change(r);
    try {
      kernel<&takes_three>.tuned(r)(mut(y), x).sync();
    } catch (const CompileError& error) { return error.message(); }
    return "";
  };
  EXPECT_THAT(
      refusal([](TuningRecord& r) { r.device = "Fake GPU 7"; }),
      AllOf(HasSubstr("kernel takes_three: its tuning record is stale: the device was Fake GPU 7, found Fake GPU 0"),
            HasSubstr("Tune again")));
  EXPECT_THAT(refusal([](TuningRecord& r) { r.gpu = "sm_100"; }),
              HasSubstr("the architecture was sm_100, found sm_90"));
  EXPECT_THAT(refusal([](TuningRecord& r) { r.assembler = "13.4"; }), HasSubstr("the assembler was 13.4, found 13.5"));
  EXPECT_THAT(refusal([](TuningRecord& r) { r.gpu = r.assembler = "", r.device = "cpu"; }),
              HasSubstr("the architecture was none, found sm_90"));
  EXPECT_THAT(refusal([](TuningRecord& r) { r.hash = std::string(64, '0'); }),
              HasSubstr("the kernel's hash was 000000000000"));
  EXPECT_EQ(refusal([](TuningRecord&) {}), "");
  EXPECT_EQ(refusal([](TuningRecord& r) { r.date = "yesterday"; }), "");
  EXPECT_EQ(host(y).sync()[5], 10.0f);
}

TEST_F(FakeGpuTuning, CompilingForAGpuRunsNothing) {
  options.only_compile = 90;
  options.hints = "latency=3 warps=1,4,8";
  const TuningReport r = tune(doublers, options, mut(y), x);
  ASSERT_EQ(r.trials.size(), 16u);
  EXPECT_EQ(r.trials[0].outcome, TrialOutcome::Compiled);
  EXPECT_EQ(r.trials[2].outcome, TrialOutcome::Compiled);
  EXPECT_EQ(r.trials[8].outcome, TrialOutcome::Pressure);
  EXPECT_THAT(r.trials[8].note, HasSubstr("High register usage"));
  EXPECT_EQ(r.trials[15].hints, "latency=3 warps=8");
  EXPECT_EQ(r.best, TuningRecord());
  EXPECT_EQ(host(y).sync()[5], -1.0f);
}

TEST_F(FakeGpuTuning, HintsWithoutEffectAreTheSameCode) {
  options.only_compile = 90;
  options.hints = "latency=3,4";  // of loads that feed products: there is none
  const TuningReport r = tune(doublers, options, mut(y), x);
  ASSERT_EQ(r.trials.size(), 12u);
  EXPECT_EQ(r.trials[0].outcome, TrialOutcome::Compiled);
  EXPECT_EQ(r.trials[1].outcome, TrialOutcome::Same);
  EXPECT_EQ(r.trials[2].outcome, TrialOutcome::Same);
  EXPECT_EQ(r.trials[3].outcome, TrialOutcome::Compiled);
  EXPECT_EQ(r.best, TuningRecord());
  EXPECT_EQ(host(y).sync()[5], -1.0f);
}

}  // namespace
