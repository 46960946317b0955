// Errors name the user's line and the right cause, wherever they arise.
#include <gtest/gtest.h>

#include <tessera/jit/tuning.hpp>
#include <tessera/kernels/elementwise.hpp>
#include <tessera/tessera.hpp>
#include <vector>

#include "host/expect_error.hpp"

namespace THIS_FILE {

using namespace tessera;

constexpr const char* kHere = "messages_test.cpp:";

TEST(Messages, AnOperandThatIsAlsoGivenIsNotEmpty) {
  auto made = ones<f32>({3, 4}).sync();
  auto& x = made;  // clang's analysis would reject a second use of `made` itself
  EXPECT_ERROR(BorrowError, (void)kernels::add(std::move(x), x), "same storage", kHere);
  EXPECT_EQ(host(x).sync()[0], 1.0f);  // NOLINT(bugprone-use-after-move): a rejected call takes nothing
  const auto y = ones<f32>({3, 4}).sync();
  x = kernels::add(std::move(x), y).sync();  // the twin
  EXPECT_EQ(host(x).sync()[11], 2.0f);
}

/// Gives back an operation that has been moved from.
template <class T>
Op<T> spent(Op<T> op) {
  auto taken = std::move(op);
  (void)taken;
  return op;  // NOLINT(bugprone-use-after-move): the point
}

TEST(Messages, AnOperationThatWasRunAlready) {
  const auto make = [] { return spent(ones<f32>({8})); };
  EXPECT_ERROR(BorrowError, (void)ones<f32>({8}).then([&](Tensor<f32, 1>) { return make(); }).sync(), "run or moved",
               kHere);
  EXPECT_ERROR(BorrowError, (void)make().then([](Tensor<f32, 1> t) { return clone(t); }), kHere);
  EXPECT_ERROR(BorrowError, (void)all(make()), kHere);
  EXPECT_ERROR(BorrowError, (void)all(ones<f32>({8}), make()), kHere);
  EXPECT_ERROR(BorrowError, (void)all(ones<f32>({8}), ones<f32>({8}), make()), kHere);
  EXPECT_ERROR(BorrowError, (void)all(make(), ones<f32>({8}), ones<f32>({8}), ones<f32>({8})), kHere);
  EXPECT_ERROR(BorrowError, (void)make().sync(), kHere);
  EXPECT_ERROR(BorrowError, (void)make().on(Stream(Device::cpu())), kHere);
  EXPECT_ERROR(BorrowError, (void)host(make()), kHere);
  const auto ok = all(ones<f32>({8}), ones<f32>({4}), ones<f32>({2}), ones<f32>({1}), ones<f32>({1})).sync();
  EXPECT_EQ(std::get<2>(ok).size(), 2);
}

TEST(Messages, FilesOfRecords) {
  EXPECT_ERROR(IoError, (void)read_records("none.tune"), "none.tune", kHere);
  EXPECT_ERROR(IoError, add_record("/no/such/folder/x.tune", TuningRecord()), kHere);
}

TEST(Messages, MemoryThatThereIsNot) {
  const std::int64_t huge = 1 << 30;
  EXPECT_ERROR(DeviceError, (void)zeros<f32>({huge, huge}).sync(), kHere);
  EXPECT_ERROR(DeviceError, (void)tessera::empty<f32>({huge, huge}).sync(), kHere);
  EXPECT_ERROR(DeviceError, (void)(borrow<f32, 1>(reinterpret_cast<f32*>(~std::uintptr_t{3}), {2}, {1}, nullptr)),
               kHere);
}

}  // namespace THIS_FILE
