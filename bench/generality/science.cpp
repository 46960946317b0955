// Steps of simulations and solvers: waves, forces over lists of neighbours, sparse and tridiagonal systems, charges on
// a grid, derivatives, a stage of a Fourier transform.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cases.hpp"

namespace generality {
namespace {

constexpr float kBox = 20.0f;  // of lennard_jones: its length, and how far forces reach
constexpr float kReach = 2.5f;

/// u'' = c^2 (the Laplacian of u), one step of time: fourth order in space, second in time; zeros around the field.
template <int BM, int BN>
void wave_step(Mut<f32, BM, BN> next, In<f32, dyn, dyn> u, In<f32, dyn, dyn> before, In<f32, dyn, dyn> speed) {
  auto [i, j] = next.origin();
  auto at = [&](int di, int dj) { return u.load_at(shape<BM, BN>, i + di, j + dj); };
  auto here = u.load_like(next);
  auto near = at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1);
  auto far = at(-2, 0) + at(2, 0) + at(0, -2) + at(0, 2);
  auto laplacian = (16.0f * near - far - 60.0f * here) / 12.0f;
  auto c = speed.load_like(next);
  next.store(2.0f * here - before.load_like(next) + c * c * laplacian);
}

/// The half of a Gauss-Seidel step that replaces the places whose row and column add up to an even number.
template <int BM, int BN>
void red_black(Mut<f32, BM, BN> y, In<f32, dyn, dyn> x, In<f32, dyn, dyn> f) {
  auto [i, j] = y.origin();
  auto at = [&](int di, int dj) { return x.load_at(shape<BM, BN>, i + di, j + dj); };
  auto relaxed = 0.25f * (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) - f.load_like(y));
  auto place = iota<i32, BM, 1>(axis<0>) + i + iota<i32, 1, BN>(axis<1>) + j;
  y.store(where(place % 2 == 0, relaxed, x.load_like(y)));
}

// The nine directions of lattice_boltzmann: columns, rows, weights.
constexpr int kColumns[] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, kRows[] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
constexpr float kWeights[] = {4.0f / 9,  1.0f / 9,  1.0f / 9,  1.0f / 9, 1.0f / 9,
                              1.0f / 36, 1.0f / 36, 1.0f / 36, 1.0f / 36};
constexpr float kRelaxation = 1.2f;

/// Flow on a lattice (D2Q9): what arrives from each of nine directions moves towards the equilibrium of the place.
template <int BM, int BN>
void lattice_boltzmann(Mut<f32, 16, BM, BN> y, In<f32, 9, dyn, dyn> f) {
  auto [zero, i, j] = y.origin();
  std::vector<Tile<f32, 1, BM, BN>> g;
  for (int q = 0; q < 9; ++q) g.push_back(f.load_at(shape<1, BM, BN>, q, i - kRows[q], j - kColumns[q]));
  auto density = zeros<f32, 1, BM, BN>(), u = zeros<f32, 1, BM, BN>(), v = zeros<f32, 1, BM, BN>();
  for (std::size_t q = 0; q < 9; ++q) {
    density += g[q];
    u += static_cast<float>(kColumns[q]) * g[q];
    v += static_cast<float>(kRows[q]) * g[q];
  }
  u = u / density;
  v = v / density;
  auto parts = y.sub(shape<1, BM, BN>);
  for (int q = 0; q < 9; ++q) {
    auto here = g[static_cast<std::size_t>(q)];
    auto c = 3.0f * (static_cast<float>(kColumns[q]) * u + static_cast<float>(kRows[q]) * v);
    auto equilibrium = kWeights[q] * density * (1.0f + c + 0.5f * c * c - 1.5f * (u * u + v * v));
    parts.store(q, 0, 0, here + kRelaxation * (equilibrium - here));
  }
}

/// Derivatives along the three axes: central differences, one-sided at the faces.
template <int BM, int BN>
void field_gradient(Mut<f32, 1, BM, BN> dz, Mut<f32, 1, BM, BN> dy, Mut<f32, 1, BM, BN> dx, In<f32, dyn, dyn, dyn> f) {
  auto [i, j, k] = dz.origin();
  auto here = f.load_like(dz);
  auto at = [&](int di, int dj, int dk) { return f.load_at(shape<1, BM, BN>, i + di, j + dj, k + dk); };
  auto difference = [&](auto place, auto extent, auto below, auto above) {
    auto first = place == 0, last = place == extent - 1;
    auto d = where(last, here, above) - where(first, here, below);
    return where(first || last, d, 0.5f * d);
  };
  dz.store(difference(i, f.dim(0), at(-1, 0, 0), at(1, 0, 0)));
  dy.store(difference(iota<i32, 1, BM, 1>(axis<1>) + j, f.dim(1), at(0, -1, 0), at(0, 1, 0)));
  dx.store(difference(iota<i32, 1, 1, BN>(axis<2>) + k, f.dim(2), at(0, 0, -1), at(0, 0, 1)));
}

/// Forces of Lennard-Jones between each atom and those of its list (-1: none), in a periodic box.
template <int B, int K>
void lennard_jones(Mut<f32, B> fx, Mut<f32, B> fy, Mut<f32, B> fz, In<f32, dyn> x, In<f32, dyn> y, In<f32, dyn> z,
                   In<i32, dyn, dyn> neighbours) {
  require(neighbours.dim(1) <= K, "a list must fit in one tile");
  auto [i] = fx.index();
  auto list = neighbours.tiles(shape<B, K>, pad(-1)).load(i, 0);
  auto distance = [&](In<f32, dyn>& p) {
    auto d = reshape(p.load_like(fx), shape<B, 1>) - p.gather(list);
    return d - kBox * floor(d / kBox + 0.5f);
  };
  auto dx = distance(x), dy = distance(y), dz = distance(z);
  auto square = max(dx * dx + dy * dy + dz * dz, 0.8f);
  auto r2 = 1.0f / square;
  auto r6 = r2 * r2 * r2;
  auto force = where(list >= 0 && square < kReach * kReach, 24.0f * r2 * r6 * (2.0f * r6 - 1.0f), 0.0f);
  fx.store(reshape(sum(force * dx, axis<1>), shape<B>));
  fy.store(reshape(sum(force * dy, axis<1>), shape<B>));
  fz.store(reshape(sum(force * dz, axis<1>), shape<B>));
}

/// A sparse matrix by rows (CSR) times a vector. Row i has the elements from limits[i] on, below limits[i + 1].
template <int C>
void csr_product(Mut<f32, 1> y, In<i32, dyn> limits, In<i32, dyn> columns, In<f32, dyn> values, In<f32, dyn> x) {
  auto [row] = y.index();
  auto first = sum(limits.load_at(shape<1>, row)), last = sum(limits.load_at(shape<1>, row + 1));
  auto total = zeros<f32, C>();
  for (auto start : range(first, last, C)) {
    auto inside = iota<i32, C>() + start < last;
    auto factors = x.gather(columns.load_at(shape<C>, start));
    total += where(inside, values.load_at(shape<C>, start) * factors, 0.0f);
  }
  y.store(full<f32, 1>(sum(total)));
}

/// A tridiagonal system in each column, by Thomas' two sweeps; `ratio` is what the first leaves to the second.
template <int N, int B>
void tridiagonal(Mut<f32, N, B> y, Mut<f32, N, B> ratio, In<f32, dyn, dyn> lower, In<f32, dyn, dyn> diagonal,
                 In<f32, dyn, dyn> upper, In<f32, dyn, dyn> right) {
  require(y.dim(0) <= N, "a system must fit in one piece");
  auto [zero, j] = y.index();
  auto A = lower.tiles(shape<1, B>), D = diagonal.tiles(shape<1, B>);
  auto C = upper.tiles(shape<1, B>), R = right.tiles(shape<1, B>);
  auto results = y.sub(shape<1, B>), ratios = ratio.sub(shape<1, B>);
  auto r = zeros<f32, 1, B>(), t = zeros<f32, 1, B>();
  for (auto i : range(y.dim(0))) {
    auto a = A.load(i, j);
    auto divisor = D.load(i, j) - a * r;
    r = C.load(i, j) / divisor;
    t = (R.load(i, j) - a * t) / divisor;
    ratios.store(i, 0, r);
    results.store(i, 0, t);
  }
  t = zeros<f32, 1, B>();
  for (auto k : range(y.dim(0))) {
    auto i = y.dim(0) - 1 - k;
    t = results.load(i, 0) - ratios.load(i, 0) * t;
    results.store(i, 0, t);
  }
}

/// Each charge is shared by the four nodes of the grid around it.
template <int B>
void charges_to_grid(Acc<f32, dyn, dyn> grid, In<f32, dyn> x, In<f32, dyn> y, In<f32, dyn> charges) {
  auto [n] = block_id<1>();
  auto h = x.tiles(shape<B>).load(n), w = y.tiles(shape<B>).load(n), q = charges.tiles(shape<B>).load(n);
  auto i = cast<i32>(floor(h)), j = cast<i32>(floor(w));
  auto a = h - floor(h), b = w - floor(w);
  grid.add(i, j, q * (1.0f - a) * (1.0f - b));
  grid.add(i, j + 1, q * (1.0f - a) * b);
  grid.add(i + 1, j, q * a * (1.0f - b));
  grid.add(i + 1, j + 1, q * a * b);
}

/// A stage of a Fourier transform of radix 4, by frequencies: sums of the four quarters, times the roots of unity.
template <int Q>
void radix_four(Mut<f32, 1, 4, Q> re, Mut<f32, 1, 4, Q> im, In<f32, dyn, 4, dyn> x_re, In<f32, dyn, 4, dyn> x_im,
                In<f32, 4, dyn> w_re, In<f32, 4, dyn> w_im) {
  require(x_re.dim(2) <= Q, "a quarter must fit in one piece");
  auto [row, zero, none] = re.index();
  auto xr = [&](int k) { return x_re.load_at(shape<1, 1, Q>, row, k, 0); };
  auto xi = [&](int k) { return x_im.load_at(shape<1, 1, Q>, row, k, 0); };
  auto all_re = re.sub(shape<1, 1, Q>), all_im = im.sub(shape<1, 1, Q>);
  auto store = [&](int k, auto r, auto i) {
    auto wr = reshape(w_re.load_at(shape<1, Q>, k, 0), shape<1, 1, Q>);
    auto wi = reshape(w_im.load_at(shape<1, Q>, k, 0), shape<1, 1, Q>);
    all_re.store(0, k, 0, r * wr - i * wi);
    all_im.store(0, k, 0, r * wi + i * wr);
  };
  auto sr = xr(0) + xr(2), si = xi(0) + xi(2), dr = xr(0) - xr(2), di = xi(0) - xi(2);
  auto tr = xr(1) + xr(3), ti = xi(1) + xi(3), er = xr(1) - xr(3), ei = xi(1) - xi(3);
  store(0, sr + tr, si + ti);
  store(1, dr + ei, di - er);
  store(2, sr - tr, si - ti);
  store(3, dr - ei, di + er);
}

// -- the cases --------------------------------------------------------------------------------------------------------

Plan wave_step_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto u = normal<f32>(1, m, n), before = normal<f32>(2, m, n), speed = uniform<f32>(3, 0.1, 0.7, m, n);
  const auto wanted = [=](Size at) {
    const Size i = at / n, j = at % n;
    double laplacian = -60 * u(i, j);
    for (const Size d : {-1, 1}) { laplacian += 16 * (u(i + d, j) + u(i, j + d)) - u(i + 2 * d, j) - u(i, j + 2 * d); }
    return 2 * u(i, j) - before(i, j) + speed(i, j) * speed(i, j) * laplacian / 12;
  };
  return plan({4 * bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, m, n)), inputs(u, before, speed),
              [](const Stream& on, auto& y, const auto&... in) { kernel<wave_step<32, 64>>(mut(y), in...).on(on); });
}

Plan red_black_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = normal<f32>(1, m, n), f = normal<f32>(2, m, n);
  const auto wanted = [=](Size at) {
    const Size i = at / n, j = at % n;
    if ((i + j) % 2 != 0) return x(i, j);
    return (x(i - 1, j) + x(i + 1, j) + x(i, j - 1) + x(i, j + 1) - f(i, j)) / 4;
  };
  return plan({3 * bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, m, n)), inputs(x, f),
              [](const Stream& on, auto& y, const auto&... in) { kernel<red_black<32, 64>>(mut(y), in...).on(on); });
}

Plan lattice_boltzmann_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto f = uniform<f32>(1, 0.1, 1, 9, m, n);
  const auto wanted = [=](Size at) {
    const Size i = at / n % m, j = at % n;
    const auto arrived = [=](std::size_t q) { return f(q, i - kRows[q], j - kColumns[q]); };
    double density = 0, u = 0, v = 0;
    for (std::size_t q = 0; q < 9; ++q) {
      density += arrived(q);
      u += kColumns[q] * arrived(q);
      v += kRows[q] * arrived(q);
    }
    u /= density;
    v /= density;
    const auto q = static_cast<std::size_t>(at / (m * n));
    const double c = 3 * (kColumns[q] * u + kRows[q] * v);
    const double equilibrium =
        static_cast<double>(kWeights[q]) * density * (1 + c + 0.5 * c * c - 1.5 * (u * u + v * v));
    return arrived(q) + static_cast<double>(kRelaxation) * (equilibrium - arrived(q));
  };
  return plan(
      {18 * bytes_of<f32>(m * n)}, outputs(by_offset<f32>(wanted, 9, m, n)), inputs(f),
      [](const Stream& on, auto& y, const auto& from) { kernel<lattice_boltzmann<8, 64>>(mut(y), from).on(on); });
}

Plan field_gradient_plan(const Args& args) {
  const Size depth = size_of_case(args, "depth"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto f = normal<f32>(1, depth, m, n);
  const auto along = [=](int axis) {
    const auto wanted = [=](Size at) {
      const std::array<Size, 3> place{at / (m * n), at / n % m, at % n};
      auto below = place, above = place;
      const auto a = static_cast<std::size_t>(axis);
      below[a] = std::max<Size>(place[a] - 1, 0);
      above[a] = std::min(place[a] + 1, f.dims[a] - 1);
      return (f(above[0], above[1], above[2]) - f(below[0], below[1], below[2])) /
             static_cast<double>(above[a] - below[a]);
    };
    return by_offset<f32>(wanted, depth, m, n);
  };
  return plan({4 * bytes_of<f32>(depth * m * n)}, outputs(along(0), along(1), along(2)), inputs(f),
              [](const Stream& on, auto& dz, auto& dy, auto& dx, const auto& from) {
                kernel<field_gradient<16, 64>>(mut(dz), mut(dy), mut(dx), from).on(on);
              });
}

Plan lennard_jones_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), length = size_of_case(args, "length");
  const auto x = uniform<f32>(1, 0, 6, n), y = uniform<f32>(2, 0, 6, n), z = uniform<f32>(3, 17, 23, n);
  const auto list = whole<i32>(4, -1, n, n, length);
  const auto force = [=](const Input<f32, 1>& axis) {
    const auto wanted = [=](Size i) {
      double total = 0;
      for (Size k = 0; k < length; ++k) {
        const auto other = static_cast<Size>(list(i, k));
        if (other < 0) continue;
        const auto distance = [&](const Input<f32, 1>& p) {
          const double d = p(i) - p(other), box = static_cast<double>(kBox);
          return d - box * std::floor(d / box + 0.5);
        };
        const double dx = distance(x), dy = distance(y), dz = distance(z);
        const double square = std::max(dx * dx + dy * dy + dz * dz, static_cast<double>(0.8f));
        const double r6 = 1 / (square * square * square);
        if (square < static_cast<double>(kReach * kReach)) total += 24 / square * r6 * (2 * r6 - 1) * distance(axis);
      }
      return total;
    };
    return by_offset<f32>(wanted, n).within(1e-4);  // of forces that cancel
  };
  return plan({bytes_of<f32>(n * (6 + length))}, outputs(force(x), force(y), force(z)), inputs(x, y, z, list),
              [](const Stream& on, auto& fx, auto& fy, auto& fz, const auto&... in) {
                kernel<lennard_jones<32, 64>>(mut(fx), mut(fy), mut(fz), in...).on(on);
              });
}

Plan csr_product_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), length = size_of_case(args, "length"), all = (rows + 1) * length;
  const auto limits = steps(1, length, rows + 1);
  const auto columns = whole<i32>(2, 0, rows, all);
  const auto values = normal<f32>(3, all), x = normal<f32>(4, rows);
  const auto wanted = [=](Size i) {
    double s = 0;
    for (auto k = static_cast<Size>(limits(i)); k < static_cast<Size>(limits(i + 1)); ++k) {
      s += values(k) * x(static_cast<Size>(columns(k)));
    }
    return s;
  };
  return plan({bytes_of<f32>(2 * all + 3 * rows)}, outputs(by_offset<f32>(wanted, rows)),
              inputs(limits, columns, values, x),
              [](const Stream& on, auto& y, const auto&... in) { kernel<csr_product<64>>(mut(y), in...).on(on); });
}

Plan tridiagonal_plan(const Args& args) {
  const Size n = size_of_case(args, "n"), systems = size_of_case(args, "systems");
  const auto lower = uniform<f32>(1, -1, 1, n, systems), diagonal = uniform<f32>(2, 2.5, 4, n, systems);
  const auto upper = uniform<f32>(3, -1, 1, n, systems), right = normal<f32>(4, n, systems);
  const auto wanted = [=](Size at) {
    const Size row = at / systems, j = at % systems;
    std::vector<double> ratios, results;
    double r = 0, t = 0;
    for (Size i = 0; i < n; ++i) {
      const double divisor = diagonal(i, j) - lower(i, j) * r;
      t = (right(i, j) - lower(i, j) * t) / divisor;
      r = upper(i, j) / divisor;
      ratios.push_back(r);
      results.push_back(t);
    }
    t = 0;
    for (Size i = n - 1; i >= row; --i)
      t = results[static_cast<std::size_t>(i)] - ratios[static_cast<std::size_t>(i)] * t;
    return t;
  };
  return plan({5 * bytes_of<f32>(n * systems)}, outputs(by_offset<f32>(wanted, n, systems)),
              inputs(lower, diagonal, upper, right), [](const Stream& on, auto& y, const auto&... in) {
                auto ratio = empty_like(y).on(on);
                kernel<tridiagonal<512, 128>>(mut(y), mut(ratio), in...).on(on);
              });
}

Plan charges_to_grid_plan(const Args& args) {
  const Size count = size_of_case(args, "count"), m = size_of_case(args, "m"), n = size_of_case(args, "n");
  const auto x = uniform<f32>(1, 0, static_cast<double>(m), count);
  const auto y = uniform<f32>(2, 0, static_cast<double>(n), count);
  const auto charges = normal<f32>(3, count);
  auto grid = std::make_shared<std::vector<double>>();
  const auto wanted = [=](Size at) {
    if (grid->empty()) {
      grid->assign(static_cast<std::size_t>(m * n), 0.0);
      for (Size p = 0; p < count; ++p) {
        const double h = x.at(p), w = y.at(p), q = charges.at(p), a = h - std::floor(h), b = w - std::floor(w);
        const auto i = static_cast<Size>(h), j = static_cast<Size>(w);
        const auto add = [&](Size row, Size column, double value) {
          if (row < m && column < n) (*grid)[static_cast<std::size_t>(row * n + column)] += value;
        };
        add(i, j, q * (1 - a) * (1 - b));
        add(i, j + 1, q * (1 - a) * b);
        add(i + 1, j, q * a * (1 - b));
        add(i + 1, j + 1, q * a * b);
      }
    }
    return (*grid)[static_cast<std::size_t>(at)];
  };
  return plan({bytes_of<f32>(3 * count + m * n)}, outputs(by_offset<f32>(wanted, m, n).within(1e-4)),
              inputs(x, y, charges), [=](const Stream& on, auto& grid_sums, const auto&... in) {
                grid_sums = zeros<f32>({m, n}).on(on);
                kernel<charges_to_grid<1024>>.blocks(ceil_div(count, 1024))(mut(grid_sums), in...).on(on);
              });
}

Plan radix_four_plan(const Args& args) {
  const Size rows = size_of_case(args, "rows"), quarter = size_of_case(args, "quarter");
  const auto re = normal<f32>(1, rows, 4, quarter), im = normal<f32>(2, rows, 4, quarter);
  const auto w_re = uniform<f32>(3, -1, 1, 4, quarter), w_im = uniform<f32>(4, -1, 1, 4, quarter);
  const auto part = [=](bool imaginary) {
    const auto wanted = [=](Size at) {
      const Size row = at / (4 * quarter), k = at / quarter % 4, p = at % quarter;
      constexpr int kCosines[] = {1, 0, -1, 0}, kSines[] = {0, -1, 0, 1};  // of -i to a power
      double r = 0, i = 0;
      for (Size j = 0; j < 4; ++j) {
        const double c = kCosines[j * k % 4], s = kSines[j * k % 4];
        r += re(row, j, p) * c - im(row, j, p) * s;
        i += re(row, j, p) * s + im(row, j, p) * c;
      }
      return imaginary ? r * w_im(k, p) + i * w_re(k, p) : r * w_re(k, p) - i * w_im(k, p);
    };
    return by_offset<f32>(wanted, rows, 4, quarter);
  };
  return plan({bytes_of<f32>(16 * rows * quarter)}, outputs(part(false), part(true)), inputs(re, im, w_re, w_im),
              [](const Stream& on, auto& r, auto& i, const auto&... in) {
                kernel<radix_four<1024>>(mut(r), mut(i), in...).on(on);
              });
}

}  // namespace

std::vector<Entry> science_entries() {
  return {entry<wave_step_plan>("wave_step", "stencils", "m=6000 n=7000; m=3001 n=11003; m=20001 n=777",
                                "m=48 n=200; m=37 n=71"),
          entry<red_black_plan>("red_black", "stencils", "m=8000 n=7500; m=5001 n=9003; m=30001 n=777",
                                "m=96 n=100; m=37 n=71"),
          entry<lattice_boltzmann_plan>("lattice_boltzmann", "physics", "m=2000 n=3000; m=1501 n=3333; m=9001 n=333",
                                        "m=16 n=200; m=13 n=71"),
          entry<field_gradient_plan>("field_gradient", "stencils",
                                     "depth=200 m=300 n=700; depth=100 m=501 n=533; depth=900 m=101 n=203",
                                     "depth=3 m=20 n=140; depth=4 m=19 n=71"),
          entry<lennard_jones_plan>("lennard_jones", "physics",
                                    "n=500000 length=60; n=400003 length=51; n=900001 length=20",
                                    "n=800 length=60; n=333 length=51"),
          entry<csr_product_plan>("csr_product", "graphs",
                                  "rows=1000000 length=50; rows=2000003 length=13; rows=50001 length=301",
                                  "rows=64 length=50; rows=33 length=7"),
          entry<tridiagonal_plan>("tridiagonal", "factorisations",
                                  "n=400 systems=65000; n=333 systems=70001; n=501 systems=10003",
                                  "n=40 systems=200; n=33 systems=77"),
          entry<charges_to_grid_plan>(
              "charges_to_grid", "scatters",
              "count=16000000 m=2000 n=1500; count=12000001 m=777 n=555; count=3000001 m=5001 n=3333",
              "count=8192 m=20 n=30; count=3001 m=13 n=11"),
          entry<radix_four_plan>("radix_four", "signals",
                                 "rows=16000 quarter=750; rows=20001 quarter=555; rows=50001 quarter=133",
                                 "rows=3 quarter=750; rows=2 quarter=333")};
}

}  // namespace generality
