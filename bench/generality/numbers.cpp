// Arithmetic, element by element: polynomials, f64, complex numbers, integers, loops until the values have diverged.
#include <cmath>
#include <cstdint>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr int kDegree = 64;
constexpr int kSteps = 64;  // of mandelbrot

/// sum of x^k / (k + 1), by Horner's rule.
template <int B>
void polynomial(Mut<f32, B> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  auto s = zeros<f32, B>();
  for (int k = kDegree; k >= 0; --k) s = s * t + 1.0f / static_cast<float>(k + 1);
  y.store(s);
}

template <int B>
void hypotenuse(Mut<f64, B> z, In<f64, dyn> x, In<f64, dyn> y) {
  auto a = x.load_like(z), b = y.load_like(z);
  z.store(sqrt(a * a + b * b));
}

template <int B>
void complex_product(Mut<f32, B> re, Mut<f32, B> im, In<f32, dyn> a_re, In<f32, dyn> a_im, In<f32, dyn> b_re,
                     In<f32, dyn> b_im) {
  auto ar = a_re.load_like(re), ai = a_im.load_like(re), br = b_re.load_like(re), bi = b_im.load_like(re);
  re.store(ar * br - ai * bi);
  im.store(ar * bi + ai * br);
}

/// Mixes the bits of each number and counts the set ones.
template <int B>
void hash_bits(Mut<i32, B> y, In<i32, dyn> x) {
  auto h = x.load_like(y);
  h = (h ^ ((h >> 16) & 0xFFFF)) * 0x45D9F3B;
  h = (h ^ ((h >> 16) & 0xFFFF)) * 0x45D9F3B;
  h = h ^ ((h >> 16) & 0xFFFF);
  h = h - ((h >> 1) & 0x55555555);
  h = (h & 0x33333333) + ((h >> 2) & 0x33333333);
  h = (h + (h >> 4)) & 0x0F0F0F0F;
  y.store((h * 0x01010101) >> 24);
}

template <int BM, int BN>
void mandelbrot(Mut<i32, BM, BN> y) {
  auto [i, j] = y.origin();
  auto ci = cast<f32>(iota<i32, BM, 1>(axis<0>) + i) * 3.0f / cast<f32>(y.dim(0)) - 1.5f;
  auto cr = cast<f32>(iota<i32, 1, BN>(axis<1>) + j) * 3.0f / cast<f32>(y.dim(1)) - 2.0f;
  auto zr = zeros<f32, BM, BN>(), zi = zeros<f32, BM, BN>();
  auto count = zeros<i32, BM, BN>();
  auto step = Scalar<i32>(0);
  auto inside = zr * zr + zi * zi <= 4.0f;
  tile_while(step < kSteps && any(inside)) {
    auto next = zr * zr - zi * zi + cr;
    zi = 2.0f * zr * zi + ci;
    zr = next;
    count = where(inside, count + 1, count);
    inside = inside && zr * zr + zi * zi <= 4.0f;
    step += 1;
  }
  y.store(count);
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan polynomial_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = uniform<f32>(1, -1, 1, n);
  const auto wanted = [=](Size i) {
    double s = 0;
    for (int k = kDegree; k >= 0; --k) s = s * x.at(i) + 1.0 / (k + 1);
    return s;
  };
  return plan({2 * bytes_of<f32>(n)}, outputs(by_offset<f32>(wanted, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<polynomial<kPiece>>(mut(y), from).on(on); });
}

Plan hypotenuse_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f64>(1, n), y = normal<f64>(2, n);
  return plan({3 * bytes_of<f64>(n)}, outputs(by_offset<f64>([=](Size i) { return std::hypot(x.at(i), y.at(i)); }, n)),
              inputs(x, y), [](const Stream& on, auto& z, const auto& a, const auto& b) {
                kernel<hypotenuse<kPiece>>(mut(z), a, b).on(on);
              });
}

Plan complex_product_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto ar = normal<f32>(1, n), ai = normal<f32>(2, n), br = normal<f32>(3, n), bi = normal<f32>(4, n);
  return plan({6 * bytes_of<f32>(n)},
              outputs(by_offset<f32>([=](Size i) { return ar.at(i) * br.at(i) - ai.at(i) * bi.at(i); }, n),
                      by_offset<f32>([=](Size i) { return ar.at(i) * bi.at(i) + ai.at(i) * br.at(i); }, n)),
              inputs(ar, ai, br, bi),
              [](const Stream& on, auto& re, auto& im, const auto& a, const auto& b, const auto& c, const auto& d) {
                kernel<complex_product<kPiece>>(mut(re), mut(im), a, b, c, d).on(on);
              });
}

double hashed_bits(double number) {
  auto h = static_cast<std::uint32_t>(static_cast<std::int32_t>(number));
  h = (h ^ (h >> 16)) * 0x45D9F3Bu;
  h = (h ^ (h >> 16)) * 0x45D9F3Bu;
  h = h ^ (h >> 16);
  return __builtin_popcount(h);
}

Plan hash_bits_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<i32>(1, -1000000000, 1000000000, n);
  return plan({2 * bytes_of<i32>(n)}, outputs(by_offset<i32>([=](Size i) { return hashed_bits(x.at(i)); }, n)),
              inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<hash_bits<kPiece>>(mut(y), from).on(on); });
}

double steps_inside(double cr, double ci) {
  double zr = 0, zi = 0;
  int count = 0;
  while (count < kSteps && zr * zr + zi * zi <= 4) {
    const double next = zr * zr - zi * zi + cr;
    zi = 2 * zr * zi + ci;
    zr = next;
    ++count;
  }
  return count;
}

Plan mandelbrot_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto wanted = [=](Size offset) {
    return steps_inside(3.0 * static_cast<double>(offset % n) / static_cast<double>(n) - 2,
                        3.0 * static_cast<double>(offset / n) / static_cast<double>(m) - 1.5);
  };
  // Rounding decides about points near the border of the set.
  return plan({bytes_of<i32>(m * n)}, outputs(by_offset<i32>(wanted, m, n).within(0.05)), inputs(),
              [](const Stream& on, auto& y) { kernel<mandelbrot<16, 64>>(mut(y)).on(on); });
}

}  // namespace

std::vector<Entry> number_entries() {
  return {entry<polynomial_plan>("polynomial", "n=67108864", "n=8192; n=5000"),
          entry<hypotenuse_plan>("f64_hypotenuse", "n=67108864", "n=8192; n=5000"),
          entry<complex_product_plan>("complex_product", "n=67108864", "n=8192; n=5000"),
          entry<hash_bits_plan>("hash_bits", "n=134217728", "n=8192; n=5000"),
          entry<mandelbrot_plan>("mandelbrot", "m=8192 n=8192", "m=64 n=128; m=50 n=70")};
}

}  // namespace generality
