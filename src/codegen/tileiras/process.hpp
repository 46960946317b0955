// Running a child process with a time limit, its output captured.
#pragma once
#include <string>
#include <vector>

namespace tessera::tileiras {

struct ProcessResult {
  int exit_code = -1;            ///< if it exited
  int signal = 0;                ///< that ended it; 0: it exited
  bool timed_out = false;        ///< it was killed because a limit of time was reached
  bool by_processor = false;     ///< that was the limit of processor time
  int start_error = 0;           ///< errno if it could not be started
  std::string out, err;          ///< at most 1 MiB each
  double seconds = 0;            ///< on the clock
  double processor_seconds = 0;  ///< of the child and what it started and waited for
};

/// Environment variables that the child does not inherit: they would make the assembler load another CUDA's libraries.
/// `set` entries ("NAME=value") are added or replace inherited ones. `processor_limit_s`: of processor time of the
/// child's process group; 0: no limit.
ProcessResult run_process(const std::vector<std::string>& arguments, const std::vector<std::string>& set,
                          double time_limit_s, double processor_limit_s = 0);

}  // namespace tessera::tileiras
