// Assertions become marks in an error record, whatever the shape of their condition and wherever they stand.
#include "tessera/passes/lower_checks.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "tessera/codegen/cpu/program.hpp"
#include "tessera/ir/printer.hpp"
#include "tessera/ir/verifier.hpp"

namespace THIS_FILE {

using namespace tessera;
using ir::AttrName;
using ir::Builder;
using ir::Elem;
using ir::Op;
using ir::Type;
using ir::Value;

SourceLocation line_42() {
  SourceLocation where;
  where.file = "kernel.cpp";
  where.line = 42;
  return where;
}

void add_check(Builder& b, Value condition, const char* message) {
  b.loc = line_42();
  b.create(Op::Assert, {condition}, {}, {{AttrName::message, std::string(message)}});
}

std::size_t count(const ir::Module& module, Op op) {
  std::size_t n = 0;
  for (const auto& f : module.functions) ir::walk(f->body(), [&](ir::Operation& o) { n += o.op() == op; });
  return n;
}

TEST(LowerChecks, AModuleWithoutChecksIsLeftAsItIs) {
  ir::Module module;
  ir::Function& f = module.add_function("none");
  f.body().add_arg(Type::tile(Elem::I32));
  Builder b(f.body());
  b.create(Op::Return, {}, {});
  const std::string before = ir::print(module);
  EXPECT_TRUE(passes::lower_checks(*module.functions.front()).empty());
  EXPECT_EQ(ir::print(module), before);
}

TEST(LowerChecks, EveryShapeBecomesOneSwap) {
  ir::Module module;
  ir::Function& f = module.add_function("shapes");
  const Value scalar = f.body().add_arg(Type::tile(Elem::I1));
  Builder b(f.body());
  const std::int64_t one[] = {1, 1}, vector[] = {8}, matrix[] = {4, 8};
  add_check(b, scalar, "scalar");
  add_check(b, b.constant_int(Elem::I1, 1, one), "one element");
  add_check(b, b.constant_int(Elem::I1, 0, vector), "vector");
  add_check(b, b.constant_int(Elem::I1, 1, matrix), "matrix");
  b.create(Op::Return, {}, {});
  const auto checks = passes::lower_checks(*module.functions.front());
  ir::verify_or_throw(module);
  ASSERT_EQ(checks.size(), 4u);
  EXPECT_EQ(checks[0].message, "scalar");
  EXPECT_EQ(checks[3].message, "matrix");
  EXPECT_EQ(checks[2].where.line, 42u);
  EXPECT_STREQ(checks[2].where.file, "kernel.cpp");
  EXPECT_EQ(count(module, Op::Assert), 0u);
  EXPECT_EQ(count(module, Op::AtomicCASTko), 4u);
  EXPECT_EQ(count(module, Op::Reduce), 2u);
  ASSERT_EQ(f.body().num_args(), 2u);
  EXPECT_EQ(f.body().arg(1).type(), Type::tile(Type::pointer(Type::element(Elem::I32)), {}));
}

TEST(LowerChecks, ChecksInsideRegionsUseTheSameRecord) {
  ir::Module module;
  ir::Function& f = module.add_function("nested");
  const Value flag = f.body().add_arg(Type::tile(Elem::I1));
  Builder b(f.body());
  ir::Operation* branch = b.create(Op::If, {flag}, {});
  for (int i = 0; i < 2; ++i) {
    Builder inner(branch->add_region());
    add_check(inner, flag, i == 0 ? "then" : "else");
    inner.create(Op::Yield, {}, {});
  }
  b.create(Op::Return, {}, {});
  const auto checks = passes::lower_checks(*module.functions.front());
  ir::verify_or_throw(module);
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(checks[1].message, "else");
  EXPECT_EQ(f.body().num_args(), 2u);
  EXPECT_EQ(count(module, Op::AtomicCASTko), 2u);
}

/// The number of the check that a launch with this argument reports; 0 if none fails. Number n checks that the argument
/// is not n; 4, of a tile, that it is none of 8 to 15.
std::int32_t reported(std::int32_t argument) {
  ir::Module module;
  ir::Function& f = module.add_function("numbered");
  const Value x = f.body().add_arg(Type::tile(Elem::I32));
  Builder b(f.body());
  const auto differs = [&](Value y, Value z) {
    return b
        .create(Op::CmpI, {y, z}, {y.type().with_element(Elem::I1)},
                {{AttrName::comparison_predicate, ir::ComparisonPredicate::NotEqual},
                 {AttrName::signedness, ir::Signedness::Signed}})
        ->result();
  };
  for (const int n : {1, 2, 3}) add_check(b, differs(x, b.constant_int(Elem::I32, n)), "no such number");
  const std::int64_t one[] = {1}, eight[] = {8};
  const Value line = b.create(Op::Iota, {}, {Type::tile(Elem::I32, {8})})->result();
  const Value from = b.create(Op::AddI, {line, b.constant_int(Elem::I32, 8, eight)}, {line.type()})->result();
  const Value single = b.create(Op::Reshape, {x}, {x.type().with_shape(one)})->result();
  add_check(b, differs(from, b.create(Op::Broadcast, {single}, {line.type()})->result()), "none of a tile");
  b.create(Op::Return, {}, {});
  EXPECT_EQ(passes::lower_checks(*module.functions.front()).size(), 4u);
  ir::verify_or_throw(module);
  std::int32_t record[4] = {};
  const std::uint64_t slots[] = {static_cast<std::uint32_t>(argument), reinterpret_cast<std::uintptr_t>(record)};
  cpu::Program::compile(module)->run({}, slots, {});
  EXPECT_EQ(record[1], record[0] == 0 ? 0 : 1) << "the block, plus one";
  return record[0];
}

TEST(LowerChecks, TheRecordSaysWhichCheckFailed) {
  EXPECT_EQ(reported(0), 0);
  for (const std::int32_t n : {1, 2, 3}) EXPECT_EQ(reported(n), n);
}

TEST(LowerChecks, ACheckOfATileFailsWhereOneElementDoes) {
  for (const std::int32_t x : {8, 11, 15}) EXPECT_EQ(reported(x), 4) << x;
  EXPECT_EQ(reported(7), 0);
  EXPECT_EQ(reported(16), 0);
}

}  // namespace THIS_FILE
