// The packages of NVIDIA's assembler on the Python package index, for the release that Tessera is tested with
// (tileiras::kPinnedVersion). The SHA-256 sums are those of pypi.org on 29 November 2026.
#pragma once
#include "tessera/codegen/tileiras/tileiras.hpp"

namespace tessera {

/// A package: a wheel for one architecture.
struct ReleaseRow {
  const char* architecture;  ///< as uname -m says it
  const char* package;       ///< its name in the index
  const char* file;          ///< its wheel's name; $ stands for the version
  const char* sha256;
};

constexpr ReleaseRow kReleaseRows[] = {
    {"x86_64", "nvidia-cuda-tileiras", "nvidia_cuda_tileiras-$-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
     "d1657aa03ef05bba0ae22baa34728d955fa11524ef3be5a4f6401ef589dba5b5"},
    {"x86_64", "nvidia-cuda-nvcc", "nvidia_cuda_nvcc-$-py3-none-manylinux2014_x86_64.manylinux_2_17_x86_64.whl",
     "f5c4f7ead5d964fb4af42bbf1e6d3ec3c1e6e9d83b53749f691d387e7fcaa3a7"},
    {"x86_64", "nvidia-nvvm", "nvidia_nvvm-$-py3-none-manylinux2010_x86_64.manylinux_2_12_x86_64.whl",
     "c41bfa362e407405163f103c2229f0765f8cc2ed7d148b754dc77f228bf7e070"},
    {"aarch64", "nvidia-cuda-tileiras",
     "nvidia_cuda_tileiras-$-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
     "095bc8ab525f5c551a1fff55f00e684d7c3ef6303513307e60d28924f5fb02bc"},
    {"aarch64", "nvidia-cuda-nvcc", "nvidia_cuda_nvcc-$-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
     "588eda18eb5076ae859fe272844b526459228af22df0b117f54eec3aa82bc9c8"},
    {"aarch64", "nvidia-nvvm", "nvidia_nvvm-$-py3-none-manylinux2014_aarch64.manylinux_2_17_aarch64.whl",
     "b659bd3115b7ac7ec8931e67d0e2c0dd09cd35b08a6a7372df6f8f22c67da80a"},
};

/// What compiling needs, and the disassembler, by their ends in the wheels.
constexpr const char* kNeededFiles[] = {"bin/tileiras", "bin/ptxas", "lib/libnvvm.so.4"};
constexpr const char* kMoreFiles[] = {"bin/tileirdisasm"};

}  // namespace tessera
