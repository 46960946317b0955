// One or a few rows of activations times the weights of a layer, y[m, n] = x[m, k] w[n, k]^T in bf16: bound by reading
// the weights.
#include "harness.hpp"
#include "kernels.hpp"
#include "tessera/kernels/linear.hpp"

namespace gpu_bench {
namespace {

struct Layer {
  std::int64_t m, n, k;
  std::vector<Tensor<bf16, 2>> x, w, y;

  explicit Layer(const Args& args) {
    m = args.number("m", 1), n = args.number("n", 256), k = args.number("k", 512);
    const int sets = sets_for(args, bytes());
    for (int s = 0; s < sets; ++s) {
      x.push_back(normal<bf16>(Dims<2>({m, k}), 1));
      w.push_back(normal<bf16>(Dims<2>({n, k}), 2));
      y.push_back(poisoned<bf16>(Dims<2>({m, n})));
    }
  }
  double bytes() const {
    const double M = static_cast<double>(m), N = static_cast<double>(n), K = static_cast<double>(k);
    return 2 * (M * K + N * K + M * N);
  }
  Accuracy check() const {
    Norm norm;
    for (std::int64_t s = 0; s < 64; ++s) {
      const std::int64_t i = s % m, j = s == 63 ? n - 1 : n * s / 63;
      double wanted = 0;
      for (std::int64_t p = 0; p < k; ++p)
        wanted += normal_input<bf16>(1, i * k + p) * normal_input<bf16>(2, j * k + p);
      norm.add(values(y[0].slice<0>(i, i + 1).slice<1>(j, j + 1))[0], wanted);
    }
    return {norm.relative(), 4e-3};
  }
};

std::shared_ptr<Layer> begin(const Args& args, Prepared& p) {
  auto l = std::make_shared<Layer>(args);
  p.sets = static_cast<int>(l->y.size());
  p.bytes = l->bytes();
  p.check = [l] { return l->check(); };
  return l;
}

Prepared gemv_case(const Args& args) {
  Prepared p;
  auto l = begin(args, p);
  p.launch = [l](int s, const Stream& on) {
    if (l->n >= 16384 && l->k % 512 == 0)
      kernel<gemv<2, 512>>(mut(l->y[s]), l->x[s], l->w[s]).on(on);
    else if (l->k % 1024 == 0)
      kernel<gemv<2, 1024>>(mut(l->y[s]), l->x[s], l->w[s]).on(on);
    else
      kernel<gemv<4, 512>>(mut(l->y[s]), l->x[s], l->w[s]).on(on);
  };
  return p;
}

Prepared linear_case(const Args& args) {
  Prepared p;
  auto l = begin(args, p);
  const kernels::Row row{static_cast<int>(args.number("row", -1))};
  p.launch = [l, row](int s, const Stream& on) {
    l->y[s] = kernels::linear(l->x[s], l->w[s], kernels::Fused<kernels::epilogues::Plain>{}, row).on(on);
  };
  return p;
}

Prepared few_rows_case(const Args& args) {
  Prepared p;
  auto l = begin(args, p);
  p.launch = [l](int s, const Stream& on) {
    if (l->m <= 8)
      kernel<few_rows<8, 64, 256>>(mut(l->y[s]), l->x[s], l->w[s]).on(on);
    else if (l->m <= 16)
      kernel<few_rows<16, 64, 256>>(mut(l->y[s]), l->x[s], l->w[s]).on(on);
    else
      kernel<few_rows<64, 64, 128>>(mut(l->y[s]), l->x[s], l->w[s]).on(on);
  };
  return p;
}

}  // namespace

std::vector<Case> few_row_cases() {
  return {{"linear", "m n k row=N (the library's entry)", linear_case},
          {"gemv", "m n k", gemv_case},
          {"few_rows", "m n k (m up to 64)", few_rows_case}};
}

}  // namespace gpu_bench
