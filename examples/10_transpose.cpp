// Transpose: the tile at (j, i) of the input goes to (i, j) of the output. Both edges are ragged and need no code.
#include "common.hpp"

using namespace tessera;

template <int B>
void transposed(Mut<f32, B, B> y, In<f32, dyn, dyn> x) {
  require(x.dim(0) == y.dim(1) && x.dim(1) == y.dim(0), "y must have the shape of x transposed");
  auto [i, j] = y.index();
  y.store(transpose(x.tiles(shape<B, B>).load(j, i)));
}

int main(int argc, char** argv) {
  const example::Args args(argc, argv, "Transposes a matrix.",
                           {{"m", "rows", "1500"}, {"n", "columns", "1100"}, {"x", "a .npy file of f32, rank 2"}});
  return example::guarded([&] {
    auto x = example::load_or(args.file("x"), random::normal<f32>({args.size("m"), args.size("n")}, 1));
    const std::size_t m = static_cast<std::size_t>(x.dim(0)), n = static_cast<std::size_t>(x.dim(1));
    auto y = kernel<transposed<64>>(empty<f32>({n, m}), x).sync();
    const double ms = example::fastest_ms(5, [&] { kernel<transposed<64>>(mut(y), x).sync(); });

    const auto hx = host(x).sync();
    std::vector<float> expected(hx.size());
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) expected[j * m + i] = hx[i * n + j];
    return example::report("transpose", std::to_string(m) + "x" + std::to_string(n),
                           example::relative_error(host(y).sync(), expected), 0, ms);
  });
}
