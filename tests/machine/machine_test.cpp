// The table of GPUs, what follows from its rows, and the measured facts.
#include "tessera/machine/machine.hpp"

#include <gtest/gtest.h>

#include "tessera/machine/measured.hpp"

namespace tessera {
namespace {

using machine::Machine;

TEST(Machine, EveryGenerationHasOneRow) {
  int before = 0;
  for (const Machine& m : machine::machines()) {
    EXPECT_LT(before, m.sm) << "in order, each once";
    before = m.sm;
    EXPECT_EQ(machine::find_machine(m.sm), &m);
    EXPECT_EQ(&machine::machine_of(m.sm), &m);
    EXPECT_GT(m.num_sms, 0) << m.gpu;
    EXPECT_GE(m.shared_kib, 100) << m.gpu;
    EXPECT_TRUE(m.warps == 48 || m.warps == machine::kMaxWarps) << m.gpu;
    EXPECT_GT(m.instructions_a_byte, 1) << m.gpu;
  }
}

TEST(Machine, AnUnknownOneIsAsTheOneBeforeIt) {
  EXPECT_EQ(machine::find_machine(95), nullptr);
  EXPECT_EQ(machine::machine_of(95).sm, 90);
  EXPECT_EQ(machine::machine_of(150).sm, 121);
  EXPECT_EQ(machine::machine_of(75).sm, 80) << "there is none before the first";
  EXPECT_EQ(machine::machine_of(0).sm, 80);
}

TEST(Machine, ClustersAreOfTheDataCenter) {
  for (const Machine& m : machine::machines()) EXPECT_EQ(m.clusters, m.sm >= 90 && m.sm < 120) << m.gpu;
}

TEST(Machine, RatesByElementType) {
  const Machine& h200 = machine::machine_of(90);
  EXPECT_EQ(machine::rate_of(h200, "f64"), 256);
  EXPECT_EQ(machine::rate_of(h200, "f32"), 256);
  EXPECT_EQ(machine::rate_of(h200, "tf32"), 2048);
  EXPECT_EQ(machine::rate_of(h200, "f16"), 4096);
  EXPECT_EQ(machine::rate_of(h200, "bf16"), 4096);
  EXPECT_EQ(machine::rate_of(h200, "f8"), 8192);
  EXPECT_EQ(machine::rate_of(h200, "i8"), 8192);
  EXPECT_EQ(machine::rate_of(h200, "i4"), 0);
  EXPECT_EQ(machine::rate_of(machine::machine_of(80), "f8"), 0) << "it has none";
}

TEST(Machine, ACubinMayStateAnyNumbers) {
  EXPECT_EQ(machine::resident_blocks(90, ~0u, ~0u, ~std::uint64_t{0} - 1024), 0);
  EXPECT_EQ(machine::resident_blocks(90, ~0u, 32, 0), 0);
  EXPECT_EQ(machine::resident_blocks(90, 0, ~0u, 0), 0);
}

TEST(Machine, Names) {
  EXPECT_EQ(machine::gpu_name(90), "sm_90");
  EXPECT_EQ(machine::gpu_name(121), "sm_121");
}

TEST(Measured, EveryFactIsThere) {
  const machine::Measured& m = machine::measured();
  EXPECT_STREQ(m.gpu, "NVIDIA H200");
  for (const double fact : {m.read_rate, m.trigger_block_time, m.operand_rate, m.l2_rate, m.l2_bytes, m.launch,
                            m.next_launch, m.request, m.element_load, m.copy_launch, m.copy_rate})
    EXPECT_GT(fact, 0);
  EXPECT_GT(m.l2_rate, m.read_rate) << "the cache is faster than memory";
  for (const auto& tiles : m.tiles.of) {
    EXPECT_GT(tiles.size(), 2U);
    for (const machine::TileTimes& t : tiles) {
      EXPECT_GT(t.m * t.n, 0);
      EXPECT_EQ(t.plain.step > 0, t.with_tile.step > 0) << t.m << " x " << t.n;
    }
  }
}

TEST(Measured, WavesBehindTheFirstMayHaveLongerEdges) {
  EXPECT_EQ((machine::WaveTime{100, 10}.edges(3)), 30);
  EXPECT_EQ((machine::WaveTime{100, 10, 25}.edges(3)), 60);
  EXPECT_EQ((machine::WaveTime{100, 10, 25}.edges(1)), 10);
}

}  // namespace
}  // namespace tessera
