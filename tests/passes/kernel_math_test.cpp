// How the exponentials and quotients of library kernels are computed: approximately where all results are narrow, also
// though sums are compared on the way.
#include "analysis/support.hpp"
#include "tessera/kernels/attention.hpp"
#include "tessera/kernels/softmax.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::test {
namespace THIS_FILE {

template <auto K>
std::unique_ptr<ir::Module> relaxed() {
  lang::Trace t = lang::trace<K>();
  passes::relax_math(*t.module->functions.front());
  return std::move(t.module);
}

struct Count {
  std::size_t exps = 0, flushing = 0, quotients = 0, products = 0;  ///< of tiles of more than a column
  explicit Count(const ir::Module& module) {
    ir::walk(module.functions.front()->body(), [&](const ir::Operation& op) {
      if (op.num_results() != 1 || !op.result().type().is_tile() || op.result().type().num_elements() < 4096) return;
      exps += op.op() == ir::Op::Exp2;
      flushing += op.op() == ir::Op::Exp2 && op.has_attr(ir::AttrName::flush_to_zero);
      quotients += op.op() == ir::Op::DivF;
      products += op.op() == ir::Op::MulF;
    });
  }
};

template <class T, kernels::AttentionMask Mask>
Count attention() {
  return Count(*relaxed<kernels::attention_forward<Mask, T, 64, 128, 64, false, false>>());
}

TEST(KernelMath, WeightsOfNarrowAttentionAreApproximate) {
  const Count full = attention<bf16, kernels::AttentionMask::Full>();
  const Count causal = attention<f16, kernels::AttentionMask::Causal>();
  EXPECT_GT(full.exps, 0u);
  EXPECT_GT(causal.exps, 0u);
  EXPECT_EQ(full.flushing, full.exps);
  EXPECT_EQ(causal.flushing, causal.exps);
  const Count wide = attention<f32, kernels::AttentionMask::Full>();
  EXPECT_GT(wide.exps, 0u);
  EXPECT_EQ(wide.flushing, 0u);
}

TEST(KernelMath, ASoftmaxScalesNoQuotients) {
  const Count c(*relaxed<kernels::softmax_row<false, bf16, 8192>>());
  EXPECT_EQ(c.quotients, 1u);
  EXPECT_EQ(c.products, 1u) << "by log2(e), for the exponential";
}

}  // namespace THIS_FILE
}  // namespace tessera::test
