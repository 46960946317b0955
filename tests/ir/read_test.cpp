// Reading bytecode: what write_bytecode() writes is read as what was written, and what is wrong is reported.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "ir/bytecode_file.hpp"
#include "ir/case_reader.hpp"
#include "ir/fixed_point.hpp"
#include "tessera/base/format.hpp"

namespace tessera::ir {
namespace THIS_FILE {

using testing::SmallFile;

std::vector<std::pair<std::string, std::vector<std::string>>> golden_cases() {
  std::ifstream in(TESSERA_TEST_DATA "/ir/golden/cases.txt");
  return testing::read_cases(in);
}

/// What is wrong with a file: "offset: message".
std::string problem_of(std::span<const std::byte> bytes) {
  try {
    read_bytecode(bytes);
  } catch (const BytecodeError& error) {
    const std::string start = concat("<bytecode>, byte ", error.offset(), ": ");
    EXPECT_EQ(error.message().substr(0, start.size()), start);
    return error.message().substr(start.size());
  }
  return "";
}

/// The value of the only constant.
DenseAttr constant_of(const SmallFile& file) {
  const ReadModule read = read_bytecode(file.bytes());
  return *read.module->functions.at(0)->body().front()->attr(AttrName::value)->as<DenseAttr>();
}

std::vector<std::byte> bytes_as(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int v : values) bytes.push_back(static_cast<std::byte>(v));
  return bytes;
}

TEST(ReadBytecode, EveryProgramInEveryVersionIsReadAsItWasWritten) {
  const auto cases = golden_cases();
  ASSERT_GT(cases.size(), 40u);
  for (const auto& [name, lines] : cases) {
    SCOPED_TRACE(name);
    EXPECT_EQ(testing::bytecode_problem(*testing::CaseReader::read(lines)), "");
  }
}

TEST(ReadBytecode, SectionsMayStandInAnyOrderAndUnaligned) {
  for (const auto& [name, lines] : golden_cases()) {
    SCOPED_TRACE(name);
    const auto bytes = write_bytecode(*testing::CaseReader::read(lines));
    auto sections = testing::sections_of(bytes);
    ASSERT_EQ(testing::file_of(4, sections), bytes);
    std::ranges::reverse(sections);
    EXPECT_TRUE(write_bytecode(*read_bytecode(testing::file_of(4, sections)).module) == bytes);
    for (auto& s : sections) s.alignment = 1;
    EXPECT_TRUE(write_bytecode(*read_bytecode(testing::file_of(4, sections)).module) == bytes);
  }
}

TEST(ReadBytecode, TruthValuesComeInThreeForms) {
  const auto read = [](std::uint64_t n, const std::string& data) {
    SmallFile file;
    file.element_tag = 0;
    file.elements = n;
    file.constant = data;
    file.body = SmallFile::constant_op();
    return constant_of(file);
  };
  const auto splat = [](const DenseAttr& d, int value) { return d.splat && d.bytes == bytes_as({value}); };
  EXPECT_TRUE(splat(read(16, std::string(1, '\0')), 0));
  EXPECT_TRUE(splat(read(16, "\xFF"), 1));
  EXPECT_TRUE(splat(read(1, "\1"), 1));
  EXPECT_EQ(read(4, "\x05").bytes, bytes_as({1, 0, 1, 0}));
  EXPECT_EQ(read(4, std::string("\1\0\0\1", 4)).bytes, bytes_as({1, 0, 0, 1}));
  EXPECT_EQ(read(16, std::string("\x01\x80", 2)).bytes, bytes_as({1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  EXPECT_FALSE(read(8, "\x01").splat);
}

TEST(ReadBytecode, ConstantsAreSplatOrWhole) {
  SmallFile file;
  file.body = SmallFile::constant_op();
  EXPECT_EQ(constant_of(file).bytes, bytes_as({1, 2, 3, 4}));
  EXPECT_FALSE(constant_of(file).splat);
  file.constant = "\7";
  EXPECT_EQ(constant_of(file).bytes, bytes_as({7}));
  EXPECT_TRUE(constant_of(file).splat);
  file.constant = "\7\7";
  EXPECT_EQ(problem_of(file.bytes()), "expected 4 bytes of constant data for tile<4xi8>, found 2");
  file.element_tag = 19;  // f4E2M1FN, a byte each
  file.constant = "\x0F\x01\x10\x02";
  EXPECT_EQ(problem_of(file.bytes()), "expected elements of f4E2M1FN, found the byte 16");
  file.element_tag = 8;  // tf32, three bytes
  file.constant = std::string("\xFF\xFF\x07", 3);
  EXPECT_EQ(constant_of(file).bytes, bytes_as({0, 0xE0, 0xFF, 0xFF}));
  file.constant = std::string("\xFF\xFF\x0F", 3);
  EXPECT_EQ(problem_of(file.bytes()), "expected 19 bits of tf32, found 1048575");
}

TEST(ReadBytecode, WhatIsWrongIsSaid) {
  struct Row {
    std::string body;
    const char* problem;
  };
  const Row rows[] = {
      {"\x7F", "expected the opcode of an operation, found 127"},
      {"\x16", "expected the opcode of an operation, found 22"},  // entry
      {std::string("\x10\5\0", 3), "expected a number below 3 of types, found 5"},
      {std::string("\x10\0\0", 3), "the type of a result: a value cannot be of type i8"},
      {std::string("\x10\1\1", 3), "expected a number below 1 of constants, found 1"},
      {std::string("\x4F\1\0", 3), "expected a value that is defined before its use (below 0), found 0"},
      {std::string("\x10\1\0\x03\1\x07", 6), "expected the number of an enumeration below 4, found 7"},
      {std::string("\x10\1\0\x6B\1", 5), "expected the number of an enumeration below 4, found 92"},
      {std::string("\x05\x09", 2), "expected a number below 1 of strings, found 9"},
      {"\x80", "expected the opcode of an operation, found 11776"},
      {std::string(11, '\xFF'), "expected an opcode of 64 bits, found a larger number"},
      {std::string("\x0A\x7F", 2), "expected at most 3 results in what is left, found 127"},
  };
  for (const Row& row : rows) {
    SmallFile file;
    file.body = row.body;
    EXPECT_EQ(problem_of(file.bytes()), row.problem);
  }
  SmallFile newer;
  newer.minor = 3;
  newer.body = std::string("\x79\1\0\0", 4);
  EXPECT_EQ(problem_of(newer.bytes()), "fpowi came with 13.4");
  SmallFile hidden;
  hidden.flags = kEntryFunction | kPrivateFunction;
  EXPECT_EQ(problem_of(hidden.bytes()), "expected a public function or entry, found flags 3");
  SmallFile narrow;
  narrow.minor = 2;
  narrow.element_tag = 22;
  narrow.body = SmallFile::constant_op();
  EXPECT_EQ(problem_of(narrow.bytes()), "element type i4 came with 13.3");
}

TEST(ReadBytecode, FilesAreCheckedAsAWhole) {
  const SmallFile file;
  auto bytes = file.bytes();
  bytes.push_back(std::byte{0});
  EXPECT_EQ(problem_of(bytes), "expected the end of the file after the last section, found 1 more bytes");
  const auto with_byte = [&](std::size_t at, int value) {
    auto changed = file.bytes();
    changed[at] = static_cast<std::byte>(value);
    return problem_of(changed);
  };
  EXPECT_EQ(with_byte(0, 0), "expected Tile IR bytecode (7F \"TileIR\" 00), found other bytes");
  EXPECT_EQ(with_byte(9, 5), "expected bytecode of a version from 13.1 to 13.4, found 13.5");
  EXPECT_EQ(with_byte(9, 0), "expected bytecode of a version from 13.1 to 13.4, found 13.0");
  EXPECT_EQ(with_byte(10, 1), "expected a released version (tag 0), found tag 1");
  EXPECT_EQ(with_byte(12, 0x88), "expected a section from 1 to 7, found 8");
  EXPECT_EQ(with_byte(14, 7), "expected an alignment that is a power of two, found 7");
  auto sections = file.sections();
  sections.push_back(sections[0]);
  EXPECT_EQ(problem_of(testing::file_of(4, sections)), "expected each section once, found section 2 again");
  sections = file.sections();
  sections.erase(sections.begin());
  EXPECT_EQ(problem_of(testing::file_of(4, sections)), "expected a section of functions, found none");
  sections = file.sections();
  sections.push_back({kProducer, 1, std::string(1, '\0')});
  EXPECT_EQ(problem_of(testing::file_of(2, sections)), "the section of the producer came with 13.3");
  EXPECT_EQ(read_bytecode(testing::file_of(3, sections)).module->producer, "k");
}

/// Replaces a part of the only function's operations.
std::vector<std::byte> with_body_part(const std::vector<std::byte>& bytes, const std::string& part,
                                      const std::string& replacement) {
  auto sections = testing::sections_of(bytes);
  const auto functions = std::ranges::find(sections, int{kFunc}, &testing::FileSection::id);
  std::string& payload = functions->payload;
  const std::size_t at = payload.find(part);
  EXPECT_NE(at, std::string::npos);
  payload.replace(at, part.size(), replacement);
  std::size_t size = 0;  // what stands before the operations is their size, of one byte
  while (payload.at(size) != static_cast<char>(payload.size() - size - 1 + part.size() - replacement.size())) ++size;
  payload[size] = static_cast<char>(payload.size() - size - 1);
  return testing::file_of(4, sections);
}

TEST(ReadBytecode, NegativeNumbersOf64BitsComeInTwoForms) {
  const std::vector<std::string> program{
      "%x = constant -> tile:f64:4 ; value=splat:0000000000000000",
      "%r = reduce operands=%x -> tile:f64: ; dim=0 identities=[f64:fff0000000000000]",
      "{ %a tile:f64: %b tile:f64:",
      "%m = maxf lhs=%a rhs=%b -> tile:f64:",
      "yield operands=%m",
      "}"};
  const auto bytes = write_bytecode(*testing::CaseReader::read(program));
  const std::string as_signed("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x0F"), zeros(7, '\x80');
  const auto unsigned_form = with_body_part(bytes, as_signed, zeros + "\xF0\xFF\x03");
  EXPECT_TRUE(write_bytecode(*read_bytecode(unsigned_form).module) == bytes);
  EXPECT_EQ(problem_of(with_body_part(bytes, as_signed, "\x81" + zeros.substr(1) + "\xF0\xFF\x03")),
            "expected a number of 64 bits, found a larger number");
  EXPECT_EQ(problem_of(with_body_part(bytes, as_signed, zeros + "\xF0\xFF\x07")),
            "expected a number of 64 bits, found a larger number");
}

TEST(ReadBytecode, TruthValuesAreIdentitiesInTwoForms) {
  const auto program = [](int identity) {
    return std::vector<std::string>{
        "%x = constant -> tile:i1:4 ; value=splat:00",
        concat("%r = reduce operands=%x -> tile:i1: ; dim=0 identities=[i1:", identity, "]"),
        "{ %a tile:i1: %b tile:i1:",
        "%m = andi lhs=%a rhs=%b -> tile:i1:",
        "yield operands=%m",
        "}"};
  };
  const auto bytes = write_bytecode(*testing::CaseReader::read(program(1)));
  // One identity: the tag of an integer, its type, its value; or the tag of a truth value, its value.
  const auto sections = testing::sections_of(bytes);
  const std::string& payload = std::ranges::find(sections, int{kFunc}, &testing::FileSection::id)->payload;
  const std::size_t at = payload.find(std::string{'\1', static_cast<char>(kIntegerAttr)});
  ASSERT_NE(at, std::string::npos);
  const std::string integer = payload.substr(at, 4), truth{'\1', static_cast<char>(kBoolAttr), '\1'};
  EXPECT_TRUE(write_bytecode(*read_bytecode(with_body_part(bytes, integer, truth)).module) == bytes);
  EXPECT_TRUE(print(*read_bytecode(bytes).module).find("identities=[true]") != std::string::npos);
}

TEST(ReadBytecode, PaddingWithoutMaskIsLeftOut) {
  const auto program = [](const std::string& operands) {
    return std::vector<std::string>{
        "arg %p tile:ptr.f32:", "arg %m tile:i1:", "arg %z tile:f32:",
        "%x %t = load_ptr_tko source=%p" + operands + " -> tile:f32: token ; memory_ordering_semantics=weak"};
  };
  const auto read_again = [&](const std::string& operands) {
    return write_bytecode(*read_bytecode(write_bytecode(*testing::CaseReader::read(program(operands)))).module);
  };
  const auto written = [&](const std::string& operands) {
    return write_bytecode(*testing::CaseReader::read(program(operands)));
  };
  EXPECT_TRUE(read_again(" paddingValue=%z") == written(""));
  EXPECT_TRUE(read_again(" mask=%m paddingValue=%z") == written(" mask=%m paddingValue=%z"));
}

TEST(ReadBytecode, EveryCutFileIsRejected) {
  for (const auto& [name, lines] : golden_cases()) {
    SCOPED_TRACE(name);
    const auto bytes = write_bytecode(*testing::CaseReader::read(lines));
    for (std::size_t n = 0; n < bytes.size(); ++n)
      EXPECT_THROW(read_bytecode(std::span(bytes).first(n)), BytecodeError) << n << " of " << bytes.size();
  }
}

TEST(ReadBytecode, TypesCannotHoldThemselves) {
  SmallFile file;
  auto sections = file.sections();
  ByteTable types;
  ByteWriter pointer, tile, entry, table;
  pointer.byte(kPointer);
  pointer.varint(0);
  pointer.varint(0);  // itself
  types.id(pointer.bytes());
  tile.byte(kTile);
  tile.varint(1);  // itself
  tile.varint(0);
  types.id(tile.bytes());
  entry.byte(kFunction);
  entry.varint(1);
  entry.varint(0);
  entry.varint(0);
  types.id(entry.bytes());
  types.write(table, 4);
  sections[2].payload = table.bytes();
  EXPECT_EQ(problem_of(testing::file_of(4, sections)), "expected types in at most 4 levels, found more");
}

TEST(ReadBytecode, WhatIsSharedInTheFileTakesBoundedMemory) {
  SmallFile file;
  file.elements = std::uint64_t{1} << 22;
  file.constant = std::string(file.elements, '\1');
  for (int i = 0; i < 65; ++i) file.body += SmallFile::constant_op();
  EXPECT_NE(problem_of(file.bytes()).find("expected at most 268435456 bytes of constants"), std::string::npos);
}

TEST(ReadBytecode, NestingIsLimited) {
  const auto nested = [](int depth) {
    SmallFile file;
    file.element_tag = 0;
    file.constant = "\1";
    file.elements = 1;
    std::string inner;
    for (int i = 0; i < depth; ++i) {
      // loop: no results, no operands, a region with a block without arguments
      inner = std::string("\x41\0\0\1\1\0", 6) +
              (i == 0 ? std::string("\1\x0A\0\0", 4) : "\2" + inner + std::string("\x0A\0\0", 3));
    }
    file.body = inner;
    return file.bytes();
  };
  EXPECT_EQ(problem_of(nested(200)), "");
  EXPECT_EQ(problem_of(nested(201)), "expected at most 200 regions in each other, found more");
  EXPECT_EQ(problem_of(nested(20000)), "expected at most 200 regions in each other, found more");
}

TEST(ReadBytecode, TheVerifierLooksAtWhatWasRead) {
  SmallFile file;
  file.elements = 3;
  file.constant = "\1";
  file.body = "";
  EXPECT_EQ(problem_of(file.bytes()), "");  // a type that is not used
  auto sections = file.sections();
  sections[0].payload.pop_back();  // the operands of `return`
  EXPECT_THROW(read_bytecode(testing::file_of(4, sections)), BytecodeError);
  Module module;
  module.add_function("k");
  const auto bytes = write_bytecode(module);
  EXPECT_THROW(read_bytecode(bytes), CompileError);
  EXPECT_EQ(read_bytecode(bytes, {.verify = false}).module->functions.size(), 1u);
}

}  // namespace THIS_FILE
}  // namespace tessera::ir
