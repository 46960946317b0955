// Products of many matrices, and of fp8 with a scale for each block.
#include "products.hpp"
#include "tessera/kernels/batched_gemm.hpp"
#include "tessera/kernels/block_scaled_gemm.hpp"

namespace compare {
namespace {

Ready batched_case(const Args& args) {
  return by_type<bf16, f16>(args, [&]<class T>(std::type_identity<T>) {
    const Size batch = size_of(args, "batch"), m = size_of(args, "m"), n = size_of(args, "n"), k = size_of(args, "k");
    const auto a = normal<T>(seed_of(args, 1), batch, m, k), b = normal<T>(seed_of(args, 2), batch, k, n);
    const auto line = [=](Size at) -> Line {
      const Size i = at / m;
      return [=](Size j) {
        double sum = 0;
        for (Size l = 0; l < k; ++l) sum += a(i, at % m, l) * b(i, l, j);
        return sum;
      };
    };
    return ready(
        args, {bytes_of<T>(batch * (m * k + k * n + m * n)), 2.0 * static_cast<double>(batch * m * n * k)},
        outputs(output<T>(line, batch, m, n).within(product_tolerance<T, T>(false))), inputs(a, b),
        [](const Stream& on, auto& c, const auto& x, const auto& y) { c = kernels::batched_gemm(x, y).on(on); });
  });
}

Ready block_scaled_case(const Args& args) {
  constexpr Size kBlock = 128;
  const Size m = size_of(args, "m"), n = size_of(args, "n"), k = size_of(args, "k");
  const Size steps = (k + kBlock - 1) / kBlock, blocks = (n + kBlock - 1) / kBlock;
  const auto x = normal<f8e4m3>(seed_of(args, 1), m, k), w = normal<f8e4m3>(seed_of(args, 2), n, k);
  const auto xs = uniform<f32>(seed_of(args, 3), 0.5, 2, m, steps),
             ws = uniform<f32>(seed_of(args, 4), 0.5, 2, blocks, steps);
  const auto line = [=](Size i) -> Line {
    std::vector<double> row;
    for (Size l = 0; l < k; ++l) row.push_back(x(i, l) * xs(i, l / kBlock));
    return [=](Size j) {
      double sum = 0;
      for (Size l = 0; l < k; ++l) sum += row[static_cast<std::size_t>(l)] * w(j, l) * ws(j / kBlock, l / kBlock);
      return sum;
    };
  };
  return ready(args, {bytes_of<f8e4m3>(m * k + n * k) + bytes_of<bf16>(m * n), 2.0 * static_cast<double>(m * n * k)},
               outputs(output<bf16>(line, m, n).within(2e-2)), inputs(x, xs, w, ws),
               [](const Stream& on, auto& y, const auto& a, const auto& as, const auto& b, const auto& bs) {
                 y = kernels::block_scaled_linear(a, as, b, bs).on(on);
               });
}

}  // namespace

std::vector<Case> batched_cases() {
  return {{"batched_gemm", batched_case}, {"block_scaled_linear", block_scaled_case}};
}

}  // namespace compare
