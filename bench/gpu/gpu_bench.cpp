// Runs GPU benchmarks and prints one JSON line each: alone, under `tessera bench`, or as a co-process of peers.py,
// which alternates between this program and its own measurements. Options: tessera/measure/measure.hpp.
#include "harness.hpp"

int main(int argc, char** argv) {
  std::vector<gpu_bench::Case> all;
  for (auto cases :
       {gpu_bench::elementwise_cases, gpu_bench::row_cases, gpu_bench::gemm_cases, gpu_bench::batched_cases,
        gpu_bench::few_row_cases, gpu_bench::long_row_cases, gpu_bench::attention_cases, gpu_bench::decoder_cases}) {
    const auto some = cases();
    all.insert(all.end(), some.begin(), some.end());
  }
  // A GPU unless another device is named: where there is none, that is an error, not a run on the CPU.
  static char option[] = "--device", device[] = "cuda";
  std::vector<char*> words(argv, argv + argc);
  words.insert(words.begin() + 1, {option, device});
  return tessera::measure::run_cases(argc + 2, words.data(), all);
}
