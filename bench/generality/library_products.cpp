// The library's matrix products of shapes that are not multiples of tile extents.
#include "cases.hpp"
#include "tessera/kernels/gemm.hpp"
#include "tessera/kernels/matmul.hpp"

namespace generality {
namespace {

template <bool ByShape>
Plan library_product_plan(const Args& args) {
  const Size m = size_of_case(args, "m"), n = size_of_case(args, "n"), k = size_of_case(args, "k");
  const auto a = normal<bf16>(1, m, k), b = normal<bf16>(2, k, n);
  const auto wanted = [=](Size at) {
    double s = 0;
    for (Size l = 0; l < k; ++l) s += a(at / n, l) * b(l, at % n);
    return s;
  };
  return plan(
      {bytes_of<bf16>(m * k + k * n + m * n), 2.0 * static_cast<double>(m * n) * static_cast<double>(k), "bf16"},
      outputs(by_offset<bf16>(wanted, m, n)), inputs(a, b),
      [](const Stream& on, auto& c, const auto& left, const auto& right) {
        if constexpr (ByShape)
          c = kernels::matmul(left, right).on(on);
        else
          c = kernels::gemm(left, right).on(on);
      });
}

}  // namespace

std::vector<Entry> library_product_entries() {
  return {entry<library_product_plan<false>>("library_gemm_384", "products",
                                             "m=384 n=4096 k=12288; m=1000 n=3001 k=2051; m=5003 n=520 k=3000",
                                             "m=96 n=128 k=192; m=44 n=70 k=52"),
          entry<library_product_plan<true>>("library_matmul_384", "products",
                                            "m=384 n=4096 k=12288; m=1000 n=3001 k=2051; m=5003 n=520 k=3000",
                                            "m=96 n=128 k=192; m=44 n=70 k=52"),
          entry<library_product_plan<false>>("library_gemm_300", "products",
                                             "m=300 n=7000 k=2048; m=77 n=9001 k=5003; m=2200 n=1304 k=4100",
                                             "m=44 n=88 k=128"),
          entry<library_product_plan<true>>("library_matmul_300", "products",
                                            "m=300 n=7000 k=2048; m=77 n=9001 k=5003; m=2200 n=1304 k=4100",
                                            "m=44 n=88 k=128")};
}

}  // namespace generality
