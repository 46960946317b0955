// Runs a program that writes its kernels into a folder (TESSERA_COLLECT).
#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "tessera/jit/bundle.hpp"

namespace tessera {

/// A temporary folder, removed with its contents by the destructor. Throws IoError.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string path;
};

enum class Output { Kept, ToErrors, Discarded };

/// Runs the program (name and arguments) on the CPU; its kernels for `gpus` ("sm_90,sm_100") are written into `folder`.
/// Returns its exit code, or 128 plus its signal. Throws IoError if it cannot be started. `output`: where its standard
/// output goes. `after`: passes whose results are written into the folder as well (TESSERA_DUMP=after:...); empty:
/// none.
int run_collecting(std::vector<char*> program, const std::string& gpus, const std::string& folder,
                   Output output = Output::Kept, const std::vector<std::string>& after = {});

/// The contents of a file. Throws IoError.
std::string read_text(const std::string& path);

/// The files of one form of a collected kernel.
struct StoredForm {
  jit::Form form;
  std::string report;  ///< path
  std::vector<std::byte> bytecode;
  jit::Asked asked;
  bool patient = false;  ///< jit::best_form
};
/// Throws IoError.
StoredForm stored_form(const jit::CollectedForm& form);

}  // namespace tessera
