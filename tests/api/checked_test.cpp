// Checked mode in the whole library: each misuse is reported with the argument and the kernel's line; its legal twin
// runs without a report.
#include <gtest/gtest.h>

#include <tessera/tessera.hpp>
#include <vector>

#include "api/kernels.hpp"
#include "host/expect_error.hpp"

namespace THIS_FILE {

using namespace tessera;
using namespace api_kernels;

struct Checked : testing::Test {
  void SetUp() override { set_check_mode(true); }
  void TearDown() override { set_check_mode(before_); }
  bool before_ = check_mode();
};

int shifted_line = 0;  // of the load below

template <int B, int Past>
void shifted(Mut<f32, B> y, In<f32, dyn> x) {
  auto [i] = y.index();
  shifted_line = __LINE__ + 1;
  y.store(x.tiles(shape<B>).load(i + Past));
}

TEST_F(Checked, TileIndexOutOfRange) {
  const auto x = ones<f32>({256}).sync();
  std::string text;
  try {
    (void)kernel<shifted<64, 1>>(empty_like(x), x).sync();
  } catch (const DeviceError& e) { text = e.what(); }
  EXPECT_NE(text.find("checked_test.cpp:" + std::to_string(shifted_line)), std::string::npos) << text;
  const auto y = kernel<shifted<64, 0>>(empty_like(x), x).sync();
  EXPECT_EQ(host(y).sync(), std::vector<f32>(256, 1.0f));
  set_check_mode(false);  // total without the check: padding
  const auto z = kernel<shifted<64, 1>>(tessera::empty<f32>({256}), x).sync();
  EXPECT_EQ(host(z).sync()[255], 0.0f);
}

TEST_F(Checked, ReadOfNeverWrittenElements) {
  const auto x = tessera::empty<f32>({256}).sync();
  EXPECT_ERROR(DeviceError, (void)(kernel<saxpy<128>>(zeros<f32>({256}), 2.0f, x).sync()), "argument 3 (In<f32, dyn>)",
               "kernels.hpp:12");
  EXPECT_ERROR(DeviceError, (void)(kernel<saxpy<128>>(tessera::empty<f32>({256}), 2.0f, ones<f32>({256})).sync()),
               "argument 1 (Mut<f32, 128>)");
  auto filled = tessera::empty<f32>({256}).sync();
  copy_into(mut(filled), ones<f32>({256})).sync();
  const auto y = kernel<saxpy<128>>(zeros<f32>({256}), 2.0f, filled).sync();
  EXPECT_EQ(host(kernel<saxpy<128>>(zeros<f32>({256}), 2.0f, y)).sync()[0], 4.0f);  // what a kernel wrote counts
}

void threes(Mut<f32, 64> y) { y.store(full<f32, 64>(3.0f)); }
void through_pointer(unsafe_::Ptr<f32> p) { unsafe_::store(p + iota<i32, 64>(), full<f32, 64>(4.0f)); }

TEST_F(Checked, UntrackedWritesAreNoFalseAlarm) {
  auto x = tessera::empty<f32>({64}).sync(), y = tessera::empty<f32>({64}).sync();
  set_check_mode(false);
  kernel<threes>(mut(x)).sync();
  set_check_mode(true);
  EXPECT_EQ(host(kernel<saxpy<128>>(zeros<f32>({64}), 2.0f, x)).sync()[63], 6.0f);
  EXPECT_ERROR(DeviceError, (void)(kernel<saxpy<128>>(zeros<f32>({64}), 2.0f, y).sync()), "nothing has written");
  kernel<through_pointer>.blocks(1)(unsafe_::address(y)).sync();
  EXPECT_EQ(host(kernel<saxpy<128>>(zeros<f32>({64}), 2.0f, y)).sync()[63], 8.0f);
}

TEST_F(Checked, EveryKernelOfTheContractIsClean) {
  const auto b = cast<bf16>(random::normal<f32>({5, 100}, 1)).sync();
  (void)kernel<softmax<128>>(empty_like(b), b).sync();
  (void)kernel<logsumexp<32>>(tessera::empty<f32>({5}), b).sync();
  const auto x = random::normal<f32>({33, 40}, 1).sync();
  (void)kernel<blur<16, 16>>(empty_like(x), x).sync();
  const auto m = random::normal<f32>({40, 33}, 2).sync();
  (void)kernel<gemm<f32, 32, 32, 32>>(tessera::empty<f32>({33, 33}), x, m).sync();
  const auto q = cast<bf16>(random::normal<f32>({1, 2, 70, 32}, 3)).sync();
  (void)kernel<attention<32, 32, 32>>(empty_like(q), q, q, q, 0.1f).sync();
  auto counts = zeros<i32>({9}).sync();
  kernel<histogram<64>>.blocks(3)(mut(counts), arange<i32>(190)).sync();
  EXPECT_EQ(host(counts).sync(), std::vector<i32>(9, 1));
}

}  // namespace THIS_FILE
