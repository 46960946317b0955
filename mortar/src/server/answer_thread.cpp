// The loop of the thread, and the runs that it watches.
#include "server/answer_thread.hpp"

#include <algorithm>
#include <future>

#include "tessera/base/format.hpp"

namespace mortar::server {
namespace {

constexpr std::chrono::milliseconds kTick{500};  // between looks for runs that take too long

}  // namespace

AnswerThread::AnswerThread(double timeout) : timeout_(timeout), thread_([this] { loop(); }) {}

AnswerThread::~AnswerThread() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void AnswerThread::deliver(Run::Arrived arrived) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = arrived_.empty();
    arrived_.push_back(std::move(arrived));
  }
  if (first) changed_.notify_one();
}

void AnswerThread::watch(const std::shared_ptr<Run>& run) {
  std::optional<ApiError> last;
  {
    const std::lock_guard lock(mutex_);
    runs_.push_back(run);
    last = last_;
  }
  if (last) post([run, error = *last] { run->fail(error); });
}

void AnswerThread::post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void AnswerThread::fail_all(const ApiError& error) {
  std::promise<void> done;
  post([&] {
    std::vector<std::weak_ptr<Run>> runs;
    {
      const std::lock_guard lock(mutex_);
      runs = runs_;
      last_ = error;
    }
    for (const auto& weak : runs)
      if (const auto run = weak.lock()) run->fail(error);
    done.set_value();
  });
  done.get_future().wait();
}

std::size_t AnswerThread::live() {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(runs_.begin(), runs_.end(), [](const std::weak_ptr<Run>& weak) {
    const auto run = weak.lock();
    return run != nullptr && !run->ended();
  }));
}

void AnswerThread::fail_late() {
  std::vector<std::shared_ptr<Run>> late;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(runs_, [](const std::weak_ptr<Run>& weak) {
      const auto run = weak.lock();
      return run == nullptr || run->ended();
    });
    const auto now = std::chrono::steady_clock::now();
    for (const auto& weak : runs_)
      if (auto run = weak.lock();
          run != nullptr && timeout_ > 0 && std::chrono::duration<double>(now - run->started()).count() > timeout_)
        late.push_back(std::move(run));
  }
  const ApiError error(503, tessera::concat("the answer was not complete within ", timeout_, " seconds (--timeout)"),
                       "", "timeout");
  for (const auto& run : late) run->fail(error);
}

void AnswerThread::loop() {
  std::vector<Run::Arrived> arrived;
  std::vector<std::function<void()>> work;
  std::vector<std::shared_ptr<Run>> touched;
  auto looked = std::chrono::steady_clock::now();
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, kTick, [&] { return ends_ || !arrived_.empty() || !work_.empty(); });
      arrived.swap(arrived_);
      work.swap(work_);
      if (ends_ && arrived.empty() && work.empty()) return;
    }
    for (const auto& each : work) each();
    work.clear();
    for (Run::Arrived& each : arrived) {
      if (each.run->ended()) continue;
      each.run->take(each);
      if (std::find(touched.rbegin(), touched.rend(), each.run) == touched.rend()) touched.push_back(each.run);
    }
    arrived.clear();
    for (const auto& run : touched) run->flush();
    touched.clear();
    if (const auto now = std::chrono::steady_clock::now(); now - looked >= kTick) {
      looked = now;
      fail_late();
    }
  }
}

}  // namespace mortar::server
