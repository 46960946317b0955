// Arithmetic, comparisons and bits of the unsigned integers, GPU against CPU.
#include "gpu/arith.hpp"

namespace gpu_test {
namespace {

class ArithUnsigned : public Gpu {};
TEST_F(ArithUnsigned, U8) { check_arith<u8>(); }
TEST_F(ArithUnsigned, U16) { check_arith<u16>(); }
TEST_F(ArithUnsigned, U32) { check_arith<u32>(); }
TEST_F(ArithUnsigned, U64) { check_arith<u64>(); }
class BitsUnsigned : public Gpu {};
TEST_F(BitsUnsigned, U8) { check_bits<u8>(); }
TEST_F(BitsUnsigned, U16) { check_bits<u16>(); }
TEST_F(BitsUnsigned, U32) { check_bits<u32>(); }
TEST_F(BitsUnsigned, U64) { check_bits<u64>(); }

}  // namespace
}  // namespace gpu_test
