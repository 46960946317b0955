// The thread starts with the first job and ends with the process.
#include "jit/learn/background.hpp"

#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

namespace tessera::jit {
namespace {

struct Background {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> jobs;
  bool started = false, ends = false, busy = false;
  pid_t process = getpid();
};

/// Never destroyed: the thread may still be in a job when the process ends.
Background& background() {
  static auto* const one = new Background;
  return *one;
}

void run() {
  Background& b = background();
  std::unique_lock lock(b.mutex);
  for (;;) {
    b.changed.wait(lock, [&] { return b.ends || !b.jobs.empty(); });
    if (b.ends) return;
    const std::function<void()> job = std::move(b.jobs.front());
    b.jobs.pop_front();
    b.busy = true;
    lock.unlock();
    try {
      job();
    } catch (const std::exception&) {}  // as in_background() says
    lock.lock();
    b.busy = false;
    if (b.jobs.empty()) b.changed.notify_all();
  }
}

void start(Background& b) {
  try {
    std::thread(run).detach();
  } catch (const std::system_error&) { return; }  // no thread can be created: the jobs wait for the next call
  b.started = true;
  std::atexit([] {
    Background& ending = background();
    const std::lock_guard lock(ending.mutex);
    ending.ends = true;
    ending.changed.notify_all();
  });
}

}  // namespace

void in_background(std::function<void()> job) {
  Background& b = background();
  if (b.process != getpid()) return;
  const std::lock_guard lock(b.mutex);
  if (b.ends) return;
  b.jobs.push_back(std::move(job));
  if (!b.started) start(b);
  b.changed.notify_all();
}

void wait_for_background() {
  Background& b = background();
  if (b.process != getpid()) return;
  std::unique_lock lock(b.mutex);
  b.changed.wait(lock, [&] { return b.ends || !b.started || (b.jobs.empty() && !b.busy); });
}

}  // namespace tessera::jit
