// The thread pool: sleeping workers and a queue of tickets. A ticket assigns one worker to a job. When the caller has
// finished its own share, tickets that no worker has taken are withdrawn, so a busy pool never delays a launch.
#include "codegen/cpu/threads.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
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
    int inside = 0, sleepers = 0;
    std::condition_variable left;
    {
      std::lock_guard lock(mutex_);
      while (static_cast<int>(workers_.size()) < helpers) workers_.emplace_back([this] { serve(); }).detach();
      for (int i = 0; i < helpers; ++i) tickets_.push_back({&job, &inside, &left});
      waiting_.fetch_add(helpers, std::memory_order_relaxed);
      sleepers = asleep_;
    }
    if (helpers == 1 && sleepers > 0) {
      wake_.notify_one();
    } else if (sleepers > 0) {
      wake_.notify_all();
    }
    job.work();
    std::unique_lock lock(mutex_);
    const auto withdrawn = std::erase_if(tickets_, [&](const Ticket& t) { return t.job == &job; });
    waiting_.fetch_sub(static_cast<int>(withdrawn), std::memory_order_relaxed);
    left.wait(lock, [&] { return inside == 0; });
  }

 private:
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      if (tickets_.empty()) {
        lock.unlock();
        look_out();
        lock.lock();
      }
      ++asleep_;
      wake_.wait(lock, [&] { return !tickets_.empty(); });
      --asleep_;
      const Ticket ticket = tickets_.front();
      tickets_.pop_front();
      waiting_.fetch_sub(1, std::memory_order_relaxed);
      ++*ticket.inside;
      lock.unlock();
      ticket.job->work();
      lock.lock();
      if (--*ticket.inside == 0) ticket.left->notify_all();
    }
  }

  /// Looks for tickets for a while: launches follow each other, and to wake a thread takes longer than many kernels
  /// run.
  void look_out() const {
    const auto until = std::chrono::steady_clock::now() + kLookOut;
    while (waiting_.load(std::memory_order_relaxed) == 0 && std::chrono::steady_clock::now() < until)
      for (int i = 0; i < kPauses; ++i) pause();
  }
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  static constexpr std::chrono::microseconds kLookOut{50};
  static constexpr int kPauses = 16;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<int> waiting_{0};  ///< as many as tickets; read without the mutex
  int asleep_ = 0;
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
