// matmul, and the split-K and stream-K products that it chooses from.
#include "products.hpp"
#include "tessera/kernels/matmul.hpp"

namespace compare {
namespace {

Ready matmul_case(const Args& args) {
  return by_type<bf16, f16>(args, [&]<class T>(std::type_identity<T>) {
    return product<T, T>(args, [](const auto& a, const auto& b) { return kernels::matmul(a, b); });
  });
}
Ready split_case(const Args& args) {
  return product<bf16, bf16>(args, [parts = args.number("parts", 0)](const auto& a, const auto& b) {
    return kernels::gemm_split_k(a, b, parts);
  });
}
Ready stream_case(const Args& args) {
  return product<bf16, bf16>(args, [](const auto& a, const auto& b) { return kernels::gemm_stream_k(a, b); });
}

}  // namespace

std::vector<Case> product_plan_cases() {
  return {{"matmul", matmul_case}, {"gemm_split_k", split_case}, {"gemm_stream_k", stream_case}};
}

}  // namespace compare
