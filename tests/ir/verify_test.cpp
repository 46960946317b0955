// The verifier's rules: verify/rules.txt holds a legal program and what breaks it, rule by rule; here it is run,
// together with what the notation cannot express. verify/check_with_tileir.py asks NVIDIA's tools the same questions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "ir/rule_reader.hpp"
#include "tessera/base/error.hpp"

namespace tessera::ir {
namespace {

using ::testing::HasSubstr;

std::string all_messages(const Module& module) {
  std::string text;
  for (const Diagnostic& d : verify(module)) text += d.message + "\n";
  return text;
}

/// Of the first diagnostic: what follows from a mistake may be reported after it.
std::string first_message(const std::vector<std::string>& lines) {
  try {
    const auto found = verify(*testing::CaseReader::read(lines));
    return found.empty() ? "accepted" : found.front().message;
  } catch (const std::exception& e) { return std::string("the notation was not understood: ") + e.what(); }
}

TEST(Verify, EveryRuleAcceptsAndRejects) {
  int rejects = 0;
  for (const testing::Rule& rule : testing::read_rules()) {
    SCOPED_TRACE(rule.accept.back());
    EXPECT_EQ(all_messages(*testing::CaseReader::read(rule.accept)), "");
    for (const testing::Rule::Reject& reject : rule.rejects) {
      SCOPED_TRACE(reject.replacement);
      const std::string found = first_message(testing::broken(rule, reject));
      EXPECT_THAT(found, HasSubstr(reject.message));
      ++rejects;
    }
  }
  EXPECT_GE(rejects, 120);
}

TEST(Verify, EveryGoldenProgramIsLegal) {
  std::ifstream in(TESSERA_TEST_DATA "/ir/golden/cases.txt");
  for (const auto& [name, lines] : testing::read_cases(in)) {
    SCOPED_TRACE(name);
    EXPECT_EQ(all_messages(*testing::CaseReader::read(lines)), "");
  }
}

TEST(Verify, ThrowsWithTheUsersLineAndAllMessages) {
  auto module = testing::read_program(
      "loc k.cpp 3 1\narg %x tile:f32:\nloc k.cpp 7 1\n%0 = addi lhs=%x rhs=%x -> tile:f32:\nloc k.cpp 8 1\n"
      "%1 = negi source=%x -> tile:f32:");
  try {
    verify_or_throw(*module);
    FAIL() << "expected a CompileError";
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(),
                HasSubstr("k.cpp:7: CompileError: addi: expected operand lhs to be a tile of i1, i8, i16, i32 "
                          "or i64, found tile<f32>"));
    EXPECT_THAT(e.what(), HasSubstr("\n  k.cpp:8: negi: "));
  }
  EXPECT_NO_THROW(verify_or_throw(*testing::read_program("arg %x tile:i32:\n%1 = negi source=%x -> tile:i32:")));
}

TEST(Verify, UseBeforeDefinition) {
  auto module =
      testing::read_program("arg %x tile:f32:\n%a = negf source=%x -> tile:f32:\n%b = negf source=%a -> tile:f32:");
  EXPECT_EQ(all_messages(*module), "");
  Block& body = module->functions[0]->body();
  body.front()->next()->move_before(body.front());
  EXPECT_THAT(all_messages(*module), HasSubstr("operand source is not defined before its use"));
}

TEST(Verify, ValueOfAnInnerBlockIsNotVisibleOutside) {
  const std::string outside =
      "arg %c tile:i1:\narg %x tile:f32:\nif condition=%c\n{\n%y = negf source=%x -> tile:f32:\nyield\n}\n"
      "%z = negf source=%y -> tile:f32:";
  EXPECT_THAT(all_messages(*testing::read_program(outside)), HasSubstr("not defined before its use"));
}

TEST(Verify, NullOperandsAndTypesAreReported) {
  auto module = testing::read_program("arg %x tile:f32:\n%a = negf source=%x -> tile:f32:");
  Operation& op = *module->functions[0]->body().front();
  op.set_operand(0, Value());
  EXPECT_THAT(all_messages(*module), HasSubstr("operand source is null"));
  op.set_operand(0, module->functions[0]->body().arg(0));
  op.result().set_type(Type());
  EXPECT_THAT(all_messages(*module), HasSubstr("expected a type, found none"));
}

TEST(Verify, AttributesMustBelongAndBeOfTheirKind) {
  auto module =
      testing::read_program("arg %x tile:f32:\n%a = negf source=%x -> tile:f32:\n%b = exp source=%a -> tile:f32:");
  Operation& negf = *module->functions[0]->body().front();
  negf.set_attr(AttrName::dim, IntAttr{Elem::I64, 0});
  EXPECT_THAT(all_messages(*module), HasSubstr("negf: has no attribute dim"));
  negf.remove_attr(AttrName::dim);
  negf.next()->set_attr(AttrName::rounding_mode, IntAttr{Elem::I64, 0});
  EXPECT_THAT(all_messages(*module), HasSubstr("the attribute rounding_mode is not of its kind"));
  negf.next()->set_attr(AttrName::rounding_mode, EnumAttr{200});
  EXPECT_THAT(all_messages(*module), HasSubstr("names no value of it"));
}

TEST(Verify, FunctionsAndGlobals) {
  auto twice = testing::read_program("");
  Builder(twice->add_function("kernel").body()).create(Op::Return, {}, {});
  EXPECT_THAT(all_messages(*twice), HasSubstr("@kernel is defined twice"));
  EXPECT_THAT(all_messages(*testing::read_program("", true)), HasSubstr("expected a body that ends with return"));
  auto nameless = testing::read_program("");
  nameless->functions[0]->name = "";
  EXPECT_THAT(all_messages(*nameless), HasSubstr("has no name"));
  auto hinted = testing::read_program("hints sm_90 occupancy=2");
  EXPECT_EQ(all_messages(*hinted), "");
  hinted->functions[0]->entry = false;  // bytecode has no place for them
  EXPECT_THAT(all_messages(*hinted), HasSubstr("func @kernel: only an entry has hints, found some"));
}

TEST(Verify, DeepNestingIsFine) {
  std::string text = "arg %c tile:i1:\n", end;
  for (int i = 0; i < 400; ++i) {
    text += "if condition=%c\n{\n";
    end += "yield\n}\n";
  }
  auto module = testing::read_program(text + end);
  EXPECT_EQ(all_messages(*module), "");
  EXPECT_EQ(write_bytecode(*clone(*module)), write_bytecode(*module));
  EXPECT_FALSE(print(*module).empty());
}

}  // namespace
}  // namespace tessera::ir
