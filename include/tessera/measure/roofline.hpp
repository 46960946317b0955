// Rooflines: the peak memory bandwidth and arithmetic of a device, which kernels are compared with.
#pragma once
#include <string>

#include "tessera/runtime/device.hpp"

namespace tessera::measure {

struct Roofline {
  double bytes_per_second = 0;  ///< 0: unknown
  /// The source: "memory clock and bus width" or "measured: ...".
  std::string origin;
};

/// The memory roofline. A GPU's is nominal, from the driver's clock and bus width; the CPU's is measured once, with all
/// threads that kernels use (the fastest pure read of 256 MB).
const Roofline& memory_roofline(Device device);
/// Additions and multiplications per second of products of `math` ("f64", "f32", "tf32", "f16", "bf16", "f8", "i8"),
/// dense, at the highest clock; 0 where it is not known. The CPU's f32 and f64 are measured once: fused multiply-adds
/// on all threads.
double compute_roofline(Device device, const char* math);

/// The least time of work, in milliseconds: the longer one of its memory traffic and its arithmetic. 0 if a roofline
/// that it needs is not known.
double least_ms(Device device, double bytes, double flops, const char* math);

}  // namespace tessera::measure
