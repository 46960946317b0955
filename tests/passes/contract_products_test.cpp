// Sums of exact products become fma where instructions are the limit, and every element stays what it was.
#include <cmath>
#include <random>

#include "passes/passed.hpp"
#include "tessera/passes/passes.hpp"

namespace tessera::test {
namespace THIS_FILE {

/// Any significands, and exponents from which no product is beyond the normal numbers of f32 (or of f16).
template <class T>
Array<T> numbers(std::vector<std::int64_t> dims) {
  std::mt19937 random(static_cast<std::uint32_t>(dims[0]));
  std::uniform_real_distribution<float> significand(-2, 2);
  return Array<T>(std::move(dims)).each([&](std::int64_t i) {
    return T(std::ldexp(significand(random), static_cast<int>(i % 15) - 7));
  });
}
int count(const Passed& p, ir::Op op) {
  int n = 0;
  ir::walk(p.module->functions.front()->body(), [&](const ir::Operation& o) { n += o.op() == op ? 1 : 0; });
  return n;
}

constexpr int kTaps = 8;

/// Weights of neighbours in time: enough instructions for each byte of bf16.
template <class X, class W, bool ProductFirst = false>
void convolution(Mut<bf16, 16, 128> y, In<X, dyn, dyn> x, In<W, dyn, dyn> w) {
  auto [t, c] = y.origin();
  auto acc = zeros<f32, 16, 128>();
  for (int tap = 0; tap < kTaps; ++tap) {
    auto p = cast<f32>(x.load_at(shape<16, 128>, t - tap, c)) * cast<f32>(w.load_at(shape<1, 128>, tap, c));
    acc = ProductFirst ? p + acc : acc + p;
  }
  y.store(cast<bf16>(acc));
}
/// The same with a product that is used twice, and one operation on few bytes.
void squares_of_products(Mut<bf16, 16, 128> y, In<bf16, dyn, dyn> x, In<bf16, dyn, dyn> w) {
  auto [t, c] = y.origin();
  auto acc = zeros<f32, 16, 128>();
  for (int tap = 0; tap < kTaps; ++tap) {
    auto p = cast<f32>(x.load_at(shape<16, 128>, t - tap, c)) * cast<f32>(w.load_at(shape<1, 128>, tap, c));
    acc += p * (p + 1.0f);
  }
  y.store(cast<bf16>(acc));
}
/// Bound by memory, though each byte takes as many instructions as above.
void in_a_loop(Mut<bf16, 16, 128> y, In<bf16, dyn, dyn> x, In<bf16, dyn, dyn> w) {
  auto [t, c] = y.origin();
  auto acc = zeros<f32, 16, 128>();
  for (auto tap : range(kTaps))
    acc += cast<f32>(x.load_at(shape<16, 128>, t - tap, c)) * cast<f32>(w.load_at(shape<1, 128>, tap, c));
  y.store(cast<bf16>(acc));
}
void one_product(Mut<bf16, 16, 128> y, In<bf16, dyn, dyn> x, In<bf16, dyn, dyn> w) {
  auto [t, c] = y.origin();
  auto acc = cast<f32>(x.load_like(y)) * cast<f32>(w.load_at(shape<1, 128>, 0, c));
  y.store(cast<bf16>(acc + 1.0f));
}

TEST(ContractProducts, SumsOfExactProductsAreRoundedOnce) {
  const auto fused = [](auto kernel, auto x, auto w) {
    passes::Tuning one_version;
    one_version.guards = 0;
    const Passed p = expect_same<kernel()>(one_version, 4, Array<bf16>({32, 256}), x, w);
    return std::pair(count(p, ir::Op::Fma), count(p, ir::Op::MulF));
  };
  const auto bf = numbers<bf16>({32, 256}), bf_w = numbers<bf16>({kTaps, 256});
  const auto half = numbers<f16>({32, 256}), half_w = numbers<f16>({kTaps, 256});
  const auto single = numbers<f32>({32, 256}), single_w = numbers<f32>({kTaps, 256});
  const std::pair all(kTaps, 0), none(0, kTaps);
  EXPECT_EQ(fused([] { return &convolution<bf16, bf16>; }, bf, bf_w), all);
  EXPECT_EQ(fused([] { return &convolution<f16, f16>; }, half, half_w), all);
  EXPECT_EQ(fused([] { return &convolution<bf16, f16>; }, bf, half_w), all);
  EXPECT_EQ(fused([] { return &convolution<f16, bf16, true>; }, half, bf_w), all) << "the product is the first operand";
  EXPECT_EQ(fused([] { return &convolution<f8e4m3, bf16>; }, numbers<f8e4m3>({32, 256}), bf_w), all);
  EXPECT_EQ(fused([] { return &convolution<f8e5m2, f16>; }, numbers<f8e5m2>({32, 256}), half_w), all);
  EXPECT_EQ(fused([] { return &convolution<f32, bf16>; }, single, bf_w), none) << "24 + 8 bits";
  EXPECT_EQ(fused([] { return &convolution<bf16, f32>; }, bf, single_w), none);
  EXPECT_EQ(fused([] { return &convolution<f32, f32>; }, single, single_w), none);
}

TEST(ContractProducts, OtherUsesOfTheProductAndKernelsBoundByMemoryStay) {
  const auto x = numbers<bf16>({32, 256}), w = numbers<bf16>({kTaps, 256});
  const Array<bf16> y({32, 256});
  EXPECT_EQ(count(expect_same<&squares_of_products>({}, 4, y, x, w), ir::Op::Fma), 0);
  EXPECT_EQ(count(expect_same<&in_a_loop>({}, 4, y, x, w), ir::Op::Fma), 0);
  EXPECT_EQ(count(expect_same<&one_product>({}, 4, y, x, w), ir::Op::Fma), 0);
}

/// Attributes that a sum or its product may have in IR that was not recorded.
TEST(ContractProducts, OtherRoundingsAndFlushedNumbersStay) {
  using Change = void (*)(ir::Operation& product, ir::Operation& sum);
  const auto fused = [](Change change) {
    const Recorded r = recorded<&convolution<bf16, bf16>>();
    const auto module = ir::clone(*r.trace.module);
    ir::walk(module->functions.front()->body(), [&](ir::Operation& op) {
      if (op.op() == ir::Op::AddF) change(*op.operand(1).def(), op);
    });
    passes::contract_products(*module->functions.front(), {90, 132});
    return count({ir::clone(*module), {}}, ir::Op::Fma);
  };
  EXPECT_EQ(fused([](ir::Operation&, ir::Operation&) {}), kTaps);
  EXPECT_EQ(fused([](ir::Operation& p, ir::Operation&) { p.set_attr(ir::AttrName::flush_to_zero, ir::UnitAttr{}); }),
            0);
  EXPECT_EQ(fused([](ir::Operation&, ir::Operation& s) { s.set_attr(ir::AttrName::flush_to_zero, ir::UnitAttr{}); }),
            0);
  EXPECT_EQ(
      fused([](ir::Operation& p, ir::Operation&) { p.set_attr(ir::AttrName::rounding_mode, ir::Rounding::Zero); }), 0);
  EXPECT_EQ(
      fused([](ir::Operation&, ir::Operation& s) { s.set_attr(ir::AttrName::rounding_mode, ir::Rounding::Zero); }), 0);
}

}  // namespace THIS_FILE
}  // namespace tessera::test
