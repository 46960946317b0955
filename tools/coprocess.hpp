// A child process with line-based input and output.
#pragma once
#include <sys/types.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

class Coprocess {
 public:
  /// Starts the program (name and arguments; searched in PATH). Throws IoError.
  explicit Coprocess(const std::vector<std::string>& words);
  ~Coprocess();
  Coprocess(const Coprocess&) = delete;
  Coprocess& operator=(const Coprocess&) = delete;

  /// False if the child has closed its input.
  bool send(const std::string& line);
  /// The next line; empty at the end of the output.
  std::optional<std::string> receive();
  /// Closes the child's input and waits for its end. Returns its exit code, or 128 plus its signal.
  int finish();

 private:
  pid_t child_ = 0;
  std::FILE *in_ = nullptr, *out_ = nullptr;
};

}  // namespace tessera
