// The tessera command's subcommands. Each takes the arguments after its name and returns the exit code.
#pragma once
#include <span>
#include <stdexcept>
#include <string>

namespace tessera {

using Words = std::span<char* const>;

/// Invalid arguments of a command. The message says which and what was expected; it is printed before the usage.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// True if the only argument is --help or -h.
bool asks_for_help(Words words);
struct CommandRow;
/// Prints the usage of the command on standard output; returns the exit code, 0.
int print_usage(const CommandRow& row);
/// Prints the error and the usage of the command; returns the exit code for that, 2.
int report_usage(const CommandRow& row, const UsageError& error);
/// The value after the option at index `i`, which is advanced to the value. Throws UsageError if there is none.
std::string value_of(Words words, std::size_t& i);
/// `text` as a number of at least `least`. Throws a UsageError with the option otherwise.
double number_of(const std::string& option, const std::string& text, double least);
/// Throws UsageError unless `text` is a list such as sm_90,sm_100.
void check_gpus(const std::string& text);

/// `tessera cache [list | size | clear]`: the compiled kernels on disk.
int cache_command(Words words);
/// `tessera build -o FILE [--gpu sm_90,...] [-j N] -- PROGRAM ...`: runs a program on the CPU and compiles its kernels
/// for GPUs into a bundle. `tessera build --list FILE` lists the kernels of a bundle.
int build_command(Words words);
/// `tessera explain [--gpu sm_90] [--kernel NAME] -- PROGRAM ...`: reports how the compiler and the assembler compile
/// the kernels that a program launches.
int explain_command(Words words);
/// `tessera bench [options] KERNEL [key=values ...] [-- PROGRAM ...]`: measures kernels over sizes and compares them
/// with the device's roofline. `one_size`: only the first value of each axis.
int bench_command(Words words, bool one_size = false);

/// `tessera opt [--passes LIST | --until PASS] [--target sm_90] [--bytecode 13.4] [-o OUT] FILE`: runs passes on Tile
/// IR as text or bytecode.
int opt_command(Words words);
/// `tessera run [--grid X,Y,Z] [--checked] FILE VALUE...`: runs Tile IR on the CPU over arrays in .npy files.
int run_command(Words words);
/// `tessera verify FILE...`: reports everything that is wrong with Tile IR as text or bytecode.
int verify_command(Words words);

/// `tessera lint [-p BUILD] FILES... [-- FLAGS...]`: finds mistakes in the recorded parts of kernels (clang-query).
int lint_command(Words words);

/// `tessera get-tileiras`: fetches NVIDIA's assembler into the user's cache (docs/tileiras.md).
int get_tileiras_command(Words words);

/// `tessera tune KERNEL key=value ...`: measures tiles and hints of the library's kernels (docs/tuning.md).
int tune_command(Words words);

}  // namespace tessera
