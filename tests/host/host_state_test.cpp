// Host state that a kernel's body reads besides its parameters is frozen into its recording. Checked mode records at
// every launch and reports where the recordings differ.
#include <gtest/gtest.h>

#include <thread>

#include "host/expect_error.hpp"
#include "tessera/tessera.hpp"

namespace tessera {
namespace THIS_FILE {

class HostState : public testing::Test {
 protected:
  void SetUp() override {
    set_default_device(Device::cpu());
    set_check_mode(true);
  }
  void TearDown() override { set_check_mode(before_); }
  bool before_ = check_mode();
};

std::string at_line(int line) { return "host_state_test.cpp:" + std::to_string(line) + ": TraceError: kernel "; }
f32 first(Tensor<f32, 1>& t) { return host(t).sync()[0]; }

int mode = 0;
int mode_line = 0;
void by_global(Mut<f32, 16> y) {
  auto t = y.load();
  mode_line = __LINE__ + 1;
  y.store(t + full<f32, 16>(static_cast<f32>(mode)));
}

TEST_F(HostState, AGlobalThatChangesIsFound) {
  mode = 0;
  auto y = zeros<f32>({16}).sync();
  for (int i = 0; i < 3; ++i) y = kernel<by_global>(std::move(y)).sync();  // nothing changes
  mode = 1;
  const std::string place = at_line(mode_line);
  // On a line of its own: compilers differ in the line of a macro's argument.
  const std::string launch = "host_state_test.cpp:" + std::to_string(__LINE__ + 1);
  const auto launched = [&] { y = kernel<by_global>(std::move(y)).sync(); };
  EXPECT_ERROR(TraceError, launched(), place.c_str(), "kernel by_global", launch.c_str(), "Constant<T>");
  EXPECT_EQ(first(y), 0.0f) << "it was not taken";
  EXPECT_ERROR(TraceError, kernel<by_global>(mut(y)).sync(), "by_global");
  mode = 0;
  y = kernel<by_global>(std::move(y)).sync();
  auto other = ones<f32>({1}).sync();  // a recording of its own, made now
  mode = 3;
  other = kernel<by_global>(std::move(other)).sync();
  EXPECT_EQ(first(other), 4.0f);
  EXPECT_ERROR(TraceError, kernel<by_global>(mut(y)).sync(), "by_global");
}

TEST_F(HostState, OutsideCheckedModeTheFirstRecordingStays) {
  set_check_mode(false);
  mode = 5;
  auto y = kernel<by_global>(zeros<f32>({16})).sync();
  mode = 6;
  y = kernel<by_global>(zeros<f32>({16})).sync();
  EXPECT_EQ(first(y), 5.0f);
  mode = 0;
}

void by_constant(Mut<f32, 16> y, Constant<int> m) { y.store(y.load() + full<f32, 16>(static_cast<f32>(m))); }

TEST_F(HostState, TheSameStateAsAConstant) {
  auto y = zeros<f32>({16}).sync();
  for (const int m : {0, 1, 2, 1, 0}) kernel<by_constant>(mut(y), m).sync();
  EXPECT_EQ(first(y), 4.0f);
}

int counted_line = 0;
void by_static(Mut<f32, 16> y) {
  static int calls = 0;
  counted_line = __LINE__ + 1;
  for (int i = 0; i < calls; ++i) y.store(y.load() + 1.0f);
  ++calls;
  y.store(y.load() + 1.0f);
}
TEST_F(HostState, AStaticThatCounts) {
  auto y = kernel<by_static>(zeros<f32>({16})).sync();
  const std::string place = at_line(counted_line);
  EXPECT_ERROR(TraceError, kernel<by_static>(mut(y)).sync(), place.c_str());
  EXPECT_EQ(first(y), 1.0f);
}

bool shifted = false;
int shifted_line = 0;
/// The view of another shape is created before the body; the error still names the body's line.
void by_view(Mut<f32, 16> y, In<f32, dyn> x) {
  auto t = x.load_like(y);
  shifted_line = __LINE__ + 1;
  if (shifted) t = t + x.load_at(shape<16>, 3) + sum(x.tiles(shape<8>).load(0));
  y.store(t);
}
TEST_F(HostState, ADifferenceInFrontOfTheBody) {
  const auto x = ones<f32>({32}).sync();
  auto y = kernel<by_view>(zeros<f32>({32}), x).sync();
  shifted = true;
  const std::string place = at_line(shifted_line);
  EXPECT_ERROR(TraceError, kernel<by_view>(mut(y), x).sync(), place.c_str());
  EXPECT_EQ(first(y), 1.0f);
}

int limit = 8;
int limit_line = 0;
void by_requirement(Mut<f32, 16> y) {
  y.store(zeros<f32, 16>());
  limit_line = __LINE__ + 1;
  require(y.dim(0) >= limit, "not too short");
}
TEST_F(HostState, ARequirement) {
  auto y = kernel<by_requirement>(zeros<f32>({16})).sync();
  kernel<by_requirement>(mut(y)).sync();
  limit = 9;
  const std::string place = at_line(limit_line);
  EXPECT_ERROR(TraceError, kernel<by_requirement>(mut(y)).sync(), place.c_str());
}

bool agreeing = true;
int agreeing_line = 0;
void by_extents(Mut<f32, 16> y, In<f32, dyn> x) {
  agreeing_line = __LINE__ + 1;
  y.store(agreeing ? x.load_like(y) : x.load_like(y, partial));
}
TEST_F(HostState, WhatALoadRequires) {
  const auto x = ones<f32>({16}).sync();
  auto y = kernel<by_extents>(zeros<f32>({16}), x).sync();
  agreeing = false;
  const std::string place = at_line(agreeing_line);
  EXPECT_ERROR(TraceError, kernel<by_extents>(mut(y), x).sync(), place.c_str());
}

const char* text = "one";
void by_message(Mut<f32, 16> y) {
  check(y.load() >= 0.0f, text);
  y.store(zeros<f32, 16>());
}
TEST_F(HostState, AMessage) {
  auto y = kernel<by_message>(zeros<f32>({16})).sync();
  text = "two";
  EXPECT_ERROR(TraceError, kernel<by_message>(mut(y)).sync(), "by_message");
}

bool ended = true;
int ended_line = 0;
void by_end(Mut<f32, 16> y) {
  y.store(y.load() + 1.0f);
  ended_line = __LINE__ + 1;
  if (ended) y.store(y.load() + 1.0f);
}
TEST_F(HostState, WhatIsNoLongerRecorded) {
  auto y = kernel<by_end>(zeros<f32>({16})).sync();
  ended = false;
  const std::string place = at_line(ended_line);
  EXPECT_ERROR(TraceError, kernel<by_end>(mut(y)).sync(), place.c_str(), "no longer");
}

/// Other lines, other places of launching: the same recording.
bool first_way = true;
void by_way(Mut<f32, 16> y) {
  if (first_way)
    y.store(y.load() + 1.0f);
  else
    y.store(y.load() + 1.0f);
}
TEST_F(HostState, LinesAloneAreNoDifference) {
  auto y = kernel<by_way>(zeros<f32>({16})).sync();
  first_way = false;
  kernel<by_way>(mut(y)).sync();
  std::thread([&] { kernel<by_way>(mut(y)).sync(); }).join();
  EXPECT_EQ(first(y), 3.0f);
}

void once_thrown(Mut<f32, 16> y) {
  static int n = 0;
  if (n++ == 1) throw 7;
  y.store(y.load() + 1.0f);
}
TEST_F(HostState, AnExceptionWhileRecordingAgain) {
  auto y = kernel<once_thrown>(zeros<f32>({16})).sync();
  EXPECT_THROW(y = kernel<once_thrown>(std::move(y)).sync(), int);
  y = kernel<once_thrown>(std::move(y)).sync();
  EXPECT_EQ(first(y), 2.0f);
}

}  // namespace THIS_FILE
}  // namespace tessera
