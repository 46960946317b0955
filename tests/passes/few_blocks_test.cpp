// Loops of launches of few blocks load by tensor copies, where the assembler keeps enough of them in flight.
#include "passes/hints.hpp"
#include "passes/passed.hpp"

namespace tessera::test {
namespace THIS_FILE {

/// True if a load may use tensor copies.
bool copied(const Passed& p) {
  bool any = false;
  for (const auto& f : p.module->functions)
    ir::walk(f->body(), [&](const ir::Operation& op) {
      if (op.op() != ir::Op::LoadViewTko) return;
      const ir::Attribute* allowed = passes::hint(op, "allow_tma");
      any = any || allowed == nullptr || *allowed->as<bool>();
    });
  return any;
}

template <class T, int R, int C>
void column_sums(Mut<f32, C> y, In<T, dyn, dyn> x) {
  auto X = x.tiles(shape<R, C>);
  auto [j] = y.index();
  auto s = zeros<f32, 1, C>();
  for (auto k : range(X.count(0))) s += sum(cast<f32>(X.load(k, j)), axis<0>);
  y.store(reshape(s, shape<C>));
}
/// The tile is accumulated and reduced after the loop.
void column_maxima(Mut<f32, 128> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<32, 128>);
  auto [j] = y.index();
  auto s = zeros<f32, 32, 128>();
  for (auto k : range(X.count(0))) s = max(s, X.load(k, j));
  y.store(reshape(max(s, axis<0>), shape<128>));
}

/// Eight columns are added in each iteration, the rest after the loop.
void folded_sums(Mut<f32, 4> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<4, 1024>);
  auto [i] = y.index();
  auto s = zeros<f32, 4, 128>();
  for (auto k : range(X.count(1))) s += reshape(sum(reshape(X.load(i, k), shape<4, 128, 8>), axis<2>), shape<4, 128>);
  y.store(reshape(sum(s, axis<1>), shape<4>));
}
/// A second pass over the rows, which reduces nothing.
void halved(Mut<f32, 16, 4096> y, In<f32, dyn, dyn> x) {
  auto X = x.tiles(shape<16, 256>);
  auto Y = y.sub(shape<16, 256>);
  auto [i, zero] = y.index();
  for (auto k : range(X.count(1))) Y.store(0, k, X.load(i, k) * 0.5f);
}

TEST(CopiesOfFewBlocks, WhereTilesOfALoopAreReducedInIt) {
  const auto of = [](std::int64_t columns) {
    return std::vector<std::vector<std::int64_t>>{{columns}, {4096, columns}};
  };
  EXPECT_TRUE(copied(passed<&column_sums<f32, 32, 128>>(of(16000), {}, "choose_hints"))) << "125 blocks";
  EXPECT_TRUE(copied(passed<&column_sums<f32, 32, 128>>(of(128 * 256), {}, "choose_hints")));
  EXPECT_FALSE(copied(passed<&column_sums<f32, 32, 128>>(of(128 * 257), {}, "choose_hints")));
  EXPECT_FALSE(copied(passed<&column_sums<f32, 4, 128>>(of(16000), {}, "choose_hints"))) << "2 KiB";
  EXPECT_TRUE(copied(passed<&column_sums<bf16, 32, 128>>(of(16000), {}, "choose_hints")));
  EXPECT_FALSE(copied(passed<&column_maxima>(of(16000), {}, "choose_hints"))) << "the assembler crashes";
  EXPECT_FALSE(copied(passed<&folded_sums>({{128}, {128, 65536}}, {}, "choose_hints"))) << "not much smaller";
  EXPECT_FALSE(copied(passed<&halved>({{1024, 4096}, {1024, 4096}}, {}, "choose_hints"))) << "moved only";
  passes::Tuning none;
  none.choose_hints = false;
  EXPECT_FALSE(copied(passed<&column_sums<f32, 32, 128>>(of(16000), none, "choose_hints"))) << "the fallback form";
}

TEST(CopiesOfFewBlocks, NotWhereThreadsWouldLoadLessThanAVector) {
  const std::vector<std::vector<std::int64_t>> odd{{16000}, {4096, 16001}};
  EXPECT_FALSE(copied(passed<&column_sums<f32, 32, 128>>(odd, {}, "choose_hints")));
}

}  // namespace THIS_FILE
}  // namespace tessera::test
