// The queue of a guest stream: one driver call for each piece of work, and no other. The driver's stream may be part of
// a capture, so nothing here records, queries or waits for an event.
#include "runtime/cuda/backend.hpp"
#include "runtime/cuda/launch_state.hpp"
#include "runtime/cuda/queue.hpp"
#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

namespace {

/// Work before it may be the other library's, so no kernel starts before its predecessor has ended.
class GuestLaunch final : public LaunchState {
 public:
  explicit GuestLaunch(const Submission& submission) : submission_(submission) {}
  bool follows_kernel() const noexcept override { return false; }
  bool no_writer_in_flight(std::uint64_t) const noexcept override { return false; }
  bool successor_gains(std::uint64_t) const noexcept override { return false; }
  std::optional<CUdeviceptr> error_record(const std::shared_ptr<const std::vector<calling::Check>>&) override {
    throw DeviceError(
        concat(submission_.label,
               ": a kernel with check(...), or in checked mode (TESSERA_CHECK), cannot run in an operator "
               "of another library on a GPU: that library would not learn that a check failed.\n  Call the "
               "operator with tensors of the CPU to have its checks, or leave them out."),
        submission_.where);
  }
  SourceLocation where() const noexcept override { return submission_.where; }
  void enqueued_kernel(const KernelLaunch&) noexcept override {}

 private:
  const Submission& submission_;
};

class GuestQueue final : public Queue {
 public:
  GuestQueue(CudaBackend& backend, void* native) : backend_(backend), handle_(static_cast<CUstream>(native)) {}

  void launch(const Submission& submission, std::uint64_t) override {
    const Current current(backend_.context());
    GuestLaunch state(submission);
    submission.work->launch(
        {submission.grid, submission.args, submission.accesses, handle_, static_cast<LaunchState*>(&state)});
  }
  EventRef record() override { throw_waits(); }
  void wait(const EventRef&) override { throw_waits(); }
  void release(Retired&) override { throw_waits(); }
  void synchronize() override { throw_waits(); }
  void* native_handle() const noexcept override { return handle_; }

 private:
  [[noreturn]] void throw_waits() const {
    throw DeviceError(concat("an operator of another library waits for work on ", backend_.name(),
                             ": operators only enqueue.\n  Return the operation, and leave .sync() and .on(stream) "
                             "out."));
  }
  CudaBackend& backend_;
  CUstream handle_;
};

}  // namespace

std::unique_ptr<Queue> guest_queue(CudaBackend& backend, void* native) {
  return std::make_unique<GuestQueue>(backend, native);
}

}  // namespace tessera::runtime::cuda
