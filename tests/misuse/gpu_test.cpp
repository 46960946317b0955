// Misuse of GPUs, on the fake driver: streams of other libraries, priorities, memory of others, memory that runs out.
#include <climits>
#include <optional>

#include "misuse/misuse.hpp"
#include "runtime/cuda_fake_gpu.hpp"

namespace tessera {
namespace {

using misuse::Outcome;
namespace fake = runtime::cuda::fake;

/// Two GPUs of one fake driver. What a row has made ends before.
struct Gpus {
  fake::FakeDriver driver{2};
  runtime::cuda::CudaBackend first{driver.table(), 0}, second{driver.table(), 1};
  Device device() { return Device(first); }

  /// A stream of another library on one of them.
  runtime::cuda::CUstream foreign(runtime::cuda::CudaBackend& gpu) {
    driver.table().cuCtxSetCurrent(gpu.context().handle());
    return driver.foreign_stream();
  }
  ~Gpus() { EXPECT_EQ(driver.violation(), ""); }
};
constexpr const char* kGpu = "cuda:0";

MISUSE(GpuPriority, "Stream::priorities") {
  const std::vector<std::string> says{"DeviceError", kGpu, "most urgent", "Stream::priorities"};
  const int wrong = c.other({{"less urgent than the least", Outcome::Rejected, says},
                             {"more urgent than the greatest", Outcome::Rejected, says},
                             {"the largest int", Outcome::Rejected, says},
                             {"the smallest int", Outcome::Rejected, says}});
  Gpus gpus;
  const PriorityRange range = Stream::priorities(gpus.device());
  const int priorities[] = {range.least + 1, range.greatest - 1, INT_MAX, INT_MIN};
  const Stream stream(gpus.device(), StreamOptions{wrong < 0 ? range.greatest : priorities[wrong]});
  c.result(host(zeros<f32>({4}).sync(stream)).sync());
}
MISUSE(GpuWrap, "Stream::wrap") {
  const int wrong = c.other({{"a stream of another GPU", Outcome::Rejected, {"DeviceError", "primary context", kGpu}},
                             {"one that another library captures", Outcome::Rejected, {"DeviceError", "capturing"}},
                             {"CU_STREAM_PER_THREAD", Outcome::Rejected, {"DeviceError", "every thread"}},
                             {"null, the legacy default stream", Outcome::Same},
                             {"one that is wrapped already", Outcome::Same}});
  Gpus gpus;
  auto* const theirs = gpus.foreign(wrong == 0 ? gpus.second : gpus.first);
  if (wrong == 1) gpus.driver.capture(theirs, true);
  void* const handle = wrong == 2 ? runtime::cuda::per_thread_stream() : wrong == 3 ? nullptr : theirs;
  std::optional<Stream> before;
  if (wrong == 4) before = Stream::wrap(theirs, gpus.device());
  const Stream stream = Stream::wrap(handle, gpus.device());
  c.result(host(zeros<f32>({4}).sync(stream)).sync());
}
MISUSE(GpuCapturedByOthers, "Stream::record_read") {
  const std::vector<std::string> says{"DeviceError", "another library is capturing"};
  const int wrong = c.other({{"an operation is enqueued on it", Outcome::Rejected, says},
                             {"a tensor is made on it", Outcome::Rejected, says},
                             {"a read is recorded", Outcome::Rejected, says},
                             {"memory is borrowed behind it", Outcome::Rejected, says},
                             {"it is synchronized", Outcome::Rejected, says}});
  Gpus gpus;
  auto* const theirs = gpus.foreign(gpus.first);
  Stream stream = Stream::wrap(theirs, gpus.device());
  auto x = zeros<f32>({4}).sync(Stream::default_of(gpus.device()));
  const auto block = gpus.first.allocate(64);
  {
    struct Free {
      runtime::cuda::CudaBackend& gpu;
      void* memory;
      ~Free() { gpu.free(memory, 64); }
    } const free{gpus.first, block};
    gpus.driver.capture(theirs, wrong >= 0);
    if (wrong == 0) (void)clone(x).on(stream);
    if (wrong == 1) (void)zeros<f32>({4}).on(stream);
    if (wrong == 2) stream.record_read(x);
    if (wrong == 3) (void)borrow<f32, 1>(static_cast<f32*>(block), {4}, {1}, nullptr, stream);
    if (wrong == 4) stream.synchronize();
  }
  c.result(host(x).sync());
}
MISUSE(GpuNativeInACapture, "Stream::native") {
  const int wrong = c.other({{"of the stream of a scope", Outcome::Rejected, {"DeviceError", "native handle", "graph"}},
                             {"of another stream", Outcome::Same}});
  Gpus gpus;
  struct Default {
    explicit Default(Device device) { set_default_device(device); }
    ~Default() { set_default_device(Device::cpu()); }
  } const as_default(gpus.device());
  auto x = zeros<f32>({4}).sync();
  const Stream other(gpus.device());
  const auto scope = [&](const Stream& stream, Tensor<f32, 1>& t) {
    if (wrong == 0) (void)stream.native();
    if (wrong == 1) (void)other.native();
    copy_into(mut(t), zeros<f32>({4})).on(stream);
  };
  const auto graph = capture(scope, x);
  c.result(static_cast<int>(graph.work_count()));
}
MISUSE(GpuBorrow, "borrow") {
  const int wrong =
      c.other({{"memory of the host", Outcome::Rejected, {"DeviceError", "not memory of cuda:0"}},
               {"memory of another GPU", Outcome::Rejected, {"DeviceError", "memory of cuda:1"}},
               {"more than the allocation has", Outcome::Rejected, {"DeviceError", "128 bytes", "only 64"}},
               {"strides beyond the allocation", Outcome::Rejected, {"DeviceError", "only 64"}},
               {"the same memory twice", Outcome::Rejected, {"BorrowError", "another tensor"}},
               {"memory of a GPU for the CPU's library", Outcome::Same}});
  Gpus gpus;
  static f32 of_host[16];
  runtime::cuda::CudaBackend& gpu = wrong == 1 ? gpus.second : gpus.first;
  void* const block = gpu.allocate(64);
  const std::shared_ptr<void> owner(block, [&gpu](void* memory) { gpu.free(memory, 64); });
  auto* const at = wrong == 0 ? of_host : static_cast<f32*>(block);
  const Extent count = wrong == 2 ? 32 : 16, stride = wrong == 3 ? 2 : 1;
  auto t = borrow<f32, 1>(at, Dims<1>({count}, SourceLocation::current()), {stride}, owner, gpus.device());
  if (wrong == 4) (void)borrow<f32, 1>(at + 4, {4}, {1}, owner, gpus.device());
  copy_into(mut(t), zeros<f32>({16})).sync();
  c.result(host(t).sync());
}
MISUSE(GpuOutOfMemory, "set_memory_limit") {
  const std::vector<std::string> says{"out of memory on cuda:0", "bytes requested", "in use by tensors"};
  const int wrong = c.other({{"a tensor", Outcome::Rejected, says},
                             {"a tensor on a stream", Outcome::Rejected, says},
                             {"a copy from the CPU", Outcome::Rejected, says},
                             {"a copy from another GPU", Outcome::Rejected, says},
                             {"a capture", Outcome::Rejected, says}});
  Gpus gpus;
  const auto there = zeros<f32>({100000}).sync(Stream::default_of(Device(gpus.second)));
  const auto here = zeros<f32>({100000}).sync(Stream::default_of(Device::cpu()));
  auto small = zeros<f32>({4}).sync(Stream::default_of(gpus.device()));
  struct Default {
    explicit Default(Device device) { set_default_device(device); }
    ~Default() { set_default_device(Device::cpu()); }
  } const as_default(gpus.device());
  if (wrong >= 0) gpus.driver.limit_memory(600000);
  const Stream stream(gpus.device());
  if (wrong == 0) (void)zeros<f32>({100000}).sync();
  if (wrong == 1) (void)zeros<f32>({100000}).on(stream);
  if (wrong == 2) (void)copy_to(here, gpus.device()).sync();
  if (wrong == 3) (void)copy_to(there, gpus.device()).sync();
  if (wrong == 4) (void)capture([] { return zeros<f32>({100000}); });
  copy_into(mut(small), zeros<f32>({4}).sync()).sync(stream);
  c.result(host(small).sync());
}

}  // namespace
}  // namespace tessera
