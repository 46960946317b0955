// The tessera command.
#include <cstdio>
#include <cstring>
#include <exception>
#include <vector>

#include "command_rows.hpp"
#include "doctor.hpp"
#include "library_cases.hpp"
#include "tessera/base/error.hpp"
#include "tessera/jit/tuning.hpp"

namespace {

int usage(std::FILE* out) {
  std::fputs(tessera::program_usage().c_str(), out);
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
    if (is("opt")) return tessera::opt_command(words);
    if (is("run")) return tessera::run_command(words);
    if (is("verify")) return tessera::verify_command(words);
    if (is("lint")) return tessera::lint_command(words);
    if (is("get-tileiras")) return tessera::get_tileiras_command(words);
    if (is("doctor") && words.empty()) return tessera::doctor();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tessera %s: %s\n", argv[1], error.what());
    return 1;
  }
  if (is("--version")) return std::printf("tessera %s\n", tessera::jit::library_version()) < 0;
  if (is("--list-options")) return std::fputs(tessera::option_list().c_str(), stdout) < 0;
  if (is("doctor") && tessera::asks_for_help(words)) return tessera::print_usage(tessera::row_of("doctor"));
  if (is("help") || is("--help") || is("-h")) return usage(stdout);
  if (is("doctor"))
    std::fprintf(stderr, "tessera doctor: takes no arguments, found %s\n", words[0]);
  else
    std::fprintf(stderr, "tessera: unknown command %s\n", argv[1]);
  return usage(stderr);
}
