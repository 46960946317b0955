// A simulated GPU, its assembler a script in a folder of its own: what the tests share that launch on the
// runtime's fake driver as a user does.
#pragma once
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <tessera/tessera.hpp>

#include "jit/rig.hpp"
#include "runtime/cuda_rig.hpp"

namespace fake_gpu {

using namespace tessera;
namespace fake = runtime::cuda::fake;

/// One for the process, which it outlives: compiled kernels live as long as the process does. M derives from it; its
/// constructor adds kernels.
template <class M>
struct FakeMachine {
  explicit FakeMachine(const std::string& name) : own(name) {
    std::atexit([] { std::filesystem::remove_all(M::get().folder); });
    setenv("TESSERA_TILEIRAS", (folder + "/tileiras").c_str(), 1);
  }
  static M& get() {
    static M* const machine = new M;
    return *machine;
  }

  /// From now on kernels are launched here.
  void start() {
    backend = std::make_unique<runtime::cuda::CudaBackend>(driver.table(), 0);
    set_default_device(device());
  }
  Device device() { return Device(*backend); }
  /// A cubin with the driver's kernel of this name, in a file of the folder.
  void write_image(const std::string& file, const std::string& kernel, bool waits = false) const {
    const auto image = fake::FakeDriver::image(kernel, waits);
    std::ofstream(folder + "/" + file, std::ios::binary)
        .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
  }
  void write_assembler(const std::string& body) const { jit_rig::write_assembler(folder + "/tileiras", body); }

  jit_rig::Folder own;
  const std::string& folder = own.path;
  fake::FakeDriver driver;
  std::unique_ptr<runtime::cuda::CudaBackend> backend;
};

}  // namespace fake_gpu
