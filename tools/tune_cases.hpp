// The tuning spaces of the library's kernels, by name and arguments.
#pragma once
#include <string>
#include <vector>

#include "tessera/host/tune.hpp"
#include "tessera/kernels/common.hpp"
#include "tessera/machine/machine.hpp"
#include "tessera/measure/measure.hpp"

namespace tessera {

struct TuneCase {
  const char* name;
  const char* arguments;  ///< the first value of each is the default; words without '=' are comments
  const char* hints;      ///< the space's hints
  TuningReport (*run)(const measure::Args&, TuneOptions);
};

std::vector<TuneCase> tune_row_cases();
std::vector<TuneCase> tune_product_cases();
std::vector<TuneCase> tune_split_cases();
std::vector<TuneCase> tune_attention_cases();
std::vector<TuneCase> tune_decode_cases();

/// An input: random numbers, or, if nothing will run, uninitialised memory.
template <Element T, int R>
Tensor<T, R> tune_input(const TuneOptions& options, const Dims<R>& dims, std::uint64_t seed) {
  if (options.only_compile != 0) return empty<T>(dims).sync();
  if constexpr (sizeof(T) == 1)
    return cast<T>(random::normal<f16>(dims, seed).sync()).sync();
  else
    return random::normal<T>(dims, seed).sync();
}

/// The target of the library's heuristics: the default device, or the GPU that is compiled for.
inline kernels::Target tune_target(const TuneOptions& options) {
  return options.only_compile != 0 ? kernels::Target{true, machine::machine_of(machine::kWarpgroupProducts).num_sms}
                                   : kernels::target_of(default_device());
}

}  // namespace tessera
