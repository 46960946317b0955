// Products with few rows: x times the transpose of weights.
#include "tessera/kernels/linear.hpp"
#include "products.hpp"

namespace compare {
namespace {

Ready linear_case(const Args& args) {
  return by_type<bf16, f16, f8e4m3>(args, [&]<class T>(std::type_identity<T>) {
    using C = std::conditional_t<sizeof(T) == 1, bf16, T>;
    const Size m = size_of(args, "m"), n = size_of(args, "n"), k = size_of(args, "k");
    const auto x = operand<T>(args, 1, m, k), w = operand<T>(args, 2, n, k);
    const auto line = [=](Size i) -> Line {
      const auto row = generality::row_of(x, i);
      return [=](Size j) {
        double sum = 0;
        for (Size l = 0; l < k; ++l) sum += row[static_cast<std::size_t>(l)] * w(j, l);
        return sum;
      };
    };
    return ready(args, {bytes_of<T>(m * k + n * k) + bytes_of<C>(m * n), 2.0 * static_cast<double>(m * n * k)},
                 outputs(output<C>(line, m, n).within(product_tolerance<T, C>(false))), inputs(x, w),
                 [](const Stream& on, auto& y, const auto& from, const auto& weights) {
                   y = kernels::linear(from, weights).on(on);
                 });
  });
}

}  // namespace

std::vector<Case> linear_cases() { return {{"linear", linear_case}}; }

}  // namespace compare
