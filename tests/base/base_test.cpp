// Errors, the element table, environment knobs and message building.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>
#include <set>
#include <string>

#include "tessera/base/element.hpp"
#include "tessera/base/env.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera {
namespace {

using testing::HasSubstr;

TEST(Errors, TextIsFileLineKindMessage) {
  const ShapeError error("bad", {"kernel.cpp", "f", 14, 0});
  EXPECT_STREQ(error.what(), "kernel.cpp:14: ShapeError: bad");
  EXPECT_EQ(error.message(), "bad");
  EXPECT_EQ(error.where().line, 14u);
  EXPECT_STREQ(BorrowError("bad").what(), "BorrowError: bad");
  EXPECT_STREQ(IoError("x").what(), "IoError: x");
}

TEST(Errors, AreOneHierarchy) {
  EXPECT_THROW(throw DeviceError("x"), Error);
  EXPECT_THROW(throw CompileError("x"), Error);
  EXPECT_THROW(throw TraceError("x"), std::runtime_error);
  try {
    throw InternalError("x");
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("base_test.cpp:"));
    EXPECT_THAT(error.what(), HasSubstr("a bug in Tessera"));
  }
}

TEST(Elements, TheTableAgreesWithTheHostTypes) {
  std::set<std::string> names;
#define TESSERA_ELEMENT(id, host, ir, width, cls)                      \
  EXPECT_EQ(info(ElementType::id).bits, 8 * sizeof(host)) << #id;      \
  EXPECT_EQ(element_type<host>, ElementType::id);                      \
  EXPECT_EQ(size_of(ElementType::id), static_cast<int>(sizeof(host))); \
  names.insert(info(ElementType::id).name);
#include "tessera/base/element_types.def"
  EXPECT_EQ(names.size(), 16u);
  EXPECT_TRUE(names.contains("bool") && names.contains("f8e4m3"));
  static_assert(!Element<char*> && !Element<long double>);
  EXPECT_THROW(info(static_cast<ElementType>(99)), InternalError);
}

/// Sets a variable for the length of a test.
class ScopedEnv {
 public:
  ScopedEnv(Env knob, const char* value) : name_(info(knob).variable) { setenv(name_, value, 1); }
  ~ScopedEnv() { unsetenv(name_); }

 private:
  const char* name_;
};

TEST(Environment, EmptyMeansUnset) {
  unsetenv("TESSERA_DUMP");
  EXPECT_EQ(env(Env::DUMP), nullptr);
  const ScopedEnv set(Env::DUMP, "");
  EXPECT_EQ(env(Env::DUMP), nullptr);
}

TEST(Environment, ReadsTypedValues) {
  const ScopedEnv threads(Env::CPU_THREADS, "12"), check(Env::CHECK, "1");
  EXPECT_EQ(env_int(Env::CPU_THREADS, 1, 1), 12);
  EXPECT_TRUE(env_flag(Env::CHECK, false));
  unsetenv("TESSERA_DUMP_FILTER");
  EXPECT_TRUE(env_flag(Env::DUMP_FILTER, true)) << "an unset knob is what the caller says";
}

TEST(Environment, RejectsWithTheKnobAndWhatItTakes) {
  for (const char* bad : {"0", "-3", "4x", "1e3", " 2", "99999999999999999999"}) {
    const ScopedEnv threads(Env::CPU_THREADS, bad);
    try {
      env_int(Env::CPU_THREADS, 1, 1);
      ADD_FAILURE() << bad << " was accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("TESSERA_CPU_THREADS is \"" + std::string(bad) + "\""));
      EXPECT_THAT(error.what(), HasSubstr("at least 1"));
    }
  }
  const ScopedEnv check(Env::CHECK, "maybe");
  EXPECT_THROW(env_flag(Env::CHECK, false), Error);
}

TEST(Environment, EveryKnobIsDocumented) {
  for (const EnvInfo& row : env_table()) {
    EXPECT_EQ(std::string(row.variable).rfind("TESSERA_", 0), 0u);
    EXPECT_GT(std::string(row.doc).size(), 20u) << row.variable;
    EXPECT_FALSE(std::string(row.value).empty()) << row.variable;
  }
}

TEST(Format, ConcatWritesTextNumbersAndBools) {
  const std::string s = "s";
  EXPECT_EQ(concat("a", s, 'c', -3, 4u, true, 0.1, 0.1f, std::string_view("v")), "asc-34true0.10.1v");
  EXPECT_EQ(concat(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(concat(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(concat(static_cast<signed char>(65)), "65") << "an 8-bit integer is a number, not a character";
  EXPECT_EQ(concat(-std::numeric_limits<double>::denorm_min()), "-5e-324");
  EXPECT_EQ(join(std::initializer_list<int>{1, 2, 3}, "x"), "1x2x3");
}

}  // namespace
}  // namespace tessera
