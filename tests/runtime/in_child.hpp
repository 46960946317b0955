// Runs a function in a child of fork() with a time limit, so that a hang is reported as a failure.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>

/// The result of f() in the child; "hangs" or "dies of signal N".
template <class F>
std::string in_child(F f, unsigned seconds = 20) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);
    const std::string text = f();
    const bool written = write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size());
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  std::string text;
  char block[4096];
  for (ssize_t n; (n = read(ends[0], block, sizeof block)) > 0;) text.append(block, static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status))
    return WTERMSIG(status) == SIGALRM ? "hangs" : "dies of signal " + std::to_string(WTERMSIG(status));
  return text;
}

/// "ok", or the type and text of what f throws.
template <class Error, class F>
std::string outcome(F f) {
  try {
    f();
    return "ok";
  } catch (const Error& error) { return error.what(); }
}
