// The tuner on the CPU: which points are tried, dropped, chosen, recorded and resumed; records as options of a call.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>

#include <tessera/tessera.hpp>

#include "host/expect_error.hpp"
#include "tessera/jit/cubin.hpp"

namespace THIS_FILE {

using namespace tessera;
namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

template <int B>
void scale_add(Mut<f32, B> y, In<f32, dyn> x, Scalar<f32> a) {
  y.store(y.load() + a * x.load_like(y));
}
/// One element of it is wrong.
template <int B>
void almost(Mut<f32, B> y, In<f32, dyn> x, Scalar<f32> a) {
  auto at = y.offsets();
  y.store(where(at == 4000, 0.0f, y.load() + a * x.load_like(y)));
}
/// Many times the work.
template <int B>
void slowly(Mut<f32, B> y, In<f32, dyn> x, Scalar<f32> a) {
  auto t = y.load();
  for (auto i : range(1000)) t = t + where(i == 7, a, 0.0f) * x.load_like(y);
  y.store(t);
}
template <int B>
void counts(Mut<i32, B> y, In<i32, dyn> x, Scalar<i32> extra) {
  y.store(x.load_like(y) + extra);
}

constexpr auto adders =
    space("adders", "warps=1,2", candidate<scale_add<1024>>("1024"), candidate<scale_add<512>>("512"),
          candidate("16", [](auto&&... a) { return kernel<scale_add<16>>(std::forward<decltype(a)>(a)...); }));

class Tune : public testing::Test {
 protected:
  Tune() {
    std::string pattern = fs::temp_directory_path().string() + "/tessera-tune-XXXXXX";
    folder = mkdtemp(pattern.data());
    quick.launches = 3, quick.rounds = 3, quick.jobs = 2;
  }
  ~Tune() override { fs::remove_all(folder); }
  int files() const {
    return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
  }
  static std::map<std::string, TuningTrial> by_choice(const TuningReport& r) {
    std::map<std::string, TuningTrial> m;
    for (const TuningTrial& t : r.trials) m[t.choice] = t;
    return m;
  }
  std::string folder;
  TuneOptions quick;
  Tensor<f32, 1> x = random::normal<f32>({8192}, 1).sync(), y = random::normal<f32>({8192}, 2).sync();
};

TEST_F(Tune, FindsTheFastestAndChangesNoArgument) {
  const auto before = host(y).sync();
  const TuningReport r = tune(adders, quick, mut(y), x, 2.0f);
  EXPECT_EQ(host(y).sync(), before);
  ASSERT_EQ(r.trials.size(), 3u) << "hints mean nothing on the CPU";
  EXPECT_EQ(r.trials[0].choice, "1024");
  EXPECT_EQ(r.best.kernel, "scale_add");
  EXPECT_EQ(r.best.space, "adders");
  EXPECT_EQ(r.best.device, "cpu");
  EXPECT_EQ(r.best.arguments, "mut f32[8192]:1 f32[8192]:1 2");
  EXPECT_EQ(r.best.hash.size(), 64u);
  EXPECT_GT(r.best.ms, 0);
  EXPECT_GT(r.best.default_ms, 0);
  // On a busy machine a candidate can look so slow at first that it is not measured again.
  const auto measured = std::count_if(r.trials.begin(), r.trials.end(),
                                      [](const TuningTrial& t) { return t.outcome == TrialOutcome::Measured; });
  EXPECT_GE(measured, 1);
  EXPECT_EQ(r.best.runner_up.empty(), measured < 2);
  // The record chooses the candidate.
  adders.tuned(r.best)(mut(y), x, 2.0f).sync();
  const auto after = host(y).sync(), input = host(x).sync();
  for (std::size_t i = 0; i < after.size(); ++i) ASSERT_EQ(after[i], before[i] + 2.0f * input[i]);
}

TEST_F(Tune, AWrongCandidateIsDroppedAndReported) {
  const auto wrong = space("wrong", "", candidate<scale_add<64>>("right"), candidate<almost<1024>>("almost"),
                           candidate<scale_add<1024>>("right too"));
  const auto r = tune(wrong, quick, mut(y), x, 2.0f);
  const auto trials = by_choice(r);
  EXPECT_EQ(trials.at("almost").outcome, TrialOutcome::Wrong);
  EXPECT_THAT(trials.at("almost").note, HasSubstr("argument 1: element 4000 is 0, expected "));
  EXPECT_EQ(trials.at("right").outcome, TrialOutcome::Measured);
  EXPECT_NE(trials.at("right too").outcome, TrialOutcome::Wrong);
  EXPECT_NE(r.best.choice, "almost");
}

TEST_F(Tune, AnInfinityIsNearNothing) {
  const auto overflow = space("infinite", "", candidate<scale_add<64>>("right"), candidate<almost<1024>>("almost"),
                              candidate<scale_add<1024>>("right too"));
  const auto infinite = full<f32>({8192}, std::numeric_limits<float>::infinity()).sync();
  const auto trials = by_choice(tune(overflow, quick, mut(y), infinite, 2.0f));
  EXPECT_EQ(trials.at("almost").outcome, TrialOutcome::Wrong);
  EXPECT_NE(trials.at("right too").outcome, TrialOutcome::Wrong);
}

TEST_F(Tune, IntegersAreComparedExactly) {
  auto n = arange<i32>(4096).sync();
  auto out = zeros<i32>({4096}).sync();
  const auto off_by_one =
      space("counts", "", candidate<counts<64>>("right"), candidate("one more", [](auto&& to, auto&& from, int a) {
              return kernel<counts<64>>(std::move(to), from, a + 1);
            }));
  quick.tolerance = 1;
  const auto trials = by_choice(tune(off_by_one, quick, mut(out), n, 1000000));
  EXPECT_EQ(trials.at("one more").outcome, TrialOutcome::Wrong);
  EXPECT_EQ(trials.at("right").outcome, TrialOutcome::Measured);
}

TEST_F(Tune, HopelessOnesAreGivenUpEarlyAndTheDefaultIsChosenByName) {
  const auto uneven = space("uneven", "", candidate<scale_add<1024>>("fast"), candidate<slowly<1024>>("slow"));
  const auto r = tune(uneven, quick, mut(y), x, 2.0f);
  EXPECT_EQ(by_choice(r).at("slow").outcome, TrialOutcome::Slow);
  EXPECT_EQ(r.best.choice, "fast");
  quick.first = "slow";
  const auto from_slow = tune(uneven, quick, mut(y), x, 2.0f);
  EXPECT_EQ(from_slow.trials[0].choice, "slow");
  EXPECT_EQ(from_slow.best.choice, "fast");
  EXPECT_GT(from_slow.best.default_ms, from_slow.best.ms);
  quick.first = "none";
  EXPECT_THROW(tune(uneven, quick, mut(y), x, 2.0f), CompileError);
}

TEST_F(Tune, WhatCannotBeLaunchedIsReportedAndOnlyThat) {
  const auto some = space("some", "", candidate<scale_add<64>>("good"),
                          candidate("two launches", [](auto&& to, auto&& from, float a) {
                            return all(kernel<scale_add<64>>(std::move(to), from, a));
                          }));
  const auto r = tune(some, quick, mut(y), x, 2.0f);
  EXPECT_EQ(by_choice(r).at("two launches").outcome, TrialOutcome::Failed);
  EXPECT_EQ(r.best.choice, "good");
  auto shorter = zeros<f32>({100}).sync();
  const auto none = space("none", "", candidate("grid", [](auto&& to, auto&& from, float a) {
                            return kernel<scale_add<64>>.blocks(3)(std::move(to), from, a);
                          }));
  EXPECT_ERROR(CompileError, (tune(none, quick, mut(y), x, 2.0f)), "no point of it can be used");
}

TEST_F(Tune, RecordsGoToTheFileAndTheJournalAway) {
  quick.file = folder + "/cpu.tune";
  const auto r = tune(adders, quick, mut(y), x, 2.0f);
  const auto records = read_records(quick.file);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0], r.best);
  EXPECT_EQ(files(), 2) << "the file and its lock";
  tune(adders, quick, mut(y), x, 3.0f);
  EXPECT_EQ(read_records(quick.file).size(), 2u) << "other arguments";
  tune(adders, quick, mut(y), x, 3.0f);
  EXPECT_EQ(read_records(quick.file).size(), 2u);
  const auto known = read_records(quick.file);
  ASSERT_NE(find_record(known, adders, mut(y), x, 2.0f), nullptr);
  EXPECT_EQ(*find_record(known, adders, mut(y), x, 2.0f), r.best);
  EXPECT_EQ(find_record(known, adders, mut(y), x, 4.0f), nullptr);
}

TEST_F(Tune, AFreshRecordOfAFinishedRunIsKeptIfAsked) {
  const auto r = tune(adders, {.file = folder + "/cpu.tune", .launches = 3, .rounds = 3}, mut(y), x, 2.0f);
  EXPECT_FALSE(r.kept);
  const auto again = tune(adders, {.file = folder + "/cpu.tune", .keep = true}, mut(y), x, 2.0f);
  EXPECT_TRUE(again.kept);
  EXPECT_EQ(again.best, r.best);
  EXPECT_FALSE(tune(adders, {.file = folder + "/cpu.tune", .keep = true, .launches = 3}, mut(y), x, 5.0f).kept);
  const auto changed =
      space("adders", "", candidate<slowly<1024>>("1024"), candidate<slowly<512>>("512"), candidate<slowly<16>>("16"));
  EXPECT_FALSE(
      tune(changed, {.file = folder + "/cpu.tune", .keep = true, .launches = 2, .rounds = 1}, mut(y), x, 2.0f).kept)
      << "another kernel under the same names";
}

std::atomic<int> launches_of_512{0};

TEST_F(Tune, AnInterruptedRunContinues) {
  quick.file = folder + "/cpu.tune";
  const auto counted = space("counted", "", candidate<scale_add<1024>>("1024"),
                             candidate("512",
                                       [](auto&&... a) {
                                         ++launches_of_512;
                                         return kernel<scale_add<512>>(std::forward<decltype(a)>(a)...);
                                       }),
                             candidate<almost<1024>>("wrong"), candidate<scale_add<2048>>("2048"));
  quick.seconds = 1e-9;  // the time limit is reached after the first measurement
  const auto first = tune(counted, quick, mut(y), x, 2.0f);
  EXPECT_EQ(first.trials[0].outcome, TrialOutcome::Measured);
  EXPECT_EQ(first.trials[1].outcome, TrialOutcome::NotTried);
  EXPECT_EQ(first.best.choice, "1024");
  EXPECT_EQ(files(), 3) << "the file, its lock, the journal";
  quick.seconds = 0;
  const int before = launches_of_512;
  const auto second = tune(counted, quick, mut(y), x, 2.0f);
  EXPECT_TRUE(second.trials[0].resumed);
  EXPECT_FALSE(second.trials[1].resumed);
  EXPECT_EQ(by_choice(second).at("wrong").outcome, TrialOutcome::Wrong);
  EXPECT_NE(second.trials[3].outcome, TrialOutcome::NotTried);
  EXPECT_GT(launches_of_512, before + 1);
  EXPECT_EQ(files(), 2);
}

TEST_F(Tune, WithTimeForAllPointsAllAreTried) {
  const auto some = space("some", "", candidate<scale_add<1024>>("1024"), candidate<almost<1024>>("wrong"),
                          candidate<scale_add<512>>("512"), candidate<scale_add<2048>>("2048"));
  const auto all = by_choice(tune(some, quick, mut(y), x, 2.0f));
  quick.seconds = 1000;
  for (const int jobs : {1, 3}) {
    quick.jobs = jobs;
    const auto searched = tune(some, quick, mut(y), x, 2.0f);
    for (const auto& [choice, trial] : by_choice(searched)) {
      EXPECT_NE(trial.outcome, TrialOutcome::NotTried) << choice;
      EXPECT_EQ(trial.outcome == TrialOutcome::Wrong, all.at(choice).outcome == TrialOutcome::Wrong) << choice;
    }
    EXPECT_NE(searched.best.choice, "wrong");
  }
}

TEST_F(Tune, AnInterruptedSearchContinues) {
  quick.file = folder + "/cpu.tune";
  quick.seconds = 1e-9;
  EXPECT_EQ(tune(adders, quick, mut(y), x, 2.0f).trials[0].outcome, TrialOutcome::Measured);
  quick.seconds = 1000;
  const auto again = tune(adders, quick, mut(y), x, 2.0f);
  EXPECT_TRUE(again.trials[0].resumed);
  for (const TuningTrial& trial : again.trials) EXPECT_NE(trial.outcome, TrialOutcome::NotTried) << trial.choice;
  EXPECT_EQ(files(), 2) << "the journal is gone";
  quick.keep = true;
  EXPECT_TRUE(tune(adders, quick, mut(y), x, 2.0f).kept);
}

TEST_F(Tune, ADamagedJournalLineIsForgottenOnly) {
  quick.file = folder + "/cpu.tune";
  quick.seconds = 1e-9;
  tune(adders, quick, mut(y), x, 2.0f);
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".journal") std::ofstream(entry.path(), std::ios::app) << "{\"kernel\":\"scale";
  }
  const auto again = tune(adders, quick, mut(y), x, 2.0f);
  EXPECT_TRUE(again.trials[0].resumed);
  EXPECT_FALSE(again.trials[1].resumed);
}

// -- records as options of a call ------------------------------------------------------------------------------------

TEST_F(Tune, ARecordOfAChangedKernelIsRejected) {
  const auto one = space("one", "", candidate<scale_add<1024>>("1024"));
  TuningRecord r = tune(one, quick, mut(y), x, 2.0f).best;
  one.tuned(r)(mut(y), x, 2.0f).sync();
  kernel<scale_add<1024>>.tuned(r)(mut(y), x, 2.0f).sync();
  r.hash[0] = r.hash[0] == '0' ? '1' : '0';
  EXPECT_ERROR(CompileError, (one.tuned(r)(mut(y), x, 2.0f).sync()), "stale: the kernel's hash was");
  EXPECT_ERROR(CompileError, (kernel<almost<1024>>.tuned(r)(mut(y), x, 2.0f).sync()), "Tune again");
  r.choice = "4096";
  EXPECT_ERROR(CompileError, (one.tuned(r)(mut(y), x, 2.0f).sync()), "\"4096\"");
  kernel<almost<1024>>(mut(y), x, 2.0f).sync();
}

TEST_F(Tune, AGpusRecordMeansNothingOnTheCpuButIsOfTheSameKernel) {
  TuningRecord r = tune(space("one", "", candidate<scale_add<256>>("256")), quick, mut(y), x, 2.0f).best;
  r.gpu = "sm_90", r.device = "NVIDIA H200", r.assembler = "13.5", r.hints = "warps=8";
  kernel<scale_add<256>>.tuned(r)(mut(y), x, 2.0f).sync();
  EXPECT_ERROR(CompileError, (kernel<scale_add<128>>.tuned(r)(mut(y), x, 2.0f).sync()), "stale");
}

/// The compiler's reports on the kernels that `f` launches, for a GPU.
template <class F>
std::string reports_of(const std::string& folder, F&& f) {
  setenv("TESSERA_COLLECT", folder.c_str(), 1);
  f();
  unsetenv("TESSERA_COLLECT");
  std::string text;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".txt") continue;
    std::ifstream in(entry.path());
    text.append(std::istreambuf_iterator<char>(in), {});
  }
  return text;
}

TEST_F(Tune, HintsOfTwoRecordsMakeTwoPiecesOfCode) {
  TuningRecord two, eight;
  two.hints = "warps=2", eight.hints = "warps=8 occupancy=3";
  const std::string text = reports_of(folder, [&] {
    for (int i = 0; i < 2; ++i) {
      kernel<scale_add<128>>.tuned(two)(mut(y), x, 2.0f).sync();
      kernel<scale_add<128>>.tuned(eight)(mut(y), x, 2.0f).sync();
    }
  });
  EXPECT_THAT(text, HasSubstr("hints: warps 2, CTAs per cluster 1, occupancy left"));
  EXPECT_THAT(text, HasSubstr("hints: warps 8, CTAs per cluster 1, occupancy 3"));
  EXPECT_THAT(text, HasSubstr("tuning record: warps=8 occupancy=3"));
  EXPECT_EQ(files(), 7) << "bytecode, report and mark of each, and the occupancy that one requests";
}

/// The same recording, whatever Number is.
template <int B, int Number>
void twins(Mut<f32, B> y, In<f32, dyn> x, Scalar<f32> a) {
  y.store(y.load() * a - x.load_like(y));
}

TEST_F(Tune, RecordsOfAFileAreForTheKernelsThatFit) {
  TuningRecord r = tune(space("one", "", candidate<twins<32, 0>>("32")), quick, mut(y), x, 2.0f).best;
  r.gpu = "sm_90", r.device = "NVIDIA H200", r.hints = "warps=4", r.assembler = "";
  if (const auto found = jit::assembler_for("sm_90"))
    r.assembler = std::to_string(found->major) + "." + std::to_string(found->minor);
  TuningRecord old = r, other = r;
  old.assembler = "12.9", old.hints = "warps=8";
  other.arguments = "another run", other.predicates = "0", other.hints = "warps=1";
  const std::string file = folder + "/h200.tune";
  add_record(file, r);
  add_record(file, old);
  add_record(file, other);
  setenv("TESSERA_RECORDS", file.c_str(), 1);
  const auto launch = [&](auto&& k, const char* into) {
    return reports_of(folder + into, [&] { k(mut(y), x, 2.0f).sync(); });
  };
  EXPECT_THAT(launch(kernel<twins<32, 1>>, "/fits"), HasSubstr("tuning record: warps=4"));
  EXPECT_THAT(launch(kernel<twins<64, 1>>, "/another"), Not(HasSubstr("tuning record")));
  TuningRecord trial;
  trial.hints = "occupancy=3";
  EXPECT_THAT(launch(kernel<twins<32, 2>>.tuned(trial), "/its own"), HasSubstr("tuning record: occupancy=3"));
  const std::string nowhere = folder + "/nowhere";
  setenv("TESSERA_RECORDS", nowhere.c_str(), 1);
  EXPECT_ERROR(IoError, launch(kernel<twins<32, 3>>, "/none"), "nowhere");
  unsetenv("TESSERA_RECORDS");
  EXPECT_THAT(launch(kernel<twins<32, 4>>, "/unset"), Not(HasSubstr("tuning record")));
  use_records(file);
  EXPECT_THAT(launch(kernel<twins<32, 5>>, "/used"), HasSubstr("tuning record: warps=4"));
}

template <int Number>
void scaled_rows(Mut<f32, 1, 256> y, In<f32, dyn, dyn> x) {
  y.store(x.load_like(y) * 2.0f);
}

// Rows of 200 fill three quarters of their tile, rows of 140 half of it: that is not what a record is about.
TEST_F(Tune, ARecordIsForOtherLengthsOfRows) {
  auto a = ones<f32>({3, 200}).sync(), b = zeros<f32>({3, 200}).sync();
  TuningRecord r = tune(space("one", "", candidate<scaled_rows<0>>("256")), quick, mut(b), a).best;
  r.gpu = "sm_90", r.device = "NVIDIA H200", r.hints = "warps=4", r.assembler = "";
  if (const auto found = jit::assembler_for("sm_90"))
    r.assembler = std::to_string(found->major) + "." + std::to_string(found->minor);
  const std::string file = folder + "/rows.tune";
  add_record(file, r);
  setenv("TESSERA_RECORDS", file.c_str(), 1);
  const auto launch = [&](auto&& k, std::int64_t columns) {
    auto x = ones<f32>({3, columns}).sync(), y = zeros<f32>({3, columns}).sync();
    return reports_of(folder + "/" + std::to_string(columns), [&] { k(mut(y), x).sync(); });
  };
  EXPECT_THAT(launch(kernel<scaled_rows<1>>, 200), HasSubstr("tuning record: warps=4"));
  EXPECT_THAT(launch(kernel<scaled_rows<2>>, 140), HasSubstr("tuning record: warps=4"));
  EXPECT_THAT(launch(kernel<scaled_rows<3>>, 141), Not(HasSubstr("tuning record"))) << "not a multiple of 4";
  unsetenv("TESSERA_RECORDS");
}

}  // namespace THIS_FILE
