// A queue with a thread. Its state is shared by the queue, the thread and the events, and each may outlive the others:
// a queue that its own work destroys (the work held the last reference to the stream) detaches its thread.
#include "runtime/cpu/thread_queue.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/work_scope.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/fork.hpp"
#include "tessera/base/format.hpp"
#include "tessera/runtime/small_vector.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera::runtime {

namespace {

/// One entry of the queue: work, or waiting for another queue's event.
struct Task {
  EventRef wait;
  std::shared_ptr<const Launchable> work;
  LaunchGrid grid;
  std::uint64_t number = 0;
  SmallVector<std::uint64_t, 32> args;
  SmallVector<Access, 8> accesses;
};

/// The number of queues with work. At exit the process waits for them before static variables are destroyed, so work is
/// never interrupted.
class Busy {
 public:
  static Busy& queues() {
    static PerProcess<Busy> all;  // in a child of fork() the parent's queues do nothing
    static struct AtExit {
      ~AtExit() { queues().wait(); }
    } at_exit;
    return all.get();
  }
  void add() {
    std::lock_guard lock(mutex_);
    ++count_;
  }
  void remove() {
    std::lock_guard lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }

 private:
  void wait() {
    std::unique_lock lock(mutex_);
    none_.wait(lock, [&] { return count_ == 0; });
  }
  std::mutex mutex_;
  std::condition_variable none_;
  int count_ = 0;
};

/// With this many tasks in the queue, enqueuing blocks, as a GPU's driver does.
constexpr std::uint64_t kMaxTasks = 4096;

struct State {
  std::mutex mutex;
  std::condition_variable more, less;  // tasks arrived, or the end; tasks ended
  std::vector<Task> tasks;             // not taken by the thread yet
  std::uint64_t enqueued = 0, ended = 0;
  std::atomic<std::uint64_t> last_ended{0};  // the number of the last piece of work that has ended
  bool stop = false;
  std::shared_ptr<QueueObserver> observer;

  bool idle = false;  // the thread waits for tasks: only then is it woken, which costs a system call
  int waiting = 0;    // threads that wait for tasks to end

  void push(Task&& task) {
    bool wake = false;
    {
      std::unique_lock lock(mutex);
      wait_until(lock, enqueued - std::min(enqueued, kMaxTasks - 1));
      tasks.push_back(std::move(task));
      if (enqueued++ == ended) Busy::queues().add();
      wake = std::exchange(idle, false);
    }
    if (wake) more.notify_one();
  }
  void wait_until(std::uint64_t position) {
    std::unique_lock lock(mutex);
    wait_until(lock, position);
  }
  void wait_until(std::unique_lock<std::mutex>& lock, std::uint64_t position) {
    if (ended >= position) return;
    ++waiting;
    less.wait(lock, [&] { return ended >= position; });
    --waiting;
  }
};

void run(const Task& task, QueueObserver& observer) noexcept {
  if (task.wait) return task.wait->wait();
  run_work(*task.work, {task.grid, task.args.span(), task.accesses.span(), nullptr}, task.number, observer);
}

/// The thread: takes all tasks, runs them, and ends when `stop` is set and no task is left. The two vectors are
/// swapped, so that a stream in steady state allocates nothing.
void serve(State& state) {
  std::vector<Task> taken;
  for (;;) {
    {
      std::unique_lock lock(state.mutex);
      while (!state.stop && state.tasks.empty()) {
        state.idle = true;
        state.more.wait(lock);
      }
      if (state.tasks.empty()) return;
      taken.swap(state.tasks);
    }
    for (Task& task : taken) {
      const std::uint64_t number = task.number;
      run(task, *state.observer);
      {
        WorkScope scope;  // the last reference to another stream may be released here; its destructor must not wait
        task = Task();
      }
      if (number != 0) state.last_ended.store(number, std::memory_order_release);
      std::lock_guard lock(state.mutex);
      if (++state.ended == state.enqueued) Busy::queues().remove();
      if (state.waiting > 0) state.less.notify_all();
    }
    taken.clear();
  }
}

class PositionEvent final : public Event {
 public:
  PositionEvent(const Backend& backend, std::shared_ptr<State> state, std::uint64_t position)
      : backend_(backend), state_(std::move(state)), position_(position) {}
  bool done() const override {
    std::lock_guard lock(state_->mutex);
    return state_->ended >= position_;
  }
  void wait() const override { state_->wait_until(position_); }
  const Backend& backend() const noexcept override { return backend_; }

 private:
  const Backend& backend_;
  std::shared_ptr<State> state_;
  std::uint64_t position_;
};

class ThreadQueue final : public Queue {
 public:
  ThreadQueue(Backend& backend, std::shared_ptr<QueueObserver> observer)
      : backend_(backend), state_(std::make_shared<State>()) {
    state_->observer = std::move(observer);
    try {
      thread_ = std::make_unique<std::thread>([state = state_] { serve(*state); });
    } catch (const std::system_error& error) {
      throw DeviceError(concat("cannot start a thread for a stream on cpu: ", error.what()));
    }
  }
  ~ThreadQueue() override {
    if (generation_ != fork_generation()) {
      (void)thread_.release();  // a thread of the parent process
      return;
    }
    const bool leave = inside_work();  // joining could wait for this thread itself
    {
      std::lock_guard lock(state_->mutex);
      state_->stop = true;
    }
    state_->more.notify_one();
    leave ? thread_->detach() : thread_->join();
  }

  void launch(const Submission& submission, std::uint64_t number) override {
    Task task;
    task.work = submission.work;
    task.grid = submission.grid;
    task.number = number;
    task.args.assign(submission.args);
    task.accesses.assign(submission.accesses);
    state_->push(std::move(task));
  }
  EventRef record() override {
    std::lock_guard lock(state_->mutex);
    return std::make_shared<PositionEvent>(backend_, state_, state_->enqueued);
  }
  void wait(const EventRef& event) override {
    Task task;
    task.wait = event;
    state_->push(std::move(task));
  }
  void release(Retired& memory) override { memory.owner.reset(); }
  void synchronize() override {
    std::uint64_t last = 0;
    {
      std::lock_guard lock(state_->mutex);
      last = state_->enqueued;
    }
    state_->wait_until(last);
  }
  bool ended_before_fork(std::uint64_t number) const noexcept override {
    return state_->last_ended.load(std::memory_order_acquire) >= number;
  }

 private:
  Backend& backend_;
  std::shared_ptr<State> state_;
  std::unique_ptr<std::thread> thread_;
  std::uint32_t generation_ = fork_generation();
};

}  // namespace

std::unique_ptr<Queue> make_thread_queue(Backend& backend, std::shared_ptr<QueueObserver> observer) {
  return std::make_unique<ThreadQueue>(backend, std::move(observer));
}

}  // namespace tessera::runtime
