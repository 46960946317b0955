// A model check of the hand-over of a task's result: its flow ends, another flow takes the result, the owner destroys
// the task or gets the result itself, in every order of their steps. The flow that takes is the awaiter's protocol step
// by step, because a coroutine cannot be stopped inside co_await; the move of the result is stopped in its middle.
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/gate.hpp"
#include "runtime/model/choices.hpp"
#include "tessera/base/format.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace THIS_FILE {

using runtime::Gate;
using runtime::model::Choices;

/// The objects that are alive, and the move that is stopped in its middle.
class Objects {
 public:
  void made(const void* object) {
    std::lock_guard lock(mutex_);
    alive_.insert(object);
  }
  void ended(const void* object) {
    std::lock_guard lock(mutex_);
    alive_.erase(object);
  }
  std::size_t alive() {
    std::lock_guard lock(mutex_);
    return alive_.size();
  }
  /// The mover waits here. Then the object that it moves from has to be alive.
  void move_from(const void* source) {
    std::unique_lock lock(mutex_);
    moving_ = true;
    changed_.notify_all();
    changed_.wait(lock, [&] { return goes_on_; });
    moving_ = goes_on_ = false;
    if (!alive_.contains(source)) ++used_after_end_;
  }
  bool moving() {
    std::lock_guard lock(mutex_);
    return moving_;
  }
  void go_on() {
    std::lock_guard lock(mutex_);
    goes_on_ = true;
    changed_.notify_all();
  }
  int used_after_end() {
    std::lock_guard lock(mutex_);
    return used_after_end_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::set<const void*> alive_;
  bool moving_ = false, goes_on_ = false;
  int used_after_end_ = 0;
};

class Result {
 public:
  explicit Result(Objects& objects) : objects_(&objects) { objects.made(this); }
  Result(Result&& other) noexcept : objects_(other.objects_), moves_(other.moves_ + 1) {
    objects_->made(this);
    if (moves_ == 2) objects_->move_from(&other);  // 1: into the promise; 2: out of it
  }
  ~Result() { objects_->ended(this); }

 private:
  Objects* objects_;
  int moves_ = 0;
};

Flow<Result> makes(Objects& objects) {
  auto t = co_await zeros<f32>(Dims(4));
  (void)co_await host(t);
  co_return Result(objects);
}

/// An event loop whose steps the search takes.
struct Loop {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<FlowStep> steps;
  FlowPost post = [this](FlowStep step) {
    std::lock_guard lock(mutex);
    steps.push_back(std::move(step));
    changed.notify_all();
  };
  bool empty() {
    std::lock_guard lock(mutex);
    return steps.empty();
  }
  FlowStep take() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !steps.empty(); });
    FlowStep step = std::move(steps.front());
    steps.pop_front();
    return step;
  }
};

/// A coroutine that notes that it was resumed.
struct Resumable {
  struct promise_type {
    Resumable get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() const noexcept {}
  };
  std::coroutine_handle<promise_type> handle;
};
Resumable notes_resumption(bool& resumed) {
  resumed = true;
  co_return;
}

/// A function on a thread of its own.
class Running {
 public:
  template <class F>
  void start(F f) {
    thread_ = std::thread([this, f] {
      f();
      std::lock_guard lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    });
  }
  bool started() const { return thread_.joinable(); }
  bool ends_within(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time, [&] { return ended_; });
  }
  ~Running() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::thread thread_;
};
constexpr std::chrono::milliseconds kMoment{3}, kForever{20000};

enum class Owner { Destroys, Replaces, Gets };

/// One order of the steps.
class World {
 public:
  World(Owner owner, Choices& choices) : owner_(owner), choices_(choices) {
    task_.emplace(spawn(makes(objects_), {gate_.stream, makers_.post}));
    taking_run_ = detail::make_flow_run(detail::FlowRun::Mode::Asynchronous, {}, takers_.post, {});
    frame_ = notes_resumption(resumed_);
  }
  ~World() {
    awaiter_.reset();
    frame_.handle.destroy();
  }

  /// The first promise that was broken; empty if none.
  std::string run() {
    for (;;) {
      if (awaiter_ && suspended_ && !resumed_ && takers_.empty() && (made_ || has_ended(destroying_))) {
        broken_ = "the flow that awaits is never resumed";
        return finish();
      }
      const auto steps = possible();
      if (steps.empty()) break;
      const unsigned choice = choices_.pick(static_cast<unsigned>(steps.size()));
      if (choice >= steps.size()) return concat("what can happen next depends on timing:", trace_);
      const Step& step = steps[choice];
      trace_ += concat(" ", step.name);
      step.make();
      if (!broken_.empty()) return finish();
    }
    return finish();
  }

 private:
  struct Step {
    const char* name;
    std::function<void()> make;
  };
  using Awaiter = detail::TaskAwaiter<Result>;

  std::vector<Step> possible() {
    std::vector<Step> steps;
    const auto add = [&](const char* name, auto f) { steps.push_back({name, f}); };
    if (!made_ && !destroyed_) add("end", [this] { end_flow(); });
    if (!awaiter_ && !awaiter_ended_ && !destroyed_ && !getting_.started()) add("await", [this] { make_awaiter(); });
    if (awaiter_ && !taking_.started()) {
      // Whether get() has begun to wait by then would depend on timing.
      if (!ready_ && !suspended_ && !resumed_ && !get_waits_) add("suspend", [this] { suspend(); });
      if (suspended_ && !takers_.empty()) add("resume", [this] { resume(); });
      if (ready_ || resumed_) add("take", [this] { take(); });
      if (!taking_.started()) add("drop", [this] { drop(); });
    }
    if (objects_.moving()) add("moved", [this] { finish_move(); });
    if (owner_ == Owner::Gets && !getting_.started() && !destroyed_) add("get", [this] { get(); });
    const bool gets = getting_.started() && (get_waits_ || !has_ended(getting_));
    if (!destroyed_ && !gets) add("destroy", [this] { destroy(); });
    return steps;
  }

  static bool has_ended(Running& running) {
    return running.started() && running.ends_within(std::chrono::milliseconds(0));
  }
  void end_flow() {
    gate_.open();
    makers_.take()();
    made_ = true;
    if (get_waits_) settle(getting_);
    get_waits_ = false;
  }
  void make_awaiter() {
    try {
      awaiter_.reset(new Awaiter(task_->awaiter(taking_run_->branch(), {})));
    } catch (const BorrowError&) {  // get() has the result
      awaiter_ended_ = true;
      return;
    }
    ready_ = awaiter_->await_ready();
  }
  void suspend() {
    try {
      suspended_ = awaiter_->await_suspend(frame_.handle);
    } catch (const BorrowError&) { return drop(); }
    ready_ = !suspended_;
  }
  void resume() {
    takers_.take()();
    if (!resumed_) broken_ = "a step of the flow that awaits does not resume it";
  }
  void take() {
    const bool was_destroyed = destroyed_, moving = objects_.moving();
    taking_.start([this] {
      try {
        const Result result = awaiter_->await_resume();
        taken_ = true;
      } catch (const BorrowError&) { taken_ = false; }
    });
    moving ? end_taking() : settle(taking_);
    if (was_destroyed && objects_.moving()) broken_ = "a flow takes the result of a task that was destroyed";
    if (!objects_.moving()) end_taking();
  }
  void end_taking() {
    if (!taking_.ends_within(kForever)) broken_ = "the flow that takes the result waits for ever";
    awaiter_ended_ = true;
    awaiter_.reset();
  }
  void drop() {
    awaiter_.reset();
    suspended_ = false;
    awaiter_ended_ = true;
  }
  void get() {
    const bool moving = objects_.moving();
    get_waits_ = !made_ && !suspended_;
    getting_.start([this] {
      try {
        const Result result = task_->get();
        got_ = true;
      } catch (const BorrowError&) { got_ = false; }
    });
    if (moving && !getting_.ends_within(kForever)) broken_ = "get() waits for a result that is taken";
    if (!moving && !get_waits_) settle(getting_);
  }
  void destroy() {
    destroying_.start([this] {
      if (owner_ == Owner::Replaces)
        *task_ = spawn(makes(objects_), {gate_.stream, others_.post});
      else
        task_.reset();
    });
    destroyed_ = true;
    const bool moving = objects_.moving();
    const bool ended = destroying_.ends_within(moving ? kMoment : kForever);
    if (moving && ended) broken_ = "the task is destroyed while its result is being moved";
    if (!moving && !ended) broken_ = "the destructor waits for ever";
  }
  void finish_move() {
    objects_.go_on();
    if (taking_.started() && !awaiter_ended_) end_taking();
    if (getting_.started() && !getting_.ends_within(kForever)) broken_ = "get() waits for ever";
    if (destroying_.started() && !destroying_.ends_within(kForever)) broken_ = "the destructor waits for ever";
  }
  /// Lets a thread go on until it has ended or moves the result.
  void settle(Running& running) {
    for (int i = 0; i < kForever.count() && !objects_.moving(); ++i) {
      if (running.ends_within(std::chrono::milliseconds(1))) return;
    }
  }

  std::string finish() {
    if (!made_ && !destroyed_) end_flow();
    while (objects_.moving()) finish_move();
    if (getting_.started() && !getting_.ends_within(kForever)) return concat("get() waits for ever:", trace_);
    if (destroying_.started() && !destroying_.ends_within(kForever)) return concat("no end of ~Task:", trace_);
    awaiter_.reset();
    task_.reset();
    if (broken_.empty() && objects_.used_after_end() != 0) broken_ = "the result is moved from a frame that is gone";
    if (broken_.empty() && taken_ && got_) broken_ = "the result was given twice";
    if (broken_.empty() && objects_.alive() != 0) broken_ = "a result is never destroyed";
    return broken_.empty() ? "" : concat(broken_, ":", trace_);
  }

  Owner owner_;
  Choices& choices_;
  Objects objects_;
  Gate gate_;
  Loop makers_, takers_, others_;
  std::optional<Task<Result>> task_;
  std::shared_ptr<detail::FlowRun> taking_run_;
  Resumable frame_;
  std::unique_ptr<Awaiter> awaiter_;
  bool made_ = false, destroyed_ = false, ready_ = false, suspended_ = false, resumed_ = false;
  bool awaiter_ended_ = false, get_waits_ = false, taken_ = false, got_ = false;
  std::string broken_, trace_;
  Running taking_, getting_, destroying_;
};

/// All orders.
void check_all(Owner owner, int least) {
  Choices choices = Choices::all(false);
  int runs = 0;
  do {
    World world(owner, choices);
    const std::string broken = world.run();
    ASSERT_EQ(broken, "") << "after " << runs << " orders";
    ++runs;
  } while (choices.next());
  EXPECT_GE(runs, least);
  std::printf("%d orders\n", runs);
}

TEST(ModelHandOver, TheTaskIsDestroyedBesideTheTakingOfItsResult) { check_all(Owner::Destroys, 30); }
TEST(ModelHandOver, AnotherTaskIsAssignedBesideTheTakingOfItsResult) { check_all(Owner::Replaces, 30); }
TEST(ModelHandOver, ItsOwnerGetsTheResultBesideAFlowThatTakesIt) { check_all(Owner::Gets, 60); }

}  // namespace THIS_FILE
}  // namespace tessera
