// Our text against NVIDIA's disassembler (golden/make_text.py), character for character, and the text of numbers.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <fstream>

#include "ir/case_reader.hpp"
#include "ir/text_values.hpp"

namespace tessera::ir {
namespace {

const std::string kTextFolder = TESSERA_TEST_DATA "/ir/golden/";

/// Case -> lines of its text, blanks at line ends dropped.
std::map<std::string, std::string> reference() {
  std::map<std::string, std::string> texts;
  std::ifstream in(kTextFolder + "text.txt");
  std::string current;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("=== "))
      current = line.substr(4);
    else if (!current.empty())
      texts[current] += line + "\n";
  }
  return texts;
}

TEST(Print, EveryCaseEqualsNvidiasDisassembler) {
  const auto texts = reference();
  ASSERT_GT(texts.size(), 40u);
  std::ifstream in(kTextFolder + "cases.txt");
  for (const auto& [name, lines] : testing::read_cases(in)) {
    SCOPED_TRACE(name);
    ASSERT_TRUE(texts.contains(name));
    EXPECT_EQ(print(*testing::CaseReader::read(lines)), texts.at(name));
  }
}

std::string f32_text(float value) { return number_text(Elem::F32, std::bit_cast<std::uint32_t>(value)); }

TEST(Print, NumbersAsMlirPrintsThem) {
  EXPECT_EQ(f32_text(1.0f), "1.000000e+00");
  EXPECT_EQ(f32_text(-0.0f), "-0.000000e+00");
  EXPECT_EQ(f32_text(0.1f), "1.000000e-01");
  EXPECT_EQ(f32_text(3.14159274f), "3.14159274");
  EXPECT_EQ(f32_text(1e-7f), "1.000000e-07");
  EXPECT_EQ(f32_text(1e30f), "1.000000e+30");
  EXPECT_EQ(f32_text(16777215.0f), "0x4B7FFFFF");  // all its digits have no point
  EXPECT_EQ(f32_text(INFINITY), "0x7F800000");
  EXPECT_EQ(f32_text(-INFINITY), "0xFF800000");
  EXPECT_EQ(number_text(Elem::F64, std::bit_cast<std::uint64_t>(0.1)), "1.000000e-01");
  EXPECT_EQ(number_text(Elem::F64, std::bit_cast<std::uint64_t>(1.0 / 3)), "0.33333333333333331");
  EXPECT_EQ(number_text(Elem::F16, 0x3555), "3.332520e-01");
  EXPECT_EQ(number_text(Elem::F8E4M3FN, 0x7F), "0x7F");
  EXPECT_EQ(number_text(Elem::TF32, 0x7F800000), "0x3FC00");
  EXPECT_EQ(number_text(Elem::I8, 0x80), "-128");
  EXPECT_EQ(number_text(Elem::I1, 1), "true");
}

TEST(Print, TypesAsText) {
  EXPECT_EQ(testing::read_type("tile:f32:").str(), "tile<f32>");
  EXPECT_EQ(testing::read_type("tile:ptr.i8:4").str(), "tile<4xptr<i8>>");
  EXPECT_EQ(testing::read_type("view:f16:?x8:8x1").str(), "tensor_view<?x8xf16, strides=[8,1]>");
  EXPECT_EQ(testing::read_type("view:f16::").str(), "tensor_view<f16>");
  EXPECT_EQ(Type().str(), "<null type>");
  Type f32 = Type::tile(Elem::F32);
  EXPECT_EQ(Type::function(std::vector<Type>{f32, f32}, {}).str(), "(tile<f32>, tile<f32>) -> ()");
}

TEST(Print, OneOperationAndLocations) {
  auto module = testing::read_program("loc k.cpp 3 1\narg %x tile:f32:\n%0 = negf source=%x -> tile:f32:");
  const Operation& op = *module->functions[0]->body().front();
  EXPECT_EQ(print(op), "%0 = negf %arg0 : tile<f32>");
  EXPECT_EQ(print(op, {true}), "%0 = negf %arg0 : tile<f32> loc(\"k.cpp\":3:1)");
}

TEST(Print, StringsAreEscaped) { EXPECT_EQ(quoted_text("a\"b\\c\n\x80"), "\"a\\22b\\\\c\\0A\\80\""); }

TEST(Print, BrokenProgramsPrintToo) {
  auto module = testing::read_program(
      "arg %n tile:i32:\nfor lowerBound=%n upperBound=%n step=%n initValues=%n -> tile:i32:\n{\n}\n"
      "%v = constant -> tile:i32:\nload_view_tko view=%v -> tile:i32:",
      true);
  EXPECT_NE(print(*module).find("<<missing>>"), std::string::npos);
}

}  // namespace
}  // namespace tessera::ir
