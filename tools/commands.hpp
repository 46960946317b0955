// The tessera command's subcommands. Each takes what follows its name and returns the exit code.
#pragma once
#include <span>

namespace tessera {

using Words = std::span<char* const>;

/// `tessera cache [list | size | clear]`: the compiled kernels on disk.
int cache_command(Words words);
/// `tessera build -o FILE [--gpu sm_90,...] [-j N] -- PROGRAM ...`: runs a program on the CPU and compiles its kernels
/// for GPUs into a bundle. `tessera build --list FILE` says what is in one.
int build_command(Words words);
/// `tessera explain [--gpu sm_90] [--kernel NAME] -- PROGRAM ...`: what the compiler and the assembler make of the
/// kernels that a program launches.
int explain_command(Words words);
/// `tessera bench [options] KERNEL [key=values ...] [-- PROGRAM ...]`: kernels over sizes, beside the device's roof.
/// `one_size`: the first value of each axis.
int bench_command(Words words, bool one_size = false);

/// `tessera tune KERNEL key=value ...`: measures what may vary for the library's kernels; docs/tuning.md.
int tune_command(Words words);

}  // namespace tessera
