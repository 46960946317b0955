// What one thread hands to another: the result of a task whose owner destroys it meanwhile, replays of a graph that
// another thread enqueues.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/gate.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace THIS_FILE {

using runtime::Gate;

/// A result whose move out of the frame goes on until the task has been destroyed, or for a moment.
struct SlowResult {
  struct Move {
    std::atomic<bool> begun{false}, destroyed{false};
    std::atomic<int> frames{0};  // objects in frames of flows
  };
  Move* move = nullptr;
  int moves = 0;
  explicit SlowResult(Move& m) : move(&m) {}
  SlowResult(SlowResult&& other) noexcept : move(other.move), moves(other.moves + 1) {
    if (moves == 1) ++move->frames;
    if (moves != 2) return;
    move->begun = true;
    for (int i = 0; i < 50 && !move->destroyed; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    in_time = move->frames == 1;
  }
  ~SlowResult() {
    if (moves == 1) --move->frames;
  }
  bool in_time = false;
};
Flow<SlowResult> makes_slowly(SlowResult::Move& move) {
  auto t = co_await zeros<f32>(Dims(4));
  (void)co_await host(t);
  co_return SlowResult(move);
}
Flow<bool> takes(Task<SlowResult>& task) { co_return (co_await task).in_time; }
TEST(HandOver, TasksAreDestroyedAfterTheirResultHasBeenTaken) {
  SlowResult::Move move;
  Gate gate;
  std::optional task(spawn(makes_slowly(move), gate.stream));
  auto taking = spawn(takes(*task));
  gate.open();
  while (!move.begun) std::this_thread::yield();
  task.reset();
  move.destroyed = true;
  EXPECT_TRUE(taking.get()) << "the frame ended while its result was moved";
  EXPECT_EQ(move.frames, 0);
}

/// A result that destroys its own task while it is moved.
struct Ends {
  std::optional<Task<Ends>>* task = nullptr;
  int moves = 0;
  explicit Ends(std::optional<Task<Ends>>& t) : task(&t) {}
  Ends(Ends&& other) noexcept : task(other.task), moves(other.moves + 1) {
    if (moves == 2) task->reset();
  }
};
Flow<Ends> ends_itself(std::optional<Task<Ends>>& task) {
  auto t = co_await zeros<f32>(Dims(4));
  (void)co_await host(t);
  co_return Ends(task);
}
Flow<int> takes_end(Task<Ends>& task) { co_return (co_await task).moves; }
TEST(HandOver, TasksMayBeDestroyedByTheMoveOfTheirResult) {
  for (const bool by_flow : {true, false}) {
    std::optional<Task<Ends>> task;
    Gate gate;
    task.emplace(spawn(ends_itself(task), gate.stream));
    if (by_flow) {
      auto taking = spawn(takes_end(*task));
      gate.open();
      EXPECT_EQ(taking.get(), 2);
    } else {
      gate.open();
      EXPECT_GE(task->get().moves, 2);
    }
    EXPECT_FALSE(task);
  }
}

template <int B>
void add_one(Mut<i32, B> y) {
  y.store(y.load() + 1);
}
Flow<> counts(Tensor<i32, 1>& y) { co_await kernel<add_one<8>>(mut(y)); }
/// Under the thread sanitizer this finds what the two threads use without order.
TEST(HandOver, AReplayIsEnqueuedByAnotherThread) {
  auto graph = capture(counts, zeros<i32>({8}).sync());
  Stream stream(Device::cpu());
  constexpr int kRounds = 200;
  int rejected = 0;
  for (int i = 0; i < kRounds; ++i) {
    Op<void> built = graph.replay();
    std::thread other([&stream, replay = std::move(built)]() mutable { std::move(replay).on(stream); });
    for (bool enqueued = false; !enqueued;) {
      try {
        graph.replay().on(stream);
        enqueued = true;
      } catch (const BorrowError&) { ++rejected; }
    }
    other.join();
  }
  stream.synchronize();
  EXPECT_EQ(host(graph.input<0>()).sync(), std::vector<i32>(8, 2 * kRounds)) << rejected;
}

}  // namespace THIS_FILE
}  // namespace tessera
