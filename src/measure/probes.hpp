// Two loops that measure the CPU's peak rates, compiled for the best instruction set it has.
#pragma once
#include <cstddef>

namespace tessera::measure {

/// The sum of floats, read once; memory is the limit.
float sum_of(const float* data, std::size_t count);

/// Rounds of independent multiply-adds, enough to hide the latency, and the operations per round. A chain is a vector
/// of the widest instruction set of the architecture.
#if defined(__aarch64__)
inline constexpr int kChains = 16, kLanesF32 = 4, kLanesF64 = 2;
#else
inline constexpr int kChains = 12, kLanesF32 = 16, kLanesF64 = 8;
#endif
inline constexpr double kChainFlopsF32 = 2.0 * kChains * kLanesF32, kChainFlopsF64 = 2.0 * kChains * kLanesF64;
double chain_f32(long rounds);
double chain_f64(long rounds);

/// Makes the compiler compute the value.
inline void keep(double value) { asm volatile("" : : "x"(value) : "memory"); }

}  // namespace tessera::measure
