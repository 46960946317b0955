// Threads that stay for the life of the process and help with one launch at a time each.
#pragma once
#include <cstdint>

namespace tessera::cpu {

/// A piece of work that several threads may enter.
class Job {
 public:
  virtual ~Job() = default;
  virtual void work() = 0;  ///< does not throw
};

/// Runs `job.work()` on the calling thread and on up to `helpers` others, and returns when all that entered have left.
/// May be called from any number of threads at once.
void run_with_helpers(Job& job, int helpers);

/// TESSERA_CPU_THREADS, or the number of processors this process may use.
int default_threads();

}  // namespace tessera::cpu
