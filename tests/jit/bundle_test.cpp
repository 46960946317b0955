// Bundles: written, found, damaged; and that a program's run on the CPU leaves exactly the entries that a launch on the
// GPU will look for.
#include "tessera/jit/bundle.hpp"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>

#include "jit/ahead/collect.hpp"
#include "jit/code/sha256.hpp"
#include "jit/compile/pipeline.hpp"
#include "jit/rig.hpp"
#include "tessera/base/error.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/jit/kernel.hpp"
#include "tessera/passes/predicates.hpp"
#include "tessera/passes/tuning_text.hpp"

using namespace tessera;
using namespace tessera::jit;
namespace fs = std::filesystem;

namespace {

class BundleTest : public testing::Test {
 protected:
  std::string path() const { return folder_ + "/test.tessera"; }
  jit_rig::Folder own_{"bundle"};
  const std::string& folder_ = own_.path;
};

CacheKey key(int n) { return Sha256().add_number(static_cast<std::uint64_t>(n)).finish(); }
CachedCubin code(int n, const char* gpu) {
  CachedCubin c;
  c.cubin.assign(50, static_cast<std::byte>(n));
  c.label = "kernel" + std::to_string(n);
  c.gpu = gpu;
  return c;
}

TEST_F(BundleTest, WhatIsWrittenIsFound) {
  write_bundle(path(), {{key(1), code(1, "sm_90")}, {key(2), code(2, "sm_100")}, {key(1), code(1, "sm_90")}});
  const Bundle bundle(path());
  EXPECT_EQ(bundle.size(), 2u);
  ASSERT_TRUE(bundle.find(key(2)).has_value());
  EXPECT_EQ(bundle.find(key(2))->cubin, code(2, "sm_100").cubin);
  EXPECT_EQ(bundle.find(key(1))->label, "kernel1");
  EXPECT_FALSE(bundle.find(key(3)).has_value());
  EXPECT_TRUE(bundle.serves("sm_90"));
  EXPECT_FALSE(bundle.serves("sm_80"));
  EXPECT_EQ(bundle.list().size(), 2u);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "a temporary file is left";
}

TEST_F(BundleTest, EveryFlippedBitIsAnErrorAndNoneIsRun) {
  write_bundle(path(), {{key(1), code(1, "sm_90")}});
  std::ifstream in(path(), std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    std::ofstream(path(), std::ios::binary) << bad;
    EXPECT_THROW(Bundle(path()).find(key(1)), IoError) << "byte " << i;
  }
  for (std::size_t n = 0; n < good.size(); ++n) {
    std::ofstream(path(), std::ios::binary) << good.substr(0, n);
    EXPECT_THROW(Bundle(path()).find(key(1)), IoError) << n << " bytes";
  }
}

/// A right checksum does not make a table right: places outside the file are rejected before anything is allocated.
TEST_F(BundleTest, PlacesOutsideTheFileAreErrors) {
  constexpr std::size_t kTable = 16, kOffset = kTable + 32, kLength = kTable + 40, kChecksum = kTable + 56;
  write_bundle(path(), {{key(1), code(1, "sm_90")}});
  std::ifstream in(path(), std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  const auto with = [&](std::uint64_t offset, std::uint64_t length) {
    std::string bytes = good;
    std::memcpy(&bytes[kOffset], &offset, sizeof offset);
    std::memcpy(&bytes[kLength], &length, sizeof length);
    const Digest checksum = sha256(std::as_bytes(std::span(bytes).first(kChecksum)));
    std::memcpy(&bytes[kChecksum], checksum.data(), checksum.size());
    std::ofstream(path(), std::ios::binary) << bytes;
    return Bundle(path());
  };
  const std::uint64_t at = kChecksum + sizeof(Digest), length = good.size() - at;
  EXPECT_TRUE(with(at, length).find(key(1)).has_value());
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  EXPECT_THROW(with(at, length + 1).find(key(1)), IoError);
  EXPECT_THROW(with(at, kHuge).find(key(1)), IoError);
  EXPECT_THROW(with(at, 0 - at).find(key(1)), IoError) << "the end is 0 in 64 bits";
  EXPECT_THROW(with(good.size() + 1, 0).find(key(1)), IoError);
  EXPECT_THROW(with(kHuge, length).find(key(1)), IoError);
}

TEST_F(BundleTest, MissingFilesAndFoldersAreErrors) {
  EXPECT_THROW(Bundle(folder_ + "/none"), IoError);
  EXPECT_THROW(write_bundle("/proc/nowhere/x", {{key(1), code(1, "sm_90")}}), IoError);
}

/// entry(pointer, dim, stride) that stores a number.
std::unique_ptr<ir::Module> recording(const char* file) {
  auto module = std::make_unique<ir::Module>();
  ir::Function& f = module->add_function("storing");
  const ir::Type i32 = ir::Type::element(ir::Elem::I32);
  const ir::Value pointer = f.body().add_arg(ir::Type::tile(ir::Type::pointer(i32), {}));
  for (int i = 0; i < 2; ++i) f.body().add_arg(ir::Type::tile(ir::Elem::I64));
  ir::Builder b(f.body());
  b.loc = SourceLocation{file, "", 3, 1};
  jit_rig::store_and_return(b, pointer, 7);
  return module;
}
LaunchContract contract() {
  LaunchContract c;
  c.args = {{ArgRole::Base, 0, -1}, {ArgRole::Dim, 0, 0}, {ArgRole::Stride, 0, 0}};
  c.tensors = {{0, 1, true, true}};
  return c;
}

TEST_F(BundleTest, ARunOnTheCpuLeavesWhatALaunchLooksFor) {
  setenv("TESSERA_COLLECT", folder_.c_str(), 1);
  setenv("TESSERA_COLLECT_GPUS", "sm_80,sm_90", 1);
  Kernel kernel(recording("here.cpp"), contract(), {"storing", false, {}});
  alignas(256) std::int32_t memory[64];
  const std::uint64_t slots[] = {reinterpret_cast<std::uintptr_t>(memory), 64, 1};
  kernel.code(Device::cpu(), slots);
  setenv("TESSERA_COLLECT_GPUS", "sm_90,gpu", 1);
  Kernel other(recording("here.cpp"), contract(), {"storing", false, {}});
  EXPECT_THROW(other.code(Device::cpu(), slots), Error);
  unsetenv("TESSERA_COLLECT");
  unsetenv("TESSERA_COLLECT_GPUS");

  const auto found = collected(folder_);
  ASSERT_EQ(found.size(), 2u);
  for (const Collected& c : found) {
    EXPECT_EQ(c.label, "storing");
    EXPECT_TRUE(c.asked);
    // A recording with other source lines is looked for under the same key.
    const auto elsewhere = recording("elsewhere.cpp");
    const auto facts = analysis::Facts::analyze(*elsewhere, contract(), passes::predicate_table());
    const std::uint64_t held = facts.evaluate(slots);
    const Prepared chosen = prepare(*elsewhere, facts, held, target_for(c.gpu == "sm_80" ? 80 : 90));
    EXPECT_EQ(c.key, bundle_key(*elsewhere, contract(), facts, held, chosen)) << c.gpu;
    EXPECT_NE(c.key, bundle_key(*elsewhere, contract(), facts, held ^ 1, chosen));
    auto read_only = contract();
    read_only.tensors[0].written = false;
    EXPECT_NE(c.key, bundle_key(*elsewhere, read_only, facts, held, chosen));
    // The tile is stored from registers, without loops: warps, hints, pointers and effort can be other ones.
    using enum Form;
    std::vector<Form> forms;
    for (const CollectedForm& f : c.forms) forms.push_back(f.form);
    EXPECT_EQ(forms, (std::vector<Form>{Chosen, MoreBlocks, MoreWarps, MoreWarpsPlainStores, OneBlockMoreWarps,
                                        MoreWarpsPointers, WithoutHints, RolledMoreWarps, Bare, Quick}));
    for (const CollectedForm& f : c.forms) {
      EXPECT_GT(fs::file_size(f.file), 50u);
      EXPECT_GT(fs::file_size(f.report), 50u);
    }
    EXPECT_EQ(form_key(c.key, Form::Chosen), c.key);
    EXPECT_NE(form_key(c.key, Form::Bare), c.key);
    EXPECT_NE(form_key(c.key, Form::Bare), form_key(c.key, Form::Fallback));
  }
  EXPECT_NE(found[0].key, found[1].key);
}

TEST_F(BundleTest, CodeOfOtherHintsIsNotFound) {
  const auto module = recording("here.cpp");
  const auto facts = analysis::Facts::analyze(*module, contract(), passes::predicate_table());
  const auto key = [&](const passes::Tuning* record) {
    return bundle_key(*module, contract(), facts, 0, prepare(*module, facts, 0, target_for(90), record), record);
  };
  const passes::Tuning none, few = passes::parse_tuning("warps=4");
  const CacheKey plain = key(nullptr), asked = key(&few);
  EXPECT_EQ(key(&none), plain);
  EXPECT_NE(asked, plain);
  const jit_rig::Variable hints("TESSERA_TUNING", "early=0");
  EXPECT_NE(key(nullptr), plain) << "such code takes one argument less";
  EXPECT_NE(key(nullptr), asked);
  EXPECT_EQ(key(&few), key(nullptr)) << "it is stronger than a record";
  const jit_rig::Variable same("TESSERA_TUNING", "warps=4");
  EXPECT_EQ(key(nullptr), asked);
}

TEST_F(BundleTest, CodeThatTakesOtherArgumentsIsNotFound) {
  const auto module = recording("here.cpp");
  const auto facts = analysis::Facts::analyze(*module, contract(), passes::predicate_table());
  const auto key = [&](const Prepared& chosen) { return bundle_key(*module, contract(), facts, 0, chosen); };
  passes::Target target{90, 132};
  const Prepared newest = prepare(*module, facts, 0, target);
  ASSERT_TRUE(newest.choices.abi.launch_flags);
  target.bytecode_minor = 3;
  EXPECT_NE(key(prepare(*module, facts, 0, target)), key(newest)) << "it takes no launch flags";
  Prepared reads = prepare(*module, facts, 0, {90, 132});
  reads.choices.abi.early_reads = {0};
  EXPECT_NE(key(reads), key(newest)) << "its launch flags says more";
  const auto key_of_reads = key(reads);
  reads.choices.abi.early_alone = 1;
  EXPECT_NE(key(reads), key_of_reads) << "the first bit of its launch flags is enough to read early";
  target = {90, 78};
  EXPECT_EQ(key(prepare(*module, facts, 0, target)), key(newest)) << "a smaller GPU";
}

}  // namespace
