// One execution of a flow: which stream its operations go to, how it waits, how it ends. Untyped; the templates of
// flow.hpp and task.hpp are a thin skin. docs/flows.md explains the design.
#pragma once
#include <coroutine>
#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/host/op.hpp"

namespace tessera {

namespace detail {
class FlowRun;
}

/// Continues a flow: what is given to an event loop. Copyable; to be called once, on any thread. If all copies are
/// destroyed and none was called, the task ends with a DeviceError.
class FlowStep {
 public:
  explicit FlowStep(std::shared_ptr<detail::FlowRun> run);
  void operator()() const;

 private:
  struct Once;
  std::shared_ptr<Once> once_;
};

/// How an event loop takes a function to run on its thread:
///   FlowPost([&io](FlowStep step) { boost::asio::post(io, step); })
/// Throws BorrowError for a null function.
class FlowPost {
 public:
  FlowPost() noexcept = default;
  template <class F>
    requires(std::is_invocable_v<const F&, FlowStep> && !std::is_same_v<F, FlowPost>)
  FlowPost(F post, SourceLocation where = SourceLocation::current()) {  // NOLINT: a conversion
    detail::check_function(post, "FlowPost", where);
    post_ = std::make_shared<const Posting<F>>(std::move(post));
  }
  explicit operator bool() const noexcept { return post_ != nullptr; }
  void operator()(FlowStep step) const { post_->call(std::move(step)); }
  /// True for copies of one object: the same event loop. False says nothing.
  bool is(const FlowPost& other) const noexcept { return post_ != nullptr && post_ == other.post_; }

 private:
  struct Base {
    virtual ~Base() = default;
    virtual void call(FlowStep step) const = 0;
  };
  template <class F>
  struct Posting final : Base {
    F post;
    explicit Posting(F&& p) : post(std::move(p)) {}
    void call(FlowStep step) const override { post(std::move(step)); }
  };
  std::shared_ptr<const Base> post_;
};

namespace detail {

/// A sequence of flows that await each other: the flow that was started, or one of a fork.
struct FlowBranch {
  FlowRun* run = nullptr;
  std::optional<Stream> stream;  ///< empty: the default stream of each operation's device
};

/// What the promises of all flows share.
struct FlowPromise {
  std::coroutine_handle<> self;
  FlowBranch* branch = nullptr;          ///< null until the flow is started
  FlowPromise* awaiter = nullptr;        ///< the flow that awaits this one; null for the first of an execution
  FlowPromise* below = nullptr;          ///< in the stack of what is resumed next
  std::size_t* still_running = nullptr;  ///< of a fork: the number of its flows that have not ended, and the awaiter
  std::exception_ptr error;

  /// The flow has ended: the one that awaits it can be resumed. From its final suspension.
  void at_end() const noexcept;
};

/// An execution. Its flows run on one thread at a time, the driver.
class FlowRun : public std::enable_shared_from_this<FlowRun> {
 public:
  enum class Mode { Blocking, Asynchronous };
  FlowRun(Mode mode, std::optional<Stream> stream, FlowPost post);
  ~FlowRun();
  FlowRun(const FlowRun&) = delete;
  FlowRun& operator=(const FlowRun&) = delete;

  FlowBranch& branch() noexcept { return first_; }
  /// Resumes `root` for the first time, on this thread. Blocking: until it has ended; else until it waits.
  void start(std::coroutine_handle<> root);

  // -- for awaiting flows, on the driver --
  /// Resumes a flow as soon as the one that runs now is suspended, before what was given here earlier. A stack of the
  /// driver's and no transfer from coroutine to coroutine: without optimisation g++ makes that a call, and a loop of
  /// co_await would fill the thread's stack.
  void resume_next(FlowPromise& flow) noexcept;
  /// Resumes `flow` when all of `work` has ended. The caller suspends. Throws DeviceError if nothing can wait for it.
  void resume_after(std::coroutine_handle<> flow, std::vector<runtime::Ticket> work, SourceLocation where);
  /// A stream for another flow of a fork, and its return.
  Stream take_stream(const FlowBranch& parent);
  void give_stream(Stream stream) noexcept;
  /// The first flow has ended; called from its final suspension.
  void ended() noexcept;

  // -- for any thread --
  /// `flow` can be resumed: from now on the driver resumes it. Does nothing after cancel(). What the event loop's
  /// function throws ends the execution.
  void post(std::coroutine_handle<> flow) noexcept;
  /// What FlowStep does: drives if no thread does and a flow can be resumed.
  void step();
  /// A FlowStep was destroyed and not called: the event loop continues nothing any more.
  void step_lost() noexcept;
  /// Ends an execution that nothing can continue. take_result() throws `why`.
  void abandon(const std::exception_ptr& why) noexcept;
  /// True if the first flow has ended and no thread drives. In a child of fork() throws DeviceError for an execution of
  /// its parent that has not ended: it never does there.
  bool done(SourceLocation where) const;
  /// Blocks until done(). Throws DeviceError on the thread that would have to drive the flow, BorrowError if a flow
  /// awaits the task.
  void wait(SourceLocation where);
  /// True once there is a ResultClaim.
  bool taken() const;
  /// Blocks until the work that the flows have enqueued has ended. Throws the first failure of it that was not thrown
  /// yet. After done().
  void wait_for_work();
  /// The same work as work of what encloses the caller: a flow, or an operation that waits.
  void hand_over_work();
  /// Resumes `flow` of `other` when this execution is done. False if it is done already. Throws BorrowError if another
  /// flow awaits it, DeviceError if it awaits `other`, or if `other` keeps the thread that has to continue it.
  bool notify_when_done(FlowRun& other, std::coroutine_handle<> flow, SourceLocation where);
  /// Undoes it, if `flow` was not resumed.
  void stop_notifying(std::coroutine_handle<> flow) noexcept;
  /// Ends a flow that has not ended: no flow of it is resumed any more, and no other thread drives it or takes its
  /// result when this returns. `frame` keeps the frame; it is released at once, or, where the thread that does one of
  /// the two cancels, after that. Who awaits the task gets a BorrowError.
  void cancel(std::shared_ptr<void> frame) noexcept;

 private:
  friend class FlowWaiter;
  friend class ResultClaim;
  struct Wait;
  struct State;
  void drive();
  void drive_until_done();
  bool wait_for_first();
  bool needs_this_thread() const;
  bool awaits(FlowRun& other);
  void claim_result(SourceLocation where);
  void end_claim() noexcept;
  void abandon_if(const std::exception_ptr& why, bool only_if_lost) noexcept;
  bool of_parent_process() const noexcept;

  FlowBranch first_;
  std::unique_ptr<State> state_;
};

/// The right to take the result of an execution from the promise of its first flow. FlowRun::cancel(), on another
/// thread, waits until the claim has ended, so the frame stays while its result is being moved. For one use after
/// done().
class ResultClaim {
 public:
  /// Throws BorrowError if the result was claimed before or the task was destroyed, and what ended an execution from
  /// outside.
  ResultClaim(std::shared_ptr<FlowRun> run, SourceLocation where) : run_(std::move(run)) { run_->claim_result(where); }
  ResultClaim(const ResultClaim&) = delete;
  ResultClaim& operator=(const ResultClaim&) = delete;
  ~ResultClaim() { run_->end_claim(); }

 private:
  std::shared_ptr<FlowRun> run_;
};

/// Destroys the frame of a flow, if there is one, with the flows inside it, however deep they are. Without memory for
/// the stack that this needs it is leaked.
void end_frame(std::coroutine_handle<> frame) noexcept;
/// What awaiting an operation needs, whatever its result.
class OpWait {
 public:
  OpWait(const OpBase& op, FlowBranch& branch, SourceLocation where);
  OpWait(const OpWait&) = delete;
  OpWait& operator=(const OpWait&) = delete;
  /// True if running the operation need not wait.
  bool ready(OpBase& op);
  void await_suspend(std::coroutine_handle<> flow);
  const Stream& stream() const noexcept { return stream_; }
  SourceLocation where() const noexcept { return where_; }

 protected:
  ~OpWait() = default;

 private:
  FlowBranch& branch_;
  SourceLocation where_;
  Stream stream_;
  std::vector<runtime::Ticket> work_;
};
/// The stream of a flow that is being captured into a graph, else null.
const Stream* captured_stream(const FlowBranch& branch) noexcept;

/// True if all of the work is known to have ended, or its device can no longer say.
bool has_ended(const std::vector<runtime::Ticket>& work) noexcept;

[[noreturn]] void throw_empty_flow(const char* what, SourceLocation where);
/// A flow is not run while a kernel is recorded.
std::shared_ptr<FlowRun> make_flow_run(FlowRun::Mode mode, std::optional<Stream> stream, FlowPost post,
                                       SourceLocation where);

}  // namespace detail
}  // namespace tessera
