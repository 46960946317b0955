// Two pipes and posix_spawn.
#include "coprocess.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

extern char** environ;

namespace tessera {

Coprocess::Coprocess(const std::vector<std::string>& words) {
  std::signal(SIGPIPE, SIG_IGN);  // the write fails if the child has ended
  int to_child[2], from_child[2];
  if (pipe2(to_child, O_CLOEXEC) != 0) throw IoError(concat("cannot make a pipe: ", std::strerror(errno)));
  if (pipe2(from_child, O_CLOEXEC) != 0) {
    close(to_child[0]), close(to_child[1]);
    throw IoError(concat("cannot make a pipe: ", std::strerror(errno)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const int error = posix_spawnp(&child_, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(to_child[0]), close(from_child[1]);
  if (error != 0) {
    close(to_child[1]), close(from_child[0]);
    throw IoError(concat("cannot start ", words[0], ": ", std::strerror(error)));
  }
  in_ = fdopen(to_child[1], "w");
  out_ = fdopen(from_child[0], "r");
}

Coprocess::~Coprocess() { finish(); }

bool Coprocess::send(const std::string& line) {
  return in_ && std::fprintf(in_, "%s\n", line.c_str()) > 0 && std::fflush(in_) == 0;
}

std::optional<std::string> Coprocess::receive() {
  char* text = nullptr;
  std::size_t room = 0;
  const ssize_t length = out_ ? getline(&text, &room, out_) : -1;
  std::optional<std::string> line;
  if (length >= 0) line.emplace(text, static_cast<std::size_t>(length));
  std::free(text);  // getline requires it
  if (line && line->ends_with('\n')) line->pop_back();
  return line;
}

int Coprocess::finish() {
  if (in_) std::fclose(in_);
  if (out_) std::fclose(out_);
  in_ = out_ = nullptr;
  if (child_ == 0) return 0;
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {}
  child_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace tessera
