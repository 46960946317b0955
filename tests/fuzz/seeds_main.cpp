// Fuzz targets without a fuzzer, for every compiler and sanitizer:
//
//   fuzz_seeds TARGET FOLDER          runs the target on every file of the folder, on beginnings of it, and with single
//                                     bytes changed: in slow builds on a quarter of these, others every day
//   fuzz_seeds --write FOLDER         writes what the targets begin with to FOLDER/<target>/
#include <algorithm>
#include <chrono>
#include <exception>
#include <new>

#include "base/rounds.hpp"
#include "fuzz/fuzz.hpp"
#include "tessera/base/sanitizers.hpp"

namespace {
[[maybe_unused]] constexpr std::size_t kMaxAllocated = std::size_t{64} << 20;  // at once, for inputs of a few KiB
}

// No input makes the library allocate a size that the input only states. Sanitizers have their own limit.
#if TESSERA_ASAN
extern "C" const char* __asan_default_options() { return "max_allocation_size_mb=64:allocator_may_return_null=0"; }
#elif !TESSERA_TSAN
void* operator new(std::size_t bytes) {
  FUZZ_REQUIRE(bytes <= kMaxAllocated);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  FUZZ_REQUIRE(bytes <= kMaxAllocated);
  return std::malloc(bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
#endif

namespace {

using namespace tessera::fuzz;
namespace fs = std::filesystem;

/// The input that is being run, for the message when the program ends in it.
std::string now;

[[noreturn]] void ended() {
  std::fprintf(stderr, "ended in %s\n", now.c_str());
  std::abort();
}

void run(const Target& t, std::string_view input, const std::string& what) {
  now = what;
  // Memory of its own, exactly as long: a sanitizer sees the first byte after it.
  const std::vector<char> bytes(input.begin(), input.end());
  t.run(std::as_bytes(std::span(bytes)));
}

/// The number of the day, up to `turns`.
std::size_t of_today(std::size_t turns) {
  const auto days = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now()).time_since_epoch();
  return static_cast<std::size_t>(days.count()) % turns;
}

constexpr std::size_t kMaxPlaces = 100;  // of a seed: the tests are to be quick

/// Beginnings, and bytes as 0, 255, their neighbours and with one bit changed: everywhere in small seeds, in larger
/// ones at places the same distance apart.
int run_around(const Target& t, const std::string& seed, const std::string& name) {
  run(t, seed, name);
  int runs = 1;
  const std::size_t step = seed.size() / kMaxPlaces + 1, turns = tessera::test::one_in(4);
  for (std::size_t i = of_today(turns) * step; i < seed.size(); i += turns * step) {
    run(t, std::string_view(seed).substr(0, i), tessera::concat(name, " cut to ", i));
    const auto old = static_cast<unsigned char>(seed[i]);
    for (const int value : {0, 255, old + 1, old - 1, old ^ 0x10, old ^ 0x80}) {
      std::string changed = seed;
      changed[i] = static_cast<char>(value);
      run(t, changed, tessera::concat(name, " with ", value & 255, " at ", i));
    }
    runs += 7;
  }
  return runs;
}

int replay(const Target& t, const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  int runs = 0;
  for (const fs::path& file : files)
    runs += run_around(t, string_of(read_file(file.string())), file.filename().string());
  std::printf("%s: %zu seeds, %d runs\n", t.name, files.size(), runs);
  return files.empty() ? 1 : 0;
}

void write_seeds(const fs::path& folder) {
  for (const Target& t : targets()) {
    fs::create_directories(folder / t.name);
    int number = 0;
    for (const std::string& seed : t.seeds()) {
      const std::string path = (folder / t.name / tessera::concat("made_", number++)).string();
      std::FILE* file = std::fopen(path.c_str(), "wb");
      FUZZ_REQUIRE(file != nullptr && std::fwrite(seed.data(), 1, seed.size(), file) == seed.size());
      std::fclose(file);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(ended);
  if (argc != 3) {
    std::fprintf(stderr, "usage: fuzz_seeds TARGET FOLDER | fuzz_seeds --write FOLDER\n");
    return 2;
  }
  if (std::string_view(argv[1]) == "--write") {
    write_seeds(argv[2]);
    return 0;
  }
  const Target* t = target(argv[1]);
  if (t == nullptr) {
    std::fprintf(stderr, "there is no target %s\n", argv[1]);
    return 2;
  }
  return replay(*t, argv[2]);
}
