// Which forms a kernel is tried in, and in which order.
#include "tessera/jit/plain_form.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(PlainForm, LeavesOutTheRotationsOfLoopsAndThenTheHints) {
  EXPECT_EQ(tuning_of(Form::Chosen), nullptr);
  EXPECT_EQ(text_of(Form::Chosen), "");
  EXPECT_EQ(text_of(Form::Plain), "ahead=0 pieces=1 pipeline=0 unmask=0");
  EXPECT_EQ(text_of(Form::Bare), "ahead=0 pieces=1 pipeline=0 unmask=0 hints=0");
  for (const Form form : {Form::Plain, Form::Bare}) EXPECT_EQ(*tuning_of(form), passes::parse_tuning(text_of(form)));
}

TEST(PlainForm, IsForThoseWhoAskForNothing) {
  const passes::Tuning none, some = passes::parse_tuning("warps=4");
  EXPECT_THAT(forms_for(nullptr), ElementsAre(Form::Chosen, Form::Plain, Form::Bare));
  EXPECT_EQ(forms_for(&none).size(), 3u) << "a record without hints";
  EXPECT_THAT(forms_for(&some), ElementsAre(Form::Chosen));
  const Variable hints("TESSERA_TUNING", "warps=4");
  EXPECT_THAT(forms_for(nullptr), ElementsAre(Form::Chosen));
}

struct Piece {
  std::vector<std::byte> bytecode;
  int form;
};
/// Tries the forms 0, 1, ...; form i has the bytecode codes[i] and ends as `outcome` says.
template <class Outcome>
std::string tried(const std::vector<int>& codes, Outcome outcome) {
  std::string log;
  std::vector<int> forms;
  for (std::size_t i = 0; i < codes.size(); ++i) forms.push_back(static_cast<int>(i));
  try {
    const int got = first_accepted(
        forms,
        [&](int i) {
          return Piece{{static_cast<std::byte>(codes[static_cast<std::size_t>(i)])}, i};
        },
        [&](const Piece& p, const tileiras::Refusal* why) {
          log += std::to_string(p.form) + (why ? "(" + why->message() + ") " : " ");
          outcome(p.form);
          return p.form;
        });
    log += "gives " + std::to_string(got);
  } catch (const Error& error) { log += "throws " + error.message(); }
  return log;
}

TEST(FirstAccepted, TriesOneFormAfterTheOther) {
  const auto refused_before = [](int accepted) {
    return [=](int form) {
      if (form < accepted) throw tileiras::Refusal("no " + std::to_string(form));
    };
  };
  EXPECT_EQ(tried({1, 2, 3}, refused_before(0)), "0 gives 0");
  EXPECT_EQ(tried({1, 2, 3}, refused_before(1)), "0 1(no 0) gives 1");
  EXPECT_EQ(tried({1, 2, 3}, refused_before(2)), "0 1(no 0) 2(no 0) gives 2");
  EXPECT_EQ(tried({1, 2, 3}, refused_before(3)), "0 1(no 0) 2(no 0) throws no 0");
  EXPECT_EQ(tried({1}, refused_before(1)), "0 throws no 0");
  EXPECT_EQ(tried({1, 1, 2}, refused_before(2)), "0 2(no 0) gives 2") << "what was refused once";
  EXPECT_EQ(tried({1, 2, 2}, refused_before(3)), "0 1(no 0) throws no 0");
  EXPECT_EQ(tried({1, 2, 1}, refused_before(3)), "0 1(no 0) throws no 0");
}

TEST(FirstAccepted, OtherErrorsEndIt) {
  const auto other = [](int at) {
    return [=](int form) {
      if (form == at) throw CompileError("another");
      throw tileiras::Refusal("no");
    };
  };
  EXPECT_EQ(tried({1, 2, 3}, other(0)), "0 throws another");
  EXPECT_EQ(tried({1, 2, 3}, other(1)), "0 1(no) throws another");
}

/// entry(pointer), with an assembler that refuses kernels with hints.
class RefusingAssembler : public testing::Test {
 protected:
  RefusingAssembler() {
    jit_rig::write_assembler(folder_.path + "/tileiras", std::string(jit_rig::kRefusesWarps) + jit_rig::kGood);
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
  jit_rig::Folder folder_{"refusing"};
  Variable assembler_{"TESSERA_TILEIRAS", folder_.path + "/tileiras"}, cache_{"TESSERA_CACHE_DIR", folder_.path};
};

TEST_F(RefusingAssembler, ABuildTakesThePlainForm) {
  const Build made = build(*module_of(1), contract(), 0, target_for(90), "wanted");
  EXPECT_EQ(made.form, Form::Bare);
  EXPECT_EQ(made.choices.warps, 0);
  EXPECT_EQ(runs(), 2);
  const Variable hints("TESSERA_TUNING", "warps=1");
  try {
    build(*module_of(1), contract(), 0, target_for(90), "wanted");
    FAIL() << "no error";
  } catch (const tileiras::Refusal& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("kernel wanted: "), HasSubstr("too many warps")));
  }
}

TEST_F(RefusingAssembler, SoDoesAReportForAGpuThatIsNotHere) {
  alignas(16) static std::int32_t memory[4];
  const std::uint64_t slots[] = {reinterpret_cast<std::uintptr_t>(memory)};
  const Kernel refused(module_of(2), contract(), {"wanted", false, {}});
  EXPECT_EQ(refused.report(target_for(90), slots).form, Form::Bare);
  jit_rig::write_assembler(folder_.path + "/tileiras", jit_rig::kGood);
  const Kernel accepted(module_of(3), contract(), {"wanted", false, {}});
  EXPECT_EQ(accepted.report(target_for(90), slots).form, Form::Chosen);
}

}  // namespace
