// A kernel's body runs once, to be recorded: nothing can be launched or run in it. A rejected launch changes nothing.
#include <gtest/gtest.h>

#include <thread>

#include "host/expect_error.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace THIS_FILE {

class WhileRecording : public testing::Test {
 protected:
  void SetUp() override { set_default_device(Device::cpu()); }
};

f32 first(Tensor<f32, 1>& t) { return host(t).sync()[0]; }

Tensor<f32, 1>* outside = nullptr;
int launch_line = 0;
void inner(Mut<f32, 16> y) { y.store(y.load() + 1.0f); }
void launching(Mut<f32, 16> y) {
  launch_line = __LINE__ + 1;
  kernel<inner>(mut(*outside)).sync();
  y.store(zeros<f32, 16>());
}

TEST_F(WhileRecording, ALaunchIsRejectedWithItsLineAndBothNames) {
  auto g = zeros<f32>({16}).sync(), y = ones<f32>({64}).sync();
  outside = &g;
  const auto rejected = [&] {
    const std::string place = "while_recording_test.cpp:" + std::to_string(launch_line) + ": ";
    EXPECT_ERROR(TraceError, y = kernel<launching>(std::move(y)).sync(), place.c_str(), "kernel inner was launched",
                 "kernel launching is being recorded");
    EXPECT_EQ(first(y), 1.0f) << "it was not taken";
    EXPECT_EQ(lang::Tracer::maybe(), nullptr);
  };
  EXPECT_THROW(kernel<launching>(mut(y)).sync(), TraceError);  // sets launch_line
  rejected();
  EXPECT_EQ(first(g), 0.0f);
  kernel<inner>(mut(g)).sync();
  EXPECT_EQ(first(g), 1.0f) << "the lease of the rejected launch is gone";
  EXPECT_THROW(y = kernel<launching>(std::move(y)).sync(), TraceError) << "also where the inner launch has been made";
  EXPECT_EQ(first(g), 1.0f);
  kernel<inner>(mut(y)).sync();
}

void itself(Mut<f32, 16> y);
void launches_itself() {
  auto t = zeros<f32>({16});
  (void)kernel<itself>(std::move(t)).sync();
}
void itself(Mut<f32, 16> y) {
  launches_itself();
  y.store(zeros<f32, 16>());
}
TEST_F(WhileRecording, AKernelThatLaunchesItself) {
  auto y = ones<f32>({16}).sync();
  EXPECT_ERROR(TraceError, y = kernel<itself>(std::move(y)).sync(), "kernel itself was launched while kernel itself");
  EXPECT_ERROR(TraceError, launches_itself(), "kernel itself was launched while kernel itself");
  EXPECT_EQ(first(y), 1.0f);
}

/// Each operation of the host is rejected where it is run.
template <int What>
void runs(Mut<f32, 16> y) {
  if constexpr (What == 0) (void)zeros<f32>({16}).sync();
  if constexpr (What == 1) (void)host(*outside).sync();
  if constexpr (What == 2) copy_into(mut(*outside), ones<f32>({16})).sync();
  if constexpr (What == 3) (void)clone(*outside).on(Stream::default_of(Device::cpu()));
  if constexpr (What == 4) (void)all(clone(*outside), clone(*outside)).sync();
  if constexpr (What == 5) (void)clone(*outside).then([](Tensor<f32, 1> t) { return clone(t); }).sync();
  y.store(zeros<f32, 16>());
}
template <int What>
void expect_rejected() {
  auto g = zeros<f32>({16}).sync(), y = ones<f32>({16}).sync();
  outside = &g;
  EXPECT_ERROR(TraceError, y = kernel<runs<What>>(std::move(y)).sync(),
               "while_recording_test.cpp:", "while kernel runs is being recorded");
  EXPECT_EQ(first(y), 1.0f);
  EXPECT_EQ(first(g), 0.0f);
  kernel<inner>(mut(g)).sync();
}
TEST_F(WhileRecording, OperationsOfTheHost) {
  expect_rejected<0>();
  expect_rejected<1>();
  expect_rejected<2>();
  expect_rejected<3>();
  expect_rejected<4>();
  expect_rejected<5>();
}

void careless(Mut<f32, 16> y) {
  try {
    kernel<inner>(mut(*outside)).sync();
  } catch (const TraceError&) {}
  y.store(y.load() + 1.0f);
}
TEST_F(WhileRecording, ARejectionThatIsCaughtLeavesTheRecordingAsItWas) {
  auto g = zeros<f32>({16}).sync();
  outside = &g;
  auto y = kernel<careless>(ones<f32>({16})).sync();
  EXPECT_EQ(first(y), 2.0f);
  EXPECT_EQ(first(g), 0.0f);
}

/// The legal twin: helpers are part of the kernel, and other threads are not affected.
void helped(Mut<f32, 16> y) {
  inner(y);
  std::thread([] { kernel<inner>(mut(*outside)).sync(); }).join();
  y.store(y.load() + 1.0f);
}
TEST_F(WhileRecording, HelpersAndOtherThreads) {
  auto g = zeros<f32>({16}).sync();
  outside = &g;
  set_check_mode(false);
  auto y = kernel<helped>(zeros<f32>({16})).sync();
  EXPECT_EQ(first(y), 2.0f);
  EXPECT_EQ(first(g), 1.0f);
}

void thrower(Mut<f32, 16> y, In<f32, dyn> x) {
  for (auto i : range(3)) {
    y.store(x.tiles(shape<16>).load(i));
    throw 42;
  }
}
void later(Mut<f32, 16> y) {
  static int n = 0;
  if (n++ == 0) throw 7;
  y.store(full<f32, 16>(3));
}
TEST_F(WhileRecording, AnExceptionOfTheUserTakesNothing) {
  const auto x = zeros<f32>({16}).sync();
  auto t = ones<f32>({16}).sync();
  EXPECT_THROW(t = kernel<thrower>(std::move(t), x).sync(), int);
  EXPECT_THROW(t = kernel<thrower>(std::move(t), x).sync(), int) << "again";
  EXPECT_THROW(t = kernel<later>(std::move(t)).sync(), int);
  EXPECT_EQ(first(t), 1.0f);
  t = kernel<later>(std::move(t)).sync();
  EXPECT_EQ(first(t), 3.0f);
}

}  // namespace THIS_FILE
}  // namespace tessera
