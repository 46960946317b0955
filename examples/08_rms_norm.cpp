// RMS norm with a fused residual: two outputs, one of them updated in place, returned as a tuple in the order of the
// parameters.
#include "common.hpp"

using namespace tessera;

template <int N>
void add_rms_norm(Mut<bf16, 1, N> y, Mut<bf16, 1, N> residual, In<bf16, dyn, dyn> x, In<bf16, dyn> weight,
                  Scalar<f32> eps) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto h = cast<f32>(residual.load()) + cast<f32>(x.load_like(residual));
  residual.store(cast<bf16>(h));
  auto scale = rsqrt(sum(h * h, axis<1>) / cast<f32>(x.dim(1)) + eps);
  y.store(cast<bf16>(h * scale * cast<f32>(weight.load_like(y, axes<1>))));
}

int main(int argc, char** argv) {
  const example::Args args(argc, argv, "Adds a residual and normalises every row by its root mean square, in bf16.",
                           {{"rows", "rows", "512"}, {"columns", "columns, at most 1024", "896"}});
  return example::guarded([&] {
    const int rows = args.size("rows"), columns = args.size("columns");
    const float eps = 1e-6f;
    auto x = cast<bf16>(random::normal<f32>({rows, columns}, 1).sync()).sync();
    auto residual = cast<bf16>(random::normal<f32>({rows, columns}, 2).sync()).sync();
    auto weight = cast<bf16>(random::uniform<f32>({columns}, 3).sync()).sync();
    const auto hx = host(x).sync(), hr = host(residual).sync(), hw = host(weight).sync();

    auto [y, sum] = kernel<add_rms_norm<1024>>(empty_like(x), std::move(residual), x, weight, eps).sync();

    std::vector<double> expected(hx.size());
    for (int r = 0; r < rows; ++r) {
      const std::size_t row = static_cast<std::size_t>(r) * columns;
      double squares = 0;
      for (int c = 0; c < columns; ++c) {
        expected[row + c] = static_cast<double>(hx[row + c]) + static_cast<double>(hr[row + c]);
        squares += expected[row + c] * expected[row + c];
      }
      for (int c = 0; c < columns; ++c)
        expected[row + c] *= static_cast<double>(hw[static_cast<std::size_t>(c)]) / std::sqrt(squares / columns + eps);
    }
    const double error = example::relative_error(host(y).sync(), expected);
    const double ms =
        example::fastest_ms(5, [&] { kernel<add_rms_norm<1024>>(mut(y), mut(sum), x, weight, eps).sync(); });
    return example::report("rms norm", std::to_string(rows) + "x" + std::to_string(columns) + " bf16", error, 4e-3, ms);
  });
}
