// Kernels whose code the assembler rejects: what is launched instead, and which error the user gets.
#include <gmock/gmock.h>

#include "jit/cuda/fake_gpu.hpp"

namespace {

using namespace fake_gpu;
using jit_rig::Variable;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Two products in a loop, the second of which needs the first: what pipeline_mma rotates. Every N is other code.
template <int N>
void chained(Mut<f32, 64, 64> y, In<f16, dyn, dyn> x) {
  auto q = full<f16, 64, 64>(f16(static_cast<float>(N)));
  auto acc = zeros<f32, 64, 64>();
  for (auto j : range(0, x.tiles(shape<64, 64>).count(0))) {
    auto s = mma(q, x.tiles(shape<64, 64>).load(j, 0), zeros<f32, 64, 64>());
    acc = mma(cast<f16>(s), x.tiles(shape<64, 64>).load(j, 1), acc);
  }
  y.store(acc);
}
/// Nothing in it is rotated.
template <int N>
void simple(Mut<f32, 64> y, In<f32, dyn> x) {
  y.store(x.load_like(y) * static_cast<float>(N));
}

/// Arguments: y, its extents and strides, x, its extents and strides.
void run_chained(const fake::Call& call) {
  auto* y = static_cast<float*>(call.memory(0, call.args[1] * call.args[2] * 4));
  if (y) y[0] = 7;
}

class Rejection : public FakeGpu {
 protected:
  Rejection() {
    machine.driver.add_kernel("chained", {10, run_chained});
    machine.driver.add_kernel("simple", {6, run_twice});
    fs::create_directory(machine.folder + "/tmp");
  }
  /// `body` may end it before the kernel's image is handed out; $n is the number of the run in this test.
  void assembler_rejects(const std::string& kernel, const std::string& body) const {
    machine.write_image("image", kernel);
    machine.write_assembler("n=$(($(wc -l < " + machine.folder + "/runs) - " + std::to_string(runs_before) + "))\n" +
                            body + "\ncp " + machine.folder + "/image \"$last\"");
  }
  /// The forms of `chained` that the first step of the ladder compiles at once, beyond the chosen one.
  static constexpr int kFirstStep = 4;
  static constexpr int kSecondStep = 2;                          ///< through pointers, and without pipelining
  static constexpr int kAll = 1 + kFirstStep + kSecondStep + 1;  ///< as chosen, ..., without hints
  /// The next kernel of this test is rejected until its run `n`.
  void rejects_until(int n) const {
    assembler_rejects("chained",
                      "if [ $n -lt " + std::to_string(n) + " ]; then echo \"error: reason $n\" >&2; exit 1; fi");
  }
  template <auto K>
  std::string error(const TuningRecord* record = nullptr) {
    try {
      if (record)
        kernel<K>.tuned (*record)(mut(y), x).sync();
      else
        kernel<K>(mut(y), x).sync();
    } catch (const CompileError& e) { return e.what(); }
    return "";
  }
  float first() { return host(y).sync()[0]; }
  bool nothing_left() const { return fs::is_empty(machine.folder + "/tmp"); }

  Variable temporary{"TMPDIR", machine.folder + "/tmp"};
  Tensor<f32, 2> y = zeros<f32>({64, 64}).sync();
  Tensor<f16, 2> x = zeros<f16>({256, 128}).sync();
};

TEST_F(Rejection, AFormOfTheFirstStepRunsInstead) {
  rejects_until(2);
  EXPECT_EQ(error<&chained<1>>(), "");
  EXPECT_EQ(first(), 7.0f);
  EXPECT_EQ(runs(), 1 + kFirstStep);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(error<&chained<1>>(), "");
  EXPECT_EQ(runs(), 1 + kFirstStep) << "it is compiled once";
  EXPECT_TRUE(nothing_left());
}

TEST_F(Rejection, ThenThoseOfTheSecondStep) {
  rejects_until(2 + kFirstStep);
  EXPECT_EQ(error<&chained<14>>(), "");
  EXPECT_EQ(first(), 7.0f);
  EXPECT_EQ(runs(), 1 + kFirstStep + kSecondStep);
}

TEST_F(Rejection, ThenTheOneWithoutHints) {
  rejects_until(kAll);
  EXPECT_EQ(error<&chained<2>>(), "");
  EXPECT_EQ(first(), 7.0f);
  EXPECT_EQ(runs(), kAll);
}

TEST_F(Rejection, WhatIsAcceptedIsNotTriedInAnotherForm) {
  rejects_until(1);
  EXPECT_EQ(error<&chained<3>>(), "");
  EXPECT_EQ(runs(), 1);
}

TEST_F(Rejection, EqualFormsAreTriedOnce) {
  assembler_rejects("simple", jit_rig::kRejectsWarps);
  auto a = tensor(iota(256)), b = tensor(std::vector<float>(256, -1));
  kernel<&simple<2>>(mut(b), a).sync();
  EXPECT_EQ(host(b).sync()[3], 6.0f);
  EXPECT_EQ(runs(), 4) << "there is nothing to rotate: as chosen, in more warps, through pointers, and without hints";
}

TEST_F(Rejection, OfEveryFormReportsTheFirstReason) {
  rejects_until(100);
  EXPECT_THAT(error<&chained<4>>(), AllOf(HasSubstr("kernel chained: the assembler rejects"), HasSubstr("reason 1"),
                                          Not(HasSubstr("reason 2")), Not(HasSubstr("reason 3"))));
  EXPECT_EQ(runs(), kAll);
  EXPECT_TRUE(nothing_left());
  EXPECT_EQ(first(), 0.0f) << "nothing has run, and nothing is leased";
  EXPECT_NE(error<&chained<5>>(), "");
  EXPECT_EQ(runs(), 2 * kAll) << "another kernel is another matter";
  rejects_until(1);
  EXPECT_EQ(error<&chained<6>>(), "") << "the next kernel works";
  EXPECT_EQ(error<&chained<4>>(), "") << "and this one with an assembler that takes it";
  EXPECT_EQ(first(), 7.0f);
  EXPECT_EQ(runs(), 2 * kAll + 2);
}

TEST_F(Rejection, ACrashIsOneToo) {
  assembler_rejects("chained", "if [ $n -lt 2 ]; then kill -SEGV $$; fi");
  EXPECT_EQ(error<&chained<7>>(), "");
  EXPECT_EQ(runs(), 1 + kFirstStep);
  EXPECT_TRUE(nothing_left());
}

/// The chosen form takes longer than there is time for; others do not.
TEST_F(Rejection, BeingTooSlowLeadsToAnotherFormToo) {
  const Variable limit("TESSERA_TILEIRAS_SECONDS", "3");  // the other forms take less, however busy the machine is
  assembler_rejects("chained", "if [ $n -lt 2 ]; then sleep 60; fi");
  EXPECT_EQ(error<&chained<8>>(), "");
  EXPECT_EQ(first(), 7.0f);
  EXPECT_GT(runs(), 1);
  EXPECT_TRUE(nothing_left());
}

TEST_F(Rejection, BeingTooSlowInEveryFormIsAnError) {
  const Variable limit("TESSERA_TILEIRAS_SECONDS", "1");
  assembler_rejects("simple", "sleep 60");
  auto a = tensor(iota(256)), b = tensor(std::vector<float>(256, -1));
  std::string says;
  try {
    kernel<&simple<4>>(mut(b), a).sync();
  } catch (const CompileError& e) { says = e.what(); }
  EXPECT_THAT(says, HasSubstr("did not finish within 1 s"));
  EXPECT_TRUE(nothing_left());
}

TEST_F(Rejection, WhoAsksForHintsIsToldAtOnce) {
  rejects_until(100);
  {
    const Variable hints("TESSERA_TUNING", "warps=8");
    EXPECT_THAT(error<&chained<10>>(), HasSubstr("reason 1"));
    EXPECT_EQ(runs(), 1);
  }
  TuningRecord record;
  record.hints = "warps=4";
  EXPECT_THAT(error<&chained<10>>(&record), HasSubstr("reason 2"));
  EXPECT_EQ(runs(), 2);
  record.hints = "";  // a record that says that the defaults are best
  EXPECT_THAT(error<&chained<10>>(&record), HasSubstr("reason 3"));
  EXPECT_EQ(runs(), 2 + kAll);
  rejects_until(2 + kAll + 2);
  EXPECT_EQ(error<&chained<10>>(&record), "");
  EXPECT_EQ(runs(), 2 + kAll + 1 + kFirstStep) << "in a form of the first step";
}

TEST_F(Rejection, CheckedModeHasFallbackFormsToo) {
  set_check_mode(true);
  assembler_rejects("simple", jit_rig::kRejectsWarps);
  machine.driver.add_kernel("simple", {7, run_twice});  // the error record
  auto a = tensor(iota(256)), b = tensor(std::vector<float>(256, -1));
  kernel<&simple<3>>(mut(b), a).sync();
  set_check_mode(false);
  EXPECT_EQ(host(b).sync()[3], 6.0f);
  EXPECT_EQ(runs(), 5) << "as chosen, in more warps with plain stores or without, in the fallback form, without hints";
}

TEST_F(Rejection, ABundleHoldsTheFormThatWasAccepted) {
  fs::remove(machine.folder + "/tileiras");
  auto a = tensor(iota(256)), b = tensor(std::vector<float>(256, -1));
  kernel<&bundled_plain>(mut(b), a).sync();
  EXPECT_EQ(host(b).sync()[10], 40.0f);
  EXPECT_EQ(runs(), 0);
}

TEST_F(Rejection, TheCodeSaysItsForm) {
  const auto form_of = [&](auto traced) {
    const jit::LaunchContract contract = detail::launch_contract(traced.params, false, traced.same_extents);
    jit::Kernel k(std::move(traced.module), contract, {"chained"});
    alignas(256) static float memory[64];
    const auto address = reinterpret_cast<std::uintptr_t>(memory);
    const std::uint64_t slots[] = {address, 64, 64, 64, 1, address, 256, 128, 128, 1};
    const jit::CodeReport report = k.report(machine.device(), slots);
    EXPECT_EQ(report.form, k.code(machine.device(), slots).form);
    return std::pair(report.form, report.code);
  };
  lang::Specialization s;
  s.tensors = {{1, 0, ~0u}, {1, 0, ~0u}};
  rejects_until(1);
  const auto chosen = form_of(lang::trace<&chained<11>>(s));
  EXPECT_EQ(chosen.first, jit::Form::Chosen);
  rejects_until(1 + 2 + kFirstStep);
  const auto plain = form_of(lang::trace<&chained<12>>(s));
  EXPECT_EQ(plain.first, jit::Form::Pointers) << "of equal ones the first";
  rejects_until(1 + (kAll - 1) + kAll);
  EXPECT_EQ(form_of(lang::trace<&chained<13>>(s)).first, jit::Form::Bare);
  EXPECT_NE(chosen.second, plain.second);
}

}  // namespace
