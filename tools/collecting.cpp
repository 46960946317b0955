// A child process with three knobs set.
#include "collecting.hpp"

#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

extern char** environ;

namespace tessera {

TemporaryFolder::TemporaryFolder() {
  path = std::filesystem::temp_directory_path().string() + "/tessera-build-XXXXXX";
  if (!mkdtemp(path.data())) throw IoError(concat("cannot make a temporary folder: ", std::strerror(errno)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

int run_collecting(std::vector<char*> program, const std::string& gpus, const std::string& folder) {
  setenv("TESSERA_COLLECT", folder.c_str(), 1);
  setenv("TESSERA_COLLECT_GPUS", gpus.c_str(), 1);
  setenv("TESSERA_DEVICE", "cpu", 1);
  program.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawnp(&child, program[0], nullptr, nullptr, program.data(), environ);
  if (error != 0) throw IoError(concat("cannot start ", program[0], ": ", std::strerror(error)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  if (!in) throw IoError(concat("cannot read ", path));
  return text;
}

}  // namespace tessera
