// HostBuffer: the host's access and operations keep away from each other; elements arrive and come back; on the CPU and
// on a device whose memory the host cannot access.
#include <gtest/gtest.h>

#include <numeric>
#include <tessera/tessera.hpp>
#include <vector>

#include "host/expect_error.hpp"
#include "host/far_device.hpp"
#include "tessera/runtime/stream_core.hpp"

namespace tessera {
namespace THIS_FILE {

HostBuffer<f32> counted(std::int64_t n) {
  HostBuffer<f32> buffer(n, Device::cpu());
  auto values = buffer.write();
  std::iota(values.begin(), values.end(), 0.0f);
  return buffer;
}
std::vector<f32> values_of(const HostBuffer<f32>& buffer) {
  const auto values = buffer.read();
  return {values.begin(), values.end()};
}

TEST(HostBuffer, ElementsArriveAndComeBack) {
  HostBuffer<f32> buffer = counted(6);
  EXPECT_EQ(buffer.size(), 6);
  const Stream stream(Device::cpu());
  const auto t = from(buffer, {2, 3}).on(stream);
  { buffer.write()[0] = 100; }  // waits for the upload
  EXPECT_EQ(host(t).sync(), (std::vector<f32>{0, 1, 2, 3, 4, 5}));
  HostBuffer<f32> back = host(t.permute<1, 0>(), std::move(buffer)).on(stream);
  EXPECT_EQ(values_of(back), (std::vector<f32>{0, 3, 1, 4, 2, 5}));
}

TEST(HostBuffer, WorksWithADeviceThatTheHostCannotAccess) {
  runtime::FarDevice far;
  const Device device(far);
  const HostBuffer<f32> buffer = counted(4);
  auto t = from(buffer, {4}).sync(Stream::default_of(device));
  EXPECT_EQ(t.device(), device);
  EXPECT_EQ(values_of(host(t, HostBuffer<f32>(4, device)).sync()), (std::vector<f32>{0, 1, 2, 3}));
}

TEST(HostBuffer, PartsOfItArriveInPartsOfATensor) {
  runtime::FarDevice far;
  for (const Device device : {Device::cpu(), Device(far)}) {
    const Stream stream = Stream::default_of(device);
    HostBuffer<f32> buffer = counted(8);
    auto t = zeros<f32>({3, 2}).sync(stream);
    copy_into(mut(t).slice<0>(1, 3), buffer, 4).on(stream);
    copy_into(mut(t).slice<0>(0, 1), buffer).on(stream);
    { buffer.write()[4] = 100; }  // waits for the uploads
    EXPECT_EQ(host(t).sync(stream), (std::vector<f32>{0, 1, 4, 5, 6, 7})) << device.name();
    EXPECT_THROW((void)copy_into(mut(t), buffer, 3), ShapeError);
    EXPECT_THROW((void)copy_into(mut(t), buffer, -1), ShapeError);
    EXPECT_THROW((void)copy_into(mut(t), buffer, INT64_MAX), ShapeError);
    EXPECT_NO_THROW((void)copy_into(mut(t), buffer, 2));
    const auto pending = copy_into(mut(t), buffer, 2);
    EXPECT_THROW((void)buffer.write(), BorrowError) << "it has not read the elements yet";
    EXPECT_THROW((void)copy_into(mut(t), buffer), BorrowError) << "it has not written the tensor yet";
  }
}

TEST(HostBuffer, TheHostAndOperationsKeepAwayFromEachOther) {
  HostBuffer<f32> buffer = counted(4);
  {
    const auto reading = buffer.read();
    EXPECT_NO_THROW((void)from(buffer, {4}).sync()) << "two readers";
    EXPECT_NO_THROW((void)buffer.read());
    EXPECT_THROW((void)buffer.write(), BorrowError);
    EXPECT_THROW((void)host(zeros<f32>({4}), std::move(buffer)), BorrowError);
    // NOLINTNEXTLINE(bugprone-use-after-move): a rejected operation takes nothing
    EXPECT_EQ(buffer.size(), 4) << "a rejected operation takes nothing";
  }
  {
    const auto writing = buffer.write();
    EXPECT_THROW((void)buffer.read(), BorrowError);
    EXPECT_THROW((void)from(buffer, {4}), BorrowError);
  }
  {
    const auto pending = from(buffer, {4});
    EXPECT_THROW((void)buffer.write(), BorrowError) << "it has not read the elements yet";
    EXPECT_NO_THROW((void)buffer.read());
  }
  EXPECT_NO_THROW((void)buffer.write());
}

TEST(HostBuffer, AViewOfItsMemoryLivesAsLongAsItIsUsed) {
  auto reading = [] { return counted(3).read(); };
  const auto values = reading();  // the buffer itself is gone
  EXPECT_EQ(values[2], 2.0f);
}

TEST(HostBuffer, WrongSizesAndEmptyBuffersAreErrors) {
  HostBuffer<f32> buffer = counted(4);
  EXPECT_THROW((void)from(buffer, {5}), ShapeError);
  EXPECT_THROW((void)host(zeros<f32>({5}), std::move(buffer)), ShapeError);
  // NOLINTNEXTLINE(bugprone-use-after-move): what it is left as
  EXPECT_EQ(buffer.size(), 4);
  EXPECT_THROW((void)HostBuffer<f32>(-1, Device::cpu()), ShapeError);
  EXPECT_THROW((void)HostBuffer<f64>(INT64_MAX, Device::cpu()), ShapeError);
  const HostBuffer<f32> taken = std::move(buffer);
  // NOLINTNEXTLINE(bugprone-use-after-move): what it is left as
  EXPECT_THROW((void)buffer.read(), BorrowError);
  EXPECT_THROW((void)from(buffer, {4}), BorrowError);
  EXPECT_EQ(HostBuffer<f32>(0, Device::cpu()).read().size(), 0u);
  EXPECT_EQ(HostBuffer<f32>(0).read().size(), 0u) << "0 is a number here and no pointer";
}

TEST(HostBuffer, AFailureIsThrownWhereItIsRead) {
  const Stream stream(Device::cpu());
  auto t = zeros<f32>({4}).sync();
  const auto& storage = detail::Reach::layout(t).storage;
  const runtime::Access access{storage, runtime::AccessMode::ReadWrite};
  stream.core()->submit(
      {runtime::host_work([](const runtime::LaunchContext&) { throw DeviceError("broken"); }), {}, {}, {&access, 1}});
  HostBuffer<f32> back = host(t, counted(4)).on(stream);
  EXPECT_THROW((void)back.read(), DeviceError);
  { back.write()[0] = 1; }
  EXPECT_NO_THROW((void)back.read()) << "overwritten by the host";
}

}  // namespace THIS_FILE
}  // namespace tessera
