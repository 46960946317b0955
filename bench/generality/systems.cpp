// Many small dense systems, some for each block, in registers: factorisations, triangular solves, inverses,
// determinants, eigenvectors, exponentials.
#include <algorithm>
#include <cmath>
#include <vector>

#include "cases.hpp"

namespace generality {
namespace {

/// Column k of the matrices.
template <class T, int B, int M, int N>
Tile<T, B, M, 1> column(const Tile<T, B, M, N>& a, int k) {
  return extract(a, shape<B, M, 1>, 0, 0, k);
}
template <class T, int B, int M, int N>
Tile<T, B, 1, N> row(const Tile<T, B, M, N>& a, int k) {
  return extract(a, shape<B, 1, N>, 0, k, 0);
}

/// The matrices with `shift` more on the diagonal.
template <class T, int B, int N>
Tile<T, B, N, N> damped(const Tile<T, B, N, N>& x, const Scalar<T>& shift) {
  auto diagonal = iota<i32, 1, N, 1>(axis<1>) == iota<i32, 1, 1, N>(axis<2>);
  return where(diagonal, x + shift, x);
}

/// The lower factor of x + x^T + shift I, column after column.
template <class T, int B, int N>
void cholesky(Mut<T, B, N, N> y, In<T, dyn, N, N> x, Scalar<T> shift) {
  auto a = damped(x.load_like(y) + transpose(x.load_like(y)), shift);
  auto rows = iota<i32, 1, N, 1>(axis<1>), columns = iota<i32, 1, 1, N>(axis<2>);
  auto factor = zeros<T, B, N, N>();
  for (int k = 0; k < N; ++k) {
    auto c = column(a, k);
    auto l = where(rows >= k, c * rsqrt(row(c, k)), 0.0f);
    factor = where(columns == k, l, factor);
    a = a - l * transpose(l);
  }
  y.store(factor);
}

/// Both factors in one matrix, without exchanging rows: the lower one has ones on its diagonal.
template <int B, int N>
void lu_factors(Mut<f32, B, N, N> y, In<f32, dyn, N, N> x, Scalar<f32> shift) {
  auto a = damped(x.load_like(y), shift);
  auto rows = iota<i32, 1, N, 1>(axis<1>), columns = iota<i32, 1, 1, N>(axis<2>);
  for (int k = 0; k < N; ++k) {
    auto l = where(rows > k, column(a, k) / column(row(a, k), k), 0.0f);
    a = where(rows > k && columns > k, a - l * row(a, k), a);
    a = where(columns == k && rows > k, l, a);
  }
  y.store(a);
}

/// This elimination is a loop on the device.
template <int B, int N>
void determinant(Mut<f32, B> y, In<f32, dyn, N, N> x, Scalar<f32> shift) {
  auto [i] = y.index();
  auto a = damped(x.tiles(shape<B, N, N>).load(i, 0, 0), shift);
  auto rows = iota<i32, 1, N, 1>(axis<1>), columns = iota<i32, 1, 1, N>(axis<2>);
  auto product = ones<f32, B, 1, 1>();
  for (auto k : range(N)) {
    auto pivot_row = sum(where(rows == k, a, 0.0f), axis<1>);
    auto pivot_column = sum(where(columns == k, a, 0.0f), axis<2>);
    auto pivot = sum(where(columns == k, pivot_row, 0.0f), axis<2>);
    product *= pivot;
    a = where(rows > k, a - pivot_column / pivot * pivot_row, a);
  }
  y.store(reshape(product, shape<B>));
}

/// L x = b for matrices with a lower triangle, and M right sides each, from the first row on.
template <int B, int N, int M>
void solve_lower(Mut<f32, B, N, M> y, In<f32, dyn, N, N> lower, In<f32, dyn, N, M> right, Scalar<f32> shift) {
  auto [i, zero, none] = y.index();
  auto l = damped(lower.tiles(shape<B, N, N>).load(i, 0, 0), shift);
  auto b = right.load_like(y);
  auto rows = iota<i32, 1, N, 1>(axis<1>);
  for (int k = 0; k < N; ++k) {
    auto c = column(l, k);
    auto t = row(b, k) / row(c, k);
    b = where(rows == k, t, where(rows > k, b - c * t, b));
  }
  y.store(b);
}

/// U x = b for matrices with an upper triangle, and one right side each, from the last row on.
template <int B, int N>
void solve_upper(Mut<f64, B, N, 1> y, In<f64, dyn, N, N> upper, In<f64, dyn, N, 1> right, Scalar<f64> shift) {
  auto [i, zero, none] = y.index();
  auto u = damped(upper.tiles(shape<B, N, N>).load(i, 0, 0), shift);
  auto b = right.load_like(y);
  auto rows = iota<i32, 1, N, 1>(axis<1>);
  for (int k = N - 1; k >= 0; --k) {
    auto c = column(u, k);
    auto t = row(b, k) / row(c, k);
    b = where(rows == k, t, where(rows < k, b - c * t, b));
  }
  y.store(b);
}

/// Inverses by Gauss and Jordan, without exchanging rows.
template <class T, int B, int N>
void inverse(Mut<T, B, N, N> y, In<T, dyn, N, N> x, Scalar<T> shift) {
  auto a = damped(x.load_like(y), shift);
  auto rows = iota<i32, 1, N, 1>(axis<1>), columns = iota<i32, 1, 1, N>(axis<2>);
  auto b = where(rows == columns, 1.0f, zeros<T, B, N, N>());
  for (int k = 0; k < N; ++k) {
    auto pivot = column(row(a, k), k);
    auto a_row = row(a, k) / pivot, b_row = row(b, k) / pivot;
    auto factor = column(a, k);
    a = where(rows == k, a_row, a - factor * a_row);
    b = where(rows == k, b_row, b - factor * b_row);
  }
  y.store(b);
}

/// Orthonormal columns by Gram and Schmidt.
template <int B, int M, int N>
void orthonormal(Mut<f32, B, M, N> y, In<f32, dyn, M, N> x) {
  auto a = x.load_like(y);
  auto columns = iota<i32, 1, 1, N>(axis<2>);
  for (int k = 0; k < N; ++k) {
    auto c = column(a, k);
    auto q = c * rsqrt(sum(c * c, axis<1>));
    auto shares = sum(q * a, axis<1>);
    a = where(columns == k, q, where(columns > k, a - q * shares, a));
  }
  y.store(a);
}

/// The exponential of matrices: 8 terms of the series, then the square four times.
template <int B, int N>
void matrix_exponential(Mut<f32, B, N, N> y, In<f32, dyn, N, N> x) {
  auto a = x.load_like(y) * (1.0f / 16.0f);
  auto identity = where(iota<i32, 1, N, 1>(axis<1>) == iota<i32, 1, 1, N>(axis<2>), 1.0f, zeros<f32, B, N, N>());
  auto result = identity;
  for (int k = 8; k > 0; --k)
    result = identity + mma(a, result, zeros<f32, B, N, N>()) * (1.0f / static_cast<float>(k));
  for (int k = 0; k < 4; ++k) result = mma(result, result, zeros<f32, B, N, N>());
  y.store(result);
}

/// The eigenvector of the largest eigenvalue, by 32 steps of the power iteration.
template <int B, int N>
void power_iteration(Mut<f32, B, N> y, In<f32, dyn, N, N> x) {
  auto [i, zero] = y.index();
  auto a = x.tiles(shape<B, N, N>).load(i, 0, 0);
  auto v = ones<f32, B, 1, N>();
  for (auto k : range(32)) {
    (void)k;
    auto t = transpose(sum(a * v, axis<2>));
    v = t * rsqrt(sum(t * t, axis<2>));
  }
  y.store(reshape(v, shape<B, N>));
}

// -- the cases --------------------------------------------------------------------------------------------------------

/// A square matrix in f64, row-major.
struct Square {
  Size n;
  std::vector<double> a;
  double& operator()(Size i, Size j) { return a[static_cast<std::size_t>(i * n + j)]; }
};

/// Matrix s of the input.
template <class T>
Square square_of(const Input<T, 3>& x, Size s) {
  Square m{x.dims[1], {}};
  for (Size k = 0; k < m.n * m.n; ++k) m.a.push_back(x.at(s * m.n * m.n + k));
  return m;
}

/// An output of matrices: those that of(s) gives, one computation for all lines of a matrix.
template <class T, class F>
auto matrices(F of, Size count, Size m, Size n) {
  struct Last {
    Size s = -1;
    std::vector<double> a;
  };
  auto last = std::make_shared<Last>();
  const auto wanted = [=](Size at) {
    if (at / (m * n) != last->s) *last = {at / (m * n), of(at / (m * n))};
    return last->a[static_cast<std::size_t>(at % (m * n))];
  };
  return by_offset<T>(wanted, count, m, n);
}

/// x + shift I, or x + x^T + shift I.
template <class T>
Square damped_of(const Input<T, 3>& x, Size s, double shift, bool symmetric = false) {
  Square m = square_of(x, s), sum = m;
  for (Size i = 0; i < m.n; ++i) {
    for (Size j = 0; j < m.n; ++j) sum(i, j) = m(i, j) + (symmetric ? m(j, i) : 0) + (i == j ? shift : 0);
  }
  return sum;
}

/// Both factors in one matrix.
Square factors_of(Square a) {
  for (Size k = 0; k < a.n; ++k) {
    for (Size i = k + 1; i < a.n; ++i) {
      a(i, k) /= a(k, k);
      for (Size j = k + 1; j < a.n; ++j) a(i, j) -= a(i, k) * a(k, j);
    }
  }
  return a;
}

Square product_of(Square a, Square b) {
  Square c = a;
  for (Size i = 0; i < a.n; ++i) {
    for (Size j = 0; j < a.n; ++j) c(i, j) = sum_over(a.n, [&](Size k) { return a(i, k) * b(k, j); });
  }
  return c;
}

/// b becomes the solution of a b' = b, m columns.
std::vector<double> solved(Square a, std::vector<double> b, Size m) {
  Square f = factors_of(std::move(a));
  const auto at = [&](Size i, Size j) -> double& { return b[static_cast<std::size_t>(i * m + j)]; };
  for (Size j = 0; j < m; ++j) {
    for (Size i = 0; i < f.n; ++i) at(i, j) -= sum_over(i, [&](Size k) { return f(i, k) * at(k, j); });
    for (Size i = f.n - 1; i >= 0; --i) {
      at(i, j) -= sum_over(f.n - 1 - i, [&](Size k) { return f(i, i + 1 + k) * at(i + 1 + k, j); });
      at(i, j) /= f(i, i);
    }
  }
  return b;
}

struct Systems {
  Size count, n;
  Systems(const Args& args, Size n) : count(size_of_case(args, "systems")), n(n) {}
  template <class T>
  Cost cost(Size numbers) const {
    return {bytes_of<T>(count * numbers)};
  }
  template <class T>
  Input<T, 3> squares(double low = -1) const {
    return uniform<T>(1, low, 1, count, n, n);
  }
};

template <class T, int B, int N>
Plan cholesky_plan(const Args& args) {
  const Systems p(args, N);
  const auto x = p.squares<T>();
  constexpr T kShift = T(2.0f * N);
  const auto factor = [=](Size s) {
    Square a = damped_of(x, s, static_cast<double>(kShift), true), l = a;
    for (Size j = 0; j < N; ++j) {
      for (Size i = 0; i < N; ++i) {
        const double rest = a(i, j) - sum_over(j, [&](Size k) { return l(i, k) * l(j, k); });
        l(i, j) = i < j ? 0 : i == j ? std::sqrt(rest) : rest / l(j, j);
      }
    }
    return l.a;
  };
  return plan(
      p.cost<T>(2 * N * N), outputs(matrices<T>(factor, p.count, N, N)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<cholesky<T, B, N>>(mut(y), from, kShift).on(on); });
}

Plan lu_factors_plan(const Args& args) {
  const Systems p(args, 16);
  const auto x = p.squares<f32>();
  return plan(
      p.cost<f32>(512),
      outputs(matrices<f32>([=](Size s) { return factors_of(damped_of(x, s, 16)).a; }, p.count, 16, 16)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<lu_factors<2, 16>>(mut(y), from, 16.0f).on(on); });
}

Plan determinant_plan(const Args& args) {
  const Systems p(args, 8);
  const auto x = p.squares<f32>();
  const auto wanted = [=](Size s) {
    Square f = factors_of(damped_of(x, s, 4));
    double product = 1;
    for (Size k = 0; k < f.n; ++k) product *= f(k, k);
    return product;
  };
  return plan(
      p.cost<f32>(65), outputs(by_offset<f32>(wanted, p.count).within(1e-4)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<determinant<8, 8>>(mut(y), from, 4.0f).on(on); });
}

/// The lower or upper triangle of x + shift I.
template <class T>
Square triangle_of(const Input<T, 3>& x, Size s, double shift, bool lower) {
  Square a = damped_of(x, s, shift);
  for (Size i = 0; i < a.n; ++i) {
    for (Size j = 0; j < a.n; ++j) a(i, j) = (lower ? j <= i : j >= i) ? a(i, j) : 0;
  }
  return a;
}

template <class T, int M>
auto solutions(const Input<T, 3>& x, const Input<T, 3>& right, double shift, bool lower) {
  const auto solution = [=](Size s) {
    std::vector<double> b;
    for (Size k = 0; k < x.dims[1] * M; ++k) b.push_back(right.at(s * x.dims[1] * M + k));
    return solved(triangle_of(x, s, shift, lower), b, M);
  };
  return matrices<T>(solution, x.dims[0], x.dims[1], Size{M});
}

Plan solve_lower_plan(const Args& args) {
  const Systems p(args, 32);
  const auto x = p.squares<f32>();
  const auto right = normal<f32>(2, p.count, 32, 16);
  return plan(p.cost<f32>(2048), outputs(solutions<f32, 16>(x, right, 32, true)), inputs(x, right),
              [](const Stream& on, auto& y, const auto&... in) {
                kernel<solve_lower<1, 32, 16>>(mut(y), in..., 32.0f).on(on);
              });
}

Plan solve_upper_plan(const Args& args) {
  const Systems p(args, 16);
  const auto x = p.squares<f64>();
  const auto right = normal<f64>(2, p.count, 16, 1);
  return plan(
      p.cost<f64>(288), outputs(solutions<f64, 1>(x, right, 16, false)), inputs(x, right),
      [](const Stream& on, auto& y, const auto&... in) { kernel<solve_upper<4, 16>>(mut(y), in..., 16.0).on(on); });
}

template <class T, int B, int N>
Plan inverse_plan(const Args& args) {
  const Systems p(args, N);
  const auto x = p.squares<T>();
  const auto inverse_of = [=](Size s) {
    Square identity{N, std::vector<double>(N * N, 0.0)};
    for (Size i = 0; i < N; ++i) identity(i, i) = 1;
    return solved(damped_of(x, s, N), identity.a, N);
  };
  return plan(p.cost<T>(2 * N * N), outputs(matrices<T>(inverse_of, p.count, N, N)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) {
                kernel<inverse<T, B, N>>(mut(y), from, T(static_cast<float>(N))).on(on);
              });
}

Plan orthonormal_plan(const Args& args) {
  constexpr Size kRows = 32, kColumns = 8;
  const Size count = size_of_case(args, "systems");
  const auto x = normal<f32>(1, count, kRows, kColumns);
  const auto basis = [=](Size s) {
    std::vector<double> a;
    for (Size k = 0; k < kRows * kColumns; ++k) a.push_back(x.at(s * kRows * kColumns + k));
    const auto at = [&](Size i, Size j) -> double& { return a[static_cast<std::size_t>(i * kColumns + j)]; };
    for (Size k = 0; k < kColumns; ++k) {
      const double length = std::sqrt(sum_over(kRows, [&](Size i) { return at(i, k) * at(i, k); }));
      for (Size i = 0; i < kRows; ++i) at(i, k) /= length;
      for (Size j = k + 1; j < kColumns; ++j) {
        const double share = sum_over(kRows, [&](Size i) { return at(i, k) * at(i, j); });
        for (Size i = 0; i < kRows; ++i) at(i, j) -= share * at(i, k);
      }
    }
    return a;
  };
  return plan({bytes_of<f32>(2 * count * kRows * kColumns)},
              outputs(matrices<f32>(basis, count, kRows, kColumns).within(1e-4)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<orthonormal<2, 32, 8>>(mut(y), from).on(on); });
}

Plan matrix_exponential_plan(const Args& args) {
  const Systems p(args, 16);
  const auto x = p.squares<f32>();
  const auto exponential = [=](Size s) {
    Square a = square_of(x, s);
    for (double& t : a.a) t /= 16;
    Square result{16, std::vector<double>(256, 0.0)}, term = result;
    for (Size i = 0; i < 16; ++i) result(i, i) = term(i, i) = 1;
    for (int k = 1; k < 20; ++k) {
      term = product_of(term, a);
      for (std::size_t i = 0; i < 256; ++i) result.a[i] += term.a[i] /= k;
    }
    for (int k = 0; k < 4; ++k) result = product_of(result, result);
    return result.a;
  };
  return plan(
      p.cost<f32>(512), outputs(matrices<f32>(exponential, p.count, 16, 16).within(1e-4)), inputs(x),
      [](const Stream& on, auto& y, const auto& from) { kernel<matrix_exponential<4, 16>>(mut(y), from).on(on); });
}

Plan power_iteration_plan(const Args& args) {
  const Systems p(args, 16);
  const auto x = p.squares<f32>(0);
  const auto vector = [=](Size s) {
    Square a = square_of(x, s);
    std::vector<double> v(16, 1.0);
    for (int step = 0; step < 32; ++step) {
      std::vector<double> t;
      for (Size i = 0; i < 16; ++i)
        t.push_back(sum_over(16, [&](Size j) { return a(i, j) * v[static_cast<std::size_t>(j)]; }));
      const double length =
          std::sqrt(sum_over(16, [&](Size i) { return std::pow(t[static_cast<std::size_t>(i)], 2); }));
      for (std::size_t i = 0; i < 16; ++i) v[i] = t[i] / length;
    }
    return v;
  };
  return plan(p.cost<f32>(272), outputs(by_line<f32>(vector, p.count, 16).within(1e-4)), inputs(x),
              [](const Stream& on, auto& y, const auto& from) { kernel<power_iteration<8, 16>>(mut(y), from).on(on); });
}

}  // namespace

std::vector<Entry> system_entries() {
  const char *many = "systems=131072; systems=200003; systems=99991",
             *few = "systems=32768; systems=50021; systems=20011";
  return {entry<cholesky_plan<f32, 4, 8>>("cholesky_8", "factorisations", many, "systems=16; systems=13"),
          entry<cholesky_plan<f64, 2, 16>>("cholesky_16", "factorisations", few, "systems=8; systems=5"),
          entry<cholesky_plan<f32, 1, 32>>("cholesky_32", "factorisations", few, "systems=8; systems=5"),
          entry<lu_factors_plan>("lu_factors", "factorisations", many, "systems=8; systems=5"),
          entry<determinant_plan>("determinant", "factorisations", "systems=524288; systems=400009; systems=300007",
                                  "systems=16; systems=13"),
          entry<solve_lower_plan>("solve_lower", "factorisations", few, "systems=8; systems=5"),
          entry<solve_upper_plan>("solve_upper", "factorisations", many, "systems=16; systems=13"),
          entry<inverse_plan<f64, 4, 8>>("inverse_8", "factorisations", many, "systems=16; systems=13"),
          entry<inverse_plan<f32, 1, 32>>("inverse_32", "factorisations", few, "systems=8; systems=5"),
          entry<orthonormal_plan>("orthonormal", "factorisations", many, "systems=16; systems=13"),
          entry<matrix_exponential_plan>("matrix_exponential", "factorisations", many, "systems=16; systems=13"),
          entry<power_iteration_plan>("power_iteration", "factorisations", many, "systems=16; systems=13")};
}

}  // namespace generality
