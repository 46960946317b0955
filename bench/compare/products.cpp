// gemm of bf16, alone and with epilogues.
#include <cmath>

#include "products.hpp"
#include "tessera/kernels/gemm.hpp"

namespace compare {
namespace {

Ready bias_silu(const Args& args) {
  const Operands<bf16> o(args);
  const auto bias = normal<bf16>(seed_of(args, 3), o.n);
  const auto silu = [=](double sum, Size, Size j) {
    const double t = sum + bias(j);
    return t / (1 + std::exp(-t));
  };
  return ready(
      args, o.cost<bf16>(), outputs(output<bf16>(o.line(silu), o.m, o.n)), inputs(o.a, o.b, bias),
      [left = o.left, right = o.right](const Stream& on, auto& c, const auto& a, const auto& b, const auto& v) {
        c = with_views(left, right, a, b, [&](const auto& x, const auto& y) {
              return kernels::gemm(x, y, kernels::bias_then<kernels::functions::Silu>(v));
            }).on(on);
      });
}

Ready residual(const Args& args) {
  const Operands<bf16> o(args);
  const auto r = normal<bf16>(seed_of(args, 3), o.m, o.n);
  const auto add = [=](double sum, Size i, Size j) { return sum + r(i, j); };
  return ready(
      args, o.cost<bf16>(), outputs(output<bf16>(o.line(add), o.m, o.n)), inputs(o.a, o.b, r),
      [left = o.left, right = o.right](const Stream& on, auto& c, const auto& a, const auto& b, const auto& v) {
        c = with_views(left, right, a, b, [&](const auto& x, const auto& y) {
              return kernels::gemm(x, y, kernels::residual(v));
            }).on(on);
      });
}

Ready gemm_case(const Args& args) {
  const std::string type = args.text("type", "bf16"), epilogue = args.text("epilogue", "none");
  if (type != "bf16") return gemm_of_other_types(args, type);
  if (epilogue == "bias_silu") return bias_silu(args);
  if (epilogue == "residual") return residual(args);
  return product<bf16, bf16>(args, [](const auto& a, const auto& b) { return kernels::gemm(a, b); });
}

}  // namespace

std::vector<Case> product_cases() { return {{"gemm", gemm_case}}; }

}  // namespace compare
