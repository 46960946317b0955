// A lend is valid for the owner that made it: a later owner of the tensor has not lent it.
#include <gtest/gtest.h>

#include <algorithm>
#include <tessera/tessera.hpp>
#include <vector>

#include "host/expect_error.hpp"

namespace THIS_FILE {

using namespace tessera;

void nine(Mut<f32, 16> y) { y.store(full<f32, 16>(9)); }

float first(const Tensor<f32, 1>& t) { return host(t).sync()[0]; }

/// Every way to use a lend.
void expect_stale(const Lend<f32, 1>& lend) {
  using L = Lend<f32, 1>;
  EXPECT_ERROR(BorrowError, (void)kernel<nine>(L(lend)), "lend_test.cpp", "argument 1 (Mut<f32, 16>)", "kernel nine",
               "moved, given to an operation, or shared", "mut(tensor)");
  EXPECT_ERROR(BorrowError, (void)kernel<nine>(L(lend).slice<0>(0, 16)), "was lent by mut()");
  EXPECT_ERROR(BorrowError, (void)kernel<nine>(L(lend).permute<0>()), "was lent by mut()");
  EXPECT_ERROR(BorrowError, (void)copy_into(lend, full<f32>({32}, 9)), "copy_into", "was lent by mut()");
}

TEST(Lend, DoesNotWriteAShared) {
  auto t = zeros<f32>({32}).sync();
  const auto lend = mut(t);
  const auto part = mut(t).slice<0>(0, 16);
  const auto s = share(std::move(t));
  expect_stale(lend);
  EXPECT_ERROR(BorrowError, (void)kernel<nine>(Lend(part)), "was lent by mut()");
  EXPECT_EQ(host(s).sync()[0], 0.0f);
}

TEST(Lend, DoesNotWriteWhatBecameATensorAgain) {
  auto t = zeros<f32>({32}).sync();
  const auto lend = mut(t);
  auto s = share(std::move(t));
  auto again = try_unshare(std::move(s));
  ASSERT_TRUE(again.has_value());
  expect_stale(lend);
  EXPECT_EQ(first(*again), 0.0f);
  kernel<nine>(mut(*again)).sync();  // the twin: what the owner lends now
  EXPECT_EQ(first(*again), 9.0f);
}

TEST(Lend, DoesNotWriteWhatWasMovedAway) {
  auto t = zeros<f32>({32}).sync();
  auto lend = mut(t);
  auto moved = std::move(t);
  expect_stale(lend);
  lend = mut(moved);
  Tensor<f32, 1> assigned;
  assigned = std::move(moved);
  expect_stale(lend);
  lend = mut(assigned);
  const auto reshaped = std::move(assigned).reshape({4, 8});
  expect_stale(lend);
  EXPECT_EQ(host(reshaped).sync()[0], 0.0f);
}

TEST(Lend, DoesNotWriteWhatAnOperationWasGiven) {
  auto made = zeros<f32>({32}).sync();
  auto& t = made;  // clang's analysis would reject a second use of `made` itself
  auto lend = mut(t);
  {
    auto op = kernel<nine>(std::move(t));
    EXPECT_ERROR(BorrowError, (void)kernel<nine>(Lend(lend)), "argument 1");
    t = std::move(op).sync();
  }
  expect_stale(lend);
  lend = mut(t);
  t = copy_into(std::move(t), zeros<f32>({32})).sync();
  expect_stale(lend);
  EXPECT_EQ(first(t), 0.0f);
}

TEST(Lend, OfAMovedFromTensorIsRejected) {
  auto made = zeros<f32>({32}).sync();
  auto& t = made;
  const auto other = std::move(t);
  EXPECT_ERROR(BorrowError, (void)mut(t), "lend_test.cpp", "is empty");
}

TEST(Lend, StandsWhileTheOwnerDoes) {
  auto t = zeros<f32>({32}).sync();
  const auto v = t.view();
  const auto lend = mut(t);
  EXPECT_EQ(host(v).sync()[0], 0.0f);
  kernel<nine>(Lend(lend)).sync();
  EXPECT_EQ(host(v).sync()[0], 9.0f);
  copy_into(lend, zeros<f32>({32})).sync();
  EXPECT_EQ(first(t), 0.0f);
  kernel<nine>(mut(t).slice<0>(16, 32).permute<0>()).sync();
  EXPECT_EQ(host(t).sync(), [] {
    std::vector<f32> wanted(32, 0.0f);
    std::fill(wanted.begin() + 16, wanted.end(), 9.0f);
    return wanted;
  }());
}

TEST(Lend, AnOperationThatWillWriteKeepsATensorFromBeingShared) {
  auto made = zeros<f32>({32}).sync();
  auto& t = made;
  {
    auto op = kernel<nine>(mut(t));
    EXPECT_ERROR(BorrowError, (void)share(std::move(t)), "lend_test.cpp", "share", "kernel nine");
    std::move(op).sync();
  }
  auto reader = host(t);               // NOLINT(bugprone-use-after-move): a rejected share takes nothing
  const auto s = share(std::move(t));  // the twin: one that reads it
  EXPECT_EQ(std::move(reader).sync()[0], 9.0f);
  EXPECT_EQ(host(s).sync()[0], 9.0f);
}

}  // namespace THIS_FILE
