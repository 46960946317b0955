// Matrix products of f8e4m3 into bf16, with fast accumulation.
#include "gemm.hpp"

namespace gpu_bench {

Prepared gemm_f8(const Args& args) { return gemm_of<f8e4m3, bf16>(args); }

}  // namespace gpu_bench
