// C = A B with one block per tile of C: a loop on the device carries the accumulator.
#include "common.hpp"
#include "matmul_reference.hpp"

using namespace tessera;

template <int BM, int BN, int BK>
void matmul(Mut<f32, BM, BN> c, In<f32, dyn, dyn> a, In<f32, dyn, dyn> b) {
  require(a.dim(1) == b.dim(0), "a must have as many columns as b has rows");
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  auto [i, j] = c.index();
  auto acc = zeros<f32, BM, BN>();
  for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
  c.store(acc);
}

int main(int argc, char** argv) {
  const example::Args args(argc, argv, "Multiplies two matrices, one block per output tile.",
                           {{"m", "rows of A and C", "500"},
                            {"n", "columns of B and C", "300"},
                            {"k", "columns of A", "400"},
                            {"a", "A as a .npy file of f32"},
                            {"b", "B as a .npy file of f32"},
                            {"out", "write C to this .npy file"}});
  return example::guarded([&] {
    auto a = example::load_or(args.file("a"), random::normal<f32>({args.size("m"), args.size("k")}, 1));
    auto b = example::load_or(args.file("b"), random::normal<f32>({args.size("k"), args.size("n")}, 2));
    const int m = static_cast<int>(a.dim(0)), k = static_cast<int>(a.dim(1)), n = static_cast<int>(b.dim(1));

    auto c = kernel<matmul<64, 64, 64>>(empty<f32>({m, n}), a, b).sync();
    const double ms = example::fastest_ms(3, [&] { kernel<matmul<64, 64, 64>>(mut(c), a, b).sync(); });
    if (!args.file("out").empty()) save_npy(args.file("out"), c);

    const auto expected = example::matmul(host(a).sync().data(), host(b).sync().data(), m, n, k);
    const std::string size = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
    return example::report("matmul", size, example::relative_error(host(c).sync(), expected), 1e-5, ms);
  });
}
