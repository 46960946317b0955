// Tensors through DLPack: what is verified, that memory is shared and not copied, and that every deleter runs once.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <tessera/tessera.hpp>
#include <type_traits>
#include <vector>

#include "host/expect_error.hpp"
#include "tessera/runtime/backend.hpp"

// As dlpack.h declares it: another library's types with the same layout.
extern "C" {
struct OtherDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};
struct OtherType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};
struct OtherTensor {
  void* data;
  OtherDevice device;
  std::int32_t ndim;
  OtherType dtype;
  std::int64_t *shape, *strides;
  std::uint64_t byte_offset;
};
struct DLManagedTensor {
  OtherTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor*);
};
}

namespace THIS_FILE {

using namespace tessera;

/// On the CPU whatever the default is: the tests look at the memory.
struct OnCpu : testing::Test {
  Device before = default_device();
  OnCpu() { set_default_device(Device::cpu()); }
  ~OnCpu() override { set_default_device(before); }
};
struct FromDlpack : OnCpu {};
struct ToDlpack : OnCpu {};

/// A producer: 2 x 3 floats, rows 4 apart, that counts the calls of its deleter. Fields are changed by the tests.
template <class M = dlpack::ManagedTensorVersioned>
struct Producer {
  alignas(16) f32 data[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  std::int64_t shape[2] = {2, 3}, strides[2] = {4, 1};
  int deleted = 0;
  M managed{};

  Producer() {
    managed.dl_tensor = {data, {1, 0}, 2, {2, 32, 1}, shape, strides, 0};
    managed.manager_ctx = this;
    managed.deleter = [](M* m) { ++static_cast<Producer*>(m->manager_ctx)->deleted; };
    if constexpr (dlpack::Versioned<M>) managed.version = dlpack::kVersion;
  }
  M* get() { return &managed; }
  auto* operator->() { return &managed.dl_tensor; }
};

template <class M>
class BothForms : public OnCpu {};
using Forms = testing::Types<dlpack::ManagedTensorVersioned, dlpack::ManagedTensor, DLManagedTensor>;
TYPED_TEST_SUITE(BothForms, Forms);

TYPED_TEST(BothForms, SharesMemoryAndCallsTheDeleterAfterTheLastUse) {
  Producer<TypeParam> p;
  {
    auto t = from_dlpack<f32, 2>(p.get());
    EXPECT_EQ(host(t).sync(), (std::vector<f32>{0, 1, 2, 4, 5, 6}));
    copy_into(mut(t), full<f32>({2, 3}, 9)).sync();
    EXPECT_EQ(p.data[1], 9.0f);
    EXPECT_EQ(p.data[3], 3.0f);
    const auto v = t.template slice<0>(1, 2);
    auto op = host(v);
    t = Tensor<f32, 2>();
    EXPECT_EQ(p.deleted, 0);
    EXPECT_EQ(std::move(op).sync()[0], 9.0f);
    EXPECT_EQ(p.deleted, 0);
  }
  EXPECT_EQ(p.deleted, 1);
}

TYPED_TEST(BothForms, ANullDeleterIsAllowed) {
  Producer<TypeParam> p;
  p.managed.deleter = nullptr;
  EXPECT_EQ((host(from_dlpack<f32, 2>(p.get())).sync()[5]), 6.0f);
}

TEST_F(FromDlpack, TakesWhatTheLayoutSays) {
  Producer<> p;
  p->byte_offset = 4;
  EXPECT_EQ((host(from_dlpack<f32, 2>(p.get())).sync()), (std::vector<f32>{1, 2, 3, 5, 6, 7}));
  Producer<> dense;
  dense->strides = nullptr;  // row-major
  EXPECT_EQ((host(from_dlpack<f32, 2>(dense.get())).sync()), (std::vector<f32>{0, 1, 2, 3, 4, 5}));
  Producer<> one;
  one.shape[0] = 1;
  one.strides[0] = -77;  // of a single element: means nothing
  EXPECT_EQ((host(from_dlpack<f32, 2>(one.get())).sync()), (std::vector<f32>{0, 1, 2}));
  Producer<> none;
  none.shape[1] = 0;
  none->data = nullptr;
  EXPECT_EQ((from_dlpack<f32, 2>(none.get()).size()), 0);
  Producer<> pinned;
  pinned->device = {dlpack::kCudaHost, 0};
  EXPECT_EQ((from_dlpack<f32, 2>(pinned.get()).device()), Device::cpu());
  Producer<> newer;
  newer.managed.version.minor = 99;
  EXPECT_EQ((from_dlpack<f32, 2>(newer.get()).size()), 6);
  for (const auto* x : {&p, &dense, &one, &none, &pinned, &newer}) EXPECT_EQ(x->deleted, 1);
}

TEST_F(FromDlpack, RejectsWhatItCannotBeAndTakesNothing) {
  const auto reject = [](auto change, auto type, const char* words, const char* more = "") {
    Producer<> p;
    change(p);
    const auto before = p.deleted;
    using E = decltype(type);
    EXPECT_ERROR(E, (void)(from_dlpack<f32, 2>(p.get())), words, more, "from_dlpack", "dlpack_test.cpp");
    EXPECT_EQ(p.deleted, before) << "the caller still owns it: " << words;
  };
  const ShapeError shape("");
  const DeviceError device("");
  const BorrowError borrow("");
  reject([](auto& p) { p->dtype = {2, 64, 1}; }, shape, "float of 64 bits, expected float of 32 bits");
  reject([](auto& p) { p->dtype = {0, 32, 1}; }, shape, "int of 32 bits");
  reject([](auto& p) { p->dtype = {2, 32, 4}; }, shape, "in 4 lanes");
  reject([](auto& p) { p->dtype = {200, 32, 1}; }, shape, "type code 200");
  reject([](auto& p) { p->ndim = 1; }, shape, "has 1 axes, with the extents [2]; expected 2");
  reject([](auto& p) { p->ndim = 0; }, shape, "has 0 axes");
  reject([](auto& p) { p->ndim = -1; }, shape, "has -1 axes");
  reject([](auto& p) { p->ndim = 3; }, shape, "has 3 axes, with the extents [2, 3, ...]; expected 2 (ndim)");
  reject([](auto& p) { p->ndim = INT32_MAX; }, shape, "has 2147483647 axes; expected 2 (ndim)");  // none is looked at
  reject([](auto& p) { p->ndim = INT32_MIN; }, shape, "has -2147483648 axes;");
  reject([](auto& p) { p->ndim = 3, p->shape = nullptr; }, shape, "has 3 axes;");
  reject([](auto& p) { p->shape = nullptr; }, shape, "shape is a null pointer");
  reject([](auto& p) { p.shape[0] = -1; }, shape, "shape[0] is -1", "negative");
  reject([](auto& p) { p.shape[1] = INT64_MIN; }, shape, "shape[1] is -9223372036854775808");
  reject([](auto& p) { p.shape[0] = p.shape[1] = INT32_MAX, p.strides[0] = INT64_MAX / 2; }, shape, "2^63");
  reject([](auto& p) { p.strides[1] = INT64_MIN; }, shape, "contain a negative one");
  reject([](auto& p) { p.strides[0] = INT64_MAX / 4; }, shape, "2^63");
  reject([](auto& p) { p.strides[0] = INT64_MAX / 4 - 8; }, shape, "leave the address space");
  reject([](auto& p) { p->byte_offset = ~std::uint64_t{3}; }, shape, "byte_offset is 18446744073709551612");
  reject([](auto& p) { p->byte_offset = std::uint64_t{1} << 63; }, shape, "byte_offset");
  reject([](auto& p) { p->byte_offset = std::uint64_t{1} << 60; }, shape, "byte_offset");
  reject([](auto& p) { p->dtype = {2, 32, 0}; }, shape, "in 0 lanes");
  reject([](auto& p) { p->dtype = {2, 0, 1}; }, shape, "float of 0 bits");
  reject([](auto& p) { p->dtype = {255, 255, 65535}; }, shape, "type code 255");
  reject([](auto& p) { p->device = {0, 0}; }, device, "DLPack's type 0");
  reject([](auto& p) { p->device = {INT32_MIN, 0}; }, device, "DLPack's type -2147483648");
  reject([](auto& p) { p->device = {dlpack::kCuda, -1}; }, device, "CUDA device -1");
  reject([](auto& p) { p.shape[0] = std::int64_t{1} << 40; }, shape, "too large");
  reject([](auto& p) { p.strides[0] = 0; }, shape, "share memory");
  reject([](auto& p) { p.strides[0] = -4; }, shape, "contain a negative one");
  reject([](auto& p) { p.strides[0] = 2; }, shape, "share memory");
  reject([](auto& p) { p.strides[0] = INT64_MAX; }, shape, "2^63");
  reject([](auto& p) { p->byte_offset = 2; }, shape, "multiple of the element size");
  reject([](auto& p) { p->data = nullptr; }, shape, "null pointer");
  reject([](auto& p) { p->device = {10, 0}; }, device, "DLPack's type 10");
  reject([](auto& p) { p->device = {dlpack::kCuda, 1 << 20}; }, device, "CUDA device 1048576");
  reject([](auto& p) { p.managed.version.major = 2; }, shape, "DLPack 2.");
  reject([](auto& p) { p.managed.flags = dlpack::kReadOnly; }, borrow, "shared_from_dlpack");
  EXPECT_ERROR(BorrowError, (void)(from_dlpack<f32, 2>(static_cast<dlpack::ManagedTensor*>(nullptr))), "null pointer");
  Producer<> p;
  EXPECT_EQ((from_dlpack<f32, 2>(p.get()).size()), 6) << "and unchanged it is taken";
}

TEST_F(FromDlpack, OneTensorAtATimeOverTheSameMemory) {
  Producer<> a, b;
  b->data = a.data;
  auto t = from_dlpack<f32, 2>(a.get());
  EXPECT_ERROR(BorrowError, (void)(from_dlpack<f32, 2>(b.get())), "another tensor", "dlpack_test.cpp");
  EXPECT_EQ(b.deleted, 0);
  t = Tensor<f32, 2>();
  EXPECT_EQ(a.deleted, 1);
  EXPECT_EQ((from_dlpack<f32, 2>(b.get()).size()), 6);
  EXPECT_EQ(b.deleted, 1);
}

TYPED_TEST(BothForms, AStructureThatIsTakenTwiceIsRejectedAndItsDeleterCalledOnce) {
  for (const std::int64_t rows : {2, 0}) {  // without elements there is no memory that could be recognised
    Producer<TypeParam> p;
    p.shape[0] = rows;
    {
      const auto t = from_dlpack<f32, 2>(p.get());
      EXPECT_ERROR(BorrowError, (void)(from_dlpack<f32, 2>(p.get())), "made of this structure already",
                   "dlpack_test.cpp");
      EXPECT_ERROR(BorrowError, (void)(shared_from_dlpack<f32, 2>(p.get())), "made of this structure already");
      EXPECT_EQ(t.size(), 3 * rows);
    }
    EXPECT_EQ(p.deleted, 1);
    { const auto again = from_dlpack<f32, 2>(p.get()); }  // the producer's memory, used for another structure
    EXPECT_EQ(p.deleted, 2);
  }
}

template <int B>
void twice(Mut<f32, B> y) {
  y.store(y.load() * 2.0f);
}
/// The library's own memory, as another library would wrap it.
void expect_own(f32* memory, std::int64_t count) {
  EXPECT_ERROR(BorrowError, (void)(borrow<f32, 1>(memory, {count}, {1}, nullptr)), "the library's own memory",
               "dlpack_test.cpp");
  Producer<> p;
  p->data = memory;
  p.shape[0] = 1, p.shape[1] = count;
  EXPECT_ERROR(BorrowError, (void)(from_dlpack<f32, 2>(p.get())), "the library's own memory");
  EXPECT_ERROR(BorrowError, (void)(shared_from_dlpack<f32, 2>(p.get())), "the library's own memory");
  EXPECT_EQ(p.deleted, 0);
}
TEST_F(FromDlpack, TheLibrarysOwnMemoryIsNotWrappedAgain) {
  auto t = ones<f32>({64}).sync();
  f32* memory = nullptr;
  {
    const auto p = to_dlpack(t.view());
    memory = static_cast<f32*>(p->dl_tensor.data);
    expect_own(memory, 64);
    expect_own(memory, 1);
    expect_own(memory + 63, 1);
  }
  expect_own(memory + 7, 3);  // the consumer may have kept the address
  const auto q = to_dlpack(t.slice<0>(8, 16));
  expect_own(memory, 1);
  EXPECT_EQ(host(t).sync()[0], 1.0f);
  std::vector<f32> others(64, 1.0f);  // the twin
  auto u = borrow<f32, 1>(others.data(), {64}, {1}, nullptr);
  kernel<twice<8>>(mut(u)).sync();
  EXPECT_EQ(others[63], 2.0f);
}
TEST_F(FromDlpack, AnAddressThatWasTakenIsOwnMemoryToo) {
  auto t = ones<f32>({64}).sync();
  f32* const memory = reinterpret_cast<f32*>(unsafe_::address(t).arg().number);
  expect_own(memory, 64);
}
TEST_F(FromDlpack, MemoryThatTheLibraryHasFreedIsNoLongerItsOwn) {
  auto t = ones<f32>({64}).sync();
  auto p = to_dlpack(std::move(t));
  f32* const memory = static_cast<f32*>(p->dl_tensor.data);
  expect_own(memory, 64);
  p.reset();
  // The next owner of this memory may have it wrapped: nothing is read here, so it need not be ours.
  const auto u = borrow<f32, 1>(memory, {64}, {1}, nullptr);
  EXPECT_EQ(u.size(), 64);
}

TEST_F(FromDlpack, ReadOnlyTensorsAreSharedAndNeverBecomeWritable) {
  Producer<> p, writable;
  p.managed.flags = dlpack::kReadOnly;
  {
    auto s = shared_from_dlpack<f32, 2>(p.get());
    EXPECT_EQ(host(s).sync()[3], 4.0f);
    EXPECT_FALSE(try_unshare(std::move(s)).has_value());
    EXPECT_EQ(host(clone(s)).sync()[5], 6.0f);
  }
  EXPECT_EQ(p.deleted, 1);
  EXPECT_TRUE((try_unshare(shared_from_dlpack<f32, 2>(writable.get())).has_value())) << "the twin that may be written";
  EXPECT_EQ(writable.deleted, 1);
}

template <class T>
void round_trip() {
  auto t = tessera::empty<T>({2, 3, 5}).sync();
  const auto address = [](const auto& x) { return detail::ref(detail::Reach::layout(x), element_type<T>).data(); };
  const void* const memory = address(t.view());
  auto p = to_dlpack(std::move(t));
  EXPECT_EQ(p->dl_tensor.data, memory);
  EXPECT_EQ(p->dl_tensor.dtype.bits, 8 * sizeof(T));
  EXPECT_EQ(p->dl_tensor.dtype.lanes, 1);
  EXPECT_EQ((std::vector<std::int64_t>(p->dl_tensor.strides, p->dl_tensor.strides + 3)),
            (std::vector<std::int64_t>{15, 5, 1}));
  auto back = from_dlpack<T, 3>(std::move(p));
  EXPECT_EQ(address(back.view()), memory);
  EXPECT_EQ(back.dims(), (Dims<3>{2, 3, 5}));
}
TEST_F(ToDlpack, EveryElementTypeGoesAndComesBackInPlace) {
  round_trip<f64>(), round_trip<f32>(), round_trip<f16>(), round_trip<bf16>(), round_trip<f8e4m3>();
  round_trip<f8e5m2>(), round_trip<i64>(), round_trip<i32>(), round_trip<i16>(), round_trip<i8>();
  round_trip<u64>(), round_trip<u32>(), round_trip<u16>(), round_trip<u8>(), round_trip<bool>();
  const auto code = [](auto p) { return int{p->dl_tensor.dtype.code}; };
  EXPECT_EQ(code(to_dlpack(zeros<i8>({1}).sync())), 0);
  EXPECT_EQ(code(to_dlpack(zeros<u8>({1}).sync())), 1);
  EXPECT_EQ(code(to_dlpack(zeros<f16>({1}).sync())), 2);
  EXPECT_EQ(code(to_dlpack(zeros<bf16>({1}).sync())), 4);
  EXPECT_EQ(code(to_dlpack(zeros<bool>({1}).sync())), 6);
  EXPECT_EQ(code(to_dlpack(zeros<f8e4m3>({1}).sync())), 10);
  EXPECT_EQ(code(to_dlpack(zeros<f8e5m2>({1}).sync())), 12);
}

TEST_F(ToDlpack, BorrowedMemoryComesBackToo) {
  auto owner = std::make_shared<std::vector<f32>>(8, 1.0f);
  f32* const memory = owner->data();
  const std::weak_ptr<void> watch = owner;
  {
    auto t = borrow<f32, 1>(memory, {8}, {1}, std::move(owner));
    auto back = from_dlpack<f32, 1>(to_dlpack(std::move(t)));
    copy_into(mut(back), full<f32>({8}, 5)).sync();
    EXPECT_EQ(memory[7], 5.0f);
    const auto s = shared_from_dlpack<f32, 1>(to_dlpack(back.view()));
    EXPECT_EQ(host(s).sync()[0], 5.0f);
    EXPECT_ERROR(BorrowError, (void)copy_into(mut(back), zeros<f32>({8})), "to_dlpack");
  }
  EXPECT_TRUE(watch.expired());
}

template <dlpack::Managed M>
void taken_once() {
  auto* const ours = to_dlpack<M>(arange<f32>(6).sync()).release();
  auto first = from_dlpack<f32, 1>(ours);
  EXPECT_ERROR(BorrowError, (void)(from_dlpack<f32, 1>(ours)), "dlpack_test.cpp", "already", "to_dlpack");
  EXPECT_ERROR(BorrowError, (void)(shared_from_dlpack<f32, 1>(ours)), "already");
  copy_into(mut(first), full<f32>({6}, 5)).sync();
  EXPECT_EQ(host(first).sync()[5], 5.0f) << "the first is as it was";
  auto* const again = to_dlpack<M>(std::move(first)).release();
  EXPECT_EQ(host(from_dlpack<f32, 1>(again)).sync()[0], 5.0f) << "another export is another one's";
}
TEST_F(ToDlpack, AnExportComesBackOnce) {
  taken_once<dlpack::ManagedTensorVersioned>();
  taken_once<dlpack::ManagedTensor>();
  const auto t = arange<f32>(6).sync();
  auto* const ours = to_dlpack(t.view()).release();
  const auto first = shared_from_dlpack<f32, 1>(ours);
  EXPECT_ERROR(BorrowError, (void)(shared_from_dlpack<f32, 1>(ours)), "already");
  EXPECT_EQ(host(first).sync()[5], 5.0f);
}

TEST_F(ToDlpack, ATensorIsTheConsumersUntilItsDeleterRuns) {
  auto t = arange<f32>(6).sync();
  const auto v = t.view();
  const auto& given = t;  // clang's analysis would reject what follows of `t` itself
  auto p = to_dlpack<DLManagedTensor>(std::move(t));
  EXPECT_ERROR(BorrowError, (void)given.dim(0), "is empty");
  EXPECT_ERROR(BorrowError, (void)host(v), "to_dlpack", "dlpack_test.cpp");
  static_cast<f32*>(p->dl_tensor.data)[2] = 50;
  DLManagedTensor* const consumers = p.release();
  consumers->deleter(consumers);
  EXPECT_EQ(host(v).sync(), (std::vector<f32>{0, 1, 50, 3, 4, 5}));
}

TEST_F(ToDlpack, ViewsAndSharedAreReadOnly) {
  auto t = arange<f32>(6).sync();
  {
    const auto p = to_dlpack(t.slice<0>(2, 6));
    EXPECT_EQ(p->flags, dlpack::kReadOnly);
    EXPECT_EQ(p->version.major, 1u);
    EXPECT_EQ(p->dl_tensor.shape[0], 4);
    EXPECT_EQ(static_cast<f32*>(p->dl_tensor.data)[0], 2.0f);
    EXPECT_EQ(host(t).sync()[5], 5.0f) << "others may read";
    EXPECT_ERROR(BorrowError, (void)copy_into(mut(t), zeros<f32>({6})), "to_dlpack");
  }
  copy_into(mut(t), zeros<f32>({6})).sync();
  auto s = share(std::move(t));  // try_unshare takes it only where it succeeds
  auto p = to_dlpack(s);
  EXPECT_FALSE(try_unshare(std::move(s)).has_value());
  p.reset();
  EXPECT_TRUE(try_unshare(std::move(s)).has_value());  // NOLINT(bugprone-use-after-move): a rejection takes nothing
}

template <int B>
void add_one(Mut<f32, B> y) {
  y.store(y.load() + 1.0f);
}
void fails(Mut<f32, 4> y, Scalar<i32> n) {
  check(n > 0, "n must be positive");
  y.store(y.load());
}
TEST_F(ToDlpack, WaitsForTheElements) {
  Stream stream;
  auto t = zeros<f32>({1 << 16}).sync();
  for (int i = 0; i < 20; ++i) t = kernel<add_one<64>>(std::move(t)).on(stream);
  const auto p = to_dlpack(std::move(t));
  for (int i = 0; i < 1 << 16; i += 4097) EXPECT_EQ(static_cast<f32*>(p->dl_tensor.data)[i], 20.0f);
}
TEST_F(ToDlpack, RejectsAndLeavesTheTensor) {
  auto made = zeros<f32>({4}).sync();
  auto& t = made;  // clang's analysis would reject a second use of `made` itself
  {
    auto pending = host(t);
    EXPECT_ERROR(BorrowError, (void)to_dlpack(std::move(t)), "to_dlpack cannot write", "dlpack_test.cpp");
    EXPECT_EQ(std::move(pending).sync().size(), 4u);
  }
  EXPECT_EQ(t.size(), 4);  // NOLINT(bugprone-use-after-move)
  Stream stream;
  t = kernel<fails>(std::move(t), -1).on(stream);
  EXPECT_ERROR(DeviceError, (void)to_dlpack(std::move(t)), "n must be positive");
  EXPECT_EQ(t.size(), 4);  // NOLINT(bugprone-use-after-move)
  Tensor<f32, 1> moved_from;
  auto& none = moved_from;
  EXPECT_ERROR(BorrowError, (void)to_dlpack(std::move(none)), "is empty");
  EXPECT_ERROR(BorrowError, (void)to_dlpack(View<f32, 1>()), "empty");
  EXPECT_ERROR(BorrowError, (void)to_dlpack(Shared<f32, 1>()), "empty");
}

/// A device whose consumers work on streams of their own: what they give back is theirs until they have ended.
class SlowDevice final : public runtime::Backend {
 public:
  ~SlowDevice() override { close_default_stream(); }
  DeviceKind kind() const noexcept override { return DeviceKind::Cpu; }
  int ordinal() const noexcept override { return 0; }
  const std::string& name() const noexcept override { return name_; }
  void* allocate(std::size_t bytes) override { return cpu_.allocate(bytes); }
  void free(void* memory, std::size_t bytes) noexcept override { ++freed, cpu_.free(memory, bytes); }
  std::unique_ptr<runtime::Queue> make_queue(bool, std::shared_ptr<runtime::QueueObserver> observer) override {
    return cpu_.make_queue(true, std::move(observer));
  }
  bool queues_hold_storages() const noexcept override { return true; }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, std::uint8_t value, std::size_t bytes) override { std::memset(to, value, bytes); }
  bool host_accessible() const noexcept override { return true; }
  void end_when_idle(runtime::HandedBack* memory) noexcept override {
    memory->next = waiting_;
    waiting_ = memory;
  }
  bool end_handed_back() override {
    if (their_work) their_work();
    their_work = nullptr;
    runtime::HandedBack* first = std::exchange(waiting_, nullptr);
    const bool any = first != nullptr;
    while (first != nullptr) {
      first->end_lease();
      delete std::exchange(first, first->next);
    }
    return any;
  }

  int freed = 0;
  std::function<void()> their_work;  ///< that has not ended

 private:
  runtime::Backend& cpu_ = Device::cpu().backend();
  std::string name_ = "slow";
  runtime::HandedBack* waiting_ = nullptr;
};

TEST_F(ToDlpack, WhatTheConsumerGivesBackIsUsedOnlyBehindItsWork) {
  SlowDevice slow;
  const Stream stream{Device(slow)};
  {
    auto t = arange<f32>(6).sync(stream);
    auto p = to_dlpack(std::move(t));
    p.reset();
    EXPECT_EQ(slow.freed, 0) << "their work may still write it";
    slow.end_handed_back();
    EXPECT_EQ(slow.freed, 1);
  }
  auto t = arange<f32>(6).sync(stream);
  const auto v = t.view();
  auto p = to_dlpack(std::move(t));
  f32* const memory = static_cast<f32*>(p->dl_tensor.data);
  p.reset();
  slow.their_work = [&] { memory[3] = 30; };
  EXPECT_EQ(host(v).sync(stream)[3], 30.0f) << "a view that was kept sees their work";

  auto s = share(arange<f32>(6).sync(stream));
  auto q = to_dlpack(s);
  EXPECT_FALSE(try_unshare(std::move(s)).has_value());
  q.reset();
  bool waited = false;
  slow.their_work = [&] { waited = true; };
  EXPECT_TRUE(try_unshare(std::move(s)).has_value());  // NOLINT(bugprone-use-after-move): a rejection takes nothing
  EXPECT_TRUE(waited);
}

TEST_F(ToDlpack, WithoutElements) {
  const auto p = to_dlpack(zeros<f32>({0, 3}).sync());
  EXPECT_EQ(p->dl_tensor.data, nullptr);
  EXPECT_EQ(p->dl_tensor.ndim, 2);
}

}  // namespace THIS_FILE
