// One launch on a GPU that is not there, with every function of the jit (and of the launch above it) reporting that it
// is entered: the sources of src/jit and the launching part of src/host are compiled for this program with
// -finstrument-functions. It prints a line for each call: the depth, and the offset of the function in the program.
// path.py makes a list of files from it.
//
//   launch_path cold      the cubin is neither in memory nor on disk
//   launch_path warm      an earlier process left it on disk
//   launch_path known     this process has launched the kernel before
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <tessera/tessera.hpp>

#include "jit/cuda/kernels.hpp"
#include "jit/rig.hpp"
#include "runtime/cuda_rig.hpp"

#define TESSERA_QUIET __attribute__((no_instrument_function))

namespace {

struct Entered {
  int depth;
  void* function;
};
bool recording = false;
thread_local int depth = 0;
thread_local bool first_thread = false;
std::vector<Entered>* entered = nullptr;

}  // namespace

extern "C" {
extern const char __executable_start;
TESSERA_QUIET void __cyg_profile_func_enter(void* function, void*) {
  if (!recording || !first_thread) return;
  entered->push_back({depth++, function});
}
TESSERA_QUIET void __cyg_profile_func_exit(void*, void*) {
  if (recording && first_thread) --depth;
}
}

namespace {

using namespace tessera;
namespace fake = runtime::cuda::fake;

void run_twice(const fake::Call&) {}

/// An assembler that is a script, and gives the image of the fake driver. It is made once: a new one has another time,
/// and code of the one before is not found.
void write_fake_assembler(const std::string& folder) {
  if (std::filesystem::exists(folder + "/tileiras")) return;
  const auto image = fake::FakeDriver::image("twice", true);
  std::ofstream(folder + "/image", std::ios::binary)
      .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
  jit_rig::write_assembler(folder + "/tileiras", "cp " + folder + "/image \"$last\"\n");
}

void launch(Tensor<f32, 1>& y, const Tensor<f32, 1>& x) { kernel<&cuda_kernels::twice>(mut(y), x).sync(); }

int run(const std::string& way) {
  // A start with a warm cache is the second process of a test, so the folder outlives this one.
  const jit_rig::Folder own("path");
  const char* given = std::getenv("TESSERA_PATH_FOLDER");
  const std::string folder = given != nullptr ? given : own.path;
  write_fake_assembler(folder);
  setenv("TESSERA_CACHE_DIR", (folder + "/cache").c_str(), 1);
  setenv("TESSERA_TILEIRAS", (folder + "/tileiras").c_str(), 1);
  fake::FakeDriver driver;
  driver.add_kernel("twice", {6, run_twice});
  runtime::cuda::CudaBackend backend(driver.table(), 0);
  set_default_device(Device(backend));
  auto x = zeros<f32>({256}).sync();
  auto y = zeros<f32>({256}).sync();
  if (way == "known") launch(y, x);
  std::vector<Entered> all;
  all.reserve(1 << 22);
  entered = &all;
  first_thread = recording = true;
  launch(y, x);
  recording = false;
  driver.run_all();
  for (const Entered& e : all)
    std::printf("%d %llx\n", e.depth,
                static_cast<unsigned long long>(static_cast<const char*>(e.function) - &__executable_start));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 ||
      (std::strcmp(argv[1], "cold") != 0 && std::strcmp(argv[1], "warm") != 0 && std::strcmp(argv[1], "known") != 0)) {
    std::fprintf(stderr, "expected cold, warm or known\n");
    return 2;
  }
  try {
    return run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
