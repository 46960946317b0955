// A child process with a pipe for its output.
#include "child.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

extern char** environ;

namespace tessera {
namespace {

std::vector<char*> child_environment(const std::vector<std::string>& names) {
  std::vector<char*> kept;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry, name = text.substr(0, text.find('='));
    if (std::find(names.begin(), names.end(), name) == names.end()) kept.push_back(*entry);
  }
  kept.push_back(nullptr);
  return kept;
}

/// All that comes out of a pipe until its writers have closed it.
std::string read_all(int pipe) {
  std::string text;
  char piece[4096];
  for (ssize_t n; (n = read(pipe, piece, sizeof piece)) != 0;) {
    if (n > 0)
      text.append(piece, static_cast<std::size_t>(n));
    else if (errno != EINTR)
      break;
  }
  return text;
}

}  // namespace

Finished run_child(const std::vector<std::string>& words, const std::string& to_file,
                   const std::vector<std::string>& without) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw IoError(concat("cannot make a pipe: ", std::strerror(errno)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  if (to_file.empty())
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  else
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, to_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  std::vector<std::string> copy = words;
  std::vector<char*> pointers;
  for (std::string& word : copy) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t child = 0;
  const int error =
      posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), child_environment(without).data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  Finished done;
  if (error != 0) {
    close(ends[0]);
    return {127, std::strerror(error)};
  }
  done.output = read_all(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  done.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return done;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "";
  const std::size_t start = text.rfind('\n', end);
  return text.substr(start == std::string::npos ? 0 : start + 1,
                     end - (start == std::string::npos ? 0 : start + 1) + 1);
}

}  // namespace tessera
