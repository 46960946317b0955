// Parts of benchmark programs: arguments, checks, rooflines.
#include "tessera/measure/measure.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tessera/measure/roofline.hpp"

namespace tessera::measure {
namespace {

TEST(Args, LastValueCountsAndOthersAreDefaults) {
  Args args;
  args.set("n", "1024");
  args.set("n", "2048");
  args.set("dtype", "f16");
  EXPECT_EQ(args.number("n", 1), 2048);
  EXPECT_EQ(args.number("m", 7), 7);
  EXPECT_EQ(args.text("dtype", "f32"), "f16");
  EXPECT_THROW(args.number("dtype", 1), std::runtime_error);
  args.set("n", "12x");
  EXPECT_THROW(args.number("n", 1), std::runtime_error);
}

TEST(Sets, TogetherTheyExceedCaches) {
  const Args args;
  EXPECT_EQ(sets_for(args, 1e9), 1);
  EXPECT_EQ(sets_for(args, 100e6), 3);
  EXPECT_EQ(sets_for(args, 10), 64);
  Args one;
  one.set("one_set", "1");
  EXPECT_EQ(sets_for(one, 10), 1);
}

TEST(Action, CopiesShareTheirState) {
  Action<int(int)> empty;
  EXPECT_FALSE(empty);
  Action<int(int)> count = [total = 0](int n) mutable { return total += n; };
  const Action<int(int)> copy = count;
  EXPECT_EQ(count(2), 2);
  EXPECT_EQ(copy(3), 5);
}

TEST(Norm, IsRelativeAndNeverPassesNaN) {
  Norm norm;
  norm.add(3, 3);
  norm.add(5, 4);
  EXPECT_DOUBLE_EQ(norm.relative(), 0.2);
  Norm bad;
  bad.add(std::nan(""), 1);
  EXPECT_EQ(bad.relative(), INFINITY);
}

TEST(Roofline, OfTheCpuIsMeasured) {
  const Device cpu = Device::cpu();
  const Roofline& memory = memory_roofline(cpu);
  EXPECT_GT(memory.bytes_per_second, 1e8);
  EXPECT_EQ(&memory, &memory_roofline(cpu)) << "once";
  EXPECT_GT(compute_roofline(cpu, "f32"), 1e8);
  EXPECT_EQ(compute_roofline(cpu, "bf16"), 0);
  EXPECT_EQ(compute_roofline(cpu, nullptr), 0);
  EXPECT_NEAR(least_ms(cpu, memory.bytes_per_second, 0, nullptr), 1000, 1e-6);
  EXPECT_NEAR(least_ms(cpu, 1, compute_roofline(cpu, "f32"), "f32"), 1000, 1e-6);
  EXPECT_EQ(least_ms(cpu, 1, 1, "bf16"), 0) << "no roofline, no share";
}

}  // namespace
}  // namespace tessera::measure
