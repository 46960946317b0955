// Strict checked mode: single positions outside a tensor are errors, whole tiles over its edge are not.
#include <gtest/gtest.h>

#include <tessera/tessera.hpp>
#include <vector>

#include "host/expect_error.hpp"

namespace THIS_FILE {

using namespace tessera;

struct CheckedStrict : testing::Test {
  void SetUp() override { set_check_mode(CheckMode::Strict); }
  void TearDown() override { set_check_mode(before_ ? CheckMode::On : CheckMode::Off); }
  bool before_ = check_mode();
};

template <int Shift>
void region(Mut<f32, 8> y, In<f32, dyn> x) {
  auto [i] = y.origin();
  y.store(x.load_at(shape<8>, i + Shift));
}
void elements(Mut<f32, 8> y, In<f32, dyn> x, In<i32, dyn> ids) { y.store(x.gather(ids.load_like(y), pad(-1.0f))); }
void slices(Mut<f32, 8, 4> y, In<f32, dyn, 4> x, In<i32, dyn> ids) {
  y.store(x.gather(axis<0>, ids.load_like(y, axes<0>)));
}
void of_piece(Mut<f32, 8> y, In<i32, dyn> ids) { y.store(y.gather(ids.load_at(shape<8>, 0))); }
void into_piece(Mut<f32, 8> y, In<i32, dyn> ids) { y.scatter(ids.load_at(shape<8>, 0), 1.0f); }
void rows_into_piece(Mut<f32, 8, 4> y, In<i32, dyn> ids) {
  y.scatter(axis<0>, ids.load_at(shape<8>, 0), ones<f32, 8, 4>());
}
void counted(Acc<i32, dyn> counts, In<i32, dyn> ids) { counts.add(ids.load_at(shape<8>, 0), 1); }
void largest(Acc<f32, dyn> a, In<i32, dyn> ids) { a.max(ids.load_at(shape<8>, 0), 1.0f); }
void exact(Acc<reproducible<f32>, dyn> a, In<i32, dyn> ids) { a.add(ids.load_at(shape<8>, 0), 1.0f); }
void whole_tiles(Acc<f32, dyn> a) { a.tiles(shape<8>).add(0, ones<f32, 8>()); }
void whole_exact(Acc<reproducible<f32>, dyn> a) { a.tiles(shape<8>).add(0, ones<f32, 8>()); }

Tensor<i32, 1> places(int last) {
  const std::vector<i32> v{0, 1, 2, 3, 4, 4, 2, last};
  return from(std::span(v), {8}).sync();
}
constexpr const char* kReported = "at a position outside, which strict checked mode reports";

TEST_F(CheckedStrict, PositionsOutsideAreReported) {
  const auto x = ones<f32>({8}).sync();
  const auto rows = ones<f32>({6, 4}).sync();
  EXPECT_TRUE(check_mode() && strict_check_mode());
  EXPECT_ERROR(DeviceError, (void)kernel<region<1>>(empty<f32>({8}), x).sync(), "load_at of argument 2", kReported,
               "checked_strict_test.cpp");
  EXPECT_ERROR(DeviceError, (void)kernel<region<-1>>(empty<f32>({8}), x).sync(), kReported);
  EXPECT_ERROR(DeviceError, (void)kernel<elements>(empty<f32>({8}), x, places(8)).sync(), "gather from argument 2",
               kReported);
  EXPECT_ERROR(DeviceError, (void)kernel<slices>(empty<f32>({8, 4}), rows, places(6)).sync(), kReported);
  EXPECT_ERROR(DeviceError, (void)kernel<of_piece>(ones<f32>({8}), places(-1)).sync(), "gather from argument 1",
               kReported);
  EXPECT_ERROR(DeviceError, (void)kernel<into_piece>(ones<f32>({8}), places(8)).sync(), "scatter into argument 1",
               kReported);
  EXPECT_ERROR(DeviceError, (void)kernel<into_piece>(ones<f32>({6}), places(6)).sync(),
               kReported);  // in the piece alone
  EXPECT_ERROR(DeviceError, (void)kernel<rows_into_piece>(ones<f32>({8, 4}), places(9)).sync(), kReported);
  auto counts = zeros<i32>({5}).sync();
  EXPECT_ERROR(DeviceError, kernel<counted>.blocks(1)(mut(counts), places(5)).sync(), "update of argument 1",
               kReported);
  auto most = zeros<f32>({5}).sync();
  EXPECT_ERROR(DeviceError, kernel<largest>.blocks(1)(mut(most), places(-1)).sync(), kReported);
  auto sums = zeros<reproducible<f32>>({5}).sync();
  EXPECT_ERROR(DeviceError, kernel<exact>.blocks(1)(mut(sums), places(5)).sync(), kReported);
}

TEST_F(CheckedStrict, PositionsInsideAndWholeTilesAreNot) {
  const auto x = ones<f32>({8}).sync();
  const auto rows = ones<f32>({6, 4}).sync();
  EXPECT_EQ(host(kernel<region<0>>(empty<f32>({8}), x)).sync(), std::vector<f32>(8, 1.0f));
  EXPECT_EQ(host(kernel<elements>(empty<f32>({8}), x, places(7))).sync(), std::vector<f32>(8, 1.0f));
  EXPECT_EQ(host(kernel<slices>(empty<f32>({8, 4}), rows, places(5))).sync(), std::vector<f32>(32, 1.0f));
  EXPECT_EQ(host(kernel<of_piece>(ones<f32>({8}), places(7))).sync(), std::vector<f32>(8, 1.0f));
  EXPECT_EQ(host(kernel<into_piece>(ones<f32>({5}), places(3))).sync(), std::vector<f32>(5, 1.0f));
  (void)kernel<rows_into_piece>(ones<f32>({5, 3}), places(4)).sync();  // the piece reaches over both edges
  auto counts = zeros<i32>({5}).sync();
  kernel<counted>.blocks(1)(mut(counts), places(4)).sync();
  EXPECT_EQ(host(counts).sync(), (std::vector<i32>{1, 1, 2, 1, 3}));
  auto a = zeros<f32>({5}).sync();
  kernel<whole_tiles>.blocks(1)(mut(a)).sync();
  EXPECT_EQ(host(a).sync(), std::vector<f32>(5, 1.0f));
  auto sums = zeros<reproducible<f32>>({5}).sync();
  kernel<exact>.blocks(1)(mut(sums), places(4)).sync();
  kernel<whole_exact>.blocks(1)(mut(sums)).sync();
  EXPECT_EQ(host(rounded<f32>(sums)).sync(), (std::vector<f32>{2, 2, 3, 2, 4}));
}

TEST_F(CheckedStrict, WithoutItTheyReadPaddingAndAreDropped) {
  set_check_mode(true);
  EXPECT_FALSE(strict_check_mode());
  const auto x = ones<f32>({8}).sync();
  EXPECT_EQ(host(kernel<elements>(empty<f32>({8}), x, places(8))).sync()[7], -1.0f);
  EXPECT_EQ(host(kernel<region<1>>(empty<f32>({8}), x)).sync()[7], 0.0f);
  auto counts = zeros<i32>({5}).sync();
  kernel<counted>.blocks(1)(mut(counts), places(5)).sync();
  EXPECT_EQ(host(counts).sync(), (std::vector<i32>{1, 1, 2, 1, 2}));
}

}  // namespace THIS_FILE
