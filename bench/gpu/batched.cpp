// Products of many matrices, all of one size.
#include "harness.hpp"
#include "tessera/kernels/batched_gemm.hpp"

namespace gpu_bench {

using namespace tessera;

namespace {

/// Operands of c[i] = a[i] b[i]. With layout=NT the matrices of b are stored transposed and seen through a permuted
/// view.
template <class T>
struct Batches {
  std::int64_t batch, m, n, k;
  bool transposed;
  std::vector<Tensor<T, 3>> a, b, c;

  explicit Batches(const Args& args) {
    batch = args.number("batch", 2), m = args.number("m", 128), n = args.number("n", 128), k = args.number("k", 128);
    const std::string layout = args.text("layout", "NN");
    if (layout != "NN" && layout != "NT") throw std::runtime_error("layout must be NN or NT, found " + layout);
    transposed = layout == "NT";
    const int sets = sets_for(args, bytes());
    for (int s = 0; s < sets; ++s) {
      a.push_back(normal<T>(Dims<3>({batch, m, k}), 1));
      b.push_back(normal<T>(transposed ? Dims<3>({batch, n, k}) : Dims<3>({batch, k, n}), 2));
      c.push_back(poisoned<T>(Dims<3>({batch, m, n})));
    }
  }
  double products() const {
    return static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  }
  double bytes() const {
    return static_cast<double>(batch) * static_cast<double>(m * k + k * n + m * n) * static_cast<double>(sizeof(T));
  }
  View<T, 3> right(std::size_t s) const { return transposed ? b[s].template permute<0, 2, 1>() : b[s].view(); }

  /// 64 elements, spread over all matrices, tiles and both edges.
  Accuracy check() const {
    Norm norm;
    for (std::int64_t s = 0; s < 64; ++s) {
      const std::int64_t x = batch * s / 64, i = s == 63 ? m - 1 : m * s / 63, j = s == 0 ? n - 1 : (s * 7919 + 5) % n;
      double wanted = 0;
      for (std::int64_t p = 0; p < k; ++p)
        wanted += normal_input<T>(1, (x * m + i) * k + p) *
                  normal_input<T>(2, transposed ? (x * n + j) * k + p : (x * k + p) * n + j);
      const auto one = c[0].template slice<0>(x, x + 1).template slice<1>(i, i + 1).template slice<2>(j, j + 1);
      norm.add(values(one)[0], wanted);
    }
    return {norm.relative(), 4e-3};
  }
};

template <class T>
Prepared batched_of(const Args& args) {
  Prepared p;
  auto g = std::make_shared<Batches<T>>(args);
  p.sets = static_cast<int>(g->c.size());
  p.bytes = g->bytes();
  p.flops = 2 * g->products();
  p.check = [g] { return g->check(); };
  const kernels::Row row{static_cast<int>(args.number("row", -1))};
  p.launch = [g, row](int set, const Stream& on) {
    const auto s = static_cast<std::size_t>(set);
    const kernels::Fused<kernels::epilogues::Plain> plain;
    g->c[s] = kernels::batched_gemm(g->a[s], g->right(s), plain, row).on(on);
  };
  return p;
}

Prepared batched_case(const Args& args) {
  const std::string type = args.text("dtype", "bf16");
  if (type == "bf16") return batched_of<bf16>(args);
  if (type == "f16") return batched_of<f16>(args);
  throw std::runtime_error("dtype must be f16 or bf16, found " + type);
}

}  // namespace

std::vector<Case> batched_cases() {
  return {{"batched_gemm", "batch m n k dtype=f16|bf16 layout=NN|NT row=N", batched_case}};
}

}  // namespace gpu_bench
