// Every rule of the safetensors format: the nearest legal file is read, the broken one is rejected with its numbers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "host/expect_error.hpp"
#include "mortar/checkpoint.hpp"
#include "mortar/errors.hpp"
#include "mortar/files/model_files.hpp"

namespace mortar {
namespace THIS_FILE {

using testing::ElementsAre;

std::vector<FileTensor> parse(const std::string& header, std::uint64_t data) {
  return parse_safetensors_header(header, 8 + header.size() + data, "m.safetensors");
}

TEST(MortarSafetensors, TensorsInTheOrderOfTheirData) {
  const std::string header =
      R"({"b":{"shape":[2,3],"data_offsets":[8,20],"dtype":"BF16"},"__metadata__":{"format":"pt","x":""},)"
      R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"none":{"dtype":"U8","shape":[4,0],"data_offsets":[8,8]},)"
      R"("one":{"dtype":"F8_E4M3","shape":[],"data_offsets":[20,21]}}  )";
  const auto tensors = parse(header, 21);
  ASSERT_EQ(tensors.size(), 4u);
  EXPECT_EQ(tensors[0].name, "a");
  EXPECT_EQ(tensors[1].name, "none");
  EXPECT_EQ(tensors[1].bytes, 0u);
  EXPECT_EQ(tensors[2].name, "b");
  EXPECT_EQ(tensors[2].type, FileType::BF16);
  EXPECT_THAT(tensors[2].shape, ElementsAre(2, 3));
  EXPECT_EQ(tensors[2].begin, 8 + header.size() + 8);
  EXPECT_EQ(tensors[2].bytes, 12u);
  EXPECT_EQ(tensors[3].bytes, 1u);
  EXPECT_TRUE(parse("{}", 0).empty());
}

TEST(MortarSafetensors, TypesOfFewerThanEightBits) {
  EXPECT_EQ(parse(R"({"a":{"dtype":"F4","shape":[2,3],"data_offsets":[0,3]}})", 3)[0].bytes, 3u);
  EXPECT_ERROR(ModelError, parse(R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}})", 2),
               "whole number of bytes", "12 bits");
}

struct Case {
  std::string header;
  std::uint64_t data;
  std::vector<const char*> fragments;
};

TEST(MortarSafetensors, BrokenHeaders) {
  const std::vector<Case> cases = {
      // the JSON
      {" {}", 0, {"begins with {"}},
      {"", 0, {"begins with {"}},
      {"{}\n", 0, {"ends with }"}},
      {"{}x}", 0, {"JSON in the header", "byte 3"}},
      {R"({"a":)", 0, {"ends with }"}},
      {R"({"a":1})", 0, {"a: expected an object with dtype, shape and data_offsets, found 1"}},
      {R"({"a":null})", 0, {"found null"}},
      {R"({"a":["x"]})", 0, {"found a list"}},
      {"{\"\xff\":{}}", 0, {"JSON in the header"}},
      // fields
      {R"({"a":{"dtype":"F32","shape":[1]}})", 4, {"a: expected the fields", "2 of them"}},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1}})", 4, {"\"extra\""}},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4, {"\"dtype\" twice"}},
      {R"({"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}})", 4, {"element type", "\"F33\""}},
      {R"({"a":{"dtype":["F32"],"shape":[1],"data_offsets":[0,4]}})", 4, {"element type", "a list"}},
      {R"({"a":{"dtype":32,"shape":[1],"data_offsets":[0,4]}})", 4, {"element type", "32"}},
      {R"({"a":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", 4, {"shape", "found 1"}},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4, {"shape", "-1"}},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, {"shape", "found 1"}},
      {R"({"a":{"dtype":"F32","shape":[[1]],"data_offsets":[0,4]}})", 4, {"shape", "a list"}},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,4]}})", 4, {"18446744073709551615"}},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4, {"data_offsets", "a list of 1"}},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", 4, {"data_offsets", "8"}},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":{"0":4}}})", 4, {"data_offsets", "an object"}},
      {R"({"__metadata__":{"a":1}})", 0, {"a map of strings", "1"}},
      {R"({"__metadata__":{"a":{}}})", 0, {"a map of strings", "an object"}},
      {R"({"__metadata__":"x"})", 0, {"__metadata__"}},
      {R"({"__metadata__":{"a":"1","a":"2"}})", 0, {"\"a\" twice"}},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
       2,
       {"a: expected each name once, found it twice"}},
      // sizes
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", 4, {"8 bytes of F32 [2]", "[0, 4]"}},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4, {"4 bytes of F32 [1]", "[4, 0]"}},
      {R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})", 0, {"2^60", "4294967296"}},
      {R"({"a":{"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]}})", 0, {"2^60"}},
      // places
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
       3,
       {"a: expected data within the 3 bytes", "4 bytes from byte 0"}},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})", 5, {"5 bytes of tensors", "found 4"}},
      {R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[1,5]}})", 5, {"begins at byte 0", "begins at byte 1"}},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
       3,
       {"b: expected data that begins at byte 2", "begins at byte 1"}},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[3,5]}})",
       5,
       {"b: expected data that begins at byte 2", "begins at byte 3"}},
      {R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[18446744073709551614,18446744073709551615]}})",
       2,
       {"2 bytes of U8"}},
      {R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615]}})",
       1,
       {"within the file"}},
      {R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[5,5]}})", 4, {"begins at byte 5"}},
      {"{}", 1, {"1 bytes of tensors", "found 0"}},
  };
  for (const Case& c : cases) {
    try {
      (void)parse(c.header, c.data);
      ADD_FAILURE() << "accepted: " << c.header;
    } catch (const ModelError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("m.safetensors")) << c.header;
      for (const char* fragment : c.fragments) EXPECT_THAT(error.what(), testing::HasSubstr(fragment)) << c.header;
    }
  }
}

TEST(MortarSafetensors, FilesAreReadAndMapped) {
  const test::Folder folder;
  const std::string header = R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})";
  folder.write("m", test::tensor_file(header, "abcd"));
  const TensorFile file(folder.path() / "m");
  ASSERT_EQ(file.tensors().size(), 1u);
  const std::uint64_t begin = file.tensors()[0].begin;
  std::byte bytes[4];
  file.read(begin, bytes);
  EXPECT_EQ(std::memcmp(bytes, "abcd", 4), 0);
  EXPECT_ERROR(ModelError, file.read(begin + 1, bytes), "1 more bytes", "the end of the file");
  {
    const auto map = file.map();
    EXPECT_EQ(std::memcmp(map.get() + begin, "abcd", 4), 0);
    map.get()[begin] = std::byte{'x'};
  }
  EXPECT_EQ(folder.read("m").substr(begin), "abcd") << "writing to the mapping changes the memory alone";
}

TEST(MortarSafetensors, BrokenFiles) {
  const test::Folder folder;
  const auto open = [&](const std::string& contents) {
    folder.write("m", contents);
    (void)TensorFile(folder.path() / "m");
  };
  EXPECT_NO_THROW(open(test::tensor_file("{}", "")));
  EXPECT_ERROR(ModelError, open(""), "/m", "8 bytes", "0 bytes");
  EXPECT_ERROR(ModelError, open("1234567"), "7 bytes");
  EXPECT_ERROR(ModelError, open(std::string("\x03\0\0\0\0\0\0\0{}", 10)), "a header of at most 2 bytes", "3");
  EXPECT_ERROR(ModelError, open(std::string(8, '\xff') + "{}"), "at most 2 bytes", "18446744073709551615");
  EXPECT_ERROR(ModelError, (void)TensorFile(folder.path() / "none"), "/none", "a file");
  EXPECT_ERROR(ModelError, (void)TensorFile(folder.path()), "a regular file");
}

}  // namespace THIS_FILE
}  // namespace mortar
