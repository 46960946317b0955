// The names of a kernel's parameters, read from its source.
#include "jit/compile/source_names.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace THIS_FILE {

using namespace tessera;
using Names = std::vector<std::string>;

constexpr const char* kSource = R"(#include <tessera/tessera.hpp>
template <int N>
void softmax(Mut<f32, 1, N> y,  // the rows (all of them)
             In<f32, dyn, dyn> x, Scalar<f32> scale = 1.0f,
             /* parts, of which, see above */ Constant<int> parts) {
  y.store(exp(x.load_like(y) * scale));
}
void unnamed(Mut<f32, 8> y, In<f32, dyn>) {
  y.store(y.load());
}
int main() {
  softmax(1, 2);
  constexpr auto k = [](Mut<f32, 8> out) {
    out.store(out.load());
  };
}
)";

struct SourceNames : testing::Test {
  void SetUp() override {
    char name[] = "/tmp/tessera-names-XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder = name;
    path = folder + "/kernels.cpp";
    std::ofstream(path) << kSource;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  Names at(std::uint32_t line, const char* label) const {
    SourceLocation where;
    where.file = path.c_str();
    where.line = line;
    return jit::parameter_names(where, label);
  }
  std::string folder, path;
};

TEST_F(SourceNames, AreThoseOfTheHeadBeforeTheLine) {
  EXPECT_EQ(at(6, "softmax"), (Names{"y", "x", "scale"})) << "a Constant is no argument of the code";
  EXPECT_EQ(at(6, "softmax<128>"), (Names{"y", "x", "scale"}));
}

TEST_F(SourceNames, AreNoneWhereTheyCannotBeRead) {
  EXPECT_EQ(at(9, "unnamed"), Names{}) << "a parameter without a name";
  EXPECT_EQ(at(14, "kernel"), Names{}) << "a lambda has no head with its name";
  EXPECT_EQ(at(6, ""), Names{});
  EXPECT_EQ(jit::parameter_names({}, "softmax"), Names{});
  path = folder + "/none.cpp";
  EXPECT_EQ(at(6, "softmax"), Names{});
}

TEST(NamesInPredicates, StandForNumbersOfArguments) {
  const Names names{"y", "x"};
  EXPECT_EQ(jit::with_names("arg1.dim(1) <= arg2.stride(0)", names), "y.dim(1) <= x.stride(0)");
  EXPECT_EQ(jit::with_names("arg3 <= 4 and marg1 <= arg12.dim(0)", names), "arg3 <= 4 and marg1 <= arg12.dim(0)");
  EXPECT_EQ(jit::with_names("arg1.dim(1)", {}), "arg1.dim(1)");
}

}  // namespace THIS_FILE
