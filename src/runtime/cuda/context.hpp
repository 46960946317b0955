// One GPU's primary context, and the only place where driver results become exceptions. The driver reports a kernel's
// fault at the next call, whichever that is, and at every call after it. The context therefore stores the first report,
// with the kernels that were running, and includes it in every later error.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/launch_log.hpp"
#include "tessera/base/fork.hpp"
#include "tessera/base/source_location.hpp"

namespace tessera::runtime::cuda {

/// What a driver call was for. Text is built from it only if the call fails.
struct Purpose {
  const char* what;               ///< "waiting for work"
  const char* subject = nullptr;  ///< "kernel saxpy"
  SourceLocation where{};
  Purpose(const char* text) : what(text) {}  // NOLINT(google-explicit-constructor)
  Purpose(const char* text, const char* about, SourceLocation at) : what(text), subject(about), where(at) {}
};

class Context {
 public:
  /// Retains the primary context: the one that the CUDA runtime and other libraries of the process use as well. Throws
  /// DeviceError.
  Context(const Driver& driver, int ordinal);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Driver& driver() const noexcept { return driver_; }
  CUdevice device() const noexcept { return device_; }
  CUcontext handle() const noexcept { return context_; }
  const std::string& name() const noexcept { return name_; }  ///< "cuda:0"
  int num_sms() const noexcept { return num_sms_; }

  /// Throws DeviceError unless the call succeeded: the driver's name and text for the result, the call, its purpose,
  /// and what to do. After a fault that ended the context, every failure is reported as that fault.
  void check(CUresult result, const char* call, const Purpose& purpose) const {
    if (result != CUDA_SUCCESS) [[unlikely]]
      fail(result, call, purpose);
  }
  [[noreturn]] void fail(CUresult result, const char* call, const Purpose& purpose) const;
  /// True in a fork()ed child of the process that opened the GPU: the driver does not work there.
  bool unusable_after_fork() const noexcept { return generation_ != tessera::fork_generation(); }
  /// True after a fault that ended the context.
  bool poisoned() const noexcept { return first_cause_.load(std::memory_order_acquire) != nullptr; }

  /// True if an event is done, or the device is dead and runs nothing any more. False also if the driver does not say.
  bool has_ended(CUevent event) const noexcept;

  /// cuCtxSynchronize, not while this library captures: the driver calls it an error to wait for a context in which a
  /// stream is being captured, and that capture fails. ("It is also invalid to ... synchronize a broader handle which
  /// encompasses an active stream capture": CUDA C++ Programming Guide, "Prohibited and Unhandled Operations".)
  CUresult synchronize() const noexcept;
  /// While it is held, no thread waits in synchronize(). The holder does not call synchronize().
  [[nodiscard]] std::unique_lock<std::mutex> begin_capture() const { return std::unique_lock(capture_mutex_); }
  /// The same without waiting; false if another thread captures or waits.
  [[nodiscard]] std::unique_lock<std::mutex> try_begin_capture() const {
    return std::unique_lock(capture_mutex_, std::try_to_lock);
  }

  /// Registers a queue's launch log: the error of a fault lists what was running according to these logs.
  void watch(std::shared_ptr<const Track> track) const;

 private:
  struct Cause {
    std::string text;
    SourceLocation where;
  };
  const Cause& poison(CUresult result, const char* call, const Purpose& purpose) const;

  mutable std::mutex capture_mutex_;
  const Driver& driver_;
  std::string name_;
  std::uint32_t generation_ = tessera::fork_generation();
  CUdevice device_ = 0;
  int num_sms_ = 0;
  CUcontext context_ = nullptr;
  mutable std::mutex mutex_;  // tracks_, and the making of the first cause
  mutable std::vector<std::weak_ptr<const Track>> tracks_;
  mutable std::atomic<const Cause*> first_cause_{nullptr};
};

/// Makes a context current on this thread; the destructor restores another library's context.
class Current {
 public:
  explicit Current(const Context& context);  ///< throws DeviceError
  /// The same without exceptions. If it fails, the driver calls that follow fail too. In a child of fork() it converts
  /// to false, and no driver call may be made.
  Current(const Context& context, std::nothrow_t) noexcept;
  explicit operator bool() const noexcept { return !context_.unusable_after_fork(); }
  ~Current();
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  CUresult enter() noexcept;
  const Context& context_;
  CUcontext previous_ = nullptr;
  bool restore_ = false;
};

}  // namespace tessera::runtime::cuda
