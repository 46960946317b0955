// Typed hints: which numbers are taken, and that they are those of a record with the same words.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "host/expect_error.hpp"
#include "tessera/base/error.hpp"
#include "tessera/jit/tuning.hpp"
#include "tessera/passes/tuning_text.hpp"

namespace tessera::test {
namespace THIS_FILE {

jit::TuningId of_record(const char* words) {
  TuningRecord r;
  r.hints = words;
  return jit::intern_tuning(r);
}

TEST(Hints, AreThoseOfARecordWithTheSameWords) {
  EXPECT_EQ(jit::intern_hints({.warps = 8}), of_record("warps=8"));
  EXPECT_EQ(jit::intern_hints({.warps = 8}), jit::intern_hints({.warps = 8}));
  EXPECT_NE(jit::intern_hints({.warps = 8}), jit::intern_hints({.warps = 4}));
  const Hints all = {.warps = 4, .ctas = 2, .occupancy = 3, .latency = 5, .pieces = 16, .early_tiles = 7};
  const passes::Tuning made = passes::parse_tuning(jit::interned_tuning(jit::intern_hints(all)).hints);
  EXPECT_EQ(made.warps, 4);
  EXPECT_EQ(made.ctas, 2);
  EXPECT_EQ(made.occupancy, 3);
  EXPECT_EQ(made.latency, 5);
  EXPECT_EQ(made.pieces, 16);
  EXPECT_EQ(made.early_tiles, 7);
}
TEST(Hints, NoneAreNoRecord) { EXPECT_EQ(jit::intern_hints({}), 0u); }

TEST(Hints, NumbersThatNoGpuTakesAreErrors) {
  struct Wrong {
    Hints hints;
    const char* text;
  };
  const Wrong all[] = {{{.warps = 3}, "expected warps as a power of two from 1 to 32, found 3"},
                       {{.warps = 64}, "expected warps as a power of two from 1 to 32, found 64"},
                       {{.warps = -1}, "expected warps as a power of two from 1 to 32, found -1"},
                       {{.ctas = 3}, "expected CTAs per cluster as a power of two from 1 to 16, found 3"},
                       {{.occupancy = 33}, "expected occupancy from 1 to 32, found 33"},
                       {{.latency = 11}, "expected latency from 1 to 10, found 11"},
                       {{.pieces = 3}, "expected pieces as a power of two from 1 to 32, found 3"},
                       {{.early_tiles = 9}, "expected early_tiles from 0 to 8, found 9"}};
  for (const Wrong& wrong : all) {
    EXPECT_ERROR(CompileError, (void)jit::intern_hints(wrong.hints, SourceLocation::current()), wrong.text,
                 "hints_test.cpp");
    EXPECT_NO_THROW((void)jit::intern_hints({.warps = 2, .latency = 10}));
  }
}

TEST(Hints, OfManyThreadsHaveOneNumber) {
  std::vector<jit::TuningId> ids(8);
  std::vector<std::jthread> threads;
  for (jit::TuningId& id : ids) threads.emplace_back([&id] { id = jit::intern_hints({.occupancy = 29}); });
  threads.clear();
  for (const jit::TuningId id : ids) EXPECT_EQ(id, ids[0]);
}

}  // namespace THIS_FILE
}  // namespace tessera::test
