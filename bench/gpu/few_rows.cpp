// One or a few rows of activations times the weights of a layer, y[m, n] = x[m, k] w[n, k]^T in bf16: bound by reading
// the weights.
#include "harness.hpp"
#include "kernels.hpp"
#include "tessera/kernels/linear.hpp"

namespace gpu_bench {
namespace {

struct Layer {
  std::int64_t m, n, k;
  float scale;
  std::vector<Tensor<bf16, 2>> x, w, y;

  explicit Layer(const Args& args, bool chain = false) {
    m = args.number("m", 1), n = args.number("n", 256), k = args.number("k", 512);
    scale = chain ? unit_scale(k) : 1;
    const int sets = sets_for(args, bytes());
    for (int s = 0; s < sets; ++s) {
      x.push_back(normal<bf16>(Dims<2>({m, k}), 1));
      w.push_back(normal<bf16>(Dims<2>({n, k}), 2, scale));
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
        wanted += normal_input<bf16>(1, i * k + p) * normal_input<bf16>(2, j * k + p, scale);
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

/// Launches that read each other's output: y's first k columns are the next x. Where y has fewer columns, a launch is
/// two products, there and back: y times weights of [k, n].
Prepared linear_chain(const Args& args) {
  struct State {
    Layer layer;
    std::vector<Tensor<bf16, 2>> back;
    Tensor<bf16, 2> last;
    Chain chain{true};
    explicit State(const Args& args) : layer(args, true) {
      for (std::size_t s = 0; layer.n < layer.k && s < layer.w.size(); ++s)
        back.push_back(normal<bf16>(Dims<2>({layer.k, layer.n}), 3, unit_scale(layer.n)));
    }
  };
  auto state = std::make_shared<State>(args);
  Prepared p;
  p.sets = static_cast<int>(state->layer.w.size());
  p.bytes = state->layer.bytes() * (state->back.empty() ? 1 : 2);
  p.launch = [state](int s, const Stream& on) {
    Layer& l = state->layer;
    const auto x = state->chain.begins() ? l.x[s].view() : state->last.slice<1>(0, l.k);
    auto y = kernels::linear(x, l.w[s]).on(on);
    if (!state->back.empty()) state->last = kernels::linear(y, state->back[s]).on(on);
    (state->back.empty() ? state->last : l.y[s]) = std::move(y);
  };
  p.check = [state] {
    if (!state->back.empty()) return state->layer.check();
    std::swap(state->last, state->layer.y[0]);
    const Accuracy found = state->layer.check();
    std::swap(state->last, state->layer.y[0]);
    return found;
  };
  return p;
}

Prepared linear_case(const Args& args) {
  if (args.number("chain", 0) != 0) return linear_chain(args);
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
  return {{"linear", "m n k row=N chain=0|1 (the library's entry)", linear_case},
          {"gemv", "m n k", gemv_case},
          {"few_rows", "m n k (m up to 64)", few_rows_case}};
}

}  // namespace gpu_bench
