// Arithmetic, element by element: polynomials, f64, complex numbers, quaternions, integers, bits, loops until the
// values have diverged.
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

/// A step of an FFT: row, half, place.
template <int B>
void butterfly(Mut<f32, 1, 2, B> re, Mut<f32, 1, 2, B> im, In<f32, dyn, 2, dyn> x_re, In<f32, dyn, 2, dyn> x_im,
               In<f32, dyn> w_re, In<f32, dyn> w_im) {
  auto [row, zero, k] = re.origin();
  auto ar = x_re.load_at(shape<1, 1, B>, row, 0, k), ai = x_im.load_at(shape<1, 1, B>, row, 0, k);
  auto br = x_re.load_at(shape<1, 1, B>, row, 1, k), bi = x_im.load_at(shape<1, 1, B>, row, 1, k);
  auto wr = w_re.load_like(re, axes<2>), wi = w_im.load_like(re, axes<2>);
  auto tr = br * wr - bi * wi, ti = br * wi + bi * wr;
  re.store(cat(ar + tr, ar - tr, axis<1>));
  im.store(cat(ai + ti, ai - ti, axis<1>));
}

/// Points turned by unit quaternions (w, x, y, z).
template <int B>
void rotate_points(Mut<f32, B, 4> y, In<f32, dyn, 4> q, In<f32, dyn, 3> p) {
  auto [first, zero] = y.origin();
  auto i = iota<i32, B, 1>(axis<0>) + first;
  auto w = q.gather(i, 0), a = q.gather(i, 1), b = q.gather(i, 2), c = q.gather(i, 3);
  auto px = p.gather(i, 0), py = p.gather(i, 1), pz = p.gather(i, 2);
  auto tx = 2.0f * (b * pz - c * py), ty = 2.0f * (c * px - a * pz), tz = 2.0f * (a * py - b * px);
  auto x_ = px + w * tx + b * tz - c * ty;
  auto y_ = py + w * ty + c * tx - a * tz;
  auto z_ = pz + w * tz + a * ty - b * tx;
  y.store(cat(cat(x_, y_, axis<1>), cat(z_, zeros<f32, B, 1>(), axis<1>), axis<1>));
}

/// 32 booleans become the bits of a word, the first one the lowest.
template <int B>
void pack_bits(Mut<i32, B> y, In<bool, dyn, 32> x) {
  auto [i] = y.index();
  auto bits = cast<i32>(x.tiles(shape<B, 32>).load(i, 0));
  y.store(reshape(sum(bits << iota<i32, 1, 32>(axis<1>), axis<1>), shape<B>));
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

Plan butterfly_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), half = size_of_case(args, "half");
  const auto re = normal<f32>(1, rows, 2, half), im = normal<f32>(2, rows, 2, half);
  const auto w_re = normal<f32>(3, half), w_im = normal<f32>(4, half);
  const auto wanted = [=](Size at, bool real) {
    const Size k = at % half, row = at / half / 2;
    const double sign = at / half % 2 == 0 ? 1 : -1;
    const double br = re(row, 1, k), bi = im(row, 1, k);
    return real ? re(row, 0, k) + sign * (br * w_re(k) - bi * w_im(k))
                : im(row, 0, k) + sign * (br * w_im(k) + bi * w_re(k));
  };
  return plan({4 * bytes_of<f32>(rows * 2 * half)},
              outputs(by_offset<f32>([=](Size at) { return wanted(at, true); }, rows, 2, half),
                      by_offset<f32>([=](Size at) { return wanted(at, false); }, rows, 2, half)),
              inputs(re, im, w_re, w_im), [](const Stream& on, auto& y_re, auto& y_im, const auto&... in) {
                kernel<butterfly<512>>(mut(y_re), mut(y_im), in...).on(on);
              });
}

Plan rotate_points_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto q = uniform<f32>(1, -1, 1, n, 4);
  const auto p = normal<f32>(2, n, 3);
  const auto wanted = [=](Size at) {  // p + w t + v x t, t = 2 v x p
    const Size i = at / 3;
    const double w = q(i, 0), v[3] = {q(i, 1), q(i, 2), q(i, 3)}, u[3] = {p(i, 0), p(i, 1), p(i, 2)};
    double t[3];
    for (int k = 0; k < 3; ++k) t[k] = 2 * (v[(k + 1) % 3] * u[(k + 2) % 3] - v[(k + 2) % 3] * u[(k + 1) % 3]);
    const Size k = at % 3, k1 = (k + 1) % 3, k2 = (k + 2) % 3;
    return u[k] + w * t[k] + v[k1] * t[k2] - v[k2] * t[k1];
  };
  return plan({bytes_of<f32>(10 * n)}, outputs(by_offset<f32>(wanted, n, 3)), inputs(q, p),
              [](const Stream& on, auto& y, const auto&... in) { kernel<rotate_points<256>>(mut(y), in...).on(on); });
}

Plan pack_bits_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = whole<bool>(1, 0, 2, n, 32);
  const auto wanted = [=](Size i) {
    std::uint32_t word = 0;
    for (Size k = 0; k < 32; ++k) word |= static_cast<std::uint32_t>(x(i, k)) << k;
    return static_cast<double>(static_cast<std::int32_t>(word));
  };
  return plan({36.0 * static_cast<double>(n)}, outputs(by_offset<i32>(wanted, n)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<pack_bits<128>>(mut(y), from).on(on); });
}

}  // namespace

std::vector<Entry> number_entries() {
  return {entry<polynomial_plan>("polynomial", "arithmetic", "n=67108864; n=50000003; n=20000003", "n=8192; n=5000"),
          entry<hypotenuse_plan>("f64_hypotenuse", "arithmetic", "n=67108864; n=50000003; n=5000001", "n=8192; n=5000"),
          entry<complex_product_plan>("complex_product", "arithmetic", "n=67108864; n=50000003; n=5000001",
                                      "n=8192; n=5000"),
          entry<hash_bits_plan>("hash_bits", "arithmetic", "n=134217728; n=100000003; n=9000001", "n=8192; n=5000"),
          entry<mandelbrot_plan>("mandelbrot", "arithmetic", "m=8192 n=8192; m=5001 n=9001; m=20001 n=1001",
                                 "m=64 n=128; m=50 n=70"),
          entry<butterfly_plan>("butterfly", "signals", "rows=8192 half=2048; rows=20001 half=777; rows=301 half=50001",
                                "rows=4 half=1024; rows=3 half=333"),
          entry<rotate_points_plan>("rotate_points", "physics", "n=10000000; n=8000003; n=3000001", "n=640; n=501"),
          entry<pack_bits_plan>("pack_bits", "moves", "n=16777216; n=12000001; n=4500007", "n=1024; n=501")};
}

}  // namespace generality
