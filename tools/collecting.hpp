// Running a program so that it leaves its kernels behind (TESSERA_COLLECT).
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "tessera/jit/bundle.hpp"

namespace tessera {

/// A folder that goes with everything in it. Throws IoError.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path;
};

/// Runs the program (name and arguments) on the CPU, with its kernels left in `folder` for `gpus` ("sm_90,sm_100"). Its
/// exit code, or 128 and its signal. Throws IoError if it cannot be started. `quiet`: what it prints is dropped.
/// `after`: passes whose results are left in the folder as well (TESSERA_DUMP=after:...); empty: none.
int run_collecting(std::vector<char*> program, const std::string& gpus, const std::string& folder, bool quiet = false,
                   const std::vector<std::string>& after = {});

/// A whole file. Throws IoError.
std::string read_text(const std::string& path);

/// A collected kernel in one of its forms, read.
struct StoredForm {
  jit::Form form;
  std::string report;  ///< path
  std::vector<std::byte> bytecode;
};
/// Throws IoError.
StoredForm stored_form(const jit::CollectedForm& form);

}  // namespace tessera
