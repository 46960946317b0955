// A queue that runs work at once, on the thread that enqueues it.
#include "runtime/cpu/immediate_queue.hpp"

#include <utility>

#include "runtime/work_scope.hpp"

namespace tessera::runtime {

namespace {

class DoneEvent final : public Event {
 public:
  explicit DoneEvent(const Backend& backend) : backend_(backend) {}
  bool done() const override { return true; }
  void wait() const override {}
  const Backend& backend() const noexcept override { return backend_; }

 private:
  const Backend& backend_;
};

class ImmediateQueue final : public Queue {
 public:
  ImmediateQueue(Backend& backend, std::shared_ptr<QueueObserver> observer)
      : observer_(std::move(observer)), done_(std::make_shared<DoneEvent>(backend)) {}

  void launch(const Submission& submission, std::uint64_t number) override {
    LaunchContext context{submission.grid, submission.args, submission.accesses};
    context.immediate = true;
    run_work(*submission.work, context, number, *observer_);
  }
  EventRef record() override { return done_; }
  void wait(const EventRef& event) override { event->wait(); }
  void release(Retired& memory) override { memory.owner.reset(); }
  void synchronize() override {}
  bool immediate() const noexcept override { return true; }

 private:
  std::shared_ptr<QueueObserver> observer_;
  EventRef done_;
};

}  // namespace

std::unique_ptr<Queue> make_immediate_queue(Backend& backend, std::shared_ptr<QueueObserver> observer) {
  return std::make_unique<ImmediateQueue>(backend, std::move(observer));
}

}  // namespace tessera::runtime
