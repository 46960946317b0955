// Kernels whose chosen form NVIDIA's assembler rejects, although it is correct: the form in which they are
// compiled instead. Skipped without an assembler, and with one that accepts them.
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tessera/host/contract.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/kernels/attention.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace {

using kernels::AttentionMask;

/// Attention of 2 sequences and heads, 256 queries and keys, on an H200. `Running`, `Straight`: attention_forward's.
template <bool Running, bool Straight>
jit::CodeReport causal_of_depth_256() {
  constexpr std::uint64_t kLength = 256, kDepth = 256;
  lang::Specialization s;
  for (int tensor = 0; tensor < 4; ++tensor) s.tensors.push_back({3, 0, 0xF});
  lang::Trace trace =
      lang::trace<kernels::attention_forward<AttentionMask::Causal, bf16, 64, 128, kDepth, Running, Straight>>(s);
  const auto contract = detail::launch_contract(trace.params, false, trace.same_extents);
  const jit::Kernel kernel(std::move(trace.module), contract, {trace.name, false, {}});
  std::vector<std::uint64_t> slots;
  for (std::uint64_t tensor = 1; tensor <= 4; ++tensor) {
    const std::uint64_t head = kLength * kDepth;
    for (const std::uint64_t slot :
         {tensor << 20, std::uint64_t{2}, std::uint64_t{2}, kLength, kDepth, 2 * head, head, kDepth, std::uint64_t{1}})
      slots.push_back(slot);
  }
  slots.insert(slots.end(), {0, 0});  // scale and window
  return kernel.report(jit::target_for(90), slots);
}

class RejectedForms : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!jit::assembler_for("sm_90", &why)) GTEST_SKIP() << why;
  }
  void TearDown() override { unsetenv("TESSERA_TUNING"); }
  /// True if the assembler rejects the code when the form that the passes choose is requested.
  template <bool Running, bool Straight>
  static bool is_rejected() {
    setenv("TESSERA_TUNING", "pipeline=1", 1);
    bool rejected = false;
    try {
      causal_of_depth_256<Running, Straight>();
    } catch (const tileiras::Rejection&) { rejected = true; }
    unsetenv("TESSERA_TUNING");
    return rejected;
  }
};

TEST_F(RejectedForms, SixtyFourQueriesOfDepth256KeepTheirHints) {
  if (!is_rejected<false, false>()) GTEST_SKIP() << "this assembler accepts it";
  const jit::CodeReport r = causal_of_depth_256<false, false>();
  RecordProperty("form", jit::name_of(r.form));
  EXPECT_GT(jit::step_of(r.form, jit::Cause::Rejected), 0) << jit::name_of(r.form);
  EXPECT_NE(r.form, jit::Form::Bare);
  EXPECT_GT(r.notes.resources.registers, 0u);
  EXPECT_FALSE(jit::spills_too_much(r.notes, false)) << r.notes.resources.stack;
}

TEST_F(RejectedForms, SoDoTheyWithTheLastTileAfterTheLoop) {
  if (!is_rejected<false, true>()) GTEST_SKIP() << "this assembler accepts it";
  const jit::CodeReport r = causal_of_depth_256<false, true>();
  RecordProperty("form", jit::name_of(r.form));
  EXPECT_GT(jit::step_of(r.form, jit::Cause::Rejected), 0) << jit::name_of(r.form);
  EXPECT_GT(r.notes.resources.registers, 0u);
  EXPECT_FALSE(jit::spills_too_much(r.notes, false)) << r.notes.resources.stack;
}

TEST_F(RejectedForms, WithARunningMaximumTheyAreCompiledAsChosen) {
  EXPECT_FALSE((is_rejected<true, false>()));
  EXPECT_EQ((causal_of_depth_256<true, false>().form), jit::Form::Chosen);
}

}  // namespace
}  // namespace tessera
