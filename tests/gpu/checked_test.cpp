// Checked mode on the device: what it reports there, each with the legal program beside it; checks and prints of many
// blocks, and what works after a failure. (Conflicts between blocks are found by the CPU's checked mode alone.)
#include <algorithm>
#include <set>
#include <sstream>

#include "gpu/errors.hpp"
#include "gpu/gpu_test.hpp"

namespace gpu_test {
namespace {

using namespace tessera;

std::string line(int number) { return "checked_test.cpp:" + std::to_string(number); }

class CheckedMode : public Gpu {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    set_check_mode(true);
  }
  void TearDown() override { set_check_mode(before_); }
  bool before_ = check_mode();
};

int tile_line = 0;
template <int Past>
void shifted(Mut<f32, 64> y, In<f32, dyn> x) {
  auto [i] = y.index();
  tile_line = __LINE__ + 1;
  y.store(x.tiles(shape<64>).load(i + Past));
}
template <int Past>
std::string run_shifted() {
  const auto x = ones<f32>({64 * 300}).sync();
  return error_of<DeviceError>([&] {
    const auto y = kernel<shifted<Past>>(empty_like(x), x).sync();
    EXPECT_EQ(host(y).sync(), std::vector<f32>(64 * 300, 1.0f));
  });
}
TEST_F(CheckedMode, TileIndicesBeyondTheGrid) {
  const std::string beyond = run_shifted<1>();
  expect_parts(beyond, {"shifted", line(tile_line), "tile index on axis 0", "tile extent 64"});
  const std::string below = run_shifted<-1>();
  expect_parts(below, {line(tile_line), "tile index on axis 0"});
  EXPECT_EQ(run_shifted<0>(), "");
  set_check_mode(false);  // total: padding
  const auto x = ones<f32>({256}).sync();
  EXPECT_EQ(host(kernel<shifted<1>>(empty<f32>({256}), x)).sync()[255], 0.0f);
}

int sub_line = 0;
template <int Past>
void sub_tiles(Mut<f32, 2, 64> y) {
  auto parts = y.sub(shape<1, 32>);
  for (auto c : range(2)) {
    parts.store(0, c, full<f32, 1, 32>(1.0f));
    sub_line = __LINE__ + 1;  // NOLINT(assignment)
    parts.store(1, c + Past, full<f32, 1, 32>(2.0f));
  }
}
TEST_F(CheckedMode, SubTileIndicesBeyondThePiece) {
  auto y = zeros<f32>({4, 128}).sync();
  const std::string beyond = error_of<DeviceError>([&] { kernel<sub_tiles<1>>(mut(y)).sync(); });
  expect_parts(beyond, {"sub_tiles", line(sub_line), "sub-tile index on axis 1"});
  auto z = zeros<f32>({4, 128}).sync();
  EXPECT_EQ(error_of<DeviceError>([&] { kernel<sub_tiles<0>>(mut(z)).sync(); }), "");
  const auto values = host(z).sync();
  EXPECT_EQ(std::count(values.begin(), values.end(), 1.0f), 256);
  EXPECT_EQ(std::count(values.begin(), values.end(), 2.0f), 256);
}

int two_axes_line = 0;
template <int Past>
void two_axes(Mut<f32, 16, 16> y, In<f32, dyn, dyn> x) {
  auto [i, j] = y.index();
  two_axes_line = __LINE__ + 1;
  y.store(x.tiles(shape<16, 16>).load(i, j * Past));
}
TEST_F(CheckedMode, TheAxisIsNamed) {
  const auto x = ones<f32>({32, 64}).sync();
  const std::string beyond = error_of<DeviceError>([&] { (void)kernel<two_axes<2>>(empty_like(x), x).sync(); });
  expect_parts(beyond, {line(two_axes_line), "tile index on axis 1", "In<f32, dyn, dyn>"});
  EXPECT_EQ(error_of<DeviceError>([&] { (void)kernel<two_axes<1>>(empty_like(x), x).sync(); }), "");
}

void product_index(Mut<f32, 64> y, In<f32, dyn> x, Scalar<i32> n) {
  y.store(x.tiles(shape<64>).load(n * n) + cast<f32>(n * n));  // as data the product may wrap
}
TEST_F(CheckedMode, IndexArithmeticThatWraps) {
  const auto x = ones<f32>({128}).sync();
  auto y = zeros<f32>({64}).sync();
  const std::string text =
      error_of<DeviceError>([&] { kernel<product_index>(mut(y), x, 65536).sync(); });  // 2^32: index 0
  expect_parts(text, {"product_index", "checked_test.cpp", "index arithmetic overflows i32"});
  EXPECT_EQ(error_of<DeviceError>([&] { kernel<product_index>(mut(y), x, 1).sync(); }), "");
  EXPECT_EQ(host(y).sync(), std::vector<f32>(64, 2.0f));
  set_check_mode(false);
  EXPECT_EQ(error_of<DeviceError>([&] { kernel<product_index>(mut(y), x, 65536).sync(); }), "") << "index 0";
}

// -- elements that nothing has written -------------------------------------------------------------------------------

constexpr const char* kNever = "of an element that nothing has written: argument";

template <class T>
void copied(Mut<T, 8, 64> y, In<T, dyn, dyn> x) {
  y.store(x.load_like(y));
}
constexpr int kCopiedLine = __LINE__ - 2;

/// The error of copying x by a kernel; empty where it copies.
template <class T, class X>
std::string error_of_copy(const X& x) {
  return error_of<DeviceError>([&] {
    const auto y = kernel<copied<T>>(empty<T>({x.dim(0), x.dim(1)}), x).sync();
    EXPECT_EQ(host(y).sync(), host(x).sync());
  });
}
template <class T>
void never_written() {
  const auto x = empty<T>({100, 130}).sync();
  expect_parts(error_of_copy<T>(x), {"copied", line(kCopiedLine), "load", kNever, "argument 2 (In<"});
  EXPECT_EQ(error_of_copy<T>(ones<T>({100, 130}).sync()), "");
  auto y = empty<T>({100, 130}).sync();
  y = kernel<copied<T>>(std::move(y), ones<T>({100, 130})).sync();
  EXPECT_EQ(error_of_copy<T>(y), "") << "a kernel wrote it";
  EXPECT_EQ(error_of_copy<T>(y.template permute<1, 0>()), "");
}
TEST_F(CheckedMode, NeverWrittenElementsAreAnError) {
  never_written<f32>();
  never_written<bf16>();
  never_written<f8e4m3>();
  never_written<f64>();
  never_written<bool>();
}

TEST_F(CheckedMode, PartsThatWereWritten) {
  auto y = empty<f32>({100, 130}).sync();
  kernel<copied<f32>>(mut(y).slice<0>(3, 90).slice<1>(5, 127), ones<f32>({87, 122})).sync();
  const auto part = [&](int top, int bottom, int left, int right) {
    return error_of_copy<f32>(y.slice<0>(top, bottom).slice<1>(left, right));
  };
  EXPECT_EQ(part(3, 90, 5, 127), "");
  EXPECT_EQ(part(40, 50, 60, 61), "");
  expect_parts(part(2, 90, 5, 127), {kNever});
  expect_parts(part(3, 91, 5, 127), {kNever});
  expect_parts(part(3, 90, 4, 127), {kNever});
  expect_parts(part(3, 90, 5, 128), {kNever});
  auto z = empty<f32>({64, 64}).sync();
  copy_into(mut(z).slice<0>(16, 48), ones<f32>({32, 64})).sync();
  EXPECT_EQ(error_of_copy<f32>(z.slice<0>(16, 48)), "");
  expect_parts(error_of_copy<f32>(z.slice<0>(15, 48)), {kNever});
  expect_parts(error_of_copy<f32>(z.slice<0>(16, 49)), {kNever});
}

void updated(Mut<f32, 64> y) {
  auto parts = y.sub(shape<32>);
  parts.store(0, full<f32, 32>(1.0f));
  parts.store(0, parts.load(0) + 1.0f);
  y.store(y.load() * 2.0f);
}
constexpr int kUpdatedLine = __LINE__ - 2;
void gathered(Mut<f32, 64> y, In<f32, dyn> x, In<i32, dyn> at) { y.store(x.gather(at.load_like(y))); }
void counted(Acc<i32, dyn> a, In<i32, dyn> at) {
  auto [i] = block_id<1>();
  a.add(at.tiles(shape<64>).load(i), 1);
}
TEST_F(CheckedMode, WhatABlockStoredItselfAndSingleElements) {
  expect_parts(error_of<DeviceError>([&] { (void)kernel<updated>(empty<f32>({256})).sync(); }),
               {"updated", line(kUpdatedLine), kNever});
  EXPECT_EQ(host(kernel<updated>(ones<f32>({256}))).sync()[0], 4.0f);
  auto x = empty<f32>({256}).sync();
  copy_into(mut(x).slice<0>(0, 255), ones<f32>({255})).sync();
  const auto evens = arange<i32>({64}, 0, 2).sync(), last = arange<i32>({64}, 192, 1).sync();
  EXPECT_EQ(host(kernel<gathered>(empty<f32>({64}), x, evens)).sync(), std::vector<f32>(64, 1.0f));
  expect_parts(error_of<DeviceError>([&] { (void)host(kernel<gathered>(empty<f32>({64}), x, last)).sync(); }),
               {"gathered", kNever, "argument 2"});
  EXPECT_EQ(host(kernel<counted>.blocks(1)(zeros<i32>({128}), evens)).sync()[2], 1);
  expect_parts(error_of<DeviceError>([&] { (void)host(kernel<counted>.blocks(1)(empty<i32>({128}), evens)).sync(); }),
               {"counted", "atomic update", kNever});
}

// -- checks ----------------------------------------------------------------------------------------------------------

int one_block_line = 0;
void one_block(Mut<i32, 16> y, Scalar<i32> bad) {
  auto [i] = y.index();
  one_block_line = __LINE__ + 1;
  check(i != bad, "this block is the bad one");
  y.store(full<i32, 16>(i));
}
class Checks : public Gpu {};
TEST_F(Checks, OneBlockOfManyIsNamed) {
  constexpr int kBlocks = 3000;
  auto y = zeros<i32>({16 * kBlocks}).sync();
  for (const int bad : {0, 1, 1777, kBlocks - 1}) {
    const std::string text = error_of<DeviceError>([&] { kernel<one_block>(mut(y), bad).sync(); });
    expect_parts(text,
                 {"one_block", line(one_block_line), "this block is the bad one", "block (" + std::to_string(bad)});
  }
  EXPECT_EQ(error_of<DeviceError>([&] { kernel<one_block>(mut(y), kBlocks).sync(); }), "");
  EXPECT_EQ(host(y).sync()[16 * kBlocks - 1], kBlocks - 1);
}

void nested(Mut<i32, 16> y, Scalar<i32> n, Scalar<i32> bad) {
  auto sum = zeros<i32, 16>();
  for (auto i : range(n)) {
    tile_if (i % 2 == 1) {
      check(i != bad, "an odd step is bad");
      sum += i;
    } else {
      check(sum >= 0, "a sum is never negative");
    }
  }
  y.store(sum);
}
TEST_F(Checks, InLoopsAndBranches) {
  auto y = zeros<i32>({160}).sync();
  expect_parts(error_of<DeviceError>([&] { kernel<nested>(mut(y), 100, 51).sync(); }), {"an odd step is bad"});
  EXPECT_EQ(error_of<DeviceError>([&] { kernel<nested>(mut(y), 100, 50).sync(); }), "") << "50 is even: not reached";
  EXPECT_EQ(host(y).sync()[0], 2500);
}

TEST_F(Checks, ThousandsInFlight) {
  const Stream s(device_under_test());
  auto y = zeros<i32>({160}).on(s);
  for (int i = 0; i < 6000; ++i) kernel<one_block>(mut(y), 100).on(s);
  EXPECT_EQ(error_of<DeviceError>([&] { Stream(s).synchronize(); }), "");
  auto z = zeros<i32>({160}).on(s);
  for (int i = 0; i < 6000; ++i) kernel<one_block>(mut(z), i == 5000 ? 3 : 100).on(s);
  expect_parts(error_of<DeviceError>([&] { (void)host(z).sync(); }), {"this block is the bad one"});
  EXPECT_EQ(host(y).sync()[159], 9) << "another tensor is not concerned";
  z = zeros<i32>({160}).on(s);
  EXPECT_EQ(error_of<DeviceError>([&] { kernel<one_block>(mut(z), 100).sync(); }), "");
}

// -- prints ----------------------------------------------------------------------------------------------------------

void announce(Mut<i32, 16> y, Scalar<i32> bad) {
  auto [i] = y.index();
  print("block {} of {}", i, num_blocks());
  check(i != bad, "not this one");
  y.store(full<i32, 16>(i));
}
/// The numbers that announce() has printed.
std::multiset<int> announced(const std::string& text) {
  std::multiset<int> seen;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    int block = 0, blocks = 0;
    if (std::sscanf(line.c_str(), "block %d of %d", &block, &blocks) == 2) seen.insert(block);
  }
  return seen;
}
std::multiset<int> first_numbers(int n) {
  std::multiset<int> all;
  for (int i = 0; i < n; ++i) all.insert(i);
  return all;
}
TEST_F(Checks, EveryBlockPrintsOnceAndAlsoAfterAFailure) {
  auto y = zeros<i32>({16 * 500}).sync();
  for (const int bad : {-1, 123, -1}) {
    testing::internal::CaptureStdout();
    const std::string error = error_of<DeviceError>([&] { kernel<announce>(mut(y), bad).sync(); });
    const std::multiset<int> seen = announced(testing::internal::GetCapturedStdout());
    EXPECT_EQ(error.empty(), bad < 0) << error;
    // After its first failure the CPU stops; a GPU's blocks run to their end.
    const bool all_ran = bad < 0 || device_under_test().kind() == DeviceKind::Cuda;
    EXPECT_TRUE(!all_ran || seen == first_numbers(500)) << seen.size() << " lines";
  }
}

}  // namespace
}  // namespace gpu_test
