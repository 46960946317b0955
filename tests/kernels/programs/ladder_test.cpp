// Kernels whose first form requested too much, with NVIDIA's assembler: blocks that shared memory cannot hold, hints
// that it rejects, steps that it unrolls. Skipped without an assembler.
#include <gtest/gtest.h>

#include "tessera/analysis/facts.hpp"
#include "tessera/host/contract.hpp"
#include "tessera/jit/build.hpp"
#include "tessera/jit/cubin.hpp"
#include "tessera/jit/forms.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/passes/predicates.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace {

/// Steps of 24 KB, in tiles that need not begin at multiples of the tile.
template <int M, int N, int K>
void by_pointers(Mut<f32, M, N> y, In<f32, dyn, dyn> a, In<f32, dyn, dyn> b) {
  auto [i, j] = y.origin();
  auto acc = zeros<f32, M, N>();
  for (auto s : range(ceil_div(a.dim(1), K))) {
    auto left = a.load_at(shape<M, K>, i, s * K);
    auto right = b.load_at(shape<K, N>, s * K, j - 1);
    acc = mma(cast<tf32>(left), cast<tf32>(right), acc);
  }
  y.store(acc);
}
template <class T, class P, int M, int N, int K>
void persistent(MutTiles<T, M, N> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  auto A = a.tiles(shape<M, K>);
  auto B = b.tiles(shape<K, N>);
  for (auto out : c.grouped(8)) {
    auto [i, j] = out.index();
    auto acc = zeros<f32, M, N>();
    for (auto k : range(A.count(1))) {
      auto left = A.load(i, k);
      auto right = B.load(k, j);
      acc = mma(cast<P>(left), cast<P>(right), acc);
    }
    out.store(cast<T>(acc));
  }
}

void product_of_tf32(Mut<f32, 32, 32> c, In<tf32, dyn, dyn> a, In<tf32, dyn, dyn> b) {
  auto A = a.tiles(shape<32, 32>), B = b.tiles(shape<32, 32>);
  auto acc = c.load();
  auto [i, j] = c.index();
  for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
  c.store(acc);
}

/// A kernel of three row-major matrices: m x n, m x k, k x n.
template <auto K>
jit::Build built(int sm, std::uint64_t m, std::uint64_t n, std::uint64_t k) {
  lang::Specialization s;
  for (int tensor = 0; tensor < 3; ++tensor) s.tensors.push_back({1, 0, ~0u});
  lang::Trace trace = lang::trace<K>(s);
  const auto contract = detail::launch_contract(trace.params, false, trace.same_extents);
  std::vector<std::uint64_t> slots;
  std::uint64_t address = 1 << 20;
  for (const auto& [rows, columns] : {std::pair{m, n}, {m, k}, {k, n}}) {
    slots.insert(slots.end(), {address, rows, columns, columns, 1});
    address += 1 << 24;
  }
  const std::uint64_t held =
      analysis::Facts::analyze(*trace.module, contract, passes::predicate_table()).evaluate(slots);
  return jit::build(*trace.module, contract, held, jit::target_for(sm), trace.name);
}

class Ladder : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    if (!jit::assembler_for("sm_90", &why) || !jit::assembler_for("sm_100", &why)) GTEST_SKIP() << why;
  }
  /// Nothing spills, as many blocks fit as were requested, and a persistent grid has no more.
  static void expect_sound(const jit::Build& made, int sm) {
    const jit::CubinResources r = jit::resources_of(made.cubin.code.cubin);
    const int fit = machine::resident_blocks(sm, r.registers, r.threads, r.shared);
    EXPECT_EQ(r.stack, 0u);
    EXPECT_NE(made.form, jit::Form::Bare);
    EXPECT_GE(fit, made.choices.occupancy) << r.shared;
    EXPECT_LE(made.choices.abi.persistent_blocks, jit::target_for(sm).num_sms * fit);
    EXPECT_GT(made.choices.latency, 1);
  }
};

TEST_F(Ladder, AnOccupancyThatTheAssemblerRejectsIsLowered) {
  for (const int sm : {90, 100}) expect_sound(built<&by_pointers<64, 128, 32>>(sm, 256, 256, 256), sm);
}

TEST_F(Ladder, BlocksFitIntoSharedMemory) {
  for (const int sm : {90, 100}) {
    expect_sound(built<&persistent<f32, tf32, 64, 128, 32>>(sm, 512, 512, 512), sm);
    expect_sound(built<&persistent<f32, tf32, 128, 64, 32>>(sm, 512, 512, 512), sm);
  }
}

/// The assembler ends with signal 6 (13.5.37) where it is to copy rows of tf32 in pieces of 8 bytes.
TEST_F(Ladder, RowsThatTheAssemblerFailsToCopyAreLoadedThroughPointers) {
  const jit::Build made = built<&product_of_tf32>(90, 70, 40, 50);
  EXPECT_EQ(jit::resources_of(made.cubin.code.cubin).stack, 0u);
  EXPECT_TRUE(made.form == jit::Form::Pointers || made.form == jit::Form::Chosen) << jit::name_of(made.form);
}

/// Elements of 2 bytes at odd addresses.
TEST_F(Ladder, OddRowsAreNotUnrolledForManySteps) {
  const jit::Build made = built<&persistent<bf16, bf16, 128, 128, 64>>(90, 205, 161, 149);
  expect_sound(made, 90);
  EXPECT_EQ(made.form, jit::Form::Chosen);
  EXPECT_LT(made.cubin.code.seconds, 20);
}

}  // namespace
}  // namespace tessera
