// The messages of driver errors, and the first cause of a fault.
#include "runtime/cuda/context.hpp"

#include <algorithm>
#include <cstring>

#include "tessera/base/error.hpp"
#include "tessera/base/format.hpp"

namespace tessera::runtime::cuda {

namespace {

std::string failure_text(const Driver& driver, const std::string& device, CUresult result, const char* call,
                         const Purpose& purpose) {
  std::string text = purpose.subject != nullptr ? concat(purpose.subject, ": ") : std::string();
  return text + concat(purpose.what, " failed on ", device, ": ", result_text(driver, result), " in ", call, ".");
}

std::string with_fix(std::string text, CUresult result) {
  const char* fix = result_info(result).fix;
  return *fix != '\0' ? text + "\n  " + fix : text;
}

/// "kernel a (a.cpp:14) or kernel b (b.cpp:3)": each once, the last few.
std::string suspects_text(const std::vector<LaunchLog::Entry>& running) {
  std::vector<std::string> names;
  for (const LaunchLog::Entry& entry : running) {
    std::string name = entry.label;
    if (entry.where.known()) name += concat(" (", entry.where.file, ":", entry.where.line, ")");
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  }
  if (names.empty()) return "no kernel of Tessera was running";
  return concat("running: ", join(names, " or "));
}

}  // namespace

Context::Context(const Driver& driver, int ordinal) : driver_(driver), name_(concat("cuda:", ordinal)) {
  check(driver.cuDeviceGet(&device_, ordinal), "cuDeviceGet", "opening the GPU");
  check(driver.cuDeviceGetAttribute(&num_sms_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device_),
        "cuDeviceGetAttribute", "opening the GPU");
  check(driver.cuDevicePrimaryCtxRetain(&context_, device_), "cuDevicePrimaryCtxRetain", "making a context");
}

Context::~Context() {
  if (!unusable_after_fork()) driver_.cuDevicePrimaryCtxRelease(device_);
  delete first_cause_.load();
}

void Context::watch(std::shared_ptr<const Track> track) const {
  std::lock_guard lock(mutex_);
  std::erase_if(tracks_, [](const auto& known) { return known.expired(); });
  tracks_.push_back(std::move(track));
}

const Context::Cause& Context::poison(CUresult result, const char* call, const Purpose& purpose) const {
  std::lock_guard lock(mutex_);
  if (const Cause* known = first_cause_.load()) return *known;
  std::vector<LaunchLog::Entry> running;
  for (const auto& weak : tracks_) {
    if (const auto track = weak.lock()) track->log.list(running);
  }
  std::string text = concat(failure_text(driver_, name_, result, call, purpose), " ", suspects_text(running), ".");
  const SourceLocation where = running.size() == 1 ? running[0].where : purpose.where;
  const Cause* made = new Cause{with_fix(std::move(text), result), where};
  first_cause_.store(made, std::memory_order_release);
  return *made;
}

void Context::fail(CUresult result, const char* call, const Purpose& purpose) const {
  if (const Cause* first = first_cause_.load(std::memory_order_acquire)) {
    const std::string about = purpose.subject != nullptr ? concat(purpose.subject, ": ") : std::string();
    throw DeviceError(concat(about, purpose.what, " is impossible, ", name_,
                             " has been unusable since an earlier fault. The first cause was: ", first->text),
                      purpose.where);
  }
  if (result_info(result).poison) {
    const Cause& first = poison(result, call, purpose);
    throw DeviceError(first.text, first.where);
  }
  throw DeviceError(with_fix(failure_text(driver_, name_, result, call, purpose), result), purpose.where);
}

bool Context::has_ended(CUevent event) const noexcept {
  const CUresult result = driver_.cuEventQuery(event);
  return result == CUDA_SUCCESS || poisoned() || (result != CUDA_ERROR_NOT_READY && result_info(result).poison);
}

CUresult Context::synchronize() const noexcept {
  const std::lock_guard lock(capture_mutex_);
  return driver_.cuCtxSynchronize();
}

Current::Current(const Context& context) : context_(context) {
  if (context.unusable_after_fork()) [[unlikely]] { throw DeviceError(after_fork_text(context.name())); }
  context.check(enter(), "cuCtxSetCurrent", "entering the context");
}

Current::Current(const Context& context, std::nothrow_t) noexcept : context_(context) {
  if (!context.unusable_after_fork()) enter();
}

CUresult Current::enter() noexcept {
  const Driver& driver = context_.driver();
  if (const CUresult result = driver.cuCtxGetCurrent(&previous_); result != CUDA_SUCCESS) return result;
  if (previous_ == context_.handle()) return CUDA_SUCCESS;
  restore_ = previous_ != nullptr;
  const CUresult result = driver.cuCtxSetCurrent(context_.handle());
  if (result != CUDA_SUCCESS) restore_ = false;
  return result;
}

Current::~Current() {
  if (restore_) context_.driver().cuCtxSetCurrent(previous_);
}

}  // namespace tessera::runtime::cuda
