// Elementary functions of the four types that have them, GPU against CPU: by relative norm over ordinary numbers, and
// element by element over any bit pattern (NaN and infinities at the same places). floor, ceil, fma, sqrt are exact.
#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

template <class T, int B>
void math_bundle(Mut<T, 32, B> y, In<T, dyn> a, In<T, dyn> b) {
  auto x = a.load_like(y, axes<1>), z = b.load_like(y, axes<1>);
  auto positive = abs(x);
  RowWriter put(y.sub(shape<1, B>));
  put(floor(x));
  put(ceil(x));
  put(fma(x, z, x));
  put(sqrt(positive));
  put(exp(x));
  put(exp2(x));
  put(log(positive));
  put(log2(positive));
  put(sin(x));
  put(cos(x));
  put(tan(x));
  put(sinh(x));
  put(cosh(x));
  put(tanh(x));
  put(rsqrt(positive));
  put(pow(positive, z));
  put(atan2(x, z));
}
constexpr const char* kNames[] = {"floor", "ceil", "fma",  "sqrt", "exp",  "exp2",  "log", "log2", "sin",
                                  "cos",   "tan",  "sinh", "cosh", "tanh", "rsqrt", "pow", "atan2"};
constexpr int kExact = 4;  // the number of exact ones, which come first
constexpr int kRows = 17;

template <class T>
Both<std::vector<T>> run_math(const std::vector<T>& a, const std::vector<T>& b, bool approximate) {
  const auto n = static_cast<std::int64_t>(a.size());
  return on_both(Placement::Aligned, [&](const Side& side) {
    auto x = side.input(a, {n}), z = side.input(b, {n});
    auto y = side.template output<T>({kRows, n});
    constexpr auto k = kernel<math_bundle<T, 128>>;
    (approximate ? k.approximate() : k.precise())(y.lend(), x.view(), z.view()).sync();
    return y.take();
  });
}
template <class T>
std::vector<T> row(const std::vector<T>& v, int r) {
  const auto n = static_cast<std::ptrdiff_t>(v.size() / kRows);
  return std::vector<T>(v.begin() + r * n, v.begin() + (r + 1) * n);
}

template <class T>
void check_ordinary(double tolerance) {
  const auto both = run_math<T>(values_in<T>(1000, 1, -3, 3), values_in<T>(1000, 2, -3, 3), false);
  for (int r = 0; r < kRows; ++r) {
    const auto cpu = row(both.cpu, r), gpu = row(both.gpu, r);
    EXPECT_EQ(r < kExact ? exact(cpu, gpu) : close(cpu, gpu, tolerance), "") << kNames[r] << " of " << type_name<T>();
  }
}
/// `smallest`: the smallest normal number, below which results may differ.
template <class T>
void check_any_bits(double relative, double smallest) {
  const auto both = run_math<T>(any_values<T>(4000, 3), any_values<T>(4000, 4), false);
  for (int r = 0; r < kRows; ++r) {
    const auto cpu = row(both.cpu, r), gpu = row(both.gpu, r);
    EXPECT_EQ(r < kExact ? exact(cpu, gpu) : close_each(cpu, gpu, relative, smallest), "")
        << kNames[r] << " of " << type_name<T>();
  }
}

class Math : public Gpu {};
TEST_F(Math, F32) { check_ordinary<f32>(1e-6); }
TEST_F(Math, F64) { check_ordinary<f64>(1e-14); }
TEST_F(Math, F16) { check_ordinary<f16>(5e-4); }
TEST_F(Math, BF16) { check_ordinary<bf16>(4e-3); }
class MathAnyBits : public Gpu {};
TEST_F(MathAnyBits, F32) { check_any_bits<f32>(1e-5, 0x1p-126); }
TEST_F(MathAnyBits, F64) { check_any_bits<f64>(1e-12, 0x1p-1022); }
TEST_F(MathAnyBits, F16) { check_any_bits<f16>(2e-3, 0x1p-14); }
TEST_F(MathAnyBits, BF16) { check_any_bits<bf16>(1.6e-2, 0x1p-126); }

// The fast instructions: 2^-21 or so each (PTX ISA: ex2.approx, sqrt.approx, rsqrt.approx, tanh.approx 2^-11).
TEST_F(Math, ApproximateF32) {
  const auto both = run_math<f32>(values_in<f32>(1000, 1, -3, 3), values_in<f32>(1000, 2, -3, 3), true);
  for (int r = 0; r < kRows; ++r)
    EXPECT_EQ(close(row(both.cpu, r), row(both.gpu, r), r == 13 ? 1e-3 : 1e-5), "") << kNames[r];
}

}  // namespace
}  // namespace gpu_test
