// Which forms a kernel is tried in, and in which order.
#include "tessera/jit/forms.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "jit/rig.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/jit/kernel.hpp"
#include "tessera/passes/tuning_text.hpp"

using namespace tessera;
using namespace tessera::jit;
using jit_rig::Variable;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

TEST(Forms, AreWhatTheirTextsSay) {
  EXPECT_EQ(tuning_of(Form::Chosen), nullptr);
  EXPECT_EQ(text_of(Form::Chosen), "");
  EXPECT_EQ(text_of(Form::Registers96), "registers=96");
  EXPECT_EQ(text_of(Form::Registers128), "registers=128");
  EXPECT_EQ(text_of(Form::TwoVectors), "vectors=2");
  EXPECT_EQ(text_of(Form::OneVector), "vectors=1");
  EXPECT_EQ(text_of(Form::Unlimited), "limit=0");
  EXPECT_EQ(text_of(Form::PlainStores), "stores=view limit=0");
  EXPECT_EQ(text_of(Form::TensorCopies), "access=tma limit=0");
  EXPECT_EQ(text_of(Form::MoreWarps), "max_latency=3 spread=2 limit=0");
  EXPECT_EQ(text_of(Form::MoreWarpsPlainStores), "max_latency=3 spread=2 stores=view limit=0");
  EXPECT_EQ(text_of(Form::OnePiece), "pieces=1 limit=0");
  EXPECT_EQ(text_of(Form::Fallback), "ahead=0 pieces=1 guards=0 pipeline=0 unmask=0 tiles=0 limit=0");
  EXPECT_EQ(text_of(Form::Bare), "ahead=0 pieces=1 guards=0 pipeline=0 unmask=0 tiles=0 limit=0 hints=0");
  EXPECT_EQ(text_of(Form::TwoBlocksFewerSteps), "min_occupancy=2 max_latency=2");
  EXPECT_EQ(text_of(Form::MoreBlocks), "crowd=64");
  EXPECT_EQ(text_of(Form::ThreeBlocks), "max_occupancy=3");
  EXPECT_EQ(text_of(Form::TwoBlocks), "max_occupancy=2");
  EXPECT_EQ(text_of(Form::OneBlock), "max_occupancy=1");
  EXPECT_EQ(text_of(Form::OneBlockMoreWarps), "max_occupancy=1 max_latency=3 spread=2 limit=0");
  EXPECT_EQ(text_of(Form::FewerSteps), "max_latency=2 limit=0");
  EXPECT_EQ(text_of(Form::Pointers), "access=pointer limit=0");
  EXPECT_EQ(text_of(Form::Views), "access=view limit=0");
  EXPECT_EQ(text_of(Form::MoreWarpsPointers), "spread=2 access=pointer limit=0");
  EXPECT_EQ(text_of(Form::WithoutHints), "limit=0 hints=0");
  EXPECT_EQ(text_of(Form::RolledMoreWarps), "max_latency=3 roll=1 spread=2 limit=0");
  EXPECT_EQ(text_of(Form::RolledFallback), "ahead=0 pieces=1 guards=0 roll=1 pipeline=0 unmask=0 tiles=0 limit=0");
  EXPECT_EQ(text_of(Form::Quick),
            "ahead=0 pieces=1 guards=0 roll=1 pipeline=0 unmask=0 tiles=0 limit=0 hints=0 opt-level=0");
  for (const Form form : all_forms().subspan(1)) {
    if (opt_level_of(form) != 3) continue;
    EXPECT_EQ(*tuning_of(form), passes::parse_tuning(text_of(form)));
  }
}

TEST(Forms, LosePipeliningAfterOccupancyAndHintsLast) {
  using enum Form;
  const auto steps = [](Cause cause, int number) {
    std::vector<Form> found;
    for (const Form form : all_forms())
      if (step_of(form, cause) == number) found.push_back(form);
    return found;
  };
  EXPECT_THAT(steps(Cause::Spills, 2), ElementsAre(ThreeBlocks, TwoBlocks, OneBlock, OneBlockMoreWarps));
  EXPECT_THAT(steps(Cause::Spills, 3), ElementsAre(Views, Pointers, MoreWarpsPointers, WithoutHints));
  EXPECT_THAT(steps(Cause::Rejected, 1),
              ElementsAre(ThreeBlocks, TwoBlocks, OneBlock, FewerSteps, PlainStores, MoreWarps, MoreWarpsPlainStores));
  EXPECT_THAT(steps(Cause::Rejected, 2), ElementsAre(Pointers, Fallback));
  EXPECT_THAT(steps(Cause::Rejected, 3), ElementsAre(Bare));
  EXPECT_THAT(steps(Cause::Slow, 1), ElementsAre(FewerSteps, OneBlockMoreWarps, Pointers, RolledMoreWarps));
  EXPECT_THAT(steps(Cause::Slow, 2), ElementsAre(RolledFallback));
  EXPECT_THAT(steps(Cause::Slow, 3), ElementsAre(Quick));
  for (const Form form : all_forms()) EXPECT_EQ(step_of(form, Cause::None), 0);
}

TEST(Forms, AreForThoseWhoAskForNothing) {
  const passes::Tuning none, some = passes::parse_tuning("warps=4");
  EXPECT_EQ(forms_for(nullptr).size(), all_forms().size());
  EXPECT_EQ(forms_for(&none).size(), all_forms().size()) << "a record without hints";
  EXPECT_THAT(forms_for(&some), ElementsAre(Form::Chosen));
  const Variable hints("TESSERA_TUNING", "warps=4");
  EXPECT_THAT(forms_for(nullptr), ElementsAre(Form::Chosen));
}

/// An ELF file with one section of code: as much of the format as resources_of() reads.
std::vector<std::byte> file_with(const std::vector<std::array<std::uint64_t, 2>>& instructions) {
  constexpr std::size_t kSections = 64, kSectionSize = 64, kNames = kSections + 2 * kSectionSize;
  const std::string names(".text.k\0", 8);
  const std::size_t code = kNames + 16;
  std::vector<std::byte> file(code + 16 * instructions.size());
  const auto put = [&](std::size_t at, std::uint64_t value, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) file[at + i] = static_cast<std::byte>(value >> (8 * i));
  };
  put(40, kSections, 8), put(58, kSectionSize, 2), put(60, 2, 2), put(62, 1, 2);
  put(kSections, 0, 4), put(kSections + 24, code, 8), put(kSections + 32, 16 * instructions.size(), 8);
  put(kSections + kSectionSize, 7, 4), put(kSections + kSectionSize + 24, kNames, 8);
  for (std::size_t i = 0; i < names.size(); ++i) file[kNames + i] = static_cast<std::byte>(names[i]);
  for (std::size_t i = 0; i < instructions.size(); ++i)
    put(code + 16 * i, instructions[i][0], 8), put(code + 16 * i + 8, instructions[i][1], 8);
  return file;
}

/// Words of nvdisasm -hex: LDL, STL, a branch forward, one back, and the branch to itself that ends each entry.
TEST(Registers, ThatAreSpilledAreCountedInMachineCode) {
  using Word = std::array<std::uint64_t, 2>;
  constexpr Word kLoad{0x00009800015a7983, 0x000f680000300a00}, kStore{0x00007c6801007387, 0x000fe20000100800};
  constexpr Word kAhead{0x0000004800e40947, 0x000ff40003800000}, kBack{0xfffffff800b80947, 0x000fec000383ffff};
  constexpr Word kItself{0xfffffffc00fc7947, 0x000fc0000383ffff}, kAdd{0x0000000a0b0c7221, 0x000fe20000000000};
  const CubinResources straight = resources_of(file_with({kAdd, kLoad, kAhead, kStore, kStore, kItself}));
  EXPECT_EQ(straight.instructions, 6u);
  EXPECT_EQ(straight.local_accesses, 3u);
  EXPECT_FALSE(straight.loops);
  EXPECT_TRUE(resources_of(file_with({kAdd, kBack, kItself})).loops);
  const Word kShared{0x0000000003067984, 0x000e220000000800}, kCopy{0x00000008060075b4, 0x0011e60008021000};
  EXPECT_EQ(resources_of(file_with({kAdd, kShared, kLoad, kShared, kItself})).shared_loads, 2u);
  EXPECT_FALSE(resources_of(file_with({kAdd, kShared, kItself})).copies_ahead);
  EXPECT_TRUE(resources_of(file_with({kAdd, kCopy, kItself})).copies_ahead);
  EXPECT_EQ(resources_of(file_with({})).instructions, 0u);
}

TEST(Registers, AreEnoughForThoseThatAskForMore) {
  const auto waits = [](unsigned threads, unsigned registers, unsigned asked, unsigned kept, unsigned releases) {
    return waits_for_registers({.registers = registers,
                                .threads = threads,
                                .asked_registers = asked,
                                .kept_registers = kept,
                                .releases = releases});
  };
  EXPECT_TRUE(waits(384, 80, 224, 32, 2)) << "224 + 2 * 32 of 3 * 80";
  EXPECT_FALSE(waits(384, 80, 176, 32, 2)) << "exactly all";
  EXPECT_TRUE(waits(384, 80, 184, 32, 2));
  EXPECT_FALSE(waits(256, 128, 224, 32, 1));
  EXPECT_FALSE(waits(256, 128, 224, 32, 3)) << "two roles, one of which releases in three places";
  EXPECT_TRUE(waits(768, 40, 104, 32, 2)) << "roles of 256 threads";
  EXPECT_FALSE(waits(384, 80, 0, 32, 2)) << "no warp asks";
  EXPECT_FALSE(waits(384, 80, 0, 0, 0));
}

/// entry(pointer), with an assembler that rejects kernels with hints.
class RejectingAssembler : public testing::Test {
 protected:
  RejectingAssembler() {
    jit_rig::write_assembler(folder_.path + "/tileiras", std::string(jit_rig::kRejectsWarps) + jit_rig::kGood);
  }
  static std::unique_ptr<ir::Module> module_of(int number) {
    auto module = std::make_unique<ir::Module>();
    ir::Function& f = module->add_function("entry");
    const ir::Type i32 = ir::Type::element(ir::Elem::I32);
    const ir::Value pointer = f.body().add_arg(ir::Type::tile(ir::Type::pointer(i32), {}));
    ir::Builder b(f.body());
    b.loc = SourceLocation::current();
    jit_rig::store_and_return(b, pointer, number);
    return module;
  }
  static LaunchContract contract() {
    LaunchContract c;
    c.args = {{ArgRole::Base, 0, -1}};
    c.tensors = {{0, 0, true, true, true}};
    return c;
  }
  int runs() const { return jit_rig::runs_in(folder_.path); }
  jit_rig::Folder folder_{"rejecting"};
  Variable assembler_{"TESSERA_TILEIRAS", folder_.path + "/tileiras"}, cache_{"TESSERA_CACHE_DIR", folder_.path};
};

TEST_F(RejectingAssembler, ABuildTakesThePlainForm) {
  const Build made = build(*module_of(1), contract(), 0, target_for(90), "wanted");
  EXPECT_EQ(made.form, Form::Bare);
  EXPECT_EQ(made.choices.warps, 0);
  EXPECT_EQ(runs(), 3) << "as chosen, in more warps, and without hints";
  const Variable hints("TESSERA_TUNING", "warps=1");
  try {
    build(*module_of(1), contract(), 0, target_for(90), "wanted");
    FAIL() << "no error";
  } catch (const tileiras::Rejection& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("kernel wanted: "), HasSubstr("too many warps")));
  }
}

TEST_F(RejectingAssembler, SoDoesAReportForAGpuThatIsNotHere) {
  alignas(16) static std::int32_t memory[4];
  const std::uint64_t slots[] = {reinterpret_cast<std::uintptr_t>(memory)};
  const Kernel rejected(module_of(2), contract(), {"wanted", false, {}});
  EXPECT_EQ(rejected.report(target_for(90), slots).form, Form::Bare);
  jit_rig::write_assembler(folder_.path + "/tileiras", jit_rig::kGood);
  const Kernel accepted(module_of(3), contract(), {"wanted", false, {}});
  EXPECT_EQ(accepted.report(target_for(90), slots).form, Form::Chosen);
}

}  // namespace
