// JSON trees: what they keep of the text, when two are equal, what is rejected.
#include "text/json_tree.hpp"

#include <gtest/gtest.h>

#include <string>

#include "mortar/errors.hpp"

namespace mortar::text {
namespace THIS_FILE {

std::string error_of(std::string_view text, const JsonLimits& limits = {}) {
  try {
    (void)parse_json(text, "it", limits);
  } catch (const RequestError& e) { return e.what(); }
  return "nothing was thrown";
}

TEST(MortarJsonTree, KeepsTheOrderOfFieldsAndTheTextOfNumbers) {
  const Json tree = parse_json(R"({"b": 1.50, "a": [12345678901234567890123, -0, 1E+2], "c": "\u00e9\n"})", "it");
  EXPECT_EQ(written(tree), "{\"b\":1.50,\"a\":[12345678901234567890123,-0,1E+2],\"c\":\"\xC3\xA9\\n\"}");
  EXPECT_EQ(tree.find("c")->string(), "\xC3\xA9\n");
  EXPECT_EQ(tree.find("c")->source, R"("\u00e9\n")");
  EXPECT_EQ(tree.find("d"), nullptr);
  EXPECT_EQ(tree.find("a")->items[2].integer(), 100);
}

TEST(MortarJsonTree, IsEqualByWhatItMeans) {
  const auto equal = [](std::string_view a, std::string_view b) { return parse_json(a, "a") == parse_json(b, "b"); };
  EXPECT_TRUE(equal(R"({"a": 1, "b": [null, true]})", R"({"b":[null,true],"a":1})"));
  EXPECT_FALSE(equal(R"({"a": 1, "b": 2})", R"({"a": 1, "c": 2})"));
  EXPECT_FALSE(equal(R"({"a": 1})", R"({"a": 1, "b": 2})"));
  EXPECT_FALSE(equal("[1, 2]", "[2, 1]"));
  EXPECT_TRUE(equal(R"("\u0061\/")", R"("a/")"));
  EXPECT_FALSE(equal(R"("\u0061")", R"("b")"));
  EXPECT_FALSE(equal("1", "1.0")) << "numbers are compared as they are written";
  EXPECT_FALSE(equal("true", "false"));
  EXPECT_FALSE(equal("1", "\"1\""));
}

TEST(MortarJsonTree, RepeatedNames) {
  EXPECT_EQ(parse_json(R"({"a": 1, "b": 2, "a": 3})", "it").find("a")->integer(), 3);
  const JsonLimits distinct{.repeats = false};
  EXPECT_EQ(error_of(R"({"x": {"a": 1, "b": 2, "a": 3}})", distinct), "RequestError: it: the field 'a' occurs twice");
  EXPECT_EQ(error_of(R"({"x": {"a": 1}, "a": 3})", distinct), "nothing was thrown");
  std::string many = "{";
  for (int i = 0; i < 40; ++i) many += "\"" + std::to_string(i) + "\": 0, ";
  EXPECT_EQ(error_of(many + R"("39": 1})", distinct), "RequestError: it: the field '39' occurs twice");
  EXPECT_EQ(error_of(many + R"("40": 1})", distinct), "nothing was thrown");
}

TEST(MortarJsonTree, Limits) {
  EXPECT_EQ(error_of("[1, 2, 3]", {.values = 4}), "nothing was thrown");
  EXPECT_EQ(error_of("[1, 2, 3]", {.values = 3}), "RequestError: it: expected at most 3 values, found more");
  EXPECT_NE(error_of(std::string(101, '[') + std::string(101, ']')).find("100 values within each other"),
            std::string::npos);
  EXPECT_EQ(error_of(std::string(100, '[') + std::string(100, ']')), "nothing was thrown");
  EXPECT_NE(error_of(R"({"a": [1, x]})").find("a[1]"), std::string::npos) << "errors say where";
}

}  // namespace THIS_FILE
}  // namespace mortar::text
