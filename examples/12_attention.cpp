// Causal flash attention with grouped heads: the whole algorithm in one kernel, the softmax is never written to memory.
#include "common.hpp"

using namespace tessera;

template <int BM, int BN, int D>
void attention(Mut<bf16, 1, 1, BM, D> o, In<bf16, dyn, dyn, dyn, D> q, In<bf16, dyn, dyn, dyn, D> k,
               In<bf16, dyn, dyn, dyn, D> v, Scalar<f32> scale) {
  require(q.dim(1) % k.dim(1) == 0, "query heads must be a multiple of key heads");
  auto [batch, head, block, zero] = o.index();
  auto kv_head = head / (q.dim(1) / k.dim(1));
  auto K = k.tiles(shape<1, 1, BN, D>);
  auto V = v.tiles(shape<1, 1, BN, D>);
  auto Q = reshape(q.load_like(o), shape<BM, D>);
  auto rows = iota<i32, BM, 1>(axis<0>) + block * BM;
  auto m = full<f32, BM, 1>(-infinity<f32>), l = zeros<f32, BM, 1>();
  auto acc = zeros<f32, BM, D>();
  for (auto j : range(min(K.count(2), ceil_div((block + 1) * BM, BN)))) {
    auto s = mma(Q, transpose(reshape(K.load(batch, kv_head, j, 0), shape<BN, D>)), zeros<f32, BM, BN>()) *
             (scale * log2e<f32>);
    tile_if ((j + 1) * BN > block * BM ||
             (j + 1) * BN > k.dim(2)) {  // only tiles on the diagonal or at the end need the mask
      auto cols = iota<i32, 1, BN>(axis<1>) + j * BN;
      s = where(rows >= cols && cols < k.dim(2), s, -infinity<f32>);
    }
    auto m2 = max(m, max(s, axis<1>));
    auto p = exp2(s - m2);
    auto alpha = exp2(m - m2);
    l = l * alpha + sum(p, axis<1>);
    acc = mma(cast<bf16>(p), reshape(V.load(batch, kv_head, j, 0), shape<BN, D>), acc * alpha);
    m = m2;
  }
  o.store(reshape(cast<bf16>(acc / l), shape<1, 1, BM, D>));
}

namespace {

struct Sizes {
  int batch, heads, kv_heads, tokens, width;
  std::size_t at(int heads_of, int b, int h, int t) const {
    return ((static_cast<std::size_t>(b) * heads_of + h) * tokens + t) * width;
  }
};

// The plain algorithm, one query at a time, in double.
std::vector<double> reference(const Sizes& z, const std::vector<bf16>& q, const std::vector<bf16>& k,
                              const std::vector<bf16>& v, double scale) {
  std::vector<double> out(q.size());
  std::vector<double> p(static_cast<std::size_t>(z.tokens));
  for (int b = 0; b < z.batch; ++b)
    for (int h = 0; h < z.heads; ++h)
      for (int t = 0; t < z.tokens; ++t) {
        const int kv = h / (z.heads / z.kv_heads);
        const std::size_t row = z.at(z.heads, b, h, t);
        double largest = -INFINITY, total = 0;
        for (int s = 0; s <= t; ++s) {
          double dot = 0;
          for (int d = 0; d < z.width; ++d)
            dot += static_cast<double>(q[row + d]) * static_cast<double>(k[z.at(z.kv_heads, b, kv, s) + d]);
          largest = std::max(largest, p[static_cast<std::size_t>(s)] = dot * scale);
        }
        for (int s = 0; s <= t; ++s)
          total += p[static_cast<std::size_t>(s)] = std::exp(p[static_cast<std::size_t>(s)] - largest);
        for (int s = 0; s <= t; ++s)
          for (int d = 0; d < z.width; ++d)
            out[row + d] +=
                p[static_cast<std::size_t>(s)] / total * static_cast<double>(v[z.at(z.kv_heads, b, kv, s) + d]);
      }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  const example::Args args(argc, argv, "Causal attention over bf16 heads of width 64.",
                           {{"batch", "sequences", "1"},
                            {"heads", "query heads", "4"},
                            {"kv", "key and value heads", "2"},
                            {"tokens", "tokens of a sequence", "500"}});
  return example::guarded([&] {
    constexpr int D = 64;
    const Sizes z{args.size("batch"), args.size("heads"), args.size("kv"), args.size("tokens"), D};
    const float scale = 1 / std::sqrt(static_cast<float>(D));
    auto q = cast<bf16>(random::normal<f32>({z.batch, z.heads, z.tokens, D}, 1).sync()).sync();
    auto k = cast<bf16>(random::normal<f32>({z.batch, z.kv_heads, z.tokens, D}, 2).sync()).sync();
    auto v = cast<bf16>(random::normal<f32>({z.batch, z.kv_heads, z.tokens, D}, 3).sync()).sync();

    auto o = kernel<attention<64, 64, D>>(empty_like(q), q, k, v, scale).sync();
    const double ms = example::fastest_ms(3, [&] { kernel<attention<64, 64, D>>(mut(o), q, k, v, scale).sync(); });

    const auto expected = reference(z, host(q).sync(), host(k).sync(), host(v).sync(), scale);
    const std::string size = std::to_string(z.batch) + "x" + std::to_string(z.heads) + "x" + std::to_string(z.tokens) +
                             "x" + std::to_string(D) + " bf16";
    return example::report("attention", size, example::relative_error(host(o).sync(), expected), 1e-2, ms);
  });
}
