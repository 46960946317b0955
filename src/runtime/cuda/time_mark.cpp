// A driver event with timing. Not pooled: few exist, and only while something is measured.
#include "runtime/cuda/backend.hpp"

namespace tessera::runtime::cuda {
namespace {

class CudaTimeMark final : public TimeMark {
 public:
  explicit CudaTimeMark(const Context& context) : context_(context) {
    const Current current(context_);
    context_.check(context_.driver().cuEventCreate(&event_, CU_EVENT_DEFAULT), "cuEventCreate", "making an event");
  }
  ~CudaTimeMark() override {
    const Current current(context_, std::nothrow);
    if (current) context_.driver().cuEventDestroy(event_);
  }
  CudaTimeMark(const CudaTimeMark&) = delete;
  CudaTimeMark& operator=(const CudaTimeMark&) = delete;

  void launch(const LaunchContext& launch) const override {
    context_.check(context_.driver().cuEventRecord(event_, static_cast<CUstream>(launch.native_queue)), "cuEventRecord",
                   "taking the time");
  }
  double seconds_since(const TimeMark& start) const override {
    const Current current(context_);
    float ms = 0;
    const CUevent from = static_cast<const CudaTimeMark&>(start).event_;
    context_.check(context_.driver().cuEventElapsedTime(&ms, from, event_), "cuEventElapsedTime", "taking the time");
    return static_cast<double>(ms) * 1e-3;
  }
  bool reached() const override {
    const Current current(context_);
    const CUresult result = context_.driver().cuEventQuery(event_);
    if (result != CUDA_ERROR_NOT_READY) context_.check(result, "cuEventQuery", "taking the time");
    return result == CUDA_SUCCESS;
  }

 private:
  const Context& context_;
  CUevent event_ = nullptr;
};

}  // namespace

std::shared_ptr<const TimeMark> CudaBackend::make_time_mark() { return std::make_shared<const CudaTimeMark>(context_); }

}  // namespace tessera::runtime::cuda
