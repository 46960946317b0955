// Matrix products of f16 into f16.
#include "gemm.hpp"

namespace gpu_bench {

Prepared gemm_f16(const Args& args) { return gemm_of<f16, f16>(args); }

}  // namespace gpu_bench
