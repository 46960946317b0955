// A child process that is spoken to line by line.
#pragma once
#include <sys/types.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

class Coprocess {
 public:
  /// Starts the program (name and arguments; found as a shell would find it). Throws IoError.
  explicit Coprocess(const std::vector<std::string>& words);
  ~Coprocess();
  Coprocess(const Coprocess&) = delete;
  Coprocess& operator=(const Coprocess&) = delete;

  /// False if the child does not listen any more.
  bool send(const std::string& line);
  /// The next line; empty when there is no more.
  std::optional<std::string> receive();
  /// Closes the child's input and waits for its end: its exit code, or 128 and its signal.
  int finish();

 private:
  pid_t child_ = 0;
  std::FILE *in_ = nullptr, *out_ = nullptr;
};

}  // namespace tessera
