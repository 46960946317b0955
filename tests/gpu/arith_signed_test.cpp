// Arithmetic, comparisons and bits of the signed integers, GPU against CPU.
#include "gpu/arith.hpp"

namespace gpu_test {
namespace {

class ArithSigned : public Gpu {};
TEST_F(ArithSigned, I8) { check_arith<i8>(); }
TEST_F(ArithSigned, I16) { check_arith<i16>(); }
TEST_F(ArithSigned, I32) { check_arith<i32>(); }
TEST_F(ArithSigned, I64) { check_arith<i64>(); }
class BitsSigned : public Gpu {};
TEST_F(BitsSigned, I8) { check_bits<i8>(); }
TEST_F(BitsSigned, I16) { check_bits<i16>(); }
TEST_F(BitsSigned, I32) { check_bits<i32>(); }
TEST_F(BitsSigned, I64) { check_bits<i64>(); }

}  // namespace
}  // namespace gpu_test
