// Batches that are uploaded from pinned buffers, computed on and read back, each stage on a stream of its own: the time
// of all compared with that of the longest stage alone, and with that of the copies alone, which the driver makes in
// both directions at once: they share the link. The kernel is given as much work as takes about as long as an upload.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "in_flight/figures.hpp"
#include "in_flight/plain_driver.hpp"

namespace in_flight {
namespace {

constexpr int kBlock = 1024;

void iterate(Mut<f32, kBlock> y, In<f32, dyn> x, Scalar<i32> steps) {
  auto t = x.load_like(y);
  for (auto i : range(steps)) t = t * 0.5f + 1.0f + cast<f32>(i - i);
  y.store(t + x.load_like(y));  // t forgets what it began with
}

class Pipeline {
 public:
  Pipeline(const Options& options)
      : size_(options.tiny ? 5000 : std::int64_t{1} << 24),
        batches_(options.count(40, 5)),
        up_(options.device),
        compute_(options.device),
        down_(options.device) {
    for (int i = 0; i < kDepth; ++i) {
      in_.emplace_back(size_, options.device);
      out_.emplace_back(size_, options.device);
      auto values = in_.back().write();
      for (f32& v : values) v = static_cast<f32>(i);
    }
  }
  double bytes() const { return 4.0 * static_cast<double>(size_); }
  int batches() const { return batches_; }
  /// The kernel's steps, for about as long as `seconds`.
  void calibrate(double seconds) {
    steps_ = 256;
    kernels();
    const double some = kernels() / batches_;
    steps_ = static_cast<i32>(std::clamp(256.0 * seconds / std::max(some, 1e-7), 1.0, 1e6));
  }
  double uploads() {
    return seconds_of([&] {
      for (int i = 0; i < batches_; ++i) (void)upload(i);
      up_.synchronize();
    });
  }
  double kernels() {
    const auto x = ones<f32>({size_}).sync();
    auto y = zeros<f32>({size_}).sync();
    return seconds_of([&] {
      for (int i = 0; i < batches_; ++i) kernel<iterate>(mut(y), x, steps_).on(compute_);
      compute_.synchronize();
    });
  }
  double readbacks() {
    const auto y = ones<f32>({size_}).sync();
    return seconds_of([&] {
      for (int i = 0; i < batches_; ++i) readback(y, i);
      down_.synchronize();
    });
  }
  /// The copies of all batches by the driver's own calls, in both directions at once.
  double copies() {
    const PlainDriver& driver = PlainDriver::get();
    const auto x = zeros<f32>({size_}).sync(), y = zeros<f32>({size_}).sync();
    const Stream up(x.device()), down(x.device());
    const auto address = [](const void* memory) {
      return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(memory));
    };
    const auto size = static_cast<std::size_t>(bytes());
    return seconds_of([&] {
      for (int i = 0; i < batches_; ++i) {
        check(driver.copy(tensor_args(x)[0], address(in_[slot(i)].read().data()), size, up.native()), "cuMemcpyAsync");
        check(driver.copy(address(out_[slot(i)].write().data()), tensor_args(y)[0], size, down.native()),
              "cuMemcpyAsync");
      }
      check(driver.synchronize(up.native()), "cuStreamSynchronize");
      check(driver.synchronize(down.native()), "cuStreamSynchronize");
    });
  }
  double all() {
    return seconds_of([&] {
      for (int i = 0; i < batches_; ++i) {
        const auto x = upload(i);
        const auto y = kernel<iterate>(empty_like(x), x, steps_).on(compute_);
        readback(y, i);
      }
      for (HostBuffer<f32>& buffer : out_) (void)buffer.read();
    });
  }
  /// Every buffer has the result of the batch that it got.
  bool is_right() const {
    bool right = true;
    for (int i = 0; i < kDepth; ++i) {
      float wanted = static_cast<float>(i);
      for (i32 s = 0; s < steps_; ++s) wanted = wanted * 0.5f + 1.0f;
      wanted += static_cast<float>(i);
      const auto values = out_[static_cast<std::size_t>(i)].read();
      for (std::size_t e : {std::size_t{0}, values.size() / 2, values.size() - 1})
        right = right && std::abs(values[e] - wanted) < 1e-4f;
    }
    return right;
  }

 private:
  static constexpr int kDepth = 4;
  static std::size_t slot(int batch) { return static_cast<std::size_t>(batch % kDepth); }
  Tensor<f32, 1> upload(int batch) {
    (void)in_[slot(batch)].write();  // the host may fill it: its last upload has ended
    return from(in_[slot(batch)], {size_}).on(up_);
  }
  void readback(const Tensor<f32, 1>& y, int batch) {
    HostBuffer<f32>& buffer = out_[slot(batch)];
    (void)buffer.read();  // the host has its last batch
    buffer = host(y, std::move(buffer)).on(down_);
  }
  std::int64_t size_;
  int batches_;
  i32 steps_ = 1;
  Stream up_, compute_, down_;
  std::vector<HostBuffer<f32>> in_, out_;
};

}  // namespace

void measure_batches(const Options& options) {
  Pipeline pipeline(options);
  pipeline.uploads();
  pipeline.calibrate(pipeline.uploads() / pipeline.batches());
  pipeline.all();
  std::vector<double> up, work, down, copies, all;
  for (int i = 0; i < options.count(5, 1); ++i) {
    up.push_back(pipeline.uploads());
    work.push_back(pipeline.kernels());
    down.push_back(pipeline.readbacks());
    if (options.has_driver()) copies.push_back(pipeline.copies());
    all.push_back(pipeline.all());
  }
  if (options.executes && !pipeline.is_right()) throw DeviceError("the batches come back with wrong numbers");
  const double longest = std::max({median(up), median(work), median(down)});
  const double gigabytes = pipeline.bytes() * pipeline.batches() / 1e9;
  print({"uploads from pinned buffers", "GB/s", gigabytes / median(up), {}});
  print({"readbacks into pinned buffers", "GB/s", gigabytes / median(down), {}});
  print({"kernels of the batches alone", "ms", median(work) * 1e3, {}});
  Figure f{"uploads, kernels and readbacks of " + std::to_string(pipeline.batches()) + " batches", "ms",
           median(all) * 1e3, "the longest of the three alone", longest * 1e3};
  print(f);
  Figure share{"the longest stage's share of that time", "", longest / median(all), {}};
  if (options.has_driver()) share.asked = least(0.9);
  print(share);
  if (copies.empty()) return;
  print({"uploads, kernels and readbacks, compared with the copies alone", "ms", median(all) * 1e3,
         "cuMemcpyAsync in both directions at once", median(copies) * 1e3});
}

}  // namespace in_flight
