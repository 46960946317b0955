// The build that a program is.
#include "tessera/base/build_id.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tessera {
namespace {

TEST(BuildId, IsAHashThatTheProgramContains) {
  const auto id = build_id();
  ASSERT_GE(id.size(), 16u) << "linked without --build-id";
  std::string program(std::filesystem::file_size("/proc/self/exe"), '\0');
  ASSERT_TRUE(std::ifstream("/proc/self/exe", std::ios::binary).read(program.data(), std::ssize(program)));
  EXPECT_NE(program.find(std::string(reinterpret_cast<const char*>(id.data()), id.size())), std::string::npos);
}

}  // namespace
}  // namespace tessera
