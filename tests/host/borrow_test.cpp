// Foreign memory: what is verified, and how long its owner lives.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <tessera/tessera.hpp>
#include <vector>

#include "host/expect_error.hpp"

namespace THIS_FILE {

using namespace tessera;

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
  EXPECT_ERROR(ShapeError, (void)(borrow<f32, 1>(data, {2}, {-1}, nullptr)), "negative one (axis 0)");
  EXPECT_ERROR(ShapeError, (void)(borrow<f32, 1>(nullptr, {2}, {1}, nullptr)), "null");
  EXPECT_ERROR(ShapeError,
               (void)(borrow<f32, 1>(reinterpret_cast<f32*>(reinterpret_cast<char*>(data) + 1), {1}, {1}, nullptr)),
               "multiple");
  EXPECT_ERROR(ShapeError, (void)(borrow<f32, 1>(data, {3}, {INT64_MAX / 2}, nullptr)), "2^63");
  EXPECT_EQ((borrow<f32, 2>(data, {1, 8}, {0, 1}, nullptr).size()), 8);
  EXPECT_EQ((borrow<f32, 2>(data, {2, 4}, {1, 2}, nullptr).size()), 8);
}

void bool_uses(Mut<i32, 8> y, Mut<bool, 8> copy, In<bool, dyn> b) {
  const auto t = b.load_like(y);
  auto truths = Scalar<i32>(0);
  for (auto i : range(8)) {
    tile_if (b.gather(i)) { truths += 1; }
  }
  y.store(cast<i32>(t) + where(!t, 10, 0) + where(t == true, 100, 0) + where(t ^ true, 1000, 0) +
          10000 * cast<i32>(any(t)) + 100000 * truths);
  copy.store(t);
}
void expect_truth_of_bytes(const Tensor<bool, 1>& b, const std::vector<unsigned char>& bytes) {
  const auto [y, copy] = kernel<bool_uses>(empty<i32>({8}), empty<bool>({8}), b).sync();
  const auto uses = host(y).sync(), casts = host(cast<i32>(b)).sync();
  const auto read = host(b).sync(), copied = host(copy).sync();
  const auto truths = static_cast<i32>(std::count_if(bytes.begin(), bytes.end(), [](auto v) { return v != 0; }));
  for (std::size_t i = 0; i < 8; ++i) {
    const bool truth = bytes[i] != 0;
    EXPECT_EQ(uses[i], (truth ? 101 : 1010) + (truths > 0 ? 10000 : 0) + 100000 * truths) << i;
    EXPECT_EQ(casts[i], truth ? 1 : 0) << i;
    EXPECT_EQ(read[i], truth) << i;
    EXPECT_EQ(copied[i], truth) << i;
  }
}
TEST(Borrow, AnyByteButZeroIsTrue) {
  for (const std::vector<unsigned char>& bytes :
       {std::vector<unsigned char>{2, 255, 0, 1, 128, 4, 0, 254}, {1, 1, 0, 1, 0, 0, 1, 1}, {0, 0, 0, 0, 0, 0, 0, 0}}) {
    auto memory = bytes;
    expect_truth_of_bytes(borrow<bool, 1>(reinterpret_cast<bool*>(memory.data()), {8}, {1}, nullptr), bytes);
    std::int64_t extent = 8;
    dlpack::ManagedTensor managed{};
    managed.dl_tensor.data = memory.data();
    managed.dl_tensor.device = {dlpack::kCpu, 0};
    managed.dl_tensor.ndim = 1;
    managed.dl_tensor.dtype = {dlpack::kBool, 8, 1};
    managed.dl_tensor.shape = &extent;
    expect_truth_of_bytes(from_dlpack<bool, 1>(&managed), bytes);
    EXPECT_EQ(memory, bytes);  // theirs: nothing is written
  }
}

}  // namespace THIS_FILE
