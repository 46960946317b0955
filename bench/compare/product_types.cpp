// gemm of the other element types.
#include "products.hpp"
#include "tessera/kernels/gemm.hpp"

namespace compare {

Ready gemm_of_other_types(const Args& args, const std::string& type) {
  constexpr auto gemm = [](const auto& a, const auto& b) { return kernels::gemm(a, b); };
  if (type == "f16") return product<f16, f16>(args, gemm);
  if (type == "f32") return product<f32, f32>(args, gemm);
  if (type == "f64") return product<f64, f64>(args, gemm);
  if (type == "i8") return product<i8, i32>(args, gemm);
  if (type == "f8e4m3") return product<f8e4m3, bf16>(args, gemm);
  if (type == "tf32")
    return product<f32, f32>(
        args, [](const auto& a, const auto& b) { return kernels::gemm<f32, tf32>(a, b); }, true);
  throw std::runtime_error("gemm is not compared for the type " + type);
}

}  // namespace compare
