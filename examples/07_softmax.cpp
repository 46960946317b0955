// Softmax of every row. Rows shorter than the tile are padded with -infinity, so that the padding adds nothing.
#include "common.hpp"

using namespace tessera;

template <int N>
void softmax(Mut<f32, 1, N> y, In<f32, dyn, dyn> x) {
  require(x.dim(1) <= N, "a row must fit in one piece");
  auto t = x.load_like(y, pad::neg_inf);
  t = exp(t - max(t, axis<1>));
  y.store(t / sum(t, axis<1>));
}

int main(int argc, char** argv) {
  const example::Args args(argc, argv, "Softmax of every row of a matrix.",
                           {{"rows", "rows", "1000"},
                            {"columns", "columns, at most 1024", "1000"},
                            {"x", "a .npy file of f32, rank 2"},
                            {"out", "write the result to this .npy file"}});
  return example::guarded([&] {
    auto x = example::load_or(args.file("x"), random::normal<f32>({args.size("rows"), args.size("columns")}, 1));
    const std::size_t rows = static_cast<std::size_t>(x.dim(0)), columns = static_cast<std::size_t>(x.dim(1));
    auto y = kernel<softmax<1024>>(empty_like(x), x).sync();
    const double ms = example::fastest_ms(5, [&] { kernel<softmax<1024>>(mut(y), x).sync(); });
    if (!args.file("out").empty()) save_npy(args.file("out"), y);

    const auto hx = host(x).sync();
    std::vector<double> expected(hx.size());
    for (std::size_t r = 0; r < rows; ++r) {
      double largest = -INFINITY, total = 0;
      for (std::size_t c = 0; c < columns; ++c) largest = std::max(largest, static_cast<double>(hx[r * columns + c]));
      for (std::size_t c = 0; c < columns; ++c)
        total += expected[r * columns + c] = std::exp(hx[r * columns + c] - largest);
      for (std::size_t c = 0; c < columns; ++c) expected[r * columns + c] /= total;
    }
    return example::report("softmax", std::to_string(rows) + "x" + std::to_string(columns),
                           example::relative_error(host(y).sync(), expected), 1e-6, ms);
  });
}
