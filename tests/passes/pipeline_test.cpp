// The table of the passes and what follows from it: inspecting the IR after a pass, stopping, verifying after each
// pass.
#include "tessera/passes/pipeline.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "api/kernels.hpp"
#include "lang/run_kernel.hpp"
#include "passes/pass_support.hpp"
#include "passes/run_rows.hpp"
#include "tessera/base/error.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::passes {
namespace THIS_FILE {

using test::kHopper;

std::unique_ptr<ir::Module> softmax() {
  lang::TensorFacts facts;
  facts.unit_axis = 1;
  lang::Specialization specialization;
  specialization.tensors = {facts, facts};
  return std::move(lang::trace<api_kernels::softmax<256>>(specialization).module);
}

/// Notes what ran and what it made.
struct Notes final : PassObserver {
  void ran(const PassInfo& pass, int number, const ir::Module& module) override {
    EXPECT_EQ(&pass_table()[static_cast<std::size_t>(number) - 1], find_pass(pass.name));
    steps.emplace_back(pass.name, ir::print(module));
  }
  bool has(const std::string& name) const {
    return std::any_of(steps.begin(), steps.end(), [&](const auto& s) { return s.first == name; });
  }
  std::vector<std::pair<std::string, std::string>> steps;
};

Notes notes_of(const Target& target, const Tuning* tuning = nullptr) {
  Notes notes;
  const auto module = softmax();
  Work work;
  work.observer = &notes;
  run_passes(*module, target, tuning, work);
  return notes;
}

TEST(Pipeline, NamesAreUniqueAndFound) {
  std::set<std::string> names;
  for (const PassInfo& p : pass_table()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_EQ(find_pass(p.name)->name, p.name);
  }
  EXPECT_EQ(find_pass("tidy"), nullptr);
}

TEST(Pipeline, StoppingBehindAPassGivesWhatTheWholeRunHadThere) {
  const Notes whole = notes_of(kHopper);
  ASSERT_GT(whole.steps.size(), 12u);
  for (const auto& [name, text] : whole.steps) {
    const auto module = softmax();
    Work work;
    work.stop_after = name;
    run_passes(*module, kHopper, nullptr, work);
    EXPECT_EQ(ir::print(*module), text) << name;
  }
  const auto module = softmax();
  optimize(*module, kHopper);
  EXPECT_EQ(ir::print(*module), whole.steps.back().second);
}

TEST(Pipeline, ARowThatDoesNotRunStopsAsWell) {
  const auto until = softmax(), before = softmax();
  Work work;
  work.stop_after = "drop_empty_tokens_relaxed";  // softmax has nothing with relaxed token order
  run_passes(*until, kHopper, nullptr, work);
  work.stop_after = "relax_block_tokens";
  run_passes(*before, kHopper, nullptr, work);
  EXPECT_EQ(ir::print(*until), ir::print(*before));
}

TEST(Pipeline, OnlyNamedPassesRunInTheOrderOfTheTable) {
  class Names final : public PassObserver {
   public:
    void ran(const PassInfo& pass, int, const ir::Module&) override { names.emplace_back(pass.name); }
    std::vector<std::string> names;
  };
  const auto module = softmax();
  const std::vector<std::string> only = {"choose_hints", "clean_up", "watch_writes"};  // the last is for checked mode
  Names observer;
  Work work;
  work.only = only;
  work.observer = &observer;
  run_passes(*module, kHopper, nullptr, work);
  EXPECT_EQ(observer.names, (std::vector<std::string>{"clean_up", "choose_hints"}));
  const std::vector<std::string> unknown = {"clean_up", "tidy"};
  work.only = unknown;
  EXPECT_THROW(run_passes(*module, kHopper, nullptr, work), CompileError);
}

TEST(Pipeline, AnUnknownPassIsRejectedWithTheKnownOnes) {
  const auto module = softmax();
  Work work;
  work.stop_after = "tidy";
  try {
    run_passes(*module, kHopper, nullptr, work);
    FAIL() << "accepted";
  } catch (const CompileError& e) {
    EXPECT_NE(std::string(e.what()).find("there is no pass tidy; expected one of check_index_arithmetic, "),
              std::string::npos)
        << e.what();
  }
}

TEST(Pipeline, TheCpuTakesTheRowsForEveryTarget) {
  const Notes notes = notes_of({});
  ASSERT_EQ(notes.steps.size(), 2u);
  EXPECT_EQ(notes.steps[0].first, "drop_empty_tokens");
  EXPECT_EQ(notes.steps[1].first, "clean_up");
}

TEST(Pipeline, ASwitchLeavesOutTheRowsThatNameIt) {
  const Notes usual = notes_of(kHopper);
  int switches = 0;
  for (const PassInfo& p : pass_table()) {
    if (!p.switch_word) continue;
    ++switches;
    const Tuning tuning = parse_tuning(std::string(p.switch_word) + "=0");
    EXPECT_NE(tuning, Tuning{}) << p.switch_word;
    EXPECT_TRUE(usual.has(p.name)) << p.name;
    const Notes without = notes_of(kHopper, &tuning);
    for (const PassInfo& other : pass_table()) {
      const bool off = other.switch_word && std::string(other.switch_word) == p.switch_word;
      EXPECT_EQ(without.has(other.name), usual.has(other.name) && !off) << p.switch_word << ", " << other.name;
    }
  }
  EXPECT_GE(switches, 4);
}

/// Sets a knob while it lives.
struct Knob {
  explicit Knob(const char* value) : before(std::getenv("TESSERA_VERIFY") ? std::getenv("TESSERA_VERIFY") : "") {
    setenv("TESSERA_VERIFY", value, 1);
  }
  ~Knob() { setenv("TESSERA_VERIFY", before.c_str(), 1); }
  std::string before;
};

/// Takes away the last operation of the entry.
void break_it(Run& r) { r.f.body().back()->erase(); }
void leave_it(Run&) {}
constexpr Row kBroken[] = {{{"harmless", When::Always, nullptr, nullptr, ""}, leave_it},
                           {{"harmful", When::Always, nullptr, nullptr, ""}, break_it}};
constexpr std::span<const Row> kHarmless = std::span(kBroken).first(1);

TEST(Pipeline, WhatDoesNotVerifyNamesThePassAndTheKernel) {
  const Knob knob("1");
  const auto module = softmax();
  EXPECT_NO_THROW(run_rows(kHarmless, *module, kHopper, {}, {}));
  try {
    run_rows(kBroken, *module, kHopper, {}, {});
    FAIL() << "not noticed";
  } catch (const InternalError& e) {
    const std::string what = e.what(), kernel = module->functions.front()->name;
    EXPECT_NE(what.find("the pass harmful made kernel " + kernel + " invalid: "), std::string::npos) << what;
    EXPECT_NE(what.find("ends with return"), std::string::npos) << what;
  }
}

/// Adds up numbers of different widths.
void mix_types(Run& r) {
  ir::Builder b = ir::Builder::before(r.f.body().front());
  const ir::Value x = b.constant_int(ir::Elem::I32, 1), y = b.constant_int(ir::Elem::I64, 1);
  b.create(ir::Op::AddI, {x, y}, {x.type()});
}

TEST(Pipeline, WhatDoesNotVerifyNamesTheOperation) {
  const Knob knob("1");
  constexpr Row kMixing[] = {{{"mixing", When::Gpu, nullptr, nullptr, ""}, mix_types}};
  const auto module = softmax(), for_cpu = softmax();
  EXPECT_NO_THROW(run_rows(kMixing, *for_cpu, {}, {}, {}));
  try {
    run_rows(kMixing, *module, kHopper, {}, {});
    FAIL() << "not noticed";
  } catch (const InternalError& e) {
    EXPECT_NE(std::string(e.what()).find("invalid: addi: "), std::string::npos) << e.what();
  }
}

TEST(Pipeline, VerifyingIsAsked) {
  {
    const Knob knob("0");
    EXPECT_FALSE(verify_passes());
    const auto module = softmax();
    EXPECT_NO_THROW(run_rows(kBroken, *module, kHopper, {}, {}));
  }
  const Knob knob("1");
  EXPECT_TRUE(verify_passes());
}

TEST(Pipeline, TestsVerify) { EXPECT_TRUE(verify_passes()) << "tests/CMakeLists.txt sets TESSERA_VERIFY"; }

TEST(Pipeline, ClaimsAreAboutTheFirstEntry) {
  const auto module = softmax();
  Notes notes;
  Work work;
  work.claims.emplace();
  work.observer = &notes;
  run_passes(*module, kHopper, nullptr, work);
  EXPECT_TRUE(notes.has("apply_claims")) << "also without a claim: it folds";
  EXPECT_FALSE(notes.has("lower_checks"));
}

}  // namespace THIS_FILE
}  // namespace tessera::passes
