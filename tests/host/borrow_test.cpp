// Foreign memory: what is verified, and how long its owner lives.
#include <gtest/gtest.h>

#include <memory>
#include <tessera/tessera.hpp>
#include <vector>

#include "host/expect_error.hpp"

using namespace tessera;

namespace {

TEST(Borrow, SharesMemoryAndKeepsItsOwner) {
  auto owner = std::make_shared<std::vector<f32>>(std::vector<f32>{0, 1, 2, 3, 4, 5, 6, 7});
  const std::weak_ptr<void> watch = owner;
  f32* p = owner->data();
  {
    auto t = borrow<f32, 2>(p, {2, 3}, {4, 1}, owner);
    EXPECT_EQ(host(t).sync(), (std::vector<f32>{0, 1, 2, 4, 5, 6}));
    copy_into(mut(t), full<f32>({2, 3}, 9)).sync();
    EXPECT_EQ(*owner, (std::vector<f32>{9, 9, 9, 3, 9, 9, 9, 7}));
    owner.reset();
    const auto v = t.slice<0>(0, 1);
    t = Tensor<f32, 2>();
    EXPECT_FALSE(watch.expired());
    EXPECT_EQ(host(v).sync()[0], 9.0f);
  }
  EXPECT_TRUE(watch.expired());
}

TEST(Borrow, RejectsOverlapNullAndMisalignment) {
  alignas(8) f32 data[8] = {};
  EXPECT_ERROR(ShapeError, (void)(borrow<f32, 2>(data, {2, 3}, {2, 1}, nullptr)), "share memory", "borrow_test.cpp");
  EXPECT_ERROR(ShapeError, (void)(borrow<f32, 2>(data, {2, 3}, {0, 1}, nullptr)), "share memory");
  EXPECT_ERROR(ShapeError, (void)(borrow<f32, 1>(data, {2}, {-1}, nullptr)), "share memory");
  EXPECT_ERROR(ShapeError, (void)(borrow<f32, 1>(nullptr, {2}, {1}, nullptr)), "null");
  EXPECT_ERROR(ShapeError,
               (void)(borrow<f32, 1>(reinterpret_cast<f32*>(reinterpret_cast<char*>(data) + 1), {1}, {1}, nullptr)),
               "multiple");
  EXPECT_ERROR(ShapeError, (void)(borrow<f32, 1>(data, {3}, {INT64_MAX / 2}, nullptr)), "2^63");
  EXPECT_EQ((borrow<f32, 2>(data, {1, 8}, {0, 1}, nullptr).size()), 8);
  EXPECT_EQ((borrow<f32, 2>(data, {2, 4}, {1, 2}, nullptr).size()), 8);
}

}  // namespace
