// Tensors on a device whose memory the host cannot access: the driver does fills with one value and dense copies,
// kernels or staged copies do the rest, and the values are right.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <tessera/tessera.hpp>

#include "host/far_device.hpp"
#include "tessera/runtime/storage.hpp"
#include "tessera/runtime/stream.hpp"

namespace tessera::runtime {
namespace THIS_FILE {

int &fills = far_fills, &copies = far_copies;

struct DriverWork : ::testing::Test {
  FarDevice device;
  Device before = default_device();
  DriverWork() {
    fills = copies = 0;
    set_default_device(Device(device));
  }
  ~DriverWork() override { set_default_device(before); }

  template <class T, int R>
  static void expect_all(const Tensor<T, R>& x, T value) {
    for (const T v : host(x).sync()) ASSERT_EQ(v, value);
  }
};

TEST_F(DriverWork, FillsWithOneValue) {
  const auto a = zeros<f32>({3, 5}).sync();
  const auto b = full<f32>({7}, 2.5f).sync();
  const auto c = full<i16>({7}, -3).sync();
  const auto d = ones<u8>({5}).sync();
  const auto e = zeros<f64>({4}).sync();
  const auto f = full<i64>({4}, -1).sync();  // both halves are equal
  const auto g = zeros<u8>({5}).sync();
  EXPECT_EQ(fills, 7);
  expect_all(a, 0.0f);
  expect_all(b, 2.5f);
  expect_all(c, i16{-3});
  expect_all(d, u8{1});
  expect_all(e, 0.0);
  expect_all(f, i64{-1});
  expect_all(g, u8{0});
}

TEST_F(DriverWork, OtherFillsAreRightToo) {
  const auto wide = full<f64>({4}, 1.5).sync();  // its halves differ
  const auto steps = arange<i32>({5}).sync();
  const auto none = zeros<f32>({0}).sync();
  EXPECT_EQ(fills, 0);
  expect_all(wide, 1.5);
  EXPECT_EQ(host(steps).sync(), (std::vector<i32>{0, 1, 2, 3, 4}));
  EXPECT_TRUE(host(none).sync().empty());
}

TEST_F(DriverWork, DenseCopiesOfOneType) {
  const auto x = arange<i32>({4, 3}).sync();
  const auto same = clone(x).sync();
  const auto part = clone(x.view().slice<0>(1, 3)).sync();
  EXPECT_EQ(copies, 2);
  EXPECT_EQ(host(same).sync(), host(x).sync());
  EXPECT_EQ(host(part).sync(), (std::vector<i32>{3, 4, 5, 6, 7, 8}));
  auto target = zeros<i32>({4, 3}).sync();
  copy_into(mut(target).slice<0>(2, 4), part).sync();
  EXPECT_EQ(copies, 3);
  EXPECT_EQ(host(target).sync(), (std::vector<i32>{0, 0, 0, 0, 0, 0, 3, 4, 5, 6, 7, 8}));
}

TEST_F(DriverWork, StridedCopiesAndCastsAreRightToo) {
  const auto x = arange<i32>({2, 3}).sync();
  const auto turned = clone(x.view().permute<1, 0>()).sync();
  const auto real = cast<f32>(x).sync();
  EXPECT_EQ(copies, 0);
  EXPECT_EQ(host(turned).sync(), (std::vector<i32>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(host(real).sync(), (std::vector<f32>{0, 1, 2, 3, 4, 5}));
}

}  // namespace THIS_FILE
}  // namespace tessera::runtime
