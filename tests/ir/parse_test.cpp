// Reading text: what print() writes is read as what was printed, and what is wrong is reported with its place.
#include "tessera/ir/parser.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "ir/case_reader.hpp"
#include "ir/fixed_point.hpp"
#include "ir/text_values.hpp"
#include "tessera/base/format.hpp"

namespace tessera::ir {
namespace THIS_FILE {

std::vector<std::pair<std::string, std::vector<std::string>>> golden_cases() {
  std::ifstream in(TESSERA_TEST_DATA "/ir/golden/cases.txt");
  return testing::read_cases(in);
}

/// The problems of a text, a line `line:column: message` for each.
std::string problems_of(const std::string& text, ParseOptions options = {}) {
  try {
    parse(text, options);
  } catch (const ParseError& error) {
    std::string out;
    for (const TextProblem& p : error.problems()) out += concat(p.line, ":", p.column, ": ", p.message, "\n");
    EXPECT_FALSE(out.empty());
    return out;
  }
  return "";
}

/// A program of one entry with these lines, then `return`.
std::string entry(const std::string& lines) {
  return "entry @k(%p: tile<ptr<f32>>, %n: tile<i32>, %c: tile<i1>) { %x = constant <f32: 0.0> : tile<4xf32>\n" +
         lines + "\nreturn\n}\n";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

TEST(Parse, EveryOperationIsReadAsItWasPrinted) {
  const auto cases = golden_cases();
  ASSERT_GT(cases.size(), 40u);
  for (const auto& [name, lines] : cases) {
    SCOPED_TRACE(name);
    EXPECT_EQ(testing::text_problem(*testing::CaseReader::read(lines)), "");
  }
}

TEST(Parse, NamesMayHaveTheDialectsPrefix) {
  for (const auto& [name, lines] : golden_cases()) {
    SCOPED_TRACE(name);
    const std::string text = print(*testing::CaseReader::read(lines));
    std::string prefixed = "cuda_tile.module @m {\n" + text + "}\n";
    for (const OpInfo& op : all_ops()) {
      const std::string mnemonic(op.mnemonic);
      prefixed = replaced(prefixed, " = " + mnemonic + " ", " = cuda_tile." + mnemonic + " ");
    }
    for (const char* type : {"tile<", "tensor_view<", "partition_view<", "ptr<"})
      for (const char* before : {" ", "(", "x", "<"})
        prefixed = replaced(prefixed, std::string(before) + type, before + std::string("!cuda_tile.") + type);
    const auto module = parse(prefixed);
    EXPECT_EQ(print(*module), text);
    EXPECT_EQ(module->name, "m");
  }
}

TEST(Parse, NamesOfSymbolsProducersAndFilesAreKept) {
  Module module;
  module.producer = "a \"producer\" \\ of\nmodules";
  Function& f = module.add_function("an entry, \"quoted\"");
  f.loc = {"folder \"of\"/k.cpp", "", 3, 7};
  module.globals.push_back({"9lives", DenseAttr{Type::tile(Elem::I8, {2}), std::vector<std::byte>(2), false}});
  module.globals.push_back(
      {"plain.name$1", DenseAttr{Type::tile(Elem::I8, {4}), {std::byte{1}}, true}, 16, true, true});
  Builder b(f.body());
  b.loc = f.loc;
  b.create(Op::GetGlobal, {}, {Type::tile(Type::pointer(Type::element(Elem::I8)), {})}, {{AttrName::name, "9lives"}});
  b.create(Op::Return, {}, {});
  EXPECT_EQ(testing::text_problem(module), "");
  const auto read = parse(print(module, {true}));
  EXPECT_EQ(read->producer, module.producer);
  EXPECT_EQ(read->functions[0]->name, f.name);
  EXPECT_STREQ(read->functions[0]->loc.file, f.loc.file);
  EXPECT_EQ(read->globals[1].alignment, 16);
  EXPECT_TRUE(read->globals[1].is_private && read->globals[1].constant && !read->globals[0].constant);
}

TEST(Parse, HintsOfEveryTypeAreKept) {
  Module module;
  Function& f = module.add_function("k");
  f.hints.entries.emplace_back(
      "sm_90", DictAttr{{{"a key", IntAttr{Elem::I64, 5}}, {"b", true}, {"c", IntAttr{Elem::I32, -2}}, {"d", "text"}}});
  const auto read = parse(print(module), {.verify = false});
  EXPECT_EQ(read->functions[0]->hints, f.hints);
}

TEST(Parse, TerminatorsThatAreLeftOutHaveTheirPlaces) {
  Module module;
  Function& f = module.add_function("k");
  f.loc = {"k.cpp", "", 1, 1};
  const Value c = f.body().add_arg(Type::tile(Elem::I1)), n = f.body().add_arg(Type::tile(Elem::I32));
  Builder b(f.body());
  b.loc = {"k.cpp", "", 2, 1};
  Operation* loop = b.create(Op::For, {n, n, n}, {});
  Operation* branch = b.create(Op::If, {c}, {});
  b.create(Op::Return, {}, {});
  Block& body = loop->add_region();
  body.add_arg(n.type());
  Builder in_body(body), in_branch(branch->add_region());
  in_body.loc = in_branch.loc = {"k.cpp", "", 3, 5};
  in_body.create(Op::Continue, {}, {});
  in_branch.create(Op::Yield, {}, {});
  EXPECT_EQ(testing::text_problem(module), "");
  EXPECT_EQ(print(module).find("continue"), std::string::npos);
  const auto read = parse(print(module, {true}));
  EXPECT_EQ(read->functions[0]->body().front()->region(0).back()->loc.line, 3u);
}

TEST(Parse, AbsentAttributesMeanWhatTheirRowsImply) {
  const auto module = parse(entry(
      "%f = scan %x dim=0 reverse=false identities=[0.0 : f32] : tile<4xf32> -> tile<4xf32>\n(%a: tile<f32>, %b: "
      "tile<f32>) {\nyield %a : tile<f32>\n}\n%r = scan %x dim=0 reverse=true identities=[0.0 : f32] : tile<4xf32> -> "
      "tile<4xf32>\n(%a: tile<f32>, %b: tile<f32>) {\nyield %a : tile<f32>\n}"));
  Operation* scan = module->functions[0]->body().front()->next();
  EXPECT_FALSE(scan->bool_attr(AttrName::reverse));
  EXPECT_TRUE(scan->next()->bool_attr(AttrName::reverse));
  scan->remove_attr(AttrName::reverse);
  EXPECT_FALSE(scan->bool_attr(AttrName::reverse));
  EXPECT_EQ(testing::bytecode_problem(*module), "");
}

/// Random bits, and those around the ends of each format's range.
TEST(Parse, NumbersOfEveryElementAreReadAsTheyWerePrinted) {
  std::mt19937_64 random(7);
  for (int i = 0; i <= static_cast<int>(Elem::F8E5M3FNU); ++i) {
    const auto e = static_cast<Elem>(i);
    const int bits = info(e).bits;
    const std::uint64_t mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
    const bool all = bits <= 16;
    for (std::uint64_t n = 0; n < (all ? mask + 1 : 20000); ++n) {
      std::uint64_t value = all ? n : random() & mask;
      if (!all && n < 8) value = n < 4 ? n : mask - n + 4;
      if (e == Elem::TF32) value &= ~std::uint64_t{0x1FFF};
      std::uint64_t read = ~value;
      ASSERT_TRUE(number_bits(e, number_text(e, value), read)) << info(e).text << " " << number_text(e, value);
      ASSERT_EQ(read, value) << info(e).text << " " << number_text(e, value);
    }
  }
}

TEST(Parse, NumbersThatDoNotFitAreNone) {
  std::uint64_t bits = 0;
  const auto is = [&](Elem e, const char* text) { return number_bits(e, text, bits); };
  EXPECT_TRUE(is(Elem::I8, "-128") && bits == 0x80 && is(Elem::I8, "127"));
  EXPECT_FALSE(is(Elem::I8, "128") || is(Elem::I8, "-129") || is(Elem::I4, "8") || is(Elem::I1, "2"));
  EXPECT_FALSE(is(Elem::I64, "9223372036854775808") || is(Elem::I32, "") || is(Elem::I32, "1.5"));
  EXPECT_TRUE(is(Elem::F16, "0xFFFF") && is(Elem::TF32, "0x7FFFF") && is(Elem::F32, "1"));
  EXPECT_FALSE(is(Elem::F16, "0x10000") || is(Elem::TF32, "0x80000") || is(Elem::F32, "inf") || is(Elem::F64, "1e999"));
}

TEST(Parse, ConstantsOfEveryFormAreKept) {
  std::mt19937_64 random(11);
  for (int i = 0; i <= static_cast<int>(Elem::F8E5M3FNU); ++i) {
    const auto e = static_cast<Elem>(i);
    if (e == Elem::F4E2M1FN || e == Elem::I4) continue;  // constants of these come in no kernel
    for (const std::vector<std::int64_t>& shape : {std::vector<std::int64_t>{}, {1}, {2}, {2, 1, 4}, {8, 8}, {8, 16}}) {
      Module module;
      Function& f = module.add_function("k");
      Builder b(f.body());
      const Type type = Type::tile(Type::element(e), shape);
      const auto number = [&](DenseAttr& data) {
        std::uint64_t bits = random();
        if (e == Elem::I1) bits &= 1;
        if (e == Elem::TF32) bits &= 0xFFFFE000;
        for (int byte = 0; byte < info(e).bytes; ++byte)
          data.bytes.push_back(static_cast<std::byte>(bits >> (8 * byte)));
      };
      DenseAttr splat{type, {}, true}, list{type, {}, false};
      number(splat);
      for (std::int64_t n = 0; n < type.num_elements(); ++n) number(list);
      b.constant(type, splat);
      b.constant(type, list);
      b.create(Op::Return, {}, {});
      SCOPED_TRACE(print(module));
      EXPECT_EQ(testing::text_problem(module), "");
      const auto read = parse(print(module));
      const Operation* first = read->functions[0]->body().front();
      EXPECT_EQ(*first->attr(AttrName::value), Attribute(splat));
      list.splat = type.num_elements() == 1;
      EXPECT_EQ(*first->next()->attr(AttrName::value), Attribute(list));
    }
  }
}

TEST(Parse, WhatPrintDoesNotWriteIsReadToo) {
  const std::string text =
      "// a comment\nentry @k(%a : tile<f32>,%b:tile<f32>){// another\n%r=addf %a,%b rounding<nearest_even>:tile<f32>\n"
      "addf %r#0, %b : tile<f32>\n  return }";
  EXPECT_EQ(print(*parse(text)),
            "entry @k(%arg0: tile<f32>, %arg1: tile<f32>) {\n  %0 = addf %arg0, %arg1  : tile<f32>\n"
            "  %1 = addf %0, %arg1  : tile<f32>\n  return\n}\n");
  EXPECT_EQ(print(*parse("")), "");
}

TEST(Parse, ProblemsSayWhereAndWhatWasExpected) {
  struct Row {
    const char* line;
    const char* problem;
  };
  const Row rows[] = {
      {"%r = addg %x, %x : tile<4xf32>", "2:6: expected an operation, found `addg`\n"},
      {"%r = addf %x %x : tile<4xf32>", "2:14: expected `,`, found `%x`\n"},
      {"%r = addf %x, %y : tile<4xf32>", "2:15: expected a value that is defined before its use, found %y\n"},
      {"%r = addf %x, %x : tile<4xf33>", "2:27: expected an element type (i32, f32, ...), found `f33`\n"},
      {"%r = addf %x, %x : tile<3xf32>", "2:20: expected extents that are powers of two, found [3]\n"},
      {"%r = addf %x, %x : f32", "2:20: expected a type (tile<...>, a view or token), found `f32`\n"},
      {"%r = addf %x, %x rounding<up> : tile<4xf32>",
       "2:27: expected nearest_even, zero, negative_inf, positive_inf, approx, full, nearest_int_to_zero or "
       "nearest_away, "
       "found `up`\n"},
      {"%r = exti %n signed : tile<i64> -> tile<i64>",
       "2:23: expected the type tile<i32> of the operand, found tile<i64>\n"},
      {"%x = negf %x : tile<4xf32>", "2:1: %x is defined twice\n"},
      {"%r, %s = negf %x : tile<4xf32>", "2:1: expected names for 1 result of negf, found 2\n"},
      {"%r = constant <i8: 300> : tile<i8>", "2:20: expected a number of i8, found `300`\n"},
      {"%r = constant <i8: [1, 2]> : tile<4xi8>", "2:25: expected `,`: 4 items instead of 2, found `]`\n"},
      {"%r = constant <i8: [1, 2, 3]> : tile<2xi8>", "2:25: expected `]` after 2 items, found `,`\n"},
      {"%r = constant <i8: \"0x01\"> : tile<2xi8>",
       "2:21: expected 0x and 4 hexadecimal digits for tile<2xi8>, found 4 characters\n"},
      {"%r = constant <i1: \"0x0102\"> : tile<2xi1>", "2:25: expected at most 1 for an element of i1\n"},
      {"%r = constant <i8: 1> : tile<2xi16>", "2:16: expected elements of i16, found i8\n"},
      {"%r = constant <i8: 1", "2:20: expected values that end with `>`, found `1`\n"},
      {"%r = cat %x, %x dim = 99999999999999999999 : tile<4xf32>, tile<4xf32> -> tile<8xf32>",
       "2:23: expected an integer from -9223372036854775808 to 9223372036854775807, found `99999999999999999999`\n"},
      {"assert %c, \"no end : tile<i1>", "2:12: expected `\"` at the end of the string, found the end of the line\n"},
      {"%r = entry", "2:6: expected an operation, found `entry`\n"},
      {"%r = assume maybe, %n : tile<i32>",
       "2:13: expected an assumption (div_by, bounded or same_elements), found `maybe`\n"},
      {"%f:3 = for %i in (%n to %n, step %n) : tile<i32> {\n}", "2:1: expected names for 0 results of for, found 3\n"},
      {"%v = make_tensor_view %p, shape = [%n, 4], strides = [4, 1] : tile<i32> -> tensor_view<?x8xf32, strides=[4,1]>",
       "2:26: expected the shape of the view's type, found another entry 1\n"},
      {"%v = make_tensor_view %p, shape = [4], strides = [1, 1] : tensor_view<4xf32, strides=[1]>",
       "2:39: expected 1 entries of strides, found 2\n"},
      {"%w = negf %x#3 : tile<4xf32>", "2:11: expected a number below 1 after %x#, found 3\n"},
      {"for unsignedly %i in (%n to %n, step %n) : tile<i32> {\n}",
       "2:5: expected a value (%name), found `unsignedly`\n"},
      {"if %c {", "5:1: expected `}`, found the end of the text\n"},
  };
  for (const Row& row : rows) EXPECT_EQ(problems_of(entry(row.line)), row.problem) << row.line;
  EXPECT_EQ(problems_of("kernel @k() {}"), "1:1: expected entry, func or global, found `kernel`\n");
  EXPECT_EQ(problems_of("module @m {\n"), "2:1: expected `}` at the end of the module, found the end of the text\n");
  EXPECT_EQ(problems_of("}"), "1:1: expected entry, func or global, found `}`\n");
}

TEST(Parse, AllProblemsAreFoundAndNoneTwice) {
  const std::string text = entry(
      "%a = addg %x, %x : tile<4xf32>\n"
      "%b = negf %a : tile<4xf32>\n"  // no second problem about %a, nor one about %b
      "%l = for %i in (%n to %n, step %m) : tile<i32> iter_values(%v = %b) -> (tile<4xf32>) {\n"
      "  if %c {\n    continue %v : tile<4xf32>\n  }\n"
      "  continue %v : tile<4xf32>\n}\n"
      "%r = reduce %x dim=zero identities=[0.0 : f32] : tile<4xf32> -> tile<f32>\n"
      "(%e: tile<f32>, %g: tile<f32>) {\n  yield %e : tile<f32>\n}\n"
      "if %c {\n  %d = negf %q : tile<4xf32>\n  %h = exti %n signed : tile<i64> -> tile<i64>\n} else {\n}\n"
      "%z = negf %l : tile<4xf32>");
  EXPECT_EQ(problems_of(text),
            "2:6: expected an operation, found `addg`\n"
            "4:32: expected a value that is defined before its use, found %m\n"
            "10:20: expected an integer, found `zero`\n"
            "15:13: expected a value that is defined before its use, found %q\n"
            "16:25: expected the type tile<i32> of the operand, found tile<i64>\n");
  std::string many;
  for (int i = 0; i < 50; ++i) many += "addg\n";
  const std::string found = problems_of(entry(many), {.most_problems = 7});
  EXPECT_EQ(std::count(found.begin(), found.end(), '\n'), 7);
}

/// What is passed after a problem: braces in comments and strings are no braces, nor is an escaped quote an end.
TEST(Parse, CommentsAndStringsBehindAProblemArePassed) {
  for (const char* rest : {"// {", "// }", "\"{\" // \"", "\"a\\\"{\""})
    EXPECT_EQ(problems_of(entry(std::string("addg ") + rest + "\n%s = addh %x\n")),
              "2:1: expected an operation, found `addg`\n3:6: expected an operation, found `addh`\n")
        << rest;
}

TEST(Parse, ProblemsOfTheVerifierHaveTheirPlaces) {
  const std::string text =
      "global @g <f32: 0.0> : tile<4xf32>\nglobal @g <f32: 0.0> : tile<2x2xf32>\n"
      "entry @k(%x: tile<4xf32>) {\n  return\n}\n"
      "entry @other(%x: tile<f32>) {\n  %r = ftof %x : tile<f32> -> tile<f32>\n  %s = iota : tile<2x2xi32>\n  "
      "return\n}\n";
  const std::string found = problems_of(text);
  EXPECT_NE(found.find("2:1: @g is defined twice"), std::string::npos) << found;
  EXPECT_NE(found.find("2:1: global @g: expected a tile of one axis"), std::string::npos) << found;
  EXPECT_NE(found.find("3:1: entry @k: argument 0: expected a scalar tile"), std::string::npos) << found;
  EXPECT_NE(found.find("7:8: ftof"), std::string::npos) << found;
  EXPECT_NE(found.find("8:8: iota"), std::string::npos) << found;
  EXPECT_EQ(problems_of(text, {.verify = false}), "");
}

TEST(Parse, MessagesNameTheFile) {
  try {
    parse("entry\nx", {.file = "kernel.tir"});
    FAIL() << "expected a ParseError";
  } catch (const CompileError& error) {
    EXPECT_STREQ(error.what(),
                 "CompileError: kernel.tir:2:1: expected a symbol (@name), found `x`\n"
                 "kernel.tir:2:1: expected entry, func or global, found `x`");
  }
}

TEST(Parse, NestingIsLimited) {
  const auto nested = [](int depth) {
    std::string text;
    for (int i = 0; i < depth; ++i) text += "if %c {\n";
    for (int i = 0; i < depth; ++i) text += "}\n";
    return entry(text);
  };
  EXPECT_EQ(problems_of(nested(199)), "");
  EXPECT_NE(problems_of(nested(201)).find("expected at most 200 regions in each other"), std::string::npos);
  EXPECT_NE(problems_of(nested(200000)), "");
  EXPECT_NE(problems_of(entry("%r = negf %x : " + std::string(100000, '<'))), "");
  EXPECT_NE(problems_of(entry("%r = constant <f32: " + std::string(100000, '[') + "> : tile<4xf32>")), "");
  std::string axes;
  for (int i = 0; i < 65; ++i) axes += "1x";
  EXPECT_NE(problems_of(entry("%r = iota : tile<" + axes + "i32>")).find("at most 64 axes"), std::string::npos);
}

}  // namespace THIS_FILE
}  // namespace tessera::ir
