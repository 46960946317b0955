// One product per batch entry: a piece has extent 1 along the batch axis, so it belongs to one entry.
#include "common.hpp"
#include "matmul_reference.hpp"

using namespace tessera;

template <int BM, int BN, int BK>
void batched_matmul(Mut<f32, 1, BM, BN> c, In<f32, dyn, dyn, dyn> a, In<f32, dyn, dyn, dyn> b) {
  require(a.dim(2) == b.dim(1), "a must have as many columns as b has rows");
  require(a.dim(0) == b.dim(0), "a and b must have equally many matrices");
  auto A = a.tiles(shape<1, BM, BK>);
  auto B = b.tiles(shape<1, BK, BN>);
  auto [batch, i, j] = c.index();
  auto acc = zeros<f32, 1, BM, BN>();
  for (auto k : range(A.count(2))) acc = mma(A.load(batch, i, k), B.load(batch, k, j), acc);
  c.store(acc);
}

int main(int argc, char** argv) {
  const example::Args args(argc, argv, "Multiplies batches of matrices.",
                           {{"batch", "products", "6"},
                            {"m", "rows of C", "130"},
                            {"n", "columns of C", "200"},
                            {"k", "length of the sums", "90"}});
  return example::guarded([&] {
    const int batch = args.size("batch"), m = args.size("m"), n = args.size("n"), k = args.size("k");
    auto a = random::normal<f32>({batch, m, k}, 1).sync();
    auto b = random::normal<f32>({batch, k, n}, 2).sync();
    auto c = kernel<batched_matmul<64, 64, 32>>(empty<f32>({batch, m, n}), a, b).sync();
    const double ms = example::fastest_ms(3, [&] { kernel<batched_matmul<64, 64, 32>>(mut(c), a, b).sync(); });

    const auto ha = host(a).sync(), hb = host(b).sync();
    std::vector<double> expected;
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch); ++i) {
      const auto one = example::matmul(ha.data() + i * m * k, hb.data() + i * k * n, m, n, k);
      expected.insert(expected.end(), one.begin(), one.end());
    }
    const std::string size =
        std::to_string(batch) + "x" + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
    return example::report("batched matmul", size, example::relative_error(host(c).sync(), expected), 1e-5, ms);
  });
}
