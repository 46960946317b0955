// Layer norm of rows of any length: a loop over chunks accumulates the sums, a second one writes. `where` excludes
// padding from the sums.
#include "common.hpp"

using namespace tessera;

template <int C>
void layer_norm(Mut<f32, 1, C> y, In<f32, dyn, dyn> x, In<f32, dyn> weight, In<f32, dyn> bias, Scalar<f32> eps) {
  require(weight.dim(0) == x.dim(1) && bias.dim(0) == x.dim(1), "weight and bias must be as long as a row");
  auto X = x.tiles(shape<1, C>);
  auto [row, chunk] = y.index();
  auto n = cast<f32>(x.dim(1));
  auto total = zeros<f32, 1, C>();
  for (auto c : range(X.count(1))) total += X.load(row, c);
  auto mean = sum(total, axis<1>) / n;
  auto squares = zeros<f32, 1, C>();
  for (auto c : range(X.count(1))) {
    auto inside = iota<i32, 1, C>(axis<1>) + c * C < x.dim(1);
    auto d = where(inside, X.load(row, c) - mean, 0.0f);
    squares += d * d;
  }
  auto scale = rsqrt(sum(squares, axis<1>) / n + eps);
  y.store((X.load(row, chunk) - mean) * scale * weight.load_like(y, axes<1>) + bias.load_like(y, axes<1>));
}

int main(int argc, char** argv) {
  const example::Args args(argc, argv, "Normalises every row to mean 0 and variance 1, then scales and shifts.",
                           {{"rows", "rows", "64"}, {"columns", "columns, any number", "1500"}});
  return example::guarded([&] {
    const int rows = args.size("rows"), columns = args.size("columns");
    const float eps = 1e-5f;
    auto x = random::normal<f32>({rows, columns}, 1).sync();
    auto weight = random::uniform<f32>({columns}, 2).sync();
    auto bias = random::normal<f32>({columns}, 3).sync();
    auto y = kernel<layer_norm<512>>(empty_like(x), x, weight, bias, eps).sync();
    const double ms = example::fastest_ms(5, [&] { kernel<layer_norm<512>>(mut(y), x, weight, bias, eps).sync(); });

    const auto hx = host(x).sync(), hw = host(weight).sync(), hb = host(bias).sync();
    std::vector<double> expected(hx.size());
    for (int r = 0; r < rows; ++r) {
      const std::size_t row = static_cast<std::size_t>(r) * columns;
      double mean = 0, variance = 0;
      for (int c = 0; c < columns; ++c) mean += hx[row + c];
      mean /= columns;
      for (int c = 0; c < columns; ++c) variance += (hx[row + c] - mean) * (hx[row + c] - mean);
      const double scale = 1 / std::sqrt(variance / columns + eps);
      for (int c = 0; c < columns; ++c)
        expected[row + c] =
            (hx[row + c] - mean) * scale * hw[static_cast<std::size_t>(c)] + hb[static_cast<std::size_t>(c)];
    }
    return example::report("layer norm", std::to_string(rows) + "x" + std::to_string(columns),
                           example::relative_error(host(y).sync(), expected), 1e-5, ms);
  });
}
