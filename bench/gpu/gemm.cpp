// The table of matrix products, and their unsafe twin.
#include "gemm.hpp"

#include "unsafe_kernels.hpp"

namespace gpu_bench {
namespace {

Prepared gemm_case(const Args& args) {
  const std::string type = args.text("dtype", "bf16");
  if (type == "f16") return gemm_f16(args);
  if (type == "bf16") return gemm_bf16(args);
  if (type == "f8e4m3") return gemm_f8(args);
  throw std::runtime_error("dtype must be f16, bf16 or f8e4m3, found " + type);
}

/// NT only, extents that the tile divides.
Prepared unsafe_gemm_case(const Args& given) {
  constexpr int BM = 128, BN = 128, BK = 64;
  Args args = given;
  args.set("layout", "NT");
  auto g = std::make_shared<GemmOperands<bf16, bf16>>(args);
  if (g->m % BM || g->n % BN || g->k % BK) throw std::runtime_error("m, n must be multiples of 128, k of 64");
  Prepared p;
  p.sets = static_cast<int>(g->c.size());
  p.bytes = g->bytes();
  p.flops = 2.0 * static_cast<double>(g->m) * static_cast<double>(g->n) * static_cast<double>(g->k);
  p.check = [g] { return g->check(); };
  p.launch = [g](int s, const Stream& on) {
    kernel<unsafe_gemm<bf16, BM, BN, BK>>(mut(g->c[s]), g->left(s), g->right(s)).on(on);
  };
  return p;
}

}  // namespace

std::vector<Case> gemm_cases() {
  return {{"gemm",
           "m n k dtype=f16|bf16|f8e4m3 layout=NN|NT|TN|TT impl=library|matmul|stream_k|split_k row=N parts=N "
           "chain=0|1 residual=0|1, or "
           "tile=128x128x64|... form=persistent|blocks parts=N",
           gemm_case},
          {"gemm_unsafe", "m n k (bf16, NT)", unsafe_gemm_case}};
}

}  // namespace gpu_bench
