// The tessera command.
#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

#include "commands.hpp"
#include "doctor.hpp"
#include "library_cases.hpp"
#include "tessera/base/error.hpp"
#include "tessera/jit/tuning.hpp"

namespace {

int usage(std::FILE* out) {
  std::fputs(
      "tessera <command>\n"
      "  doctor    reports what this machine has for compiling and running kernels, and how to fix what is missing\n"
      "  cache     lists or clears the compiled kernels on disk\n"
      "  build     compiles a program's kernels ahead of time into a bundle\n"
      "  explain   reports how a program's kernels are compiled: predicates, accesses, hints, the assembler's "
      "remarks\n"
      "  bench     measures the library's or your own kernels over sizes: tables and charts\n"
      "  tune      measures tiles and hints of the library's kernels for given shapes, and records the best\n"
      "  help      this text\n"
      "tessera --version prints the library's version\n",
      out);
  return out == stdout ? 0 : 2;
}

/// The library's cases as a benchmark program, which `tessera bench` starts.
int bench_library(int argc, char** argv) {
  std::vector<tessera::measure::Case> cases = tessera::library_row_cases();
  for (const auto& c : tessera::library_product_cases()) cases.push_back(c);
  return tessera::measure::run_cases(argc, argv, cases);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return usage(stdout);
  const auto is = [&](const char* name) { return std::strcmp(argv[1], name) == 0; };
  const tessera::Words words(argv + 2, static_cast<std::size_t>(argc - 2));
  try {
    if (is("cache")) return tessera::cache_command(words);
    if (is("build")) return tessera::build_command(words);
    if (is("bench")) return tessera::bench_command(words);
    if (is("bench-library")) return bench_library(argc - 1, argv + 1);
    if (is("tune")) return tessera::tune_command(words);
    if (is("explain")) return tessera::explain_command(words);
    if (is("doctor") && words.empty()) return tessera::doctor();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera %s: %s\n", argv[1], error.what());
    return 1;
  }
  if (is("--version")) return std::printf("tessera %s\n", tessera::jit::library_version()) < 0;
  const bool doctor_help = is("doctor") && tessera::asks_for_help(words);
  if (doctor_help || is("help") || is("--help") || is("-h")) return usage(stdout);
  if (is("doctor"))
    std::fprintf(stderr, "tessera doctor: takes no arguments, found %s\n", words[0]);
  else
    std::fprintf(stderr, "tessera: unknown command %s\n", argv[1]);
  return usage(stderr);
}
