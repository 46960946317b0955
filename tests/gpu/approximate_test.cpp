// Approximate operations against float64, over operands of every exponent: the bounds of docs/semantics.md. And an
// integer beside a narrow output, which is computed precisely.
#include <cmath>

#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

constexpr std::int64_t kRows = 256, kCols = 256, kElements = kRows * kCols;
constexpr double kNormal = 0x1p-126;

void quotients(Mut<f32, 256> q, In<f32, dyn> a, In<f32, dyn> b) {
  q.store(div(a.load_like(q), b.load_like(q), approx));
}
void quotients_of_rows(Mut<f32, 16, 256> q, In<f32, dyn, dyn> a, In<f32, dyn> b) {
  q.store(div(a.load_like(q), b.load_like(q, axes<0>), approx));
}
void sigmoids(Mut<f32, 256> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  y.store(div(t, 1.0f + exp(-t), approx));
}
enum class Function { Sqrt, Exp, Exp2, Tanh, Rsqrt };
template <Function F>
void function_of(Mut<f32, 256> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  if constexpr (F == Function::Sqrt) y.store(sqrt(t, approx));
  if constexpr (F == Function::Exp) y.store(exp(t, approx));
  if constexpr (F == Function::Exp2) y.store(exp2(t, approx));
  if constexpr (F == Function::Tanh) y.store(tanh(t, approx));
  if constexpr (F == Function::Rsqrt) y.store(rsqrt(t, approx));
}

/// Both devices against `want(i)`, in units of 2^-22; results below the smallest normal number may be zero.
template <class Want, class Bound>
void expect_within(const Both<std::vector<f32>>& have, Want want, Bound bound) {
  const std::pair<const char*, const std::vector<f32>*> devices[] = {{"cpu", &have.cpu}, {"gpu", &have.gpu}};
  for (const auto& [name, values] : devices) {
    int wrong = 0;
    for (std::size_t i = 0; i < values->size(); ++i) {
      const double w = want(i), h = (*values)[i];
      if (std::abs(w) > 0x1p127 && std::isfinite(w)) continue;  // within the bound of an overflow
      const bool same = std::isnan(w) ? std::isnan(h) : std::isinf(w) ? h == w : false;
      if (same || std::abs(h - w) <= std::abs(w) * bound(i) + (std::abs(w) < kNormal ? kNormal : 0)) continue;
      if (++wrong <= 5) ADD_FAILURE() << name << ", element " << i << ": " << h << " instead of " << w;
    }
    EXPECT_EQ(wrong, 0) << name;
  }
}

/// As a divisor or dividend that is read as it is: a denormal dividend may count as zero.
std::vector<f32> dividends(std::uint64_t seed) {
  auto v = any_values<f32>(kElements, seed);
  for (f32& x : v)
    if (std::fpclassify(x) == FP_SUBNORMAL) x = 1.5f;
  v[0] = 2e38f;
  v[1] = 1e-10f;
  return v;
}

class Approximate : public Gpu {};

TEST_F(Approximate, QuotientsOfAnyExponents) {
  const auto a = dividends(1);
  auto b = any_values<f32>(kElements, 2);
  b[0] = 2e38f;
  b[1] = 1e-39f;
  const auto have = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(a, {kElements}), z = side.input(b, {kElements});
    auto y = side.output<f32>({kElements});
    kernel<quotients>(y.lend(), x.view(), z.view()).sync();
    return y.take();
  });
  expect_within(
      have, [&](std::size_t i) { return static_cast<double>(a[i]) / static_cast<double>(b[i]); },
      [](std::size_t) { return 0x1p-22; });
}

TEST_F(Approximate, QuotientsOfDivisorsThatRowsShare) {
  const auto a = dividends(3);
  auto b = any_values<f32>(kRows, 4);
  b[0] = 2e38f;
  b[1] = 1e-39f;
  const auto have = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(a, {kRows, kCols});
    auto z = side.input(b, {kRows});
    auto y = side.output<f32>({kRows, kCols});
    kernel<quotients_of_rows>(y.lend(), x.view(), z.view()).sync();
    return y.take();
  });
  expect_within(
      have,
      [&](std::size_t i) {
        return static_cast<double>(a[i]) / static_cast<double>(b[i / static_cast<std::size_t>(kCols)]);
      },
      [](std::size_t) { return 0x1p-22; });
}

TEST_F(Approximate, GatesWhoseDivisorGrowsHuge) {
  const auto x = values_in<f32>(kElements, 5, -88, 88);  // exp(88) is above 2^126
  const auto have = on_both(Placement::Aligned, [&](const Side& side) {
    auto in = side.input(x, {kElements});
    auto y = side.output<f32>({kElements});
    kernel<sigmoids>(y.lend(), in.view()).sync();
    return y.take();
  });
  expect_within(
      have, [&](std::size_t i) { return x[i] / (1 + std::exp(-static_cast<double>(x[i]))); },
      [](std::size_t) { return 0x1p-20; });  // the precise exp has an error of its own
}

template <Function F, class Want, class Bound>
void check_function(const std::vector<f32>& x, Want want, Bound bound) {
  const auto have = on_both(Placement::Aligned, [&](const Side& side) {
    auto in = side.input(x, {kElements});
    auto y = side.output<f32>({kElements});
    kernel<function_of<F>>(y.lend(), in.view()).sync();
    return y.take();
  });
  expect_within(
      have, [&](std::size_t i) { return want(static_cast<double>(x[i])); }, [&](std::size_t i) { return bound(x[i]); });
}
TEST_F(Approximate, FunctionsOfAnyExponents) {
  const auto any = any_values<f32>(kElements, 6);
  auto positive = any;
  for (f32& x : positive) x = std::abs(x);
  const auto constant = [](double b) { return [b](double) { return b; }; };
  check_function<Function::Sqrt>(
      positive, [](double x) { return std::sqrt(x); }, constant(0x1p-22));
  check_function<Function::Rsqrt>(
      positive, [](double x) { return 1 / std::sqrt(x); }, constant(0x1p-22));
  check_function<Function::Exp2>(
      any, [](double x) { return std::exp2(x); }, constant(0x1p-21));
  check_function<Function::Tanh>(
      any, [](double x) { return std::tanh(x); }, constant(0x1p-10));
  const auto exp_bound = [](double x) { return 0x1p-21 + std::abs(x) * 0x1p-23; };
  check_function<Function::Exp>(
      any, [](double x) { return std::exp(x); }, exp_bound);
  const auto moderate = values_in<f32>(kElements, 7, -100, 89);
  check_function<Function::Exp>(
      moderate, [](double x) { return std::exp(x); }, exp_bound);
  check_function<Function::Exp2>(
      moderate, [](double x) { return std::exp2(x); }, constant(0x1p-21));
}

void integers_beside_narrow(Mut<i32, 256> q, Mut<bf16, 256> s, In<f32, dyn> a, In<f32, dyn> b) {
  auto x = a.load_like(q), y = b.load_like(q, pad(1.0f));
  q.store(cast<i32>(x / y));  // truncates: an error of one unit in the last place is an error of 1
  s.store(cast<bf16>(x / y));
}
TEST_F(Approximate, AnIntegerBesideANarrowOutputIsExact) {
  std::vector<f32> a, b;
  for (int n = 1; n < 4096; ++n)
    for (const int factor : {1, 7}) {
      a.push_back(static_cast<f32>(n * factor));
      b.push_back(static_cast<f32>(n));
    }
  const auto count = static_cast<std::int64_t>(a.size());
  const auto have = on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(a, {count}), z = side.input(b, {count});
    auto q = side.output<i32>({count});
    auto s = side.output<bf16>({count});
    kernel<integers_beside_narrow>(q.lend(), s.lend(), x.view(), z.view()).sync();
    return q.take();
  });
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(have.gpu[i], i % 2 == 0 ? 1 : 7) << a[i] << " / " << b[i];
    ASSERT_EQ(have.cpu[i], i % 2 == 0 ? 1 : 7) << a[i] << " / " << b[i];
  }
}

}  // namespace
}  // namespace gpu_test
