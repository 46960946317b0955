// Misuse of copies between devices, of pinned buffers, and of streams that tensors are exchanged through.
#include <memory>
#include <numeric>

#include "host/far_device.hpp"
#include "misuse/misuse.hpp"
#include "runtime/null_device.hpp"

namespace tessera {
namespace {

using misuse::Outcome;

MISUSE(CopyToTensor, "copy_to") { c.result(copy_to(c.in<f32, 2>({4, 6}), Device::cpu()).sync()); }
MISUSE(CopyToView, "copy_to") { c.result(copy_to(c.view<i8, 2>({4, 6}), Device::cpu()).sync()); }
MISUSE(CopyToShared, "copy_to") { c.result(copy_to(c.shared<bool, 2>({4, 6}), Device::cpu()).sync()); }
MISUSE(CopyToOp, "copy_to") { c.result(copy_to(c.op<u16, 2>({4, 6}), Device::cpu()).sync()); }
MISUSE(CopyToOn, "copy_to") { c.result(copy_to(c.in<f32, 1>({4}), Device::cpu()).on(c.stream())); }

/// A buffer of 24 numbers, or one that cannot be used so.
struct Buffer {
  HostBuffer<f32> buffer;
  std::unique_ptr<HostWrite<f32>> writing;
  std::unique_ptr<HostRead<f32>> reading;
  std::unique_ptr<Op<Tensor<f32, 1>>> reader;

  /// Empty, shorter, written by the host; if `written`, also: read by the host, read by an operation that has not run.
  Buffer(misuse::Call& c, bool written, SourceLocation where) {
    std::vector<misuse::Variant> wrong{{"an empty buffer", Outcome::Rejected},
                                       {"a buffer that the host writes", Outcome::Rejected},
                                       {"a shorter buffer", Outcome::Rejected}};
    if (written) {
      wrong.push_back({"a buffer that the host reads", Outcome::Rejected});
      wrong.push_back({"a buffer that an operation reads", Outcome::Rejected});
    }
    const int chosen = c.other(wrong, where);
    if (chosen == 0) return;
    const std::int64_t n = chosen == 2 ? 23 : 24;
    buffer = HostBuffer<f32>(n, Device::cpu());
    {
      auto values = buffer.write();
      std::iota(values.begin(), values.end(), 0.0f);
    }
    if (chosen == 1) writing.reset(new HostWrite<f32>(buffer.write()));
    if (chosen == 3) reading.reset(new HostRead<f32>(buffer.read()));
    if (chosen == 4) reader = std::make_unique<Op<Tensor<f32, 1>>>(from(buffer, {24}));
  }
};

MISUSE(FromBuffer, "from") {
  Buffer b(c, false, SourceLocation::current());
  c.result(from(b.buffer, {4, 6}).sync());
}
MISUSE(FromBufferOn, "from") {
  Buffer b(c, false, SourceLocation::current());
  c.result(from(b.buffer, Dims{4, 6}).on(Stream(Device::cpu())));
}
MISUSE(CopyBufferIntoLent, "copy_into") {
  Buffer b(c, false, SourceLocation::current());
  auto& to = c.out<f32, 2>({4, 6});
  copy_into(mut(to), b.buffer).sync();
  c.result(to);
}
MISUSE(HostIntoBuffer, "host") {
  Buffer b(c, true, SourceLocation::current());
  b.buffer = host(c.in<f32, 2>({4, 6}), std::move(b.buffer)).sync();
  c.result(from(b.buffer, {24}).sync());
}
MISUSE(HostViewIntoBuffer, "host") {
  Buffer b(c, true, SourceLocation::current());
  b.buffer = host(c.view<f32, 2>({4, 6}), std::move(b.buffer)).on(Stream(Device::cpu()));
  c.result(from(b.buffer, {24}).sync());
}

/// A buffer for queries, or an empty one, or one that the host writes.
HostBuffer<f32> queried(misuse::Call& c, SourceLocation where) {
  return c.other({{"an empty buffer", Outcome::Rejected}}, where) == 0 ? HostBuffer<f32>()
                                                                       : HostBuffer<f32>(24, Device::cpu());
}
MISUSE(HostBufferSize, "HostBuffer::size") {
  const auto b = queried(c, SourceLocation::current());
  c.result(b.size());
}
MISUSE(HostBufferRead, "HostBuffer::read") {
  const auto b = queried(c, SourceLocation::current());
  c.result(b.read().size());
}
MISUSE(HostBufferWrite, "HostBuffer::write") {
  auto b = queried(c, SourceLocation::current());
  c.result(b.write().size());
}

// ---- streams -------------------------------------------------------------------------------------------------------

MISUSE(StreamWaitForTensor, "Stream::wait_for") {
  const auto& x = c.in<f32, 2>({4, 6});
  Stream s(Device::cpu());
  s.wait_for(x);
  c.result(x);
}
MISUSE(StreamWaitForView, "Stream::wait_for") {
  const auto x = c.view<f32, 2>({4, 6});
  Stream s(Device::cpu());
  s.wait_for(x);
  c.result(x);
}
MISUSE(StreamWaitForShared, "Stream::wait_for") {
  const auto x = c.shared<f32, 2>({4, 6});
  Stream s(Device::cpu());
  s.wait_for(x);
  c.result(x);
}
MISUSE(StreamWaitForLent, "Stream::wait_for") {
  auto& x = c.out<f32, 2>({4, 6});
  Stream s(Device::cpu());
  s.wait_for(mut(x));
  c.result(x);
}
MISUSE(StreamRecordReadTensor, "Stream::record_read") {
  const auto& x = c.in<f32, 2>({4, 6});
  Stream s(Device::cpu());
  s.record_read(x);
  c.result(x);
}
MISUSE(StreamRecordReadView, "Stream::record_read") {
  const auto x = c.view<f32, 2>({4, 6});
  Stream s(Device::cpu());
  s.record_read(x);
  c.result(x);
}
MISUSE(StreamRecordReadShared, "Stream::record_read") {
  const auto x = c.shared<f32, 2>({4, 6});
  Stream s(Device::cpu());
  s.record_read(x);
  c.result(x);
}
MISUSE(StreamRecordWrite, "Stream::record_write") {
  auto& x = c.out<f32, 2>({4, 6});
  Stream s(Device::cpu());
  s.record_write(mut(x));
  c.result(x);
}
MISUSE(FromDlpackBehindAStream, "from_dlpack") {
  auto p = to_dlpack(from(std::vector<f32>{1, 2, 3}, {3}).sync());
  const int wrong = c.other({{"a null pointer", Outcome::Rejected}, {"of another rank", Outcome::Rejected}});
  if (wrong == 1) p->dl_tensor.ndim = 2;
  const Stream s(Device::cpu());
  auto* const given = wrong == 0 ? nullptr : p.get();
  auto t = from_dlpack<f32, 1>(given, s);
  (void)p.release();
  c.result(t);
}
MISUSE(ToDlpackForAStream, "to_dlpack") {
  const auto x = c.view<f32, 2>({4, 6});
  const Stream s(Device::cpu());
  const auto p = to_dlpack(x, s);
  c.result(x);
}

MISUSE(CopyBufferPart, "copy_into") {
  HostBuffer<f32> buffer(24, Device::cpu());
  {
    const auto values = buffer.write();
    std::iota(values.begin(), values.end(), 0.0f);
  }
  auto& to = c.out<f32, 2>({2, 6});
  copy_into(mut(to), buffer, c.bound(12, 12)).sync();
  c.result(to);
}
MISUSE(FromBufferExtents, "from") {
  const HostBuffer<f32> buffer(24, Device::cpu());
  c.result(from(buffer, Dims<2>({c.extent(4), c.extent(6)}, SourceLocation::current())).sync().size());
}
MISUSE(HostIntoBufferOn, "host") {
  const auto x = c.view<f32, 1>({24});
  HostBuffer<f32> buffer(24, Device::cpu());
  const Stream stream = c.stream();
  auto pending = host(x, std::move(buffer));
  buffer = std::move(pending).on(stream);
  c.result(from(buffer, {24}).sync());
}

// ---- streams of other devices, and of no driver --------------------------------------------------------------------

MISUSE(StreamOfAnotherDevice, "Stream::record_read") {
  auto y = ones<f32>({5}).sync();
  const std::vector<std::string> says{"DeviceError", "far", "cpu", "copy_to"};
  const int wrong = c.other({{"its reads are recorded", Outcome::Same},
                             {"its writes are recorded", Outcome::Same},
                             {"it waits for a tensor", Outcome::Same},
                             {"it consumes an export", Outcome::Same},
                             {"it has produced an import", Outcome::Same},
                             {"what it has produced is memory of its device", Outcome::Rejected, says}});
  static runtime::FarDevice& device = *new runtime::FarDevice;
  Stream far{Device(device)};
  Stream near(Device::cpu());
  static f32 memory[5];
  auto exported = to_dlpack(ones<f32>({5}).sync());
  if (wrong == 0) far.record_read(y);
  if (wrong == 1) far.record_write(mut(y));
  if (wrong == 2) far.wait_for(y);
  if (wrong == 3) (void)to_dlpack(y.view(), far);
  if (wrong == 4) (void)from_dlpack<f32, 1>(std::move(exported), far);
  if (wrong == 5) {
    auto t = borrow<f32, 1>(memory, {5}, {1}, nullptr, far);
    (void)clone(t).sync(near);
  }
  near.record_read(y);
  c.result(y);
}
MISUSE(StreamOfNoDriver, "Stream::native") {
  auto& y = c.out<f32, 1>({5});
  int handle = 0;
  const std::vector<std::string> no_handle{"DeviceError", "cpu", "no native handle"};
  const std::vector<std::string> no_wrap{"DeviceError", "cpu", "only GPUs have such streams"};
  const int wrong = c.other({{"its handle is taken", Outcome::Rejected, no_handle},
                             {"the default stream's handle is taken", Outcome::Rejected, no_handle},
                             {"a handle is wrapped for the CPU", Outcome::Rejected, no_wrap},
                             {"null is wrapped for the CPU", Outcome::Rejected, no_wrap},
                             {"a handle is wrapped for the default device", Outcome::Rejected, no_wrap}});
  const Stream stream(Device::cpu());
  if (wrong == 0) (void)stream.native();
  if (wrong == 1) (void)Stream::default_of(Device::cpu()).native();
  if (wrong == 2) (void)Stream::wrap(&handle, Device::cpu());
  if (wrong == 3) (void)Stream::wrap(nullptr, Device::cpu(), std::make_shared<int>());
  if (wrong == 4) (void)Stream::wrap(&handle);
  copy_into(mut(y), full<f32>({5}, 2.0f)).sync(stream);
  c.result(y);
}
MISUSE(CopyToAThirdDevice, "copy_to") {
  const auto& x = c.in<f32, 1>({5});
  const int wrong = c.other({{"on a stream of neither", Outcome::Rejected, {"DeviceError", "cpu", "far", "null"}},
                             {"on a stream of its source", Outcome::Same},
                             {"captured", Outcome::Rejected, {"DeviceError", "a copy between devices"}}});
  static runtime::FarDevice& far = *new runtime::FarDevice;
  static runtime::NullDevice& third = *new runtime::NullDevice;
  const Device to(far);
  if (wrong == 2) (void)capture(copy_to(x, to));
  const auto there =
      wrong < 0 ? copy_to(x, to).sync() : copy_to(x, to).on(wrong == 0 ? Stream(Device(third)) : Stream(Device::cpu()));
  c.result(host(there).sync());
}

}  // namespace
}  // namespace tessera
