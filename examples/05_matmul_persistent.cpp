// The same product for any element type, persistent: a few blocks share all tiles of C, and each tile is assigned to
// exactly one block.
#include "common.hpp"
#include "matmul_reference.hpp"

using namespace tessera;

template <class T, int BM, int BN, int BK>
void gemm(MutTiles<T, BM, BN> c, In<T, dyn, dyn> a, In<T, dyn, dyn> b) {
  require(a.dim(1) == b.dim(0), "a must have as many columns as b has rows");
  auto A = a.tiles(shape<BM, BK>);
  auto B = b.tiles(shape<BK, BN>);
  for (auto out : c.grouped(8)) {  // groups of 8 rows of tiles share what they read
    auto [i, j] = out.index();
    auto acc = zeros<acc_t<T>, BM, BN>();
    for (auto k : range(A.count(1))) acc = mma(A.load(i, k), B.load(k, j), acc);
    out.store(cast<T>(acc));
  }
}

int main(int argc, char** argv) {
  const example::Args args(
      argc, argv, "Multiplies two bf16 matrices; B is given transposed and viewed the right way round.",
      {{"m", "rows of C", "512"}, {"n", "columns of C", "512"}, {"k", "length of the sums", "512"}});
  return example::guarded([&] {
    const int m = args.size("m"), n = args.size("n"), k = args.size("k");
    auto a = cast<bf16>(random::normal<f32>({m, k}, 1).sync()).sync();
    auto bt = cast<bf16>(random::normal<f32>({n, k}, 2).sync()).sync();
    auto b = bt.view().permute<1, 0>();  // a view: nothing is copied

    auto c = kernel<gemm<bf16, 128, 128, 64>>(empty<bf16>({m, n}), a, b).sync();
    const double ms = example::fastest_ms(3, [&] { kernel<gemm<bf16, 128, 128, 64>>(mut(c), a, b).sync(); });

    const auto ha = host(a).sync(), ht = host(bt).sync();
    std::vector<bf16> hb(ht.size());
    for (int j = 0; j < n; ++j)
      for (int p = 0; p < k; ++p) hb[static_cast<std::size_t>(p) * n + j] = ht[static_cast<std::size_t>(j) * k + p];
    const auto expected = example::matmul(ha.data(), hb.data(), m, n, k);
    const std::string size = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " bf16";
    return example::report("matmul persistent", size, example::relative_error(host(c).sync(), expected), 4e-3, ms);
  });
}
