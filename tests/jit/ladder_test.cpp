// Which form of a kernel best_form() takes: by the report of the assembler, and by its rejections and slowness.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "jit/load/generate.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/machine/machine.hpp"

using namespace tessera;
using namespace tessera::jit;

namespace {

struct Piece {
  std::vector<std::byte> bytecode;
  Form form;
  Asked asked;
  bool patient = false;
};
/// Code whose warps ask for more registers than the block has.
constexpr CubinResources kStarved{
    .registers = 80, .threads = 384, .asked_registers = 224, .kept_registers = 32, .releases = 2};
/// A form, the number that its bytecode is, and what becomes of it: bytes that are spilled, or -1: rejected, -2:
/// another error, kStarves: code that never ends, kSlow: as many spilled bytes as are added if there is time enough.
/// `occupancy` is requested; the code is for blocks of 128 threads with `shared` KiB.
constexpr int kStarves = 1000, kSlow = 2000;
struct Try {
  Form form;
  int code, outcome;
  int occupancy = 0;
  unsigned shared = 0;
  bool limited = false;  ///< its registers are
};
/// What best_form() makes of them: the forms that were made, in their order, and what it gives or throws.
std::string tried(const std::vector<Try>& forms) {
  std::vector<Form> made;
  std::mutex mutex;
  const auto of = [&](Form form) {
    return *std::find_if(forms.begin(), forms.end(), [&](const Try& t) { return t.form == form; });
  };
  std::string log;
  std::string end;
  try {
    const auto best = best_form(
        forms,
        [&](const Try& t) {
          return Piece{{static_cast<std::byte>(t.code)}, t.form, {t.limited, t.occupancy, 90}};
        },
        [&](const Piece& p) {
          const std::lock_guard lock(mutex);
          made.push_back(p.form);
          const std::string name = name_of(p.form);
          if (of(p.form).outcome == -1) throw tileiras::Rejection("no " + name);
          if (of(p.form).outcome == -2) throw CompileError("another");
          if (of(p.form).outcome >= kSlow && !p.patient) throw tileiras::TooSlow("slow " + name, true);
          return of(p.form);
        },
        [](const Try& t) {
          if (t.outcome == kStarves) return CodeNotes{kStarved, "", false};
          const auto spilled = static_cast<unsigned>(t.outcome >= kSlow ? t.outcome - kSlow : t.outcome);
          CodeNotes notes{{64, spilled, std::uint64_t{t.shared} << 10, 128}, "", false};
          notes.resources.shared_loads = 1;
          return notes;
        });
    EXPECT_EQ(best.prepared.form, best.made.form);
    EXPECT_EQ(best.cause == Cause::None, best.prepared.form == Form::Chosen && best.reason.empty());
    end = std::string("gives ") + name_of(best.prepared.form) + (best.reason.empty() ? "" : ", " + best.reason);
  } catch (const Error& error) { end = "throws " + error.message(); }
  std::sort(made.begin(), made.end());  // some are made at the same time
  for (const Form form : made) log += std::string(name_of(form)) + ";";
  return log + " " + end;
}

TEST(BestForm, AQuarterOfTheRegistersOfLargeBlocksMaySpill) {
  const auto too_much = [](unsigned threads, unsigned stack, bool pressure = false, unsigned registers = 64) {
    return spills_too_much({CubinResources{.registers = registers, .stack = stack, .threads = threads}, "", pressure},
                           false);
  };
  EXPECT_TRUE(too_much(512, 4, false, 128)) << "one block on an SM";
  EXPECT_FALSE(too_much(512, 64));
  EXPECT_TRUE(too_much(512, 68));
  EXPECT_FALSE(too_much(256, 0));
  EXPECT_TRUE(too_much(256, 4));
  EXPECT_TRUE(too_much(512, 0, true)) << "the assembler warned";
  EXPECT_TRUE(spills_too_much({kStarved, "", false}, false)) << "it would never end";
}

TEST(BestForm, AnEighthOfTheRegistersMaySpillWhereTheyAreLimited) {
  const auto too_much = [](unsigned stack, bool limited, bool pressure = false) {
    return spills_too_much({CubinResources{.registers = 72, .stack = stack, .threads = 128}, "", pressure}, limited);
  };
  EXPECT_FALSE(too_much(36, true));
  EXPECT_TRUE(too_much(40, true));
  EXPECT_TRUE(too_much(4, false));
  EXPECT_TRUE(too_much(0, true, true)) << "the assembler warned";
  EXPECT_TRUE(spills_too_much({kStarved, "", false}, true));
}

TEST(BestForm, FewWarpsOfAnSmAreMadeMore) {
  const Asked open{false, 0, 90};
  const auto of = [](unsigned threads, unsigned registers, std::uint64_t kib = 0, unsigned stack = 0) {
    CodeNotes notes{{.registers = registers, .stack = stack, .shared = kib << 10, .threads = threads}, "", false};
    notes.resources.shared_loads = 8;
    return notes;
  };
  EXPECT_TRUE(has_few_warps(open, of(256, 168))) << "one block of eight warps";
  EXPECT_TRUE(has_few_warps(open, of(256, 128))) << "two";
  EXPECT_FALSE(has_few_warps(open, of(256, 64))) << "four";
  EXPECT_FALSE(has_few_warps(open, of(64, 255))) << "a block of two warps";
  EXPECT_FALSE(has_few_warps({false, 1, 90}, of(256, 168))) << "one block was requested";
  EXPECT_FALSE(has_few_warps({true, 0, 90}, of(256, 168))) << "its registers are limited";
  EXPECT_TRUE(has_few_warps(open, of(128, 64, 120))) << "shared memory of conversions";
  CodeNotes copies = of(128, 64, 120), apart = of(256, 168);
  copies.resources.copies_ahead = true;
  EXPECT_FALSE(has_few_warps(open, copies)) << "shared memory of loads in flight";
  apart.resources.shared_loads = 0;
  EXPECT_FALSE(has_few_warps(open, apart)) << "no warp waits for another";

  EXPECT_TRUE(gains_warps(open, of(256, 168), of(256, 64)));
  EXPECT_FALSE(gains_warps(open, of(256, 168), of(256, 128, 64, 4))) << "spills";
  EXPECT_FALSE(gains_warps(open, of(256, 128), of(256, 96))) << "no more blocks";
  EXPECT_TRUE(gains_warps(open, of(128, 64, 120), of(128, 64, 20, 128))) << "a few spilled bytes";
  EXPECT_FALSE(gains_warps(open, of(128, 64, 120), of(128, 64, 20, 256)));
}

/// Code of a block of `warps` warps.
CodeNotes code_of(unsigned warps, unsigned registers, std::uint64_t instructions, std::uint64_t local = 0) {
  CodeNotes notes;
  notes.resources = {.registers = registers, .stack = static_cast<unsigned>(4 * local), .threads = 32 * warps};
  notes.resources.instructions = instructions;
  notes.resources.local_accesses = local;
  return notes;
}

TEST(BestForm, UnderARegisterLimitTheFewestInstructionsAreBest) {
  const auto better = [](const CodeNotes& a, const CodeNotes& b, bool limited = true) {
    EXPECT_FALSE(is_better(a, b, limited) && is_better(b, a, limited));
    return is_better(a, b, limited);
  };
  EXPECT_TRUE(better(code_of(1, 72, 900), code_of(1, 72, 1000)));
  EXPECT_TRUE(better(code_of(1, 72, 1500), code_of(2, 72, 800))) << "of all warps of a block";
  // A depthwise convolution of 3x3: 0.72 ms, and 1.12 ms (H200).
  EXPECT_TRUE(better(code_of(1, 128, 3152, 107), code_of(1, 214, 2752))) << "nine resident warps issue too little";
  EXPECT_TRUE(better(code_of(1, 214, 2752), code_of(1, 128, 3152, 107), false)) << "what does not spill";
  EXPECT_TRUE(better(code_of(1, 128, 1000), code_of(1, 96, 1000, 20))) << "four more warps gain less than spills cost";
  EXPECT_TRUE(better(code_of(1, 72, 1000), code_of(1, 128, 990))) << "more warps gain a little";
}

TEST(BestForm, CodeWithLoopsIsJudgedByWhatItSpills) {
  CodeNotes few = code_of(1, 128, 500, 10), none = code_of(1, 255, 5000);
  EXPECT_TRUE(is_better(few, none, true));
  few.resources.loops = true;
  EXPECT_TRUE(is_better(none, few, true)) << "how often the loop runs is not known";
  CodeNotes unread = code_of(1, 128, 0, 10);
  EXPECT_TRUE(is_better(none, unread, true)) << "no code was found in the cubin";
  CodeNotes starved = few;
  starved.resources = kStarved;
  EXPECT_TRUE(is_better(none, starved, true));
  EXPECT_FALSE(is_better(starved, none, true));
}

TEST(BestForm, ClimbsTheLadderWhereTheChosenOneIsRejected) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, 0}, {TwoBlocks, 4, 0}, {Fallback, 2, 0}, {Bare, 3, 0}}), "; gives ");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {TwoBlocks, 4, 0}, {OneBlock, 5, 0}, {Fallback, 2, 0}}),
            ";two_blocks;one_block; gives two_blocks, no ")
      << "of equal ones the first";
  EXPECT_EQ(tried({{Chosen, 1, -1}, {TwoBlocks, 4, 8}, {PlainStores, 5, 0}, {Fallback, 2, 0}}),
            ";two_blocks;stores; gives stores, no ")
      << "the report decides";
  EXPECT_EQ(tried({{Chosen, 1, -1}, {TwoBlocks, 4, -1}, {Fallback, 2, 0}, {Bare, 3, 0}}),
            ";two_blocks;fallback; gives fallback, no ");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {TwoBlocks, 4, -1}, {Fallback, 2, -1}, {Bare, 3, 0}}),
            ";two_blocks;fallback;bare; gives bare, no ");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {Fallback, 2, -1}, {Bare, 3, -1}}), ";fallback;bare; throws no ");
  EXPECT_EQ(tried({{Chosen, 1, -1}}), "; throws no ");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {TwoBlocks, 1, 0}, {Fallback, 1, 0}, {Bare, 2, 0}}), ";bare; gives bare, no ")
      << "rejected once";
  EXPECT_EQ(tried({{Chosen, 1, -1}, {Fallback, 2, -1}, {Bare, 2, 0}}), ";fallback; throws no ");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {TensorCopies, 2, 0}, {Quick, 4, 0}, {Fallback, 3, 0}}),
            ";fallback; gives fallback, no ")
      << "those are for something else";
}

TEST(BestForm, ClimbsAnotherLadderWhereTheAssemblerIsSlow) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, kSlow}, {FewerSteps, 2, 0}, {Pointers, 3, 0}, {Quick, 4, 0}}),
            ";steps;pointers; gives steps, slow ");
  EXPECT_EQ(tried({{Chosen, 1, kSlow}, {FewerSteps, 2, kSlow}, {Pointers, 3, 8}, {RolledMoreWarps, 5, 4}}),
            ";steps;pointers;rolled_warps; gives rolled_warps, slow ");
  EXPECT_EQ(tried({{Chosen, 1, kSlow}, {FewerSteps, 2, kSlow}, {RolledFallback, 3, -1}, {Quick, 4, 9}}),
            ";steps;rolled_fallback;quick; gives quick, slow ");
  EXPECT_EQ(tried({{Chosen, 1, kSlow}, {TwoBlocks, 2, 0}, {Fallback, 3, 0}, {Bare, 4, 0}}), ";; gives , slow ")
      << "none of these is for that: it gets the time that it needs";
  EXPECT_EQ(tried({{Chosen, 1, kSlow}, {FewerSteps, 2, kSlow}, {Quick, 3, kSlow}}),
            ";steps;quick;quick; gives quick, slow ")
      << "the plainest gets the time that it needs";
  EXPECT_EQ(tried({{Chosen, 1, kSlow}, {FewerSteps, 2, kSlow}, {Quick, 3, -1}}),
            ";steps;steps;quick; gives steps, slow ");
  EXPECT_EQ(tried({{Chosen, 1, kSlow + 8}}), "; gives ") << "with explicit hints there is no other form";
}

TEST(BestForm, AStepThatSpillsIsNotTheLastUnlessItIsNextToIt) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, -1}, {TwoBlocks, 2, 8}, {Fallback, 3, 0}, {Bare, 4, 0}}),
            ";two_blocks;fallback; gives fallback, no ");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {TwoBlocks, 2, 8}, {Fallback, 3, 16}, {Bare, 4, 0}}),
            ";two_blocks;fallback; gives two_blocks, no ");
  EXPECT_EQ(tried({{Chosen, 1, kSlow}, {Pointers, 2, 800}, {RolledFallback, 3, 80}, {Quick, 4, 0}}),
            ";pointers;rolled_fallback; gives rolled_fallback, slow ");
}

TEST(BestForm, EqualCodeIsMadeAgainWithAnotherEffort) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, kSlow}, {FewerSteps, 1, 0}, {Quick, 1, 4}}), ";quick; gives quick, slow ");
}

TEST(BestForm, SlowFormsDoNotHideRejections) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, -1}, {TwoBlocks, 2, kSlow}, {Fallback, 3, -1}, {Bare, 4, 0}}),
            ";two_blocks;fallback;bare; gives bare, no ");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {TwoBlocks, 2, kSlow}, {Fallback, 3, -1}}),
            ";two_blocks;two_blocks;fallback; gives two_blocks, no ");
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 2, kSlow}, {MoreWarps, 3, 0}}),
            ";stores;warps; gives warps, the chosen form spills 8 bytes of a thread");
}

/// An SM of sm_90 has 228 KiB of shared memory.
TEST(BestForm, AsksForNoMoreBlocksThanFit) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, 0, 2, 112}, {OneBlock, 2, 0, 1, 100}}), "; gives ") << "two fit";
  EXPECT_EQ(tried({{Chosen, 1, 0, 3, 105}, {ThreeBlocks, 1, 0}, {TwoBlocks, 2, 0, 2, 105}, {OneBlock, 3, 0, 1, 90}}),
            ";two_blocks; gives two_blocks, 2 blocks of the chosen form fit on an SM, not 3");
  EXPECT_EQ(tried({{Chosen, 1, 0, 2, 120}, {OneBlock, 3, 0, 1, 130}}),
            ";one_block; gives one_block, 1 block of the chosen form fits on an SM, not 2");
  EXPECT_EQ(tried({{Chosen, 1, 0, 3, 105}, {TwoBlocks, 2, 0, 2, 120}}), ";two_blocks; gives ") << "two do not fit";
  EXPECT_EQ(tried({{Chosen, 1, 0, 3, 105}, {TwoBlocks, 2, 8, 2, 105}}), ";two_blocks; gives ") << "it spills";
  EXPECT_EQ(tried({{Chosen, 1, 0, 3, 105}, {TwoBlocks, 2, -1, 2, 105}}), ";two_blocks; gives ");
  EXPECT_EQ(tried({{Chosen, 1, 8, 3, 105}, {TwoBlocks, 2, 0, 2, 105}, {PlainStores, 3, 0, 3, 80}}),
            ";two_blocks; gives two_blocks, 2 blocks of the chosen form fit on an SM, not 3");
  EXPECT_EQ(tried({{Chosen, 1, 0, 1, 220}, {OneBlock, 1, 0, 1, 220}}), "; gives ");
  EXPECT_EQ(tried({{Chosen, 1, 0, 0, 200}, {OneBlock, 2, 0, 1, 200}}), "; gives ") << "none is requested";
}

TEST(BestForm, OtherErrorsEndIt) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, -2}, {Fallback, 2, 0}}), "; throws another");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {Fallback, 2, -2}, {Bare, 3, 0}}), ";fallback; throws another");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {TwoBlocks, 2, -2}, {OneBlock, 3, 0}}),
            ";two_blocks;one_block; gives one_block, no ");
}

TEST(BestForm, TakesTheBestReportWhereTheChosenOneSpills) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 2, 0}, {MoreWarps, 3, 0}, {Fallback, 4, 0}}),
            ";stores;warps; gives stores, the chosen form spills 8 bytes of a thread");
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 2, 4}, {MoreWarps, 3, 0}}),
            ";stores;warps; gives warps, the chosen form spills 8 bytes of a thread");
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 2, 8}, {MoreWarps, 3, 9}}), ";stores;warps; gives ") << "no better";
  EXPECT_EQ(tried({{Chosen, 1, 0}, {PlainStores, 2, 0}}), "; gives ") << "nothing to improve";
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 1, 0}, {MoreWarps, 3, 4}, {OnePiece, 3, 0}}),
            ";warps; gives warps, the chosen form spills 8 bytes of a thread")
      << "the same code is made once";
}

TEST(BestForm, LowersTheOccupancyWhereAllOthersSpill) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, 8}, {TwoBlocks, 2, 0}, {OneBlock, 3, 0}, {PlainStores, 4, 4}, {MoreWarps, 5, 6}}),
            ";two_blocks;one_block;stores;warps; gives two_blocks, the chosen form spills 8 bytes of a thread");
  EXPECT_EQ(tried({{Chosen, 1, 8}, {OneBlock, 2, 0}, {PlainStores, 3, 0}}),
            ";stores; gives stores, the chosen form spills 8 bytes of a thread");
  EXPECT_EQ(tried({{Chosen, 1, 8}, {OneBlock, 2, 6}, {PlainStores, 3, 4}, {OneBlockMoreWarps, 4, 6}}),
            ";one_block;stores;one_block_warps; gives stores, the chosen form spills 8 bytes of a thread");
  EXPECT_EQ(tried({{Chosen, 1, 80, 2, 100, true}, {OneBlock, 2, 0}, {PlainStores, 3, 48}}),
            ";stores; gives stores, the chosen form spills 80 bytes of a thread")
      << "the first step has forms without the limit";
}

TEST(BestForm, TakesMoreBlocksWhereAnSmHoldsFewWarps) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, 0, 0, 100}, {MoreBlocks, 2, 8, 8, 10}, {PlainStores, 3, 0}}),
            ";more_blocks; gives more_blocks, an SM holds 8 warps of the chosen form, because a block takes 100 KiB of "
            "shared memory");
  EXPECT_EQ(tried({{Chosen, 1, 0, 0, 100}, {MoreBlocks, 2, 200, 8, 10}}), ";more_blocks; gives ") << "it spills";
  EXPECT_EQ(tried({{Chosen, 1, 0, 0, 100}, {MoreBlocks, 2, -1}}), ";more_blocks; gives ") << "it is rejected";
  EXPECT_EQ(tried({{Chosen, 1, 0, 0, 100}, {MoreBlocks, 1, 0}}), "; gives ") << "it is the same code";
  EXPECT_EQ(tried({{Chosen, 1, 8, 0, 100}, {MoreBlocks, 2, 0}, {PlainStores, 3, 0}}),
            ";stores; gives stores, the chosen form spills 8 bytes of a thread");
}

TEST(BestForm, KeepsWhatItHasWhereTheOthersFail) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 2, -1}, {MoreWarps, 3, -2}}), ";stores;warps; gives ");
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 2, -1}, {MoreWarps, 3, 2}}),
            ";stores;warps; gives warps, the chosen form spills 8 bytes of a thread");
}

TEST(BestForm, AWarningOfRegistersIsAsBadAsASpilledByte) {
  EXPECT_EQ(spill_cost({{255, 0, 0}, "", false}), 0u);
  EXPECT_EQ(spill_cost({{255, 0, 0}, "High register usage", true}), 1u);
  EXPECT_EQ(spill_cost({{255, 16, 0}, "High register usage", true}), 17u);
}

TEST(BestForm, CodeThatNeverEndsIsNotTaken) {
  using enum Form;
  constexpr int no = kStarves;
  EXPECT_EQ(tried({{Chosen, 1, no}, {PlainStores, 2, 8}, {MoreWarps, 3, no}, {Fallback, 4, 0}}),
            ";stores;warps; gives stores, the chosen form would wait for registers forever")
      << "spilling is better";
  EXPECT_THAT(tried({{Chosen, 1, no}, {PlainStores, 2, no}, {Fallback, 3, no}, {Bare, 4, 9}}),
              testing::StartsWith(";stores;fallback;bare; gives bare, the assembler's code would wait forever"));
  EXPECT_THAT(
      tried({{Chosen, 1, no}, {Fallback, 2, no}}),
      testing::StartsWith(";fallback; throws the assembler's code would wait forever: a block of 384 threads has 80"));
  EXPECT_THAT(tried({{Chosen, 1, no}, {Fallback, 1, 0}, {Bare, 2, 0}}), testing::StartsWith(";bare; gives bare, "))
      << "the same code is made once";
}

/// 64 registers of 128 threads leave room for eight blocks, 105 KiB for two.
TEST(FillingBlocks, AreNoMoreThanFit) {
  passes::Target gpu;
  gpu.sm = 90;
  gpu.num_sms = 132;
  const auto blocks = [&](int occupancy, std::uint64_t kib, int ctas = 1) {
    CodeShape s;
    s.occupancy = occupancy;
    s.ctas = ctas;
    s.abi.persistent_blocks = 132 * std::max(occupancy, 16) / ctas;
    if (occupancy > 0) s.abi.persistent_blocks = 132 * occupancy / ctas;
    return filling_blocks(s, {.registers = 64, .shared = kib << 10, .threads = 128}, gpu);
  };
  EXPECT_EQ(blocks(2, 105), 264);
  EXPECT_EQ(blocks(3, 105), 264) << "three were requested";
  EXPECT_EQ(blocks(3, 70), 396);
  EXPECT_EQ(blocks(2, 120), 132);
  EXPECT_EQ(blocks(2, 120, 2), 66) << "two CTAs on a tile";
  EXPECT_EQ(blocks(2, 230), 132) << "never none";
  EXPECT_EQ(blocks(0, 105), 16 * 132) << "without an occupancy blocks wait";
}

/// CUDA C++ Programming Guide, technical specifications.
TEST(FillingBlocks, OfAnSmAreLimitedByRegistersSharedMemoryAndWarps) {
  using machine::resident_blocks;
  EXPECT_EQ(resident_blocks(90, 128, 128, 0), 4);
  EXPECT_EQ(resident_blocks(90, 168, 384, 0), 1);
  EXPECT_EQ(resident_blocks(90, 72, 128, 0), 7);
  EXPECT_EQ(resident_blocks(90, 65, 128, 0), 7) << "registers are allocated eight at a time";
  EXPECT_EQ(resident_blocks(90, 255, 512, 0), 0);
  EXPECT_EQ(resident_blocks(90, 16, 1024, 0), 2);
  EXPECT_EQ(resident_blocks(120, 16, 1024, 0), 1) << "48 warps";
  EXPECT_EQ(resident_blocks(90, 16, 32, 114 << 10), 2) << "the KiB that CUDA reserves is counted by the cubin";
  EXPECT_EQ(resident_blocks(90, 16, 32, (114 << 10) + 1), 1);
  EXPECT_EQ(resident_blocks(80, 16, 32, 81 << 10), 2);
  EXPECT_EQ(resident_blocks(80, 16, 32, 82 << 10), 1);
  EXPECT_GT(resident_blocks(90, 0, 0, 0), 32) << "nothing is known";
}

}  // namespace
