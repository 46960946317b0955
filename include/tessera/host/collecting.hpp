// Programs that run on the CPU so that their kernels can be compiled for GPUs (`tessera build`, `tessera explain`).
#pragma once

namespace tessera {

struct CollectedGpu {
  int sm = 0;       ///< 90 for sm_90; 0: none
  int num_sms = 1;  ///< SMs of the largest GPU of that kind
};

/// The first GPU that kernels are collected for (TESSERA_COLLECT_GPUS); none without TESSERA_COLLECT. Host functions
/// that choose a kernel by the device choose as on that GPU, so that the collected kernels are those that will run
/// there. Throws Error (kind "ConfigError") if the variable names no GPUs.
CollectedGpu collected_gpu();

}  // namespace tessera
