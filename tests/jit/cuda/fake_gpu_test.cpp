// A whole launch on a GPU: specialization, passes, assembler or bundle, cubin, driver, failed checks.
#include <gmock/gmock.h>

#include <iterator>
#include <map>
#include <thread>

#include "jit/cuda/fake_gpu.hpp"
#include "jit/cuda/kernels.hpp"

namespace {

using namespace fake_gpu;
using namespace cuda_kernels;
using testing::HasSubstr;

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

TEST_F(FakeGpu, AddressesThatAreLessAlignedHaveCodeOfTheirOwn) {
  assembler_gives("twice");
  auto x = tensor(iota(320)), y = tensor(std::vector<float>(256, -1));
  const auto from = [&](int first) {
    kernel<&twice>(mut(y), x.slice<0>(first, first + 256)).sync();
    EXPECT_EQ(host(y).sync()[10], 2.0f * static_cast<float>(first + 10));
    return runs();
  };
  const int aligned = from(0);
  EXPECT_EQ(from(64), aligned);
  EXPECT_EQ(from(1), aligned + 1) << "its code may not count on 16 bytes";
  EXPECT_EQ(from(0), aligned + 1);
  EXPECT_EQ(from(1), aligned + 1);
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
  assembler_gives("persistent");
  auto y = tensor(std::vector<float>(64 * 20000, 0));
  kernel<&persistent>(mut(y)).sync();
  EXPECT_EQ(host(y).sync()[1000], 3.0f);
  const auto& info = runtime::cuda::device_info(machine.device());
  EXPECT_GE(last_grid, 1u);
  EXPECT_LT(last_grid, 20000u) << "a block per tile";
  EXPECT_LE(last_grid, static_cast<unsigned>(info.num_sms) * 32);
  auto small = tensor(std::vector<float>(64 * 3, 0));
  kernel<&persistent>(mut(small)).sync();
  EXPECT_EQ(last_grid, 3u) << "more blocks than tiles";
}

void eight(Mut<f32, 8> y, In<f32, dyn> x) { y.store(x.load_like(y) * 2.0f); }

TEST_F(FakeGpu, ABlockTakesSeveralSmallPiecesWhereThereAreMany) {
  machine.driver.add_kernel("eight", {6, run_twice});
  assembler_gives("eight");
  const auto grid_of = [&](std::size_t n) {
    auto x = tensor(iota(n)), y = tensor(std::vector<float>(n, -1));
    kernel<&eight>(mut(y), x).sync();
    EXPECT_EQ(host(y).sync()[n - 1], 2.0f * static_cast<float>(n - 1));
    return last_grid.load();
  };
  EXPECT_EQ(grid_of(8 * 16383), 16383u) << "few";
  EXPECT_EQ(grid_of(8 * 16384), 512u) << "32 pieces of 32 bytes each";
  EXPECT_EQ(grid_of(8 * 16384 + 1), 513u) << "the last block has one piece";
  EXPECT_EQ(grid_of(8 * 100), 100u);
}

void early(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) * 2.0f - 0.0f); }
void not_early(Mut<f32, 64> y, In<f32, dyn> x) { y.store(2.0f * x.load_like(y)); }

TEST_F(FakeGpu, AKernelUsesDependentLaunchIfItsCodeWaits) {
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

void chosen(Constant<bool> careful, Mut<f32, 64> y, Constant<i32> n, In<f32, dyn> x, Constant<f32>) {
  auto t = x.load_like(y) * 2.0f;
  if (careful) t = t + static_cast<f32>(n);
  y.store(t);
}

TEST_F(FakeGpu, ConstantsAreNoArgumentsAndEachValueHasItsCode) {
  machine.driver.add_kernel("chosen", {6, run_twice});
  assembler_gives("chosen");
  auto x = tensor(iota(256)), y = tensor(std::vector<float>(256, -1));
  for (int i = 0; i < 3; ++i) kernel<&chosen>(false, mut(y), 5, x, 1.5f).sync();
  EXPECT_EQ(host(y).sync()[255], 510.0f);
  EXPECT_EQ(runs(), 1);
  for (int i = 0; i < 2; ++i) kernel<&chosen>(true, mut(y), 5, x, 1.5f).sync();
  EXPECT_EQ(runs(), 2);
  kernel<&chosen>(true, mut(y), 6, x, 1.5f).sync();
  EXPECT_EQ(runs(), 3);
}

void walks(Mut<f32, 64> y, In<f32, dyn> x) {
  auto X = x.tiles(shape<64>);
  auto sum = zeros<f32, 64>();
  for (auto i : range(X.count(0))) sum = sum + X.load(i);
  y.store(sum);
}
std::vector<std::uint64_t> seen_flags;
void run_walks(const fake::Call& call) { seen_flags.push_back(call.args[6]); }

TEST_F(FakeGpu, LaunchFlagsSayWhatMayBeReadEarly) {
  machine.driver.add_kernel("walks", {7, run_walks});
  assembler_gives("walks", true);
  const Stream stream(machine.device());
  auto x = tensor(iota(256)), y = tensor(std::vector<float>(256, -1));
  seen_flags.clear();
  kernel<&walks>(mut(y), x).on(stream);
  kernel<&walks>(mut(y), x).on(stream);
  kernel<&walks>(mut(x), y).on(stream);
  (void)host(x).sync();
  constexpr std::uint64_t trigger = std::uint64_t{1} << calling::kTriggerBit;
  EXPECT_EQ(seen_flags, (std::vector<std::uint64_t>{1, 1, trigger}))
      << "y has just been written; the last successor of this kernel read early";
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

// Rows of 200 fill three quarters of their tile of 256, rows of 140 half of it: neither has code of its own.
TEST_F(FakeGpu, ABundleServesOtherLengthsOfRows) {
  fs::remove(machine.folder + "/tileiras");
  for (const int columns : {200, 140, 60}) {
    auto x = from(iota(3 * columns), {3, columns}).sync();
    auto y = zeros<f32>({3, columns}).sync();
    kernel<&bundled_rows>(mut(y), x).sync();
    EXPECT_EQ(host(y).sync()[10], 70.0f) << columns;
  }
  auto x = from(iota(3 * 202), {3, 202}).sync();
  auto y = zeros<f32>({3, 202}).sync();
  EXPECT_THROW(kernel<&bundled_rows>(mut(y), x).sync(), CompileError) << "accesses are narrower";
  EXPECT_EQ(runs(), 0);
}

TEST_F(FakeGpu, ARunOnTheCpuLeavesWhatOtherLengthsOfRowsLookFor) {
  const jit_rig::Folder folder("collected");
  const jit_rig::Variable collect("TESSERA_COLLECT", folder.path), gpus("TESSERA_COLLECT_GPUS", "sm_90");
  struct OnCpu {
    Device before = default_device();
    OnCpu() { set_default_device(Device::cpu()); }
    ~OnCpu() { set_default_device(before); }
  };
  {
    const OnCpu cpu;
    for (const int columns : {200, 256}) {  // rows that fill their tile have nothing to refine
      auto y = zeros<f32>({3, columns}).sync();
      kernel<&bundled_rows>(mut(y), ones<f32>({3, columns}).sync()).sync();
    }
  }
  std::vector<bool> asked;
  for (const jit::Collected& c : jit::collected(folder.path)) {
    if (c.label != "bundled_rows") continue;
    asked.push_back(c.asked);
    EXPECT_EQ(c.key == Machine::rows_entry().first, !c.asked) << "what all rows of a multiple of 4 have in common";
  }
  std::sort(asked.begin(), asked.end());
  EXPECT_EQ(asked, (std::vector<bool>{false, true, true}));
}

TEST_F(FakeGpu, ABundleOfAnOlderAssemblerIsLaunchedWithTheArgumentsOfItsCode) {
  fs::remove(machine.folder + "/tileiras");
  auto values = iota(256);
  auto x = tensor(values), y = tensor(std::vector<float>(256, -1));
  kernel<&bundled_careful>(mut(y), x).sync();
  EXPECT_EQ(host(y).sync()[10], 60.0f);
  values[130] = -1;
  auto bad = tensor(values);
  EXPECT_THROW(kernel<&bundled_careful>(mut(y), bad).sync(), DeviceError) << "its record is where it looks for it";
  EXPECT_EQ(runs(), 0);
}

void rejected(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) * 2.0f + 1.0f); }

TEST_F(FakeGpu, AfterAFailureToCompileTheNextLaunchWorks) {
  machine.write_assembler("echo 'loc(\"somewhere.cpp\":77:3): error: too hard' >&2; exit 1");
  auto x = tensor(iota(256)), y = tensor(std::vector<float>(256, -1));
  try {
    kernel<&rejected>(mut(y), x).sync();
    FAIL() << "no error";
  } catch (const CompileError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("somewhere.cpp:77"), HasSubstr("kernel rejected"), HasSubstr("too hard")));
  }
  assembler_gives("twice");  // an image without this kernel: the driver rejects it
  EXPECT_THROW(kernel<&rejected>(mut(y), x).sync(), Error);
  machine.driver.add_kernel("rejected", {6, run_twice});
  EXPECT_EQ(host(y).sync()[3], -1.0f) << "nothing has run, and nothing is leased";
}

void shared_by_threads(Mut<f32, 64> y, In<f32, dyn> x) { y.store(x.load_like(y) * 3.0f - 1.0f); }

TEST_F(FakeGpu, ThreadsThatNeedTheSameKernelWaitForOneRun) {
  machine.driver.add_kernel("shared_by_threads", {6, run_twice});
  machine.write_image("image", "shared_by_threads");
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
    std::string script;
    for (const auto& [name, run] : kernels) {
      machine.driver.add_kernel(name, {6, run});
      machine.write_image(std::string("image.") + name, name);
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
  // The pressed one is also tried with tensor copies, for one block of an SM with twice its warps, by pointers, and as
  // the assembler chooses; twice its warps alone is one of the values.
  EXPECT_EQ(runs(), 16) << "four kernels, each without hints and with two values of one: as many pieces of code";
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

/// Each combination is code of its own, and one that was compiled is found again.
TEST_F(FakeGpuTuning, HintsMakeOtherCode) {
  const auto compiled = [&](const Hints& hints) {
    const int before = runs();
    kernel<&takes_three>.hints(hints)(mut(y), x).sync();
    EXPECT_EQ(host(y).sync()[5], 10.0f);
    return runs() - before;
  };
  EXPECT_EQ(compiled({.warps = 16}), 1);
  EXPECT_EQ(compiled({.warps = 16}), 0);
  EXPECT_EQ(compiled({.warps = 16, .occupancy = 1}), 1);
  EXPECT_EQ(compiled({.warps = 16, .occupancy = 2}), 1);
  EXPECT_EQ(compiled({.warps = 16}), 0);
}

TEST_F(FakeGpuTuning, ARecordOfAnotherDeviceAssemblerOrKernelIsRejected) {
  const TuningRecord fresh = tune(doublers, options, mut(y), x).best;
  const auto rejection = [&](auto&& change) -> std::string {
    TuningRecord r = fresh;
    change(r);
    try {
      kernel<&takes_three>.tuned(r)(mut(y), x).sync();
    } catch (const CompileError& error) { return error.message(); }
    return "";
  };
  EXPECT_THAT(
      rejection([](TuningRecord& r) { r.device = "Fake GPU 7"; }),
      AllOf(HasSubstr("kernel takes_three: its tuning record is stale: the device was Fake GPU 7, found Fake GPU 0"),
            HasSubstr("Tune again")));
  EXPECT_THAT(rejection([](TuningRecord& r) { r.gpu = "sm_100"; }),
              HasSubstr("the architecture was sm_100, found sm_90"));
  EXPECT_THAT(rejection([](TuningRecord& r) { r.assembler = "13.4"; }),
              HasSubstr("the assembler was 13.4, found 13.5"));
  EXPECT_THAT(rejection([](TuningRecord& r) { r.gpu = r.assembler = "", r.device = "cpu"; }),
              HasSubstr("the architecture was none, found sm_90"));
  EXPECT_THAT(rejection([](TuningRecord& r) { r.hash = std::string(64, '0'); }),
              HasSubstr("the kernel's hash was 000000000000"));
  EXPECT_EQ(rejection([](TuningRecord&) {}), "");
  EXPECT_EQ(rejection([](TuningRecord& r) { r.date = "yesterday"; }), "");
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
