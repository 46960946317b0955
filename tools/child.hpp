// A program that is run to its end, its output read.
#pragma once
#include <string>
#include <vector>

namespace tessera {

struct Finished {
  int code = 0;  ///< exit code, or 128 plus the signal; 127: it could not be started
  std::string
      output;  ///< of standard output and standard error together, or of standard error alone if there is a file
};

/// Runs a program (name or path, and arguments), without a shell, and waits for it. `to_file`: where its standard
/// output goes instead. `without`: environment variables that it does not get. Throws IoError if the system has no room
/// for it.
Finished run_child(const std::vector<std::string>& words, const std::string& to_file = "",
                   const std::vector<std::string>& without = {});

/// The last line of a text that has anything in it.
std::string last_line(const std::string& text);

}  // namespace tessera
