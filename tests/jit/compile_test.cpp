// From IR to work on a stream, the cache, and dumps.
#include "tessera/jit/compile.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "jit/compile/pipeline.hpp"
#include "tessera/analysis/facts.hpp"
#include "tessera/base/error.hpp"
#include "tessera/passes/predicates.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"
#include "tessera/runtime/stream_core.hpp"
#include "tessera/runtime/transfer.hpp"

using namespace tessera;

namespace {

/// An entry that stores `value` through its only argument.
std::unique_ptr<ir::Module> storing(double value) {
  auto module = std::make_unique<ir::Module>();
  ir::Function& f = module->add_function("storing");
  const ir::Type f32_type = ir::Type::element(ir::Elem::F32);
  const ir::Value pointer = f.body().add_arg(ir::Type::tile(ir::Type::pointer(f32_type), {}));
  ir::Builder b(f.body());
  const ir::Value number = b.constant_float(ir::Elem::F32, value);
  const ir::Value values[] = {pointer, number};
  const std::uint32_t groups[] = {1, 1, 0, 0};
  const ir::Type token = ir::Type::token();
  b.create_grouped(ir::Op::StorePtrTko, values, groups, {&token, 1},
                   {{ir::AttrName::memory_ordering_semantics, ir::MemoryOrdering::Weak}});
  b.create(ir::Op::Return, {}, {});
  return module;
}

float run(const std::shared_ptr<const runtime::Launchable>& work) {
  auto storage = runtime::Storage::allocate(Device::cpu(), sizeof(float));
  const runtime::Access access{storage, runtime::AccessMode::ReadWrite};
  const std::uint64_t slot = reinterpret_cast<std::uintptr_t>(storage->data());
  Stream stream = Stream::default_of(Device::cpu());
  stream.core()->submit({work, {}, {&slot, 1}, {&access, 1}, "storing", {}});
  float value = 0;
  runtime::copy_to_host(&value, *storage, 0, sizeof value);
  return value;
}

TEST(Compile, GivesWorkThatRuns) {
  EXPECT_EQ(run(jit::compile(*storing(1.5), Device::cpu(), {"storing", false, {}})), 1.5f);
  jit::CompileOptions checked{"storing", true, {{0, "argument 1 (Mut<f32, 1>)"}}};
  EXPECT_EQ(run(jit::compile(*storing(2.5), Device::cpu(), checked)), 2.5f);
}

TEST(Compile, EqualModulesAreCompiledOnce) {
  const jit::CompileOptions options{"storing", false, {}};
  const auto first = jit::compile(*storing(3), Device::cpu(), options);
  EXPECT_EQ(jit::compile(*storing(3), Device::cpu(), options), first);
  EXPECT_NE(jit::compile(*storing(4), Device::cpu(), options), first);
  EXPECT_NE(jit::compile(*storing(3), Device::cpu(), {"storing", true, {}}), first);
  std::vector<std::thread> threads;
  std::vector<std::shared_ptr<const runtime::Launchable>> got(8);
  for (auto& g : got) threads.emplace_back([&] { g = jit::compile(*storing(5), Device::cpu(), options); });
  for (auto& t : threads) t.join();
  for (const auto& g : got) EXPECT_EQ(g, got[0]);
}

struct Environment {
  Environment(const char* dump, const std::string& folder) {
    setenv("TESSERA_DUMP", dump, 1);
    setenv("TESSERA_DUMP_DIR", folder.c_str(), 1);
  }
  ~Environment() {
    unsetenv("TESSERA_DUMP");
    unsetenv("TESSERA_DUMP_DIR");
    unsetenv("TESSERA_DUMP_FILTER");
  }
};
std::size_t files(const std::string& folder, const std::string& extension) {
  std::size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) n += entry.path().extension() == extension;
  return n;
}

TEST(Dump, WritesTheStagesAskedFor) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("tessera_dump_test_" + std::to_string(getpid()))).string();
  std::filesystem::remove_all(folder);
  {
    const Environment e("bytecode", folder);
    jit::dump(*storing(1), "a/b<c>");
    EXPECT_EQ(files(folder, ".tilebc"), 1u);
    EXPECT_EQ(files(folder, ".tileir"), 0u);
    EXPECT_TRUE(std::filesystem::directory_iterator(folder)->path().filename().string().starts_with("a_b_c_-"));
    jit::dump(*storing(1), "a/b<c>");
    EXPECT_EQ(files(folder, ".tilebc"), 1u);  // the same module, the same file
    setenv("TESSERA_DUMP_FILTER", "other", 1);
    jit::dump(*storing(2), "name");
    EXPECT_EQ(files(folder, ".tilebc"), 1u);
  }
  {
    const Environment e("all", folder);
    jit::dump(*storing(3), "name");
    EXPECT_EQ(files(folder, ".tilebc"), 2u);
    EXPECT_EQ(files(folder, ".tileir"), 1u);
  }
  std::filesystem::remove_all(folder);
}

/// A kernel as it goes through the passes for a GPU, in the folder.
void compile_for_hopper() {
  const auto module = storing(7);
  analysis::LaunchContract contract;
  contract.args.resize(module->functions.front()->body().num_args());
  const auto facts = analysis::Facts::analyze(*module, contract, passes::predicate_table());
  jit::prepare(*module, facts, 0, {90, 132}, nullptr, jit::Form::Chosen, "storing");
}

TEST(Dump, WritesTheTextBehindPasses) {
  const std::string folder =
      (std::filesystem::temp_directory_path() / ("tessera_dump_after_test_" + std::to_string(getpid()))).string();
  std::filesystem::remove_all(folder);
  {
    const Environment e("after:clean_up,after:prevent_peeling", folder);
    compile_for_hopper();
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    ASSERT_EQ(names.size(), 2u);
    EXPECT_TRUE(names[0].starts_with("storing-sm_90-") && names[0].ends_with("-clean_up.tileir")) << names[0];
    EXPECT_TRUE(names[1].ends_with("-prevent_peeling.tileir")) << names[1];
  }
  {
    const Environment e("after:all", folder);
    compile_for_hopper();
    EXPECT_GT(files(folder, ".tileir"), 12u);
    std::filesystem::remove_all(folder);
    setenv("TESSERA_DUMP_FILTER", "other", 1);
    compile_for_hopper();
    EXPECT_FALSE(std::filesystem::exists(folder));
  }
  std::filesystem::remove_all(folder);
}

TEST(Dump, AnUnknownPassIsAnError) {
  const Environment e("after:tidy", "/proc/nowhere");
  try {
    compile_for_hopper();
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("tessera explain --passes lists them"), std::string::npos);
  }
}

TEST(Dump, AnUnknownStageIsAnError) {
  const Environment e("bytecode,cubin", "/proc/nowhere");
  try {
    jit::dump(*storing(1), "name");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("TESSERA_DUMP is \"bytecode,cubin\"; expected"), std::string::npos);
  }
}

TEST(Dump, AnUnwritableFolderIsAnError) {
  const Environment e("bytecode", "/proc/nowhere");
  EXPECT_THROW(jit::dump(*storing(1), "name"), IoError);
}

}  // namespace
