// The passes on the kernels of tests/passes/tir: each file has the text of a kernel before and after (tir_case.hpp).
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <fstream>
#include <set>

#include "passes/passed.hpp"
#include "passes/tir_case.hpp"
#include "tessera/ir/parser.hpp"
#include "tessera/ir/printer.hpp"

namespace tessera::test {
namespace THIS_FILE {

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> all;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_TIR_FILES))
    if (entry.path().extension() == ".tir") all.push_back(entry.path());
  std::ranges::sort(all);
  return all;
}

class PassFiles : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(PassFiles, GiveWhatTheyShow) {
  const TirCase test = read_tir_case(GetParam());
  const std::string found = run_tir_case(test);
  if (std::getenv("TESSERA_UPDATE_TIR") != nullptr) {
    std::ofstream(GetParam()) << text_of(test, found);
    GTEST_SKIP() << "written";
  }
  EXPECT_EQ(found, ir::print(*ir::parse(test.after))) << "TESSERA_UPDATE_TIR=1 writes what comes out";
  EXPECT_NE(found, ir::print(*ir::parse(test.before))) << "the passes have done nothing";
  for (const std::string& name : test.passes)
    EXPECT_NE(GetParam().filename().string().find(name.substr(0, name.find("_relaxed"))), std::string::npos)
        << "a file is named after its passes";
}
INSTANTIATE_TEST_SUITE_P(Files, PassFiles, testing::ValuesIn(files()), [](const auto& info) {
  std::string name = info.param.stem().string();
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return name;
});

/// A pass that changes kernels has a file that shows how.
TEST(PassFilesTogether, ShowEveryPass) {
  // Watched tensors, and whole tiles of products, are found by what else a compile knows (watch_writes_test.cpp,
  // regions_to_tiles_test.cpp); the last two are second runs.
  const std::set<std::string> without{"watch_writes", "regions_to_tiles", "drop_empty_tokens_relaxed",
                                      "clean_up_relaxed"};
  std::set<std::string> shown;
  for (const auto& file : files())
    for (const std::string& name : read_tir_case(file).passes) shown.insert(name);
  for (const passes::PassInfo& pass : passes::pass_table())
    EXPECT_NE(shown.contains(pass.name), without.contains(pass.name)) << pass.name;
}

}  // namespace THIS_FILE
}  // namespace tessera::test
