// Which forms a kernel is tried in, and in which order.
#include "tessera/jit/forms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
  EXPECT_EQ(text_of(Form::Unlimited), "limit=0");
  EXPECT_EQ(text_of(Form::PlainStores), "stores=view limit=0");
  EXPECT_EQ(text_of(Form::TensorCopies), "access=tma limit=0");
  EXPECT_EQ(text_of(Form::MoreWarps), "spread=2 limit=0");
  EXPECT_EQ(text_of(Form::MoreWarpsPlainStores), "spread=2 stores=view limit=0");
  EXPECT_EQ(text_of(Form::OnePiece), "pieces=1 limit=0");
  EXPECT_EQ(text_of(Form::Fallback), "ahead=0 pieces=1 pipeline=0 unmask=0 limit=0");
  EXPECT_EQ(text_of(Form::Bare), "ahead=0 pieces=1 pipeline=0 unmask=0 limit=0 hints=0");
  for (const Form form : all_forms().subspan(1)) EXPECT_EQ(*tuning_of(form), passes::parse_tuning(text_of(form)));
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
};
/// Code whose warps ask for more registers than the block has.
constexpr CubinResources kStarved{
    .registers = 80, .threads = 384, .asked_registers = 224, .kept_registers = 32, .releases = 2};
/// A form, the number that its bytecode is, and what becomes of it: bytes that are spilled, or -1: rejected, -2:
/// another error, kStarves: code that never ends.
constexpr int kStarves = 1000;
struct Try {
  Form form;
  int code, outcome;
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
          return Piece{{static_cast<std::byte>(t.code)}, t.form};
        },
        [&](const Piece& p) {
          const std::lock_guard lock(mutex);
          made.push_back(p.form);
          const std::string name = name_of(p.form);
          if (of(p.form).outcome == -1) throw tileiras::Rejection("no " + name);
          if (of(p.form).outcome == -2) throw CompileError("another");
          return of(p.form).outcome;
        },
        [](int spilled) {
          if (spilled == kStarves) return CodeNotes{kStarved, "", false};
          return CodeNotes{{0, static_cast<unsigned>(spilled), 0}, "", false};
        });
    EXPECT_EQ(of(best.prepared.form).outcome, best.made);
    end = std::string("gives ") + name_of(best.prepared.form) + (best.rejection.empty() ? "" : ", " + best.rejection);
  } catch (const Error& error) { end = "throws " + error.message(); }
  std::sort(made.begin(), made.end());  // some are made at the same time
  for (const Form form : made) log += std::string(name_of(form)) + ";";
  return log + " " + end;
}

TEST(BestForm, AQuarterOfTheRegistersOfLargeBlocksMaySpill) {
  const auto too_much = [](unsigned threads, unsigned stack, bool pressure = false, unsigned registers = 64) {
    return spills_too_much({CubinResources{.registers = registers, .stack = stack, .threads = threads}, "", pressure});
  };
  EXPECT_TRUE(too_much(512, 4, false, 128)) << "one block on an SM";
  EXPECT_FALSE(too_much(512, 64));
  EXPECT_TRUE(too_much(512, 68));
  EXPECT_FALSE(too_much(256, 0));
  EXPECT_TRUE(too_much(256, 4));
  EXPECT_TRUE(too_much(512, 0, true)) << "the assembler warned";
  EXPECT_TRUE(spills_too_much({kStarved, "", false})) << "it would never end";
}

TEST(BestForm, TriesPlainerFormsOneAfterTheOtherWhereTheChosenOneIsRejected) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, 0}, {Fallback, 2, 0}, {Bare, 3, 0}}), "; gives ");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {Fallback, 2, 0}, {Bare, 3, 0}}), ";fallback; gives fallback, no ");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {Fallback, 2, -1}, {Bare, 3, 0}}), ";fallback;bare; gives bare, no ");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {Fallback, 2, -1}, {Bare, 3, -1}}), ";fallback;bare; throws no ");
  EXPECT_EQ(tried({{Chosen, 1, -1}}), "; throws no ");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {Fallback, 1, 0}, {Bare, 2, 0}}), ";bare; gives bare, no ") << "rejected once";
  EXPECT_EQ(tried({{Chosen, 1, -1}, {Fallback, 2, -1}, {Bare, 2, 0}}), ";fallback; throws no ");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {MoreWarps, 2, 0}, {Fallback, 3, 0}}), ";fallback; gives fallback, no ")
      << "not for that";
}

TEST(BestForm, OtherErrorsEndIt) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, -2}, {Fallback, 2, 0}}), "; throws another");
  EXPECT_EQ(tried({{Chosen, 1, -1}, {Fallback, 2, -2}, {Bare, 3, 0}}), ";fallback; throws another");
}

TEST(BestForm, TakesTheBestReportWhereTheChosenOneSpills) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 2, 0}, {MoreWarps, 3, 0}, {Fallback, 4, 0}}),
            ";stores;warps; gives stores");
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 2, 4}, {MoreWarps, 3, 0}}), ";stores;warps; gives warps");
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 2, 8}, {MoreWarps, 3, 9}}), ";stores;warps; gives ") << "no better";
  EXPECT_EQ(tried({{Chosen, 1, 0}, {PlainStores, 2, 0}}), "; gives ") << "nothing to improve";
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 1, 0}, {MoreWarps, 3, 4}, {OnePiece, 3, 0}}), ";warps; gives warps")
      << "the same code is made once";
}

TEST(BestForm, KeepsWhatItHasWhereTheOthersFail) {
  using enum Form;
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 2, -1}, {MoreWarps, 3, -2}}), ";stores;warps; gives ");
  EXPECT_EQ(tried({{Chosen, 1, 8}, {PlainStores, 2, -1}, {MoreWarps, 3, 2}}), ";stores;warps; gives warps");
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
            ";stores;warps; gives stores")
      << "spilling is better";
  EXPECT_THAT(tried({{Chosen, 1, no}, {PlainStores, 2, no}, {Fallback, 3, no}, {Bare, 4, 9}}),
              testing::StartsWith(";stores;fallback;bare; gives bare, the assembler's code would wait forever"));
  EXPECT_THAT(
      tried({{Chosen, 1, no}, {Fallback, 2, no}}),
      testing::StartsWith(";fallback; throws the assembler's code would wait forever: a block of 384 threads has 80"));
  EXPECT_THAT(tried({{Chosen, 1, no}, {Fallback, 1, 0}, {Bare, 2, 0}}), testing::StartsWith(";bare; gives bare, "))
      << "the same code is made once";
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
  EXPECT_EQ(runs(), 2);
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
