// Arithmetic and comparisons of the floating-point types, GPU against CPU, special values included.
#include "gpu/arith.hpp"

namespace gpu_test {
namespace {

class ArithFloat : public Gpu {};
TEST_F(ArithFloat, F32) { check_arith<f32>(); }
TEST_F(ArithFloat, F64) { check_arith<f64>(); }
class ArithHalf : public Gpu {};
TEST_F(ArithHalf, F16) { check_arith<f16>(); }
TEST_F(ArithHalf, BF16) { check_arith<bf16>(); }

}  // namespace
}  // namespace gpu_test
