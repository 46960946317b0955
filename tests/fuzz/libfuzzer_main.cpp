// The entry points that libFuzzer calls (compiler-rt, "libFuzzer: a library for coverage-guided fuzz testing"). One
// program holds all targets: the name that it is started by says which one runs (fuzz_npy_file).
#include "fuzz/fuzz.hpp"

namespace {
const tessera::fuzz::Target* chosen = nullptr;
}

extern "C" int LLVMFuzzerInitialize(int*, char*** argv) {
  const std::string name = std::filesystem::path((*argv)[0]).filename().string();
  constexpr std::string_view kPrefix = "fuzz_";
  if (name.starts_with(kPrefix)) chosen = tessera::fuzz::target(std::string_view(name).substr(kPrefix.size()));
  if (chosen != nullptr) return 0;
  std::fprintf(stderr, "%s: start this program as fuzz_<target>, for a target of tests/fuzz/targets.def\n",
               name.c_str());
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->run(std::as_bytes(std::span(data, size)));
  return 0;
}
