// Physics and finance: heat in a solid of many materials, an electromagnetic step, gravity of all pairs, prices of
// options, a product of complex numbers, an estimate of pi from random points.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "cases.hpp"

namespace generality {
namespace {

constexpr int kPiece = 1024;
constexpr int kDraws = 64;           // points of each seed of random_pi
constexpr float kStep = 0.1f;        // of the time in heat_3d
constexpr float kCourant = 0.5f;     // of electromagnetic_step
constexpr float kSoftening = 0.01f;  // of distances in gravity
constexpr float kRate = 0.02f, kVolatility = 0.3f;

/// One explicit step of heat_3d: the conductivity of a face is the mean of the cells beside it.
template <int BM, int BN>
void heat_3d(Mut<f32, 1, BM, BN> next, In<f32, dyn, dyn, dyn> heat, In<f32, dyn, dyn, dyn> conductivity,
             Scalar<f32> step) {
  auto [i, j, k] = next.origin();
  auto here = heat.load_like(next), mine = conductivity.load_like(next);
  auto flow = [&](int di, int dj, int dk) {
    auto there = heat.load_at(shape<1, BM, BN>, i + di, j + dj, k + dk);
    auto theirs = conductivity.load_at(shape<1, BM, BN>, i + di, j + dj, k + dk);
    return 0.5f * (mine + theirs) * (there - here);
  };
  auto total = flow(-1, 0, 0) + flow(1, 0, 0) + flow(0, -1, 0) + flow(0, 1, 0) + flow(0, 0, -1) + flow(0, 0, 1);
  next.store(here + step * total);
}

/// The first half of a step of Maxwell's equations in two dimensions: the magnetic field from the electric one.
template <int BM, int BN>
void magnetic_half(Mut<f32, BM, BN> next_x, Mut<f32, BM, BN> next_y, In<f32, dyn, dyn> hx, In<f32, dyn, dyn> hy,
                   In<f32, dyn, dyn> e, Scalar<f32> courant) {
  auto [i, j] = next_x.origin();
  auto here = e.load_like(next_x);
  next_x.store(hx.load_like(next_x) - courant * (e.load_at(shape<BM, BN>, i, j + 1) - here));
  next_y.store(hy.load_like(next_y) + courant * (e.load_at(shape<BM, BN>, i + 1, j) - here));
}

/// The second half: the electric field from the magnetic one, by the material of each place.
template <int BM, int BN>
void electric_half(Mut<f32, BM, BN> next, In<f32, dyn, dyn> e, In<f32, dyn, dyn> hx, In<f32, dyn, dyn> hy,
                   In<f32, dyn, dyn> material) {
  auto [i, j] = next.origin();
  auto across = hy.load_like(next) - hy.load_at(shape<BM, BN>, i - 1, j);
  auto along = hx.load_like(next) - hx.load_at(shape<BM, BN>, i, j - 1);
  next.store(e.load_like(next) + material.load_like(next) * (across - along));
}

/// The acceleration of each body by all bodies.
template <int B, int C>
void gravity(Mut<f32, B> ax, Mut<f32, B> ay, Mut<f32, B> az, In<f32, dyn> x, In<f32, dyn> y, In<f32, dyn> z,
             In<f32, dyn> mass) {
  auto column = [](auto t) { return reshape(t, shape<B, 1>); };
  auto px = column(x.load_like(ax)), py = column(y.load_like(ax)), pz = column(z.load_like(ax));
  auto X = x.tiles(shape<C>), Y = y.tiles(shape<C>), Z = z.tiles(shape<C>), M = mass.tiles(shape<C>);
  auto fx = zeros<f32, B, 1>(), fy = zeros<f32, B, 1>(), fz = zeros<f32, B, 1>();
  for (auto k : range(X.count(0))) {
    auto dx = reshape(X.load(k), shape<1, C>) - px;
    auto dy = reshape(Y.load(k), shape<1, C>) - py;
    auto dz = reshape(Z.load(k), shape<1, C>) - pz;
    auto r = rsqrt(dx * dx + dy * dy + dz * dz + kSoftening);
    auto pull = reshape(M.load(k), shape<1, C>) * r * r * r;
    fx += sum(pull * dx, axis<1>);
    fy += sum(pull * dy, axis<1>);
    fz += sum(pull * dz, axis<1>);
  }
  ax.store(reshape(fx, shape<B>));
  ay.store(reshape(fy, shape<B>));
  az.store(reshape(fz, shape<B>));
}

/// The normal distribution function, by a polynomial (Abramowitz and Stegun 26.2.17).
template <int B>
Tile<f32, B> normal_below(const Tile<f32, B>& d) {
  auto k = 1.0f / (1.0f + 0.2316419f * abs(d));
  auto polynomial =
      k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
  auto above = 0.39894228f * exp(-0.5f * d * d) * polynomial;
  return where(d > 0.0f, 1.0f - above, above);
}

/// Prices of European options by Black and Scholes.
template <int B>
void black_scholes(Mut<f32, B> call, Mut<f32, B> put, In<f32, dyn> spot, In<f32, dyn> strike, In<f32, dyn> years,
                   Scalar<f32> rate, Scalar<f32> volatility) {
  auto s = spot.load_like(call), k = strike.load_like(call), t = years.load_like(call);
  auto spread = volatility * sqrt(t);
  auto d1 = (log(s / k) + (rate + 0.5f * volatility * volatility) * t) / spread;
  auto d2 = d1 - spread;
  auto paid = k * exp(-rate * t);
  auto n1 = normal_below(d1), n2 = normal_below(d2);
  call.store(s * n1 - paid * n2);
  put.store(paid * (1.0f - n2) - s * (1.0f - n1));
}

/// A complex matrix times a complex vector; real and imaginary parts lie side by side.
template <int R, int C>
void complex_matrix_vector(Mut<f32, R, 2> y, In<f32, dyn, dyn, 2> a, In<f32, dyn, 2> x) {
  auto [i, zero] = y.index();
  auto A = a.tiles(shape<R, C, 2>);
  auto X = x.tiles(shape<C, 2>);
  auto re = zeros<f32, R, 1>(), im = zeros<f32, R, 1>();
  for (auto k : range(A.count(1))) {
    auto t = A.load(i, k, 0);
    auto v = X.load(k, 0);
    auto a_re = reshape(extract(t, shape<R, C, 1>, 0, 0, 0), shape<R, C>);
    auto a_im = reshape(extract(t, shape<R, C, 1>, 0, 0, 1), shape<R, C>);
    auto x_re = reshape(extract(v, shape<C, 1>, 0, 0), shape<1, C>);
    auto x_im = reshape(extract(v, shape<C, 1>, 0, 1), shape<1, C>);
    re += sum(a_re * x_re - a_im * x_im, axis<1>);
    im += sum(a_re * x_im + a_im * x_re, axis<1>);
  }
  y.store(cat(re, im, axis<1>));
}

/// Points of a square from a hash of seed and number: how many of them lie in the quarter of a circle.
template <int B>
void random_pi(Acc<i64, dyn> hits, In<i32, dyn> seeds, Scalar<i32> draws) {
  auto [block] = block_id<1>();
  auto mixed_bits = [](auto h) {
    h = (h ^ (h >> 16u)) * 0x85EBCA6Bu;
    h = (h ^ (h >> 13u)) * 0xC2B2AE35u;
    return h ^ (h >> 16u);
  };
  auto seed = cast<u32>(seeds.tiles(shape<B>).load(block));
  auto inside = iota<i32, B>() + block * B < seeds.dim(0);
  auto count = zeros<i32, B>();
  for (auto k : range(draws)) {
    auto h = mixed_bits(seed + cast<u32>(k) * 0x9E3779B1u);
    auto x = cast<i32>(h & 0x7FFFu), y = cast<i32>(h >> 17u);
    count += where(inside && x * x + y * y < 0x40000000, 1, 0);
  }
  hits.add(0, sum(cast<i64>(count)));
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan heat_3d_plan(const Args& args) {
  const Size l = size_of_case(args, "l"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto heat = normal<f32>(1, l, m, n), conductivity = uniform<f32>(2, 0.1, 1, l, m, n);
  const auto wanted = [=](Size at) {
    const Size i = at / (m * n), j = at / n % m, k = at % n;
    double total = 0;
    const auto flow = [&](Size a, Size b, Size c) {
      total += 0.5 * (conductivity(i, j, k) + conductivity(a, b, c)) * (heat(a, b, c) - heat(i, j, k));
    };
    for (const Size d : {-1, 1}) flow(i + d, j, k), flow(i, j + d, k), flow(i, j, k + d);
    return heat(i, j, k) + static_cast<double>(kStep) * total;
  };
  return plan(
      {3 * bytes_of<f32>(l * m * n)}, outputs(by_offset<f32>(wanted, l, m, n)), inputs(heat, conductivity),
      [](const Stream& on, auto& y, const auto&... in) { kernel<heat_3d<32, 64>>(mut(y), in..., kStep).on(on); });
}

Plan electromagnetic_step_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto hx = normal<f32>(1, m, n), hy = normal<f32>(2, m, n), e = normal<f32>(3, m, n);
  const auto material = uniform<f32>(4, 0.1, 0.5, m, n);
  const auto courant = static_cast<double>(kCourant);
  // Outside of the grid the fields are zero.
  const auto inside = [=](Size i, Size j) { return i >= 0 && j >= 0; };
  const auto next_x = [=](Size i, Size j) { return inside(i, j) ? hx(i, j) - courant * (e(i, j + 1) - e(i, j)) : 0.0; };
  const auto next_y = [=](Size i, Size j) { return inside(i, j) ? hy(i, j) + courant * (e(i + 1, j) - e(i, j)) : 0.0; };
  const auto next_e = [=](Size at) {
    const Size i = at / n, j = at % n;
    return e(i, j) + material(i, j) * (next_y(i, j) - next_y(i - 1, j) - next_x(i, j) + next_x(i, j - 1));
  };
  return plan(
      {7 * bytes_of<f32>(m * n)},
      outputs(by_offset<f32>([=](Size at) { return next_x(at / n, at % n); }, m, n),
              by_offset<f32>([=](Size at) { return next_y(at / n, at % n); }, m, n), by_offset<f32>(next_e, m, n)),
      inputs(hx, hy, e, material),
      [](const Stream& on, auto& x2, auto& y2, auto& e2, const auto& x, const auto& y, const auto& from,
         const auto& of) {
        kernel<magnetic_half<32, 64>>(mut(x2), mut(y2), x, y, from, kCourant).on(on);
        kernel<electric_half<32, 64>>(mut(e2), from, x2, y2, of).on(on);
      });
}

Plan gravity_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto x = normal<f32>(1, n), y = normal<f32>(2, n), z = normal<f32>(3, n);
  const auto mass = uniform<f32>(4, 0.5, 1.5, n);
  const auto along = [=](const auto& p) {
    return [=](Size i) {
      double total = 0;
      for (Size j = 0; j < n; ++j) {
        const double dx = x(j) - x(i), dy = y(j) - y(i), dz = z(j) - z(i);
        const double square = dx * dx + dy * dy + dz * dz + static_cast<double>(kSoftening);
        total += mass(j) * (p(j) - p(i)) / (square * std::sqrt(square));
      }
      return total;
    };
  };
  const double pairs = static_cast<double>(n) * static_cast<double>(n);
  return plan({bytes_of<f32>(7 * n), 20 * pairs},
              outputs(by_offset<f32>(along(x), n), by_offset<f32>(along(y), n), by_offset<f32>(along(z), n)),
              inputs(x, y, z, mass), [](const Stream& on, auto& a, auto& b, auto& c, const auto&... in) {
                kernel<gravity<64, 64>>(mut(a), mut(b), mut(c), in...).on(on);
              });
}

Plan black_scholes_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto spot = uniform<f32>(1, 5, 30, n), strike = uniform<f32>(2, 1, 100, n),
             years = uniform<f32>(3, 0.25, 10, n);
  const auto price = [=](bool call) {
    return [=](Size i) {
      const double s = spot(i), k = strike(i), t = years(i), r = static_cast<double>(kRate);
      const double v = static_cast<double>(kVolatility), spread = v * std::sqrt(t);
      const double d1 = (std::log(s / k) + (r + 0.5 * v * v) * t) / spread, d2 = d1 - spread;
      const auto below = [](double d) { return 0.5 * std::erfc(-d / std::numbers::sqrt2); };
      const double paid = k * std::exp(-r * t);
      return call ? s * below(d1) - paid * below(d2) : paid * below(-d2) - s * below(-d1);
    };
  };
  return plan({5 * bytes_of<f32>(n)}, outputs(by_offset<f32>(price(true), n), by_offset<f32>(price(false), n)),
              inputs(spot, strike, years), [](const Stream& on, auto& a, auto& b, const auto&... in) {
                kernel<black_scholes<kPiece>>(mut(a), mut(b), in..., kRate, kVolatility).on(on);
              });
}

Plan complex_matrix_vector_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto a = normal<f32>(1, m, n, 2);
  const auto x = normal<f32>(2, n, 2);
  const auto wanted = [=](Size at) {
    const Size i = at / 2;
    double s = 0;
    for (Size k = 0; k < n; ++k) {
      s += at % 2 == 0 ? a(i, k, 0) * x(k, 0) - a(i, k, 1) * x(k, 1) : a(i, k, 0) * x(k, 1) + a(i, k, 1) * x(k, 0);
    }
    return s;
  };
  return plan({bytes_of<f32>(2 * m * n + 2 * n + 2 * m)}, outputs(by_offset<f32>(wanted, m, 2)), inputs(a, x),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<complex_matrix_vector<8, 128>>(mut(y), in...).on(on);
              });
}

Plan random_pi_plan(const Args& args) {
  const Size n = size_of_case(args, "n");
  const auto seeds = whole<i32>(1, 0, 2000000000, n);
  const auto wanted = [=](Size) {
    Size hits = 0;
    for (Size i = 0; i < n; ++i) {
      const auto seed = static_cast<std::uint32_t>(seeds(i));
      for (std::uint32_t k = 0; k < kDraws; ++k) {
        const std::uint32_t h = mixed(seed + k * 0x9E3779B1u), x = h & 0x7FFFu, y = h >> 17;
        hits += x * x + y * y < 0x40000000u ? 1 : 0;
      }
    }
    return static_cast<double>(hits);
  };
  return plan({bytes_of<i32>(n)}, outputs(by_offset<i64>(wanted, 1)), inputs(seeds),
              [=](const Stream& on, auto& hits, const auto& from) {
                hits = zeros<i64>({1}).on(on);
                kernel<random_pi<kPiece>>.blocks(ceil_div(n, kPiece))(mut(hits), from, kDraws).on(on);
              });
}

}  // namespace

std::vector<Entry> physics_entries() {
  return {
      entry<heat_3d_plan>("heat_3d", "physics", "l=300 m=320 n=384; l=150 m=501 n=333; l=1001 m=201 n=101",
                          "l=3 m=32 n=64; l=5 m=33 n=41"),
      entry<electromagnetic_step_plan>("electromagnetic_step", "physics", "m=4000 n=5000; m=3001 n=5003; m=15001 n=777",
                                       "m=32 n=72; m=33 n=41"),
      entry<gravity_plan>("gravity", "physics", "n=20000; n=15001; n=7777", "n=160; n=77"),
      entry<black_scholes_plan>("black_scholes", "arithmetic", "n=40000000; n=30000001; n=4000003", "n=16128; n=5001"),
      entry<complex_matrix_vector_plan>("complex_matrix_vector", "matrix_vectors",
                                        "m=8000 n=10000; m=5001 n=12003; m=30001 n=1501", "m=16 n=400; m=7 n=333"),
      entry<random_pi_plan>("random_pi", "random", "n=3000000; n=2000003; n=300007", "n=1088; n=333")};
}

}  // namespace generality
