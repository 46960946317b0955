// A child process with some environment variables set.
#include "collecting.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

extern char** environ;

namespace tessera {

namespace {

/// This process's environment without some variables.
std::vector<std::string> environment_without(const std::vector<std::string>& names) {
  std::vector<std::string> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry, name = text.substr(0, text.find('='));
    if (std::find(names.begin(), names.end(), name) == names.end()) kept.emplace_back(text);
  }
  return kept;
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  path = std::filesystem::temp_directory_path().string() + "/tessera-build-XXXXXX";
  if (!mkdtemp(path.data())) throw IoError(concat("cannot make a temporary folder: ", std::strerror(errno)));
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

int run_collecting(std::vector<char*> program, const std::string& gpus, const std::string& folder, Output output,
                   const std::vector<std::string>& after) {
  std::vector<std::string> names{"TESSERA_COLLECT", "TESSERA_COLLECT_GPUS", "TESSERA_DEVICE"};
  if (!after.empty()) names.insert(names.end(), {"TESSERA_DUMP", "TESSERA_DUMP_DIR", "TESSERA_DUMP_FILTER"});
  std::vector<std::string> variables = environment_without(names);
  if (!after.empty()) {
    std::string stages;
    for (const std::string& pass : after) stages += concat(stages.empty() ? "after:" : ",after:", pass);
    variables.push_back("TESSERA_DUMP=" + stages);
    variables.push_back("TESSERA_DUMP_DIR=" + folder);
  }
  variables.push_back("TESSERA_COLLECT=" + folder);
  variables.push_back("TESSERA_COLLECT_GPUS=" + gpus);
  variables.emplace_back("TESSERA_DEVICE=cpu");
  std::vector<char*> pointers;
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  program.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  if (output == Output::ToErrors) posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  if (output == Output::Discarded) posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int error = posix_spawnp(&child, program[0], &actions, nullptr, program.data(), pointers.data());
  posix_spawn_file_actions_destroy(&actions);
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

StoredForm stored_form(const jit::CollectedForm& form) {
  const std::string text = read_text(form.file);
  const auto* first = reinterpret_cast<const std::byte*>(text.data());
  return {form.form, form.report, {first, first + text.size()}, form.asked};
}

}  // namespace tessera
