// The tessera command's subcommands. Each takes what follows its name and returns the exit code.
#pragma once
#include <span>
#include <stdexcept>
#include <string>

namespace tessera {

using Words = std::span<char* const>;

/// Words that a command makes no sense of; the message says which, what was expected, and comes before its usage.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// True where the only word is --help or -h.
bool asks_for_help(Words words);
/// Prints what is wrong with the words and how the command is used; the exit code for that.
int refuse(const char* command, const UsageError& error, const char* usage);
/// The word behind option number `i`, which becomes the number of that word. Throws UsageError if there is none.
std::string value_of(Words words, std::size_t& i);
/// `text` as a number of at least `least`; throws UsageError that names the option.
double number_of(const std::string& option, const std::string& text, double least);
/// Throws UsageError unless `text` is a list such as sm_90,sm_100.
void check_gpus(const std::string& text);

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
