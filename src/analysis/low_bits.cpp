// Rules of low-bit arithmetic (see low_bits.hpp). x = a + 2^k * (anything), y = b + 2^l * (anything).
#include "analysis/low_bits.hpp"

#include <algorithm>
#include <bit>

namespace tessera::analysis {

int LowBits::zeros() const { return low != 0 ? std::countr_zero(low) : known == 0 ? 0 : std::min(known, 63); }

namespace low_bits {

namespace {
std::uint64_t mask(int known) { return known >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << known) - 1; }
}  // namespace

LowBits exact(std::uint64_t value, int bits) { return {bits, value & mask(bits)}; }

LowBits cut(LowBits x, int known) {
  known = std::clamp(known, 0, x.known);
  return {known, x.low & mask(known)};
}

LowBits meet(LowBits x, LowBits y) {
  const std::uint64_t different = x.low ^ y.low;
  const int same = different == 0 ? 64 : std::countr_zero(different);
  return cut(x, std::min({x.known, y.known, same}));
}

LowBits add(LowBits x, LowBits y) { return cut({std::min(x.known, y.known), x.low + y.low}, 64); }
LowBits sub(LowBits x, LowBits y) { return cut({std::min(x.known, y.known), x.low - y.low}, 64); }

/// x y = a b + a 2^l (..) + b 2^k (..) + 2^(k + l) (..).
LowBits mul(LowBits x, LowBits y) {
  const int of_x = x.low != 0 ? std::countr_zero(x.low) : x.known,
            of_y = y.low != 0 ? std::countr_zero(y.low) : y.known;
  const int known = std::min({x.known + of_y, y.known + of_x, 64});
  return cut({known, x.low * y.low}, known);
}

LowBits shifted_left(LowBits x, int by, int bits) {
  const int known = std::min(x.known + by, bits);
  return cut({known, by < 64 ? x.low << by : 0}, known);
}
LowBits shifted_right(LowBits x, int by) {
  if (x.known <= by) return {};
  return {x.known - by, x.low >> by};
}

LowBits bit_and(LowBits x, LowBits y) {
  const LowBits both{std::min(x.known, y.known), x.low & y.low};
  const int zeros = std::max(x.zeros(), y.zeros());  // those of either side are those of the result
  return cut(zeros > both.known ? LowBits{zeros, 0} : both, 64);
}
LowBits bit_or(LowBits x, LowBits y) { return cut({std::min(x.known, y.known), x.low | y.low}, 64); }
LowBits bit_xor(LowBits x, LowBits y) { return cut({std::min(x.known, y.known), x.low ^ y.low}, 64); }

}  // namespace low_bits
}  // namespace tessera::analysis
