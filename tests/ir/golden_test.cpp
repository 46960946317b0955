// Our bytecode against NVIDIA's writer, byte for byte, for every operation and version (golden/make_golden.py).
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "ir/case_reader.hpp"
#include "tessera/base/error.hpp"

namespace tessera::ir {
namespace {

const std::string kFolder = TESSERA_TEST_DATA "/ir/golden/";

std::string hex(const std::vector<std::byte>& bytes) {
  std::string out;
  for (std::byte b : bytes) {
    constexpr const char* digits = "0123456789abcdef";
    out += digits[std::to_integer<int>(b) >> 4];
    out += digits[std::to_integer<int>(b) & 15];
  }
  return out;
}

std::vector<std::pair<std::string, std::vector<std::string>>> cases() {
  std::ifstream in(kFolder + "cases.txt");
  return testing::read_cases(in);
}

/// "<case> <version>" -> hex of the file, or "unsupported".
std::map<std::string, std::string> golden() {
  std::map<std::string, std::string> files;
  std::ifstream in(kFolder + "golden.txt");
  for (std::string line; std::getline(in, line);) {
    auto words = testing::words_of(line);
    if (words.empty() || words[0] == "#") continue;
    std::string data = words.at(2);
    if (data[0] == '=') {
      data = files.at(words[0] + " " + data.substr(1));
      data.replace(18, 2, "0" + words[1].substr(3));  // the minor version, byte 9
    }
    files[words[0] + " " + words[1]] = data;
  }
  return files;
}

TEST(Golden, EveryProgramAndVersionEqualsNvidiasWriter) {
  const auto files = golden();
  ASSERT_GT(files.size(), 150u);
  for (const auto& [name, lines] : cases()) {
    for (std::uint8_t minor = 1; minor <= 4; ++minor) {
      const std::string key = name + " 13." + std::to_string(minor);
      SCOPED_TRACE(key);
      ASSERT_TRUE(files.contains(key));
      auto module = testing::CaseReader::read(lines);
      const WriteOptions options{{13, minor}, true};
      if (files.at(key) == "unsupported") {
        EXPECT_THROW(write_bytecode(*module, options), CompileError);
        EXPECT_GT(required_version(*module).minor, minor);
        continue;
      }
      EXPECT_EQ(hex(write_bytecode(*module, options)), files.at(key));
      EXPECT_LE(required_version(*module).minor, minor);
    }
  }
}

TEST(Golden, ClonesWriteTheSameBytes) {
  for (const auto& [name, lines] : cases()) {
    SCOPED_TRACE(name);
    auto module = testing::CaseReader::read(lines);
    auto bytes = write_bytecode(*module);
    auto copy = clone(*module);
    module.reset();
    EXPECT_EQ(hex(write_bytecode(*copy)), hex(bytes));
  }
}

TEST(Golden, CoversEveryOperation) {
  std::set<std::string> used;
  for (const auto& [name, lines] : cases()) {
    auto module = testing::CaseReader::read(lines);
    for (const auto& f : module->functions)
      walk(f->body(), [&](const Operation& op) { used.emplace(op.info().mnemonic); });
  }
  for (const OpInfo& op : all_ops()) {
    EXPECT_TRUE(op.has(traits::ModuleLevel) || used.contains(std::string(op.mnemonic))) << op.mnemonic;
  }
}

TEST(Bytecode, GateNamesOperationVersionAndPlace) {
  auto module =
      testing::read_program("loc k.cpp 3 1\narg %x tile:f32:2\nloc k.cpp 7 1\n%0 = atan2 x=%x y=%x -> tile:f32:2");
  try {
    write_bytecode(*module, {{13, 1}, true});
    FAIL() << "expected a CompileError";
  } catch (const CompileError& e) {
    EXPECT_STREQ(
        e.what(),
        "k.cpp:7: CompileError: operation atan2 needs Tile IR bytecode 13.2, but 13.1 was requested: use a newer "
        "version or avoid it");
  }
}

TEST(Bytecode, GateRejectsUnknownVersions) {
  auto module = testing::read_program("");
  EXPECT_THROW(write_bytecode(*module, {{13, 0}, true}), CompileError);
  EXPECT_THROW(write_bytecode(*module, {{13, 5}, true}), CompileError);
  EXPECT_THROW(write_bytecode(*module, {{14, 1}, true}), CompileError);
  EXPECT_NO_THROW(write_bytecode(*module, {{13, 1}, true}));
}

TEST(Bytecode, UsedTokenOfPrintNeedsItsVersion) {
  auto unused = testing::read_program("%t = print_tko ; str=\"x\"");
  EXPECT_EQ(required_version(*unused).minor, 1);
  auto used = testing::read_program(
      "%t = print_tko ; str=\"x\"\n%u = make_token -> token\n%j = join_tokens tokens=%t,%u -> token");
  EXPECT_EQ(required_version(*used).minor, 2);
}

TEST(Bytecode, RoundingsOfConversionsNeedTheirVersion) {
  auto plain = testing::read_program("arg %f tile:f32:\n%a = ftof from=%f -> tile:f16: ; rounding_mode=nearest_even");
  EXPECT_EQ(required_version(*plain).minor, 1);
  auto zero = testing::read_program("arg %f tile:f32:\n%a = ftof from=%f -> tile:f16: ; rounding_mode=zero");
  EXPECT_EQ(required_version(*zero).minor, 4);
  auto scale = testing::read_program("arg %f tile:f32:\n%a = ftof from=%f -> tile:f8E8M0FNU: ; rounding_mode=zero");
  EXPECT_EQ(required_version(*scale).minor, 2);
}

TEST(Bytecode, ProducerIsWrittenFrom13_3On) {
  auto module = testing::read_program("");
  auto plain = write_bytecode(*module, {{13, 2}, true});
  module->producer = "a producer";
  EXPECT_EQ(hex(write_bytecode(*module, {{13, 2}, true})), hex(plain));
  std::string with = hex(write_bytecode(*module, {{13, 3}, true}));
  EXPECT_NE(with.find("612070726f6475636572"), std::string::npos);
}

TEST(Bytecode, DebugInfoCanBeLeftOut) {
  auto module =
      testing::read_program("loc secret_folder/k.cpp 3 1\narg %x tile:f32:2\n%0 = negf source=%x -> tile:f32:2");
  const std::string folder = "7365637265745f666f6c646572";
  EXPECT_NE(hex(write_bytecode(*module)).find(folder), std::string::npos);
  EXPECT_EQ(hex(write_bytecode(*module, {{13, 4}, false})).find(folder), std::string::npos);
}

}  // namespace
}  // namespace tessera::ir
