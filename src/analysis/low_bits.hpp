// Arithmetic on low bits: each rule holds for integers that wrap at any width of at least `known` bits. Private to the
// layer.
#pragma once
#include "tessera/analysis/divisibility.hpp"

namespace tessera::analysis::low_bits {

LowBits exact(std::uint64_t value, int bits);
/// What holds of both.
LowBits meet(LowBits, LowBits);
LowBits cut(LowBits, int known);

LowBits add(LowBits, LowBits);
LowBits sub(LowBits, LowBits);
LowBits mul(LowBits, LowBits);
LowBits shifted_left(LowBits, int by, int bits);
LowBits shifted_right(LowBits, int by);
LowBits bit_and(LowBits, LowBits);
LowBits bit_or(LowBits, LowBits);
LowBits bit_xor(LowBits, LowBits);

}  // namespace tessera::analysis::low_bits
