// Few long rows: norms, softmax, sums and argmax of the library, which splits such rows into parts.
#include <algorithm>
#include <set>

#include "harness.hpp"
#include "tessera/kernels/argmax.hpp"
#include "tessera/kernels/layer_norm.hpp"
#include "tessera/kernels/reduce.hpp"
#include "tessera/kernels/rms_norm.hpp"
#include "tessera/kernels/softmax.hpp"

namespace gpu_bench {
namespace {

using namespace tessera;

constexpr float kEps = 1e-6f;
enum class Function { Softmax, RmsNorm, LayerNorm, Sum, Argmax };

template <class T>
struct LongRows {
  std::int64_t rows, columns;
  kernels::RowParts parts;
  std::vector<Tensor<T, 2>> x, y;
  std::vector<Tensor<f32, 1>> sums;
  std::vector<std::tuple<Tensor<T, 1>, Tensor<i32, 1>>> found;
  Tensor<T, 1> weight, bias;

  explicit LongRows(const Args& args)
      : rows(args.number("rows", 2)), columns(args.number("columns", 20000)), parts{args.number("parts", 0)} {}

  void make(int sets, bool results) {
    const Dims<2> dims({rows, columns});
    for (int s = 0; s < sets; ++s) {
      x.push_back(normal<T>(dims, 1));
      if (results) y.push_back(poisoned<T>(dims));
      sums.push_back(poisoned<f32>(Dims<1>({rows})));
      found.emplace_back(poisoned<T>(Dims<1>({rows})), full<i32>({rows}, -1).sync());
    }
    weight = normal<T>(Dims<1>({columns}), 2);
    bias = normal<T>(Dims<1>({columns}), 3);
  }
  void launch(Function f, int set, const Stream& on) {
    const auto s = static_cast<std::size_t>(set);
    switch (f) {
      case Function::Softmax: y[s] = kernels::softmax(x[s], parts).on(on); break;
      case Function::RmsNorm: y[s] = kernels::rms_norm(x[s], weight, kEps, parts).on(on); break;
      case Function::LayerNorm: y[s] = kernels::layer_norm(x[s], weight, bias, kEps, parts).on(on); break;
      case Function::Sum: sums[s] = kernels::row_sum(x[s], parts).on(on); break;
      case Function::Argmax: found[s] = kernels::argmax(x[s], parts).on(on); break;
    }
  }
  std::vector<double> wanted(Function f, std::int64_t row) const {
    std::vector<double> v;
    for (std::int64_t c = 0; c < columns; ++c) v.push_back(normal_input<T>(1, row * columns + c));
    const double n = static_cast<double>(v.size());
    double total = 0, mean = 0, square = 0;
    if (f == Function::Argmax) {
      const auto top = std::max_element(v.begin(), v.end());
      return {*top, static_cast<double>(top - v.begin())};
    }
    if (f == Function::Softmax) {
      for (const double e : v) total += std::exp(e);  // standard normal numbers
      for (double& e : v) e = std::exp(e) / total;
      return v;
    }
    for (const double e : v) total += e;
    if (f == Function::Sum) return {total};
    if (f == Function::LayerNorm) mean = total / n;
    for (const double e : v) square += (e - mean) * (e - mean) / n;
    for (std::size_t c = 0; c < v.size(); ++c) {
      const auto at = static_cast<std::int64_t>(c);
      v[c] = (v[c] - mean) / std::sqrt(square + static_cast<double>(kEps)) * normal_input<T>(2, at) +
             (f == Function::LayerNorm ? normal_input<T>(3, at) : 0.0);
    }
    return v;
  }
  std::vector<double> computed(Function f, std::int64_t row) const {
    if (f == Function::Sum) return values(sums[0].template slice<0>(row, row + 1));
    if (f == Function::Argmax) {
      const auto& [value, index] = found[0];
      return {values(value.template slice<0>(row, row + 1))[0], values(index.template slice<0>(row, row + 1))[0]};
    }
    return values(y[0].template slice<0>(row, row + 1));
  }
  Accuracy check(Function f) const {
    Norm norm;
    for (const std::int64_t row : std::set<std::int64_t>{0, rows / 2, rows - 1}) {
      const auto want = wanted(f, row), have = computed(f, row);
      for (std::size_t c = 0; c < want.size(); ++c) norm.add(have[c], want[c]);
    }
    if (f == Function::Argmax) return {norm.relative(), 0};
    if (f == Function::Sum) return {norm.relative(), 1e-4};
    return {norm.relative(), sizeof(T) == 2 ? 4e-3 : 4e-6};  // bf16 rounding is 1.7e-3
  }
};

template <class T, Function F>
Prepared prepare(const Args& args) {
  constexpr bool kResults = F != Function::Sum && F != Function::Argmax;
  auto r = std::make_shared<LongRows<T>>(args);
  Prepared p;
  p.bytes = (kResults ? 2.0 : 1.0) * sizeof(T) * static_cast<double>(r->rows) * static_cast<double>(r->columns);
  p.sets = sets_for(args, p.bytes);
  r->make(p.sets, kResults);
  p.launch = [r](int s, const Stream& on) { r->launch(F, s, on); };
  p.check = [r] { return r->check(F); };
  return p;
}
template <Function F>
Prepared long_case(const Args& args) {
  return args.text("dtype", "bf16") == "f32" ? prepare<f32, F>(args) : prepare<bf16, F>(args);
}

}  // namespace

std::vector<Case> long_row_cases() {
  constexpr const char* kArguments = "rows columns dtype=bf16|f32 parts=0 (chosen)|1 (rows are not split)|...";
  return {{"long_softmax", kArguments, long_case<Function::Softmax>},
          {"long_rms_norm", kArguments, long_case<Function::RmsNorm>},
          {"long_layer_norm", kArguments, long_case<Function::LayerNorm>},
          {"long_row_sum", kArguments, long_case<Function::Sum>},
          {"long_argmax", kArguments, long_case<Function::Argmax>}};
}

}  // namespace gpu_bench
