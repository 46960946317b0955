// The thread pool: sleeping workers and a queue of tickets. A ticket assigns one worker to a job. When the caller has
// finished its own share, tickets that no worker has taken are withdrawn, so a busy pool never delays a launch.
#include "codegen/cpu/threads.hpp"

#include <sched.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "tessera/base/env.hpp"
#include "tessera/base/fork.hpp"

namespace tessera::cpu {
namespace {

struct Ticket {
  Job* job;
  int* inside;                    ///< workers in the job; guarded by the pool's mutex
  std::condition_variable* left;  ///< signalled when the last one leaves
};

class Pool {
 public:
  /// A child of fork() has none of its parent's workers.
  static Pool& get() {
    static PerProcess<Pool> pool;
    return pool.get();
  }

  void run(Job& job, int helpers) {
    int inside = 0;
    std::condition_variable left;
    {
      std::lock_guard lock(mutex_);
      while (static_cast<int>(workers_.size()) < helpers) workers_.emplace_back([this] { serve(); }).detach();
      for (int i = 0; i < helpers; ++i) tickets_.push_back({&job, &inside, &left});
    }
    if (helpers == 1) {
      wake_.notify_one();
    } else {
      wake_.notify_all();
    }
    job.work();
    std::unique_lock lock(mutex_);
    std::erase_if(tickets_, [&](const Ticket& t) { return t.job == &job; });
    left.wait(lock, [&] { return inside == 0; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return !tickets_.empty(); });
      const Ticket ticket = tickets_.front();
      tickets_.pop_front();
      ++*ticket.inside;
      lock.unlock();
      ticket.job->work();
      lock.lock();
      if (--*ticket.inside == 0) ticket.left->notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Ticket> tickets_;
  std::vector<std::thread> workers_;
};

int available_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

void run_with_helpers(Job& job, int helpers) {
  if (helpers <= 0) return job.work();
  Pool::get().run(job, helpers);
}

int default_threads() {
  static const int processors = available_processors();
  return static_cast<int>(env_int(Env::CPU_THREADS, processors, 1));
}

}  // namespace tessera::cpu
