// Matrix products of bf16 into bf16.
#include "gemm.hpp"

namespace gpu_bench {

Prepared gemm_bf16(const Args& args) { return gemm_of<bf16, bf16>(args); }

}  // namespace gpu_bench
