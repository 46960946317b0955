// Which forms a kernel is tried in, and in which order.
#include "tessera/jit/forms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "jit/rig.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/jit/kernel.hpp"
#include "tessera/passes/tuning_text.hpp"

using namespace tessera;
using namespace tessera::jit;
using jit_rig::Variable;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

TEST(Forms, AreWhatTheirTextsSay) {
  EXPECT_EQ(tuning_of(Form::Chosen), nullptr);
  EXPECT_EQ(text_of(Form::Chosen), "");
  EXPECT_EQ(text_of(Form::Registers96), "registers=96");
  EXPECT_EQ(text_of(Form::Registers128), "registers=128");
  EXPECT_EQ(text_of(Form::TwoVectors), "vectors=2");
  EXPECT_EQ(text_of(Form::OneVector), "vectors=1");
  EXPECT_EQ(text_of(Form::Unlimited), "limit=0");
  EXPECT_EQ(text_of(Form::PlainStores), "stores=view limit=0");
  EXPECT_EQ(text_of(Form::TensorCopies), "access=tma limit=0");
  EXPECT_EQ(text_of(Form::MoreWarps), "spread=2 limit=0");
  EXPECT_EQ(text_of(Form::MoreWarpsPlainStores), "spread=2 stores=view limit=0");
  EXPECT_EQ(text_of(Form::OnePiece), "pieces=1 limit=0");
  EXPECT_EQ(text_of(Form::Fallback), "ahead=0 pieces=1 guards=0 pipeline=0 unmask=0 tiles=0 limit=0");
  EXPECT_EQ(text_of(Form::Bare), "ahead=0 pieces=1 guards=0 pipeline=0 unmask=0 tiles=0 limit=0 hints=0");
  EXPECT_EQ(text_of(Form::ThreeBlocks), "max_occupancy=3");
  EXPECT_EQ(text_of(Form::TwoBlocks), "max_occupancy=2");
  EXPECT_EQ(text_of(Form::OneBlock), "max_occupancy=1");
  EXPECT_EQ(text_of(Form::FewerSteps), "max_latency=2 limit=0");
  EXPECT_EQ(text_of(Form::Pointers), "access=pointer limit=0");
  EXPECT_EQ(text_of(Form::RolledMoreWarps), "roll=1 spread=2 limit=0");
  EXPECT_EQ(text_of(Form::RolledFallback), "ahead=0 pieces=1 guards=0 roll=1 pipeline=0 unmask=0 tiles=0 limit=0");
  EXPECT_EQ(text_of(Form::Quick),
            "ahead=0 pieces=1 guards=0 roll=1 pipeline=0 unmask=0 tiles=0 limit=0 hints=0 opt-level=0");
  for (const Form form : all_forms().subspan(1)) {
    if (opt_level_of(form) != 3) continue;
    EXPECT_EQ(*tuning_of(form), passes::parse_tuning(text_of(form)));
  }
}

TEST(Forms, LosePipeliningAfterOccupancyAndHintsLast) {
  using enum Form;
  const auto steps = [](Cause cause, int number) {
    std::vector<Form> found;
    for (const Form form : all_forms())
      if (step_of(form, cause) == number) found.push_back(form);
    return found;
  };
  EXPECT_THAT(steps(Cause::Rejected, 1), ElementsAre(ThreeBlocks, TwoBlocks, OneBlock, FewerSteps, PlainStores,
                                                     MoreWarps, MoreWarpsPlainStores));
  EXPECT_THAT(steps(Cause::Rejected, 2), ElementsAre(Fallback));
  EXPECT_THAT(steps(Cause::Rejected, 3), ElementsAre(Bare));
  EXPECT_THAT(steps(Cause::Slow, 1), ElementsAre(FewerSteps, Pointers, RolledMoreWarps));
  EXPECT_THAT(steps(Cause::Slow, 2), ElementsAre(RolledFallback));
  EXPECT_THAT(steps(Cause::Slow, 3), ElementsAre(Quick));
  for (const Form form : all_forms()) EXPECT_EQ(step_of(form, Cause::None), 0);
}

TEST(Forms, AreForThoseWhoAskForNothing) {
  const passes::Tuning none, some = passes::parse_tuning("warps=4");
  EXPECT_EQ(forms_for(nullptr).size(), all_forms().size());
  EXPECT_EQ(forms_for(&none).size(), all_forms().size()) << "a record without hints";
  EXPECT_THAT(forms_for(&some), ElementsAre(Form::Chosen));
  const Variable hints("TESSERA_TUNING", "warps=4");
  EXPECT_THAT(forms_for(nullptr), ElementsAre(Form::Chosen));
}

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
/// `occupancy` is asked for; the code is for blocks of 128 threads with `shared` KiB.
constexpr int kStarves = 1000, kSlow = 2000;
struct Try {
  Form form;
  int code, outcome;
  int occupancy = 0;
  unsigned shared = 0;
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
          return Piece{{static_cast<std::byte>(t.code)}, t.form, {false, t.occupancy, 90}};
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
          return CodeNotes{{64, spilled, std::uint64_t{t.shared} << 10, 128}, "", false};
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
  EXPECT_EQ(tried({{Chosen, 1, kSlow}, {FewerSteps, 2, kSlow}, {Quick, 3, -1}}), ";steps;steps;quick; gives steps, slow ");
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
  EXPECT_EQ(tried({{Chosen, 1, 0, 0, 200}, {OneBlock, 2, 0, 1, 200}}), "; gives ") << "nothing is asked for";
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

/// An ELF file with one section of code: as much of the format as resources_of() reads.
std::vector<std::byte> file_with(const std::vector<std::array<std::uint64_t, 2>>& instructions) {
  constexpr std::size_t kSections = 64, kSectionSize = 64, kNames = kSections + 2 * kSectionSize;
  const std::string names(".text.k\0", 8);
  const std::size_t code = kNames + 16;
  std::vector<std::byte> file(code + 16 * instructions.size());
  const auto put = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) file[at + i] = static_cast<std::byte>(value >> (8 * i));
  };
  put(40, kSections, 8), put(58, kSectionSize, 2), put(60, 2, 2), put(62, 1, 2);
  put(kSections, 0, 4), put(kSections + 24, code, 8), put(kSections + 32, 16 * instructions.size(), 8);
  put(kSections + kSectionSize, 7, 4), put(kSections + kSectionSize + 24, kNames, 8);
  for (std::size_t i = 0; i < names.size(); ++i) file[kNames + i] = static_cast<std::byte>(names[i]);
  for (std::size_t i = 0; i < instructions.size(); ++i)
    put(code + 16 * i, instructions[i][0], 8), put(code + 16 * i + 8, instructions[i][1], 8);
  return file;
}

/// Words of nvdisasm -hex: LDL, STL, a branch forward, one back, and the branch to itself that ends each entry.
TEST(Registers, ThatAreSpilledAreCountedInMachineCode) {
  using Word = std::array<std::uint64_t, 2>;
  constexpr Word kLoad{0x00009800015a7983, 0x000f680000300a00}, kStore{0x00007c6801007387, 0x000fe20000100800};
  constexpr Word kAhead{0x0000004800e40947, 0x000ff40003800000}, kBack{0xfffffff800b80947, 0x000fec000383ffff};
  constexpr Word kItself{0xfffffffc00fc7947, 0x000fc0000383ffff}, kAdd{0x0000000a0b0c7221, 0x000fe20000000000};
  const CubinResources straight = resources_of(file_with({kAdd, kLoad, kAhead, kStore, kStore, kItself}));
  EXPECT_EQ(straight.instructions, 6u);
  EXPECT_EQ(straight.local_accesses, 3u);
  EXPECT_FALSE(straight.loops);
  EXPECT_TRUE(resources_of(file_with({kAdd, kBack, kItself})).loops);
  EXPECT_EQ(resources_of(file_with({})).instructions, 0u);
}

TEST(Registers, AreEnoughForThoseThatAskForMore) {
  const auto waits = [](unsigned threads, unsigned registers, unsigned asked, unsigned kept, unsigned releases) {
    return waits_for_registers({.registers = registers,
                                .threads = threads,
                                .asked_registers = asked,
                                .kept_registers = kept,
                                .releases = releases});
  };
  EXPECT_TRUE(waits(384, 80, 224, 32, 2)) << "224 + 2 * 32 of 3 * 80";
  EXPECT_FALSE(waits(384, 80, 176, 32, 2)) << "exactly all";
  EXPECT_TRUE(waits(384, 80, 184, 32, 2));
  EXPECT_FALSE(waits(256, 128, 224, 32, 1));
  EXPECT_FALSE(waits(256, 128, 224, 32, 3)) << "two roles, one of which releases in three places";
  EXPECT_TRUE(waits(768, 40, 104, 32, 2)) << "roles of 256 threads";
  EXPECT_FALSE(waits(384, 80, 0, 32, 2)) << "no warp asks";
  EXPECT_FALSE(waits(384, 80, 0, 0, 0));
}

/// entry(pointer), with an assembler that rejects kernels with hints.
class RejectingAssembler : public testing::Test {
 protected:
  RejectingAssembler() {
    jit_rig::write_assembler(folder_.path + "/tileiras", std::string(jit_rig::kRejectsWarps) + jit_rig::kGood);
  }
  static std::unique_ptr<ir::Module> module_of(int number) {
    auto module = std::make_unique<ir::Module>();
    ir::Function& f = module->add_function("entry");
    const ir::Type i32 = ir::Type::element(ir::Elem::I32);
    const ir::Value pointer = f.body().add_arg(ir::Type::tile(ir::Type::pointer(i32), {}));
    ir::Builder b(f.body());
    b.loc = SourceLocation::current();
    jit_rig::store_and_return(b, pointer, number);
    return module;
  }
  static LaunchContract contract() {
    LaunchContract c;
    c.args = {{ArgRole::Base, 0, -1}};
    c.tensors = {{0, 0, true, true, true}};
    return c;
  }
  int runs() const { return jit_rig::runs_in(folder_.path); }
  jit_rig::Folder folder_{"rejecting"};
  Variable assembler_{"TESSERA_TILEIRAS", folder_.path + "/tileiras"}, cache_{"TESSERA_CACHE_DIR", folder_.path};
};

TEST_F(RejectingAssembler, ABuildTakesThePlainForm) {
  const Build made = build(*module_of(1), contract(), 0, target_for(90), "wanted");
  EXPECT_EQ(made.form, Form::Bare);
  EXPECT_EQ(made.choices.warps, 0);
  EXPECT_EQ(runs(), 3) << "as chosen, in more warps, and without hints";
  const Variable hints("TESSERA_TUNING", "warps=1");
  try {
    build(*module_of(1), contract(), 0, target_for(90), "wanted");
    FAIL() << "no error";
  } catch (const tileiras::Rejection& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("kernel wanted: "), HasSubstr("too many warps")));
  }
}

TEST_F(RejectingAssembler, SoDoesAReportForAGpuThatIsNotHere) {
  alignas(16) static std::int32_t memory[4];
  const std::uint64_t slots[] = {reinterpret_cast<std::uintptr_t>(memory)};
  const Kernel rejected(module_of(2), contract(), {"wanted", false, {}});
  EXPECT_EQ(rejected.report(target_for(90), slots).form, Form::Bare);
  jit_rig::write_assembler(folder_.path + "/tileiras", jit_rig::kGood);
  const Kernel accepted(module_of(3), contract(), {"wanted", false, {}});
  EXPECT_EQ(accepted.report(target_for(90), slots).form, Form::Chosen);
}

}  // namespace
